"""Versions of a page in the triple store: what each collection has of it.

Promises: where several collections have a URL, the version fetched last is used. Knows nothing of statements.
"""

from typing import NamedTuple

from tarrafa.archive.projection import ProjectionState
from tarrafa.model import Outcome, UrlId
from tarrafa.parse.dates import parse_date
from tarrafa.runtime.sqlite import rows


class StoredVersion(NamedTuple):
    """A page as one visit found it, and the position of its archive record."""

    collection: str
    at: float
    changed: float | None
    file: str
    start: int


def page_versions(state: ProjectionState, key: UrlId) -> list[StoredVersion]:
    """The versions of a page in the collections, the one fetched last first; ties have a fixed order."""
    found = rows(
        state.connection,
        "SELECT collection, at, changed, file, start FROM visits WHERE id = ? AND file IS NOT NULL"
        " ORDER BY at DESC, collection",
        (key,),
    )
    return [StoredVersion(name, at, changed, state.file_name(file), start) for name, at, changed, file, start in found]


def changed_at(outcome: Outcome) -> float | None:
    """When the page was changed, by its server; None, if it gives no date or an impossible one."""
    said = parse_date(outcome.last_modified) if outcome.last_modified else 0.0
    return said if 0 < said <= outcome.at else None
