"""Parses fetched bytes into pages, links, text and RDF statements, as pure functions.

Promises: any bytes give a `Page`; only a PDF, RTF or office document may instead raise `UnreadableDocument`. Every
list, text and depth is bounded. The same bytes give the same page on every machine and at any time.
Knows nothing of networks, disks, clocks, collections or the frontier: everything here is a pure function.
"""
