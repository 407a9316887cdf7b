"""Shard map: the PostgreSQL servers of one frontier, and which of them holds a site.

The list is fixed when the frontier is created: the first server notes the ids of all servers, in order, and the server
of a site follows from the site's hash and the length of the list. Other servers, or another order, are refused: URLs
would be looked for on the wrong server. Sites are defined by the public suffix list, and by the suffixes that the first
collection adds to it, which the first server notes once and for ever.
"""

import contextlib
from collections.abc import Sequence

import msgspec
from xxhash import xxh3_64_intdigest

from tarrafa.errors import ConfigError
from tarrafa.frontier.postgres.database_session import DatabaseSession
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresShard, ServerSettings, ShardUnreachable
from tarrafa.parse.public_suffix import PublicSuffixes

SLOTS = 4096  # of sites, in ranges of equal length: the first range is the first server's, and so on
PATIENCE_OF_OTHERS_S = 0.5  # than the first server: its calls wait for them meanwhile
TO_OTHERS = (
    "; to go on with other servers, stop the crawl, `tarrafa export frontier` from these, and `tarrafa import frontier`"
    " into empty databases on those (docs/cluster.md)"
)


class ShardMap:
    """The servers of a frontier, the first server first."""

    def __init__(self, dsns: Sequence[str], settings: ServerSettings) -> None:
        """Blocks. At the creation of the frontier all servers must answer."""
        self.first = PostgresShard(dsns[0], settings)  # nothing goes on without it: its calls wait for it
        others = [PostgresShard(dsn, settings._replace(patience_s=PATIENCE_OF_OTHERS_S)) for dsn in dsns[1:]]
        self.shards = [self.first, *others]
        first = self.first.connect()
        self._suffix_list = first.meta["suffix_list"]
        for shard in others:
            shard.use_suffixes(self._suffix_list)
        self._ids = ids = _server_ids(first) or self._create_map()
        if len(ids) != len(dsns):
            raise ConfigError(
                f"{self.first.where}: this frontier was made on {len(ids)} servers, and {len(dsns)} are named;"
                f" name those, in the same order{TO_OTHERS}"
            )
        for number, (shard, server_id) in enumerate(zip(self.shards, ids, strict=True), 1):
            with contextlib.suppress(ShardUnreachable):
                if shard.call_blocking(_server_id) != server_id:
                    raise ConfigError(f"{shard.where}: is not server {number} of this frontier{TO_OTHERS}")
            shard.expect_id(server_id)
        self._suffixes: PublicSuffixes | None = None  # that define the sites
        self._is_settled = len(dsns) == 1  # fixed for ever; with one server it does not matter

    def _create_map(self) -> list[str]:
        ids = [shard.call_blocking(_server_id) for shard in self.shards]
        if len(set(ids)) < len(ids):
            raise ConfigError("the same database is named twice")
        for shard in self.shards[1:]:
            shard.call_blocking(_set_membership, ids[0])
        return _note_server_ids(self.first.connect(), ids)

    async def load_suffixes(self, suffixes: list[str] | None = None) -> None:
        """Load the suffixes before every call that goes by sites; `suffixes` are those of a collection that may be the
        first. Before the first collection no server has any site, and no result lasts."""
        if self._is_settled:
            return
        noted = await self.first.call(_site_suffixes, suffixes)
        if noted is not None or self._suffixes is None:
            self._suffixes = PublicSuffixes(self._suffix_list, noted or [])
            self._is_settled = noted is not None

    def _number_of(self, host_key: str) -> int:
        if self._suffixes is None:
            return 0
        site = self._suffixes.site(host_key.partition("://")[2].rpartition(":")[0])
        slot: int = xxh3_64_intdigest(site.encode()) % SLOTS
        return slot * len(self.shards) // SLOTS

    def server_id_of(self, host_key: str) -> str:
        return self._ids[self._number_of(host_key)]

    def shard_of(self, host_key: str) -> PostgresShard:
        return self.shards[self._number_of(host_key)]

    async def close(self) -> None:
        for shard in self.shards:
            await shard.close()


# -- notes of a server about its frontier: each is made once and for ever ---------------------------------------------


def _server_id(session: DatabaseSession) -> str:
    return session.id


def _server_ids(session: DatabaseSession) -> list[str]:
    """On the first server: the ids of all servers, in order; empty if they were never noted."""
    facts: dict[str, str] = dict(
        session.connection.read("SELECT key, value FROM meta WHERE key IN ('member', 'servers')")
    )
    if "member" in facts:
        raise ConfigError(f"{session.connection.where}: is one of several servers, and is not the first of its servers")
    return msgspec.json.decode(facts.get("servers", "[]"), type=list[str])


def _note_server_ids(session: DatabaseSession, ids: list[str]) -> list[str]:
    """Note the ids. The first note stays, whichever process made it."""
    _note(session, "servers", msgspec.json.encode(ids).decode())
    return _server_ids(session)


def _set_membership(session: DatabaseSession, first: str) -> None:
    """Note that this server belongs to the frontier of that first server."""
    if session.connection.read("SELECT 1 FROM meta WHERE key = 'servers'"):
        raise ConfigError(f"{session.connection.where}: is the first server of another frontier")
    _note(session, "member", first)
    if session.connection.read("SELECT value FROM meta WHERE key = 'member'") != [(first,)]:
        raise ConfigError(f"{session.connection.where}: belongs to another frontier")


def _site_suffixes(session: DatabaseSession, suffixes: list[str] | None) -> list[str] | None:
    """Suffixes added to the public suffix list that defines the sites; noted now, if none were noted before."""
    if suffixes is not None:
        _note(session, "suffixes", msgspec.json.encode(suffixes).decode())
    rows = session.connection.read("SELECT value FROM meta WHERE key = 'suffixes'")
    return msgspec.json.decode(rows[0][0], type=list[str]) if rows else None


def _note(session: DatabaseSession, key: str, value: str) -> None:
    sql = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT DO NOTHING"
    session.connection.with_retries(lambda: session.connection.connect().execute(sql, (key, value)))
