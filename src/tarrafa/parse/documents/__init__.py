"""Reads documents that are no Web pages: PDF, RTF, OOXML, ODF."""
