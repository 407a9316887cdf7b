"""Lookup of one URL and its host: state, queue position, visit history, freshness and robots.txt.

Reads only; for `explain` and for people who ask why.
"""

from typing import Any

from msgspec.structs import replace

from tarrafa.frontier.messages import HostCollectionCounts, HostFacts, PastVisit, UrlFacts, UrlLookup
from tarrafa.frontier.store.breadth_sites import BreadthSites
from tarrafa.frontier.store.collections import Collections
from tarrafa.frontier.store.database import ALL_ROWS, FrontierDatabase
from tarrafa.frontier.store.revisits import RevisitQueue
from tarrafa.model import HostId, UrlId, UrlRole, UrlState

HISTORY_MAX = 100  # the newest
QUEUE_POSITION_MAX = 10_000  # nobody counts further


def look_up(
    db: FrontierDatabase,
    host: HostId,
    url: UrlId,
    collections: Collections,
    revisits: RevisitQueue,
    breadth: BreadthSites,
) -> UrlLookup:
    db.prefetch("host", [(host,)])
    db.prefetch_first("work", [(host,)], ALL_ROWS)
    db.prefetch("robots", db.rows("SELECT robots_digest FROM host WHERE id = ? AND robots_digest IS NOT NULL", (host,)))
    db.prefetch("url", [(host, known.row.id, url) for known in collections.all()])
    row = db.row(
        "SELECT key, site, next_at, ended_at, delay_s, failures,"
        " (SELECT name FROM worker WHERE worker.id = host.worker), robots_status, robots_expires,"
        " coalesce((SELECT text FROM robots WHERE digest = robots_digest), x''),"
        " (SELECT coalesce(sum(pending), 0) FROM work WHERE work.host = host.id),"
        " (SELECT coalesce(sum(visited), 0) FROM work WHERE work.host = host.id), trouble FROM host WHERE id = ?",
        (host,),
    )
    rows = db.rows(
        "SELECT c.id, c.name, url, u.state, role, depth, redirects, in_links, status, type, discovered, fetched,"
        " attempts, announced, content_id, pagerank FROM url u JOIN collection c ON c.id = u.collection"
        " WHERE host = ? AND collection IN (SELECT id FROM collection) AND u.id = ? ORDER BY c.id",
        (host, url),
    )
    urls = [
        replace(
            _url_facts(db, host, url, one),
            freshness=revisits.freshness(collections.by_id(one[0]), (host, one[0], url)),
            site=breadth.site_facts(collections.by_id(one[0]), host),
        )
        for one in rows
    ]
    return UrlLookup(None if row is None else replace(HostFacts(*row), met_by=_collection_counts(db, host)), urls)


def _collection_counts(db: FrontierDatabase, host: HostId) -> list[HostCollectionCounts]:
    rows = db.rows(
        "SELECT name, pending, visited FROM work JOIN collection ON collection.id = work.collection"
        " WHERE host = ? ORDER BY collection.id",
        (host,),
    )
    return [HostCollectionCounts(*row) for row in rows]


def _url_facts(db: FrontierDatabase, host: HostId, url: UrlId, row: tuple[Any, ...]) -> UrlFacts:
    number, name, address, state, role, *rest, rank = row
    place = _queue_position(db, host, number, url) if state == UrlState.PENDING else None
    key = (host, number, url)
    db.prefetch_first("visit", [key], ALL_ROWS)
    history = db.rows(
        "SELECT number, at, status, length, changed, worker FROM visit WHERE host = ? AND collection = ? AND id = ?"
        " ORDER BY number DESC LIMIT ?",
        (*key, HISTORY_MAX),
    )
    past = [
        PastVisit(visit, at, status, length, None if changed is None else bool(changed), worker)
        for visit, at, status, length, changed, worker in reversed(history)
    ]
    words = (UrlState(state).name.lower().replace("_", " "), UrlRole(role).name.lower())
    return replace(UrlFacts(name, address, *words, *rest), place=place, history=past, rank=rank)


def _queue_position(db: FrontierDatabase, host: HostId, number: int, url: UrlId) -> int | None:
    db.prefetch_first("pending", [(host, number)], QUEUE_POSITION_MAX)
    waiting = db.rows(
        "SELECT id FROM pending WHERE host = ? AND collection = ? ORDER BY rank, id LIMIT ?",
        (host, number, QUEUE_POSITION_MAX),
    )
    return next((place for place, (one,) in enumerate(waiting) if one == url), None)
