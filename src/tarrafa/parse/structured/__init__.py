"""Structured data of pages: RDFa, JSON-LD and microdata as N-Quads."""

from tarrafa.parse.structured.extraction import extract

__all__ = ["extract"]
