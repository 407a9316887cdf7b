"""Reads what is particular to HTML: links, robots meta elements, XHTML."""
