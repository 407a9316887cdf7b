"""Orphans: objects in the store that no segment names, because their writer was killed before its row.

Promises: only objects of writers that can never append again are deleted; those of an unknown or a living writer stay,
however old they are.
"""

from collections.abc import Callable, Container, Iterator
from itertools import islice

from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.segment import META_ENDING, WARC_ENDING, LogIdentity

DELETED_AT_ONCE = 500


def sweep_orphans(
    store: ObjectStore,
    log: LogIdentity,
    is_closed: Callable[[int], bool],
    named: Callable[[int], Container[str]],
) -> int:
    """Delete the orphans; their number. `is_closed`: whether a worker can never append again; `named`: the names of its
    segments, read after that."""
    orphans = _orphans(store, log, is_closed, named)
    deleted = 0
    while some := list(islice(orphans, DELETED_AT_ONCE)):
        store.delete(some)
        deleted += len(some)
    return deleted


def _orphans(
    store: ObjectStore,
    log: LogIdentity,
    is_closed: Callable[[int], bool],
    named: Callable[[int], Container[str]],
) -> Iterator[str]:
    prefix = f"{log.id}/segment/"
    worker, known = -1, None
    for name in store.names(prefix):
        number = int(name.removeprefix(prefix).partition("/")[0])
        if number != worker:
            worker, known = number, named(number) if is_closed(number) else None
        if known is not None and name.removesuffix(META_ENDING).removesuffix(WARC_ENDING) not in known:
            yield name
