"""Parses fetched bytes into pages, links, text and RDF statements, as pure functions.

Promises: any bytes give a `Page`, or of a PDF or office file one clean refusal; every list, text and depth is
bounded; the same bytes give the same page on every machine, today and in a year. `url` and `site` say what is the
same place, `charset` and `language` how it is written, `page` puts it all together; `pdf`, `office` and `listing`
read what is no page. Knows nothing of networks, disks, clocks, collections or the frontier: everything here is a pure
function.
"""
