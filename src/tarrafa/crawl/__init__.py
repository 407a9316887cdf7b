"""Crawl: supervisor, worker, scope, relay and explain; `pages` is the library door.

`supervise.py` starts and watches the processes, `worker.py` is one of them, `host.py` walks one host politely,
`visit.py` says what an answer means, `fence.py` knows whether we may still act. `pages` is the door for other
programs; it is imported when first used, because a worker needs nothing of what it needs.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarrafa.crawl.library_api import pages as pages


def __getattr__(name: str) -> Any:
    if name == "pages":
        from tarrafa.crawl.library_api import pages

        return pages
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
