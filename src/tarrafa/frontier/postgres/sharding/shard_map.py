"""Shard map: the PostgreSQL servers of one frontier, and which of them holds a site.

The list is fixed when the frontier is created: the first server notes the ids of all servers, in order, and the server
of a site follows from the site's hash and the length of the list. Other servers, or another order, are refused: URLs
would be looked for on the wrong server. Sites are defined by the public suffix list, and by the suffixes that the first
collection adds to it, which the first server notes once and for ever.
"""

import contextlib
from collections.abc import Sequence
from functools import partial

from xxhash import xxh3_64_intdigest

from tarrafa.errors import ConfigError
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresShard, ServerSettings, ShardUnreachable
from tarrafa.parse.public_suffix import PublicSuffixes

SLOTS = 4096  # of sites, in ranges of equal length: the first range is the first server's, and so on
TO_OTHERS = (
    "; to go on with other servers, stop the crawl, `tarrafa export frontier` from these, and `tarrafa import frontier`"
    " into empty databases on those (docs/cluster.md)"
)


class ShardMap:
    """The servers of a frontier, the first server first."""

    def __init__(self, dsns: Sequence[str], settings: ServerSettings) -> None:
        """Blocks. At the creation of the frontier all servers must answer."""
        self.members = [PostgresShard(dsn, settings) for dsn in dsns]
        self.first, *others = self.members
        first = self.first.connect()
        self._suffix_list = first.session.meta["suffix_list"]
        for member in others:
            member.use_suffixes(self._suffix_list)
        ids = first.server_list.server_ids() or self._create_map()
        if len(ids) != len(dsns):
            raise ConfigError(
                f"{self.first.where}: this frontier was made on {len(ids)} servers, and {len(dsns)} are named;"
                f" name those, in the same order{TO_OTHERS}"
            )
        for number, (member, server_id) in enumerate(zip(self.members, ids, strict=True), 1):
            with contextlib.suppress(ShardUnreachable):
                if member.call_blocking(lambda server: server.id) != server_id:
                    raise ConfigError(f"{member.where}: is not server {number} of this frontier{TO_OTHERS}")
            member.server_id = server_id
        self._suffixes: PublicSuffixes | None = None  # that define the sites
        self._is_settled = len(dsns) == 1  # fixed for ever; with one server it does not matter

    def _create_map(self) -> list[str]:
        ids = [member.call_blocking(lambda server: server.id) for member in self.members]
        if len(set(ids)) < len(ids):
            raise ConfigError("the same database is named twice")
        for member in self.members[1:]:
            member.call_blocking(lambda server: server.server_list.set_membership(ids[0]))
        return self.first.connect().server_list.note_server_ids(ids)

    async def tell_sites_apart(self, suffixes: list[str] | None = None) -> None:
        """Load the suffixes before every call that goes by sites; `suffixes` are those of a collection that may be the
        first. Before the first collection no server has any site, and no result lasts."""
        if self._is_settled:
            return
        noted = await self.first.call(lambda server: server.server_list.site_suffixes(suffixes))
        if noted is not None or self._suffixes is None:
            self._suffixes = PublicSuffixes(self._suffix_list, noted or [])
            self._is_settled = noted is not None
            for number, member in enumerate(self.members):
                member.keeps = partial(self._is_on, number)

    def _number_of(self, host_key: str) -> int:
        if self._suffixes is None:
            return 0
        site = self._suffixes.site(host_key.partition("://")[2].rpartition(":")[0])
        slot: int = xxh3_64_intdigest(site.encode()) % SLOTS
        return slot * len(self.members) // SLOTS

    def _is_on(self, number: int, host_key: str) -> bool:
        return self._number_of(host_key) == number

    def shard_of(self, host_key: str) -> PostgresShard:
        return self.members[self._number_of(host_key)]

    async def close(self) -> None:
        for member in self.members:
            await member.close()
