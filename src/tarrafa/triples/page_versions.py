"""Versions of a page in the triple store: what each collection has of it.

Promises: where several collections have a URL, what was fetched last among them stands for it.
Knows nothing of statements.
"""

from typing import NamedTuple

from tarrafa.archive.projection import ProjectionState
from tarrafa.model import Outcome, UrlId
from tarrafa.parse.text.dates import parse_date
from tarrafa.runtime.sqlite import rows


class StoredVersion(NamedTuple):
    """A page as one visit found it, and where the archive has its record."""

    collection: str
    at: float
    changed: float | None
    file: str
    start: int


def page_versions(state: ProjectionState, key: UrlId) -> list[StoredVersion]:
    """What the collections have of a page; what was fetched last comes first, of two at once always the same."""
    found = rows(
        state.connection,
        "SELECT collection, at, changed, file, start FROM visits WHERE id = ? AND file IS NOT NULL"
        " ORDER BY at DESC, collection",
        (key,),
    )
    return [StoredVersion(name, at, changed, state.file_name(file), start) for name, at, changed, file, start in found]


def changed_at(outcome: Outcome) -> float | None:
    """When the page was changed, as its server says; None, if it says nothing or the impossible."""
    said = parse_date(outcome.last_modified) if outcome.last_modified else 0.0
    return said if 0 < said <= outcome.at else None
