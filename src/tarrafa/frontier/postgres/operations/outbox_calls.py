"""Outbox: links that wait on the first server for one that is unreachable.

Promises: links that wait survive the machine that found them: any process of the frontier delivers them when their
server is back. They are removed after their delivery only, and delivering twice is harmless.
"""

from typing import NamedTuple

import msgspec

from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.frontier.postgres.database_session import DatabaseSession

TAKEN_S = 30.0  # who takes links and delivers nothing for so long has died
PUT = "INSERT INTO outbox (server, collection, links) VALUES (%s, %s, %s)"
TAKE = """
UPDATE outbox SET taken = extract(epoch FROM clock_timestamp()) WHERE number = (
    SELECT number FROM outbox WHERE server <> ALL(%s) AND taken < extract(epoch FROM clock_timestamp()) - %s
    ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING number, collection, links
"""
REMOVE = "DELETE FROM outbox WHERE number = %s"
_decode_links = msgspec.msgpack.Decoder(list[DiscoveredUrl]).decode


class WaitingLinks(NamedTuple):
    """Links of one collection; `number` identifies them in the outbox."""

    number: int
    collection: int
    links: list[DiscoveredUrl]


def put(session: DatabaseSession, server: str, collection: int, links: list[DiscoveredUrl]) -> None:
    """Keep links for the server with this id."""
    _execute(session, PUT, server, collection, msgspec.msgpack.encode(links))


def take(session: DatabaseSession, away: list[str], taken_s: float = TAKEN_S) -> WaitingLinks | None:
    """The oldest links that nobody else is delivering, except those for servers that are away."""

    def attempt() -> tuple[int, int, bytes] | None:
        return session.connection.connect().execute(TAKE, (away, taken_s)).fetchone()

    row = session.connection.with_retries(attempt)
    return None if row is None else WaitingLinks(row[0], row[1], _decode_links(row[2]))


def server_with_links(session: DatabaseSession) -> str:
    """The id of a server for which links wait; empty if none do."""
    rows = session.connection.read("SELECT server FROM outbox ORDER BY number LIMIT 1")
    return str(rows[0][0]) if rows else ""


def remove(session: DatabaseSession, number: int) -> None:
    _execute(session, REMOVE, number)


def _execute(session: DatabaseSession, sql: str, *values: object) -> None:
    session.connection.with_retries(lambda: session.connection.connect().execute(sql.encode(), values))
