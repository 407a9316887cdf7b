"""WARC archive: append-only files of requests, responses and metadata, which graph, index and triple store follow.

The one-way door of the system: what was fetched goes in as standard WARC 1.1 and is never changed. Everything that
people search (graph, index) *follows* these files and can be made again from them.

Each writer has pairs of files: `NAME.warc.gz` (request, response) as any web archive keeps them, and
`NAME.meta.warc.gz` (`metadata` with what was parsed, `conversion` with the plain text and with the
statements of its structured data), which is what followers read.
`NAME.durable` says how many bytes of each are on the disk for certain.
"""
