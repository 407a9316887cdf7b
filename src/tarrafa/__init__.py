"""Tarrafa: throw the net over a part of the Web, keep the catch fresh, and let people search it."""

__version__ = "0.1.0"
