"""Tarrafa, a distributed, incremental and polite web crawler with a search engine."""

__version__ = "0.1.0"
