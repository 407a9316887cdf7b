"""Retention rules: which versions of a page stay in the archive.

    all              every version (the default)
    last N           the N versions that were seen last
    one per month    of each month the version that was there at its end (day, week, month, year; UTC)

A *version* is one body that the archive holds, with all visits that found it unchanged: it was last seen at the newest
of these. Promises: the newest version stays under every rule, and so does the newest one with status 200, which is what
index and triple store have of the page. Pure.
"""

from collections.abc import Hashable, Sequence
from datetime import date
from typing import NamedTuple

from tarrafa.config.formats import RETENTION


class VersionSighting(NamedTuple):
    """A capture of a version. `timestamp`: 14 digits, as a number."""

    timestamp: int
    version: Hashable
    is_ok: bool  # its status is 200


def parse_retention(text: str) -> tuple[str, int]:
    """The kind of rule (`all`, `last`, or a period), and the number of `last`."""
    assert RETENTION.fullmatch(text), text
    words = text.split()
    return ("last", int(words[1])) if words[0] == "last" else (words[-1], 0)


def kept_versions(rule: str, sightings: Sequence[VersionSighting]) -> set[Hashable]:
    """The versions of one page that stay; `sightings` in order of time."""
    kind, number = parse_retention(rule)
    if kind == "all":
        return {one.version for one in sightings}
    kept = {one.version for one in sightings[-1:]} | {one.version for one in [x for x in sightings if x.is_ok][-1:]}
    if kind == "last":
        last_seen = list(dict.fromkeys(one.version for one in reversed(sightings)))
        return kept | set(last_seen[:number])
    return kept | set({_period(kind, one.timestamp): one.version for one in sightings}.values())


def _period(kind: str, timestamp: int) -> Hashable:
    day = timestamp // 10**6
    if kind == "week":
        try:
            return date(day // 10**4, day // 100 % 100, day % 100).isocalendar()[:2]
        except ValueError:  # a record without a valid date
            return day
    return day // {"day": 1, "month": 100, "year": 10**4}[kind]
