"""HTTP API for external crawlers: lease work, report links and visit results, follow in-link changes.

For crawlers in any language, over HTTP and JSON, without access to the database. A relay (`crawl/relay/relay.py`) makes
the visits of each crawler and keeps the rules; this room converts messages and remembers what was acknowledged.
`docs/external-crawlers.md` is the guide.
"""

PATH = "/crawl/v1"
