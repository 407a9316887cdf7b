"""Index of captures: which URL was archived when, and where its record is, as CDX servers and Memento need it.

A *capture* is a `response`, `revisit` or `resource` record of the archive. One SQLite file lists them by SURT key and
time; `follower` writes it from the archive, `reader` reads it in any number of processes, `cdx_params` and `cdx_lines`
answer as a CDX server does, `memento_links` writes TimeMaps, `capture_access` finds a capture and reads its bytes and
text. All of it can be rebuilt from the archive at any time.
"""
