"""Parses fetched bytes into pages, links, text and RDF statements, as pure functions.

Promises: any bytes give a `Page`; only a PDF, RTF or office document may instead raise `UnreadableDocument`. Every
list, text and depth is bounded. The same bytes give the same page on every machine and at any time.
`url` and `public_suffix` decide which URLs are the same page, host or site; `text` handles charset, language and
fingerprints; `page` parses a response into a `Page`; `documents` and `sitemaps_feeds` read formats that are not Web
pages.
Knows nothing of networks, disks, clocks, collections or the frontier: everything here is a pure function.
"""
