"""Crawl: supervisor, worker, scope, relay and explain; `pages` is the library API.

`supervisor/` starts and watches the processes. `worker/` is the process that crawls: `host_session.py` visits one host
politely, `outcome.py` turns a response into an outcome, `worker_fence.py` forbids requests once the leases are lost.
`scope/` decides which URLs belong to a collection, `relay/` serves external crawlers, `explain/` answers questions
about one URL, page or site. `pages` (`library_api.py`) is for other programs. It is imported at its first use,
because a worker needs none of its imports.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarrafa.crawl.library_api import pages as pages


def __getattr__(name: str) -> Any:
    if name == "pages":
        from tarrafa.crawl.library_api import pages

        return pages
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
