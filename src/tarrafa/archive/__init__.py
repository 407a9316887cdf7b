"""WARC archive: append-only files of requests, responses and metadata, which graph, index and triple store follow.

The system's one-way door: every fetch is appended as standard WARC 1.1 and never changed. Everything that people search
(graph, index, triple store) *follows* these files and can be rebuilt from them.

Each writer has pairs of files: `NAME.warc.gz` (request, response) as any web archive keeps them, and
`NAME.meta.warc.gz` (`metadata` with the parsed page, `conversion` with the plain text and with the statements of its
structured data), which followers read. `NAME.durable` holds the number of bytes of each file that are durable on the
disk.
"""
