"""Shard map: assigns sites to buckets and buckets to PostgreSQL servers.

Sites hash into a fixed number of buckets, and a table on the first server says where each bucket is; so no URL says
where it lives, and moving a bucket moves whole sites. Every server knows the number of the table's edition: whoever
works with an older one is told so and reads it again. The table also says how each server is reached, without
passwords, so that one address is enough to find them all.
"""

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from xxhash import xxh3_64_intdigest

from tarrafa.errors import ConfigError, DataError
from tarrafa.frontier.postgres.working_copy import Row
from tarrafa.parse.public_suffix import PublicSuffixes

BUCKETS = 4096
POSTGRES_SHARDS_MAX, ADDRESS_MAX = 64, 2_000
# Of an address, what others may go by. Files and secrets are each machine's own affair.
SHARED_KEYS = ("user", "host", "hostaddr", "port", "dbname", "sslmode", "target_session_attrs")
SHARD_MAP_SQL = """
SELECT (SELECT value FROM number WHERE name = 'edition'),
    (SELECT value FROM meta WHERE key = 'places'), (SELECT value FROM meta WHERE key = 'suffixes'),
    (SELECT value FROM meta WHERE key = 'addresses'), (SELECT array_agg(server ORDER BY number) FROM bucket)
"""


class Passage(IntEnum):
    """How far a bucket that moves has come, as a server sees it (parting.py)."""

    FROZEN = 1  # its hosts go to nobody any more; what is found for them is taken in
    CLOSED = 2  # nothing of it changes here; what comes for it is put aside
    GONE = 3  # and it is counted elsewhere by now
    TAKEN = 4  # it is here, and may be visited, though not everybody knows yet


class ShardMap(msgspec.Struct, frozen=True):
    """Where the buckets are. `places` are the servers' own ids: an address may be written in many ways."""

    edition: int
    shard_ids: list[str]
    servers: list[int]  # of each bucket
    suffixes: list[str]  # those that the first collection added to the list: all sites are told apart by them
    addresses: list[str] = []  # of each place; empty: whoever works there names it


def bucket_of(site: str) -> int:
    number: int = xxh3_64_intdigest(site.encode())
    return number % BUCKETS


