"""Reports about a crawled collection: tables and figures from archive, frontier, link graph and index.

The tables and figures of the classic studies of national Webs, made from what is kept: the archive, the frontier's
numbers, the link graph, the index. Reads only; the same report comes out however often it is made.

`making.make` gathers a `Report` (its JSON is the snapshot); `telling` puts it into words and tables, in a language;
`writers` makes HTML and Markdown of these, and `plots` the figures.
"""
