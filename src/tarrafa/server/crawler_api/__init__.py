"""HTTP API for external crawlers: lease work, report links and visit results, follow in-link changes.

In any language, with nothing but HTTP and JSON, and without reaching the database: *give me work*, *here are new
links and who points to them*, *this URL is of that type* (or gone), *what changed in the in-links of what is mine*.
Behind each crawler stands a worker of ours (`crawl/relay/relay.py`) that keeps the rules; this room only translates,
remembers what was acknowledged, and tells each news once. `docs/external-crawlers.md` is the guide.
"""

PATH = "/crawl/v1"
