"""Reports about a crawled collection: tables and figures from archive, frontier, link graph and index.

The tables and figures of the classic studies of national Webs, from archive, frontier, link graph and index. Only
reads; the same data give the same report.

`report_builder.build_report` makes a `CollectionReport` (its JSON is the snapshot); `layout` turns it into sentences
and tables in one language; `writers` writes them as HTML and Markdown, and `plots` draws the figures.
"""