def spread_evenly(servers: int) -> list[int]:
    """The buckets over so many servers, evenly."""
    return [bucket * servers // BUCKETS for bucket in range(BUCKETS)]


def even_out(servers: Sequence[int], count: int, leaving: frozenset[int] = frozenset()) -> list[int]:
    """The buckets over `count` servers, as evenly as can be, but for those that leave, which keep none. As few as
    possible change their place: whoever has too many gives away its last ones."""
    staying = [server for server in range(count) if server not in leaving]
    has = Counter(servers)
    least, more = divmod(len(servers), len(staying))
    fullest = sorted(staying, key=lambda server: -has[server])[:more]  # those that keep one more
    room = {server: least + (server in fullest) for server in staying}
    mapping, homeless = list(servers), list[int]()
    for bucket, server in enumerate(servers):
        if room.get(server, 0) > 0:
            room[server] -= 1
        else:
            homeless.append(bucket)
    places = (server for server in staying for _ in range(room[server]))
    for bucket, server in zip(homeless, places, strict=True):
        mapping[bucket] = server
    return mapping


class ShardLocator:
    """Says where a host is kept."""

    def __init__(self, atlas: ShardMap, suffix_list: str, before: "ShardLocator | None" = None) -> None:
        self.atlas = atlas
        same = before is not None and before.atlas.suffixes == atlas.suffixes
        self.suffixes: PublicSuffixes = (
            before.suffixes if before and same else PublicSuffixes(suffix_list, atlas.suffixes)
        )

    def shard_of(self, host_key: str) -> int:
        return self.atlas.servers[self.bucket_of(host_key)]

    def bucket_of(self, host_key: str) -> int:
        return bucket_of(self.suffixes.site(host_key.partition("://")[2].rpartition(":")[0]))


def shareable_dsn(dsn: str) -> str:
    """The address as others may be told it."""
    parts = conninfo_to_dict(dsn)
    return make_conninfo("", **{key: str(parts[key]) for key in SHARED_KEYS if parts.get(key)})


def read_shard_map(connection: "psycopg.Connection[Row]") -> ShardMap | None:
    """The atlas as the first server has it, as of one moment; None: nobody has made it yet."""
    row = connection.execute(SHARD_MAP_SQL).fetchone()
    assert row is not None
    edition, places, suffixes, addresses, servers = row
    if places is None:
        return None
    try:
        atlas = ShardMap(
            int(edition),
            msgspec.json.decode(places, type=list[str]),
            servers,
            msgspec.json.decode(suffixes or "[]", type=list[str]),
            msgspec.json.decode(addresses or "[]", type=list[str]),
        )
    except (msgspec.MsgspecError, TypeError) as error:
        raise DataError(f"the table of servers cannot be read ({error})") from None
    return _checked(atlas)


def _checked(atlas: ShardMap) -> ShardMap:
    count = len(atlas.shard_ids)
    if (
        not 0 < count <= POSTGRES_SHARDS_MAX
        or len(atlas.servers) != BUCKETS
        or not set(atlas.servers) <= set(range(count))
    ):
        raise DataError(f"the table of servers is damaged: {len(atlas.servers)} buckets on {count} servers")
    addresses = [_checked_address(one) for one in atlas.addresses[:count]]
    return msgspec.structs.replace(atlas, addresses=addresses + [""] * (count - len(addresses)))


def _checked_address(text: str) -> str:
    """What a table says is believed as far as an address may say something."""
    try:
        return shareable_dsn(text) if len(text) <= ADDRESS_MAX else ""
    except psycopg.ProgrammingError:
        return ""


def create_shard_map(connection: "psycopg.Connection[Row]", places: list[str], addresses: list[str]) -> ShardMap:
    """Make the atlas, unless somebody else was quicker; the caller is in a transaction."""
    connection.execute("LOCK TABLE bucket IN SHARE ROW EXCLUSIVE MODE")
    atlas = read_shard_map(connection)
    if atlas is None:
        atlas = ShardMap(1, places, spread_evenly(len(places)), [], addresses)
        write_shard_map(connection, atlas)
    return atlas


def check_servers(atlas: ShardMap, places: list[str]) -> None:
    """Whoever names other servers would look for URLs in the wrong place. An empty id: it does not answer now."""
    if len(places) > len(atlas.shard_ids):
        raise ConfigError(
            f"this frontier is spread over {len(atlas.shard_ids)} servers, and {len(places)} are named;"
            " `tarrafa frontier spread` takes a server in"
        )
    for number, given in enumerate(places, 1):
        if given and given not in atlas.shard_ids:
            raise ConfigError(
                f"server {number} is none of this frontier's servers; `tarrafa frontier spread` takes one in"
            )
    if len(set(filter(None, places))) < len(list(filter(None, places))):
        raise ConfigError("the same database is named twice")


def write_shard_map(connection: "psycopg.Connection[Row]", atlas: ShardMap) -> None:
    connection.execute("DELETE FROM bucket")
    connection.execute(
        "INSERT INTO bucket SELECT * FROM unnest(%b::bigint[], %b::bigint[])",
        [list(range(BUCKETS)), atlas.servers],
    )
    for key, value in (("places", atlas.shard_ids), ("suffixes", atlas.suffixes), ("addresses", atlas.addresses)):
        connection.execute(
            "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, msgspec.json.encode(value).decode()),
        )
    set_edition(connection, atlas.edition)


def set_edition(connection: "psycopg.Connection[Row]", edition: int) -> None:
    """It never goes back: whoever is late with an older one changes nothing."""
    connection.execute(
        "INSERT INTO number VALUES ('edition', %b::bigint) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        " WHERE number.value < excluded.value",
        [edition],
    )
