"""Which server keeps which sites?

Sites hash into a fixed number of buckets, and a table on the first server says where each bucket is; so no URL says
where it lives, and moving a bucket moves whole sites. Every server knows the number of the table's edition: whoever
works with an older one is told so and reads it again.
"""

import msgspec
import psycopg
from xxhash import xxh3_64_intdigest

from tarrafa.errors import ConfigError
from tarrafa.frontier.store.postgres.copy import Row
from tarrafa.parse.site import Suffixes

BUCKETS = 4096


class Atlas(msgspec.Struct, frozen=True):
    """Where the buckets are. `places` are the servers' own ids: an address may be written in many ways."""

    edition: int
    places: list[str]
    servers: list[int]  # of each bucket
    suffixes: list[str]  # those that the first collection added to the list: all sites are told apart by them


def bucket_of(site: str) -> int:
    number: int = xxh3_64_intdigest(site.encode())
    return number % BUCKETS


def spread(servers: int) -> list[int]:
    """The buckets over so many servers, evenly."""
    return [bucket * servers // BUCKETS for bucket in range(BUCKETS)]


class Guide:
    """Says where a host is kept."""

    def __init__(self, atlas: Atlas, suffix_list: str) -> None:
        self.atlas = atlas
        self._suffixes = Suffixes(suffix_list, atlas.suffixes)

    def server_of(self, host_key: str) -> int:
        return self.atlas.servers[self.bucket_of(host_key)]

    def bucket_of(self, host_key: str) -> int:
        return bucket_of(self._suffixes.site(host_key.partition("://")[2].rpartition(":")[0]))


def read(connection: "psycopg.Connection[Row]", places: list[str]) -> Atlas:
    """The atlas as the first server has it, made if this is the first time; the caller is in a transaction."""
    connection.execute("LOCK TABLE bucket IN SHARE ROW EXCLUSIVE MODE")
    facts: dict[str, str] = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    if "places" not in facts:
        atlas = Atlas(1, places, spread(len(places)), [])
        write(connection, atlas)
        return atlas
    servers = [server for (server,) in connection.execute("SELECT server FROM bucket ORDER BY number").fetchall()]
    edition = connection.execute("SELECT value FROM number WHERE name = 'edition'").fetchone()
    assert edition is not None
    atlas = Atlas(
        int(edition[0]),
        msgspec.json.decode(facts["places"], type=list[str]),
        servers,
        msgspec.json.decode(facts.get("suffixes", "[]"), type=list[str]),
    )
    check(atlas, places)
    return atlas


def check(atlas: Atlas, places: list[str]) -> None:
    """Whoever leaves a server out, or names them in another order, would look for URLs in the wrong place."""
    if len(atlas.places) != len(places):
        raise ConfigError(f"this frontier is spread over {len(atlas.places)} servers, and {len(places)} are named")
    for number, (there, given) in enumerate(zip(atlas.places, places, strict=True), 1):
        if given not in ("", there):
            raise ConfigError(f"server {number} is not the one that this frontier was made with: name them in order")


def write(connection: "psycopg.Connection[Row]", atlas: Atlas) -> None:
    connection.execute("DELETE FROM bucket")
    connection.execute(
        "INSERT INTO bucket SELECT * FROM unnest(%b::bigint[], %b::bigint[])",
        [list(range(BUCKETS)), atlas.servers],
    )
    for key, value in (("places", atlas.places), ("suffixes", atlas.suffixes)):
        connection.execute(
            "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, msgspec.json.encode(value).decode()),
        )
    set_edition(connection, atlas.edition)


def set_edition(connection: "psycopg.Connection[Row]", edition: int) -> None:
    connection.execute(
        "INSERT INTO number VALUES ('edition', %b::bigint) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        [edition],
    )
