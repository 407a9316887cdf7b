"""Shard registry: connects the PostgreSQL servers of a frontier and reloads the shard map.

The atlas on the first server says so, and how each of them is reached: one address is enough. Those that the caller
names are used as named, so that each machine may have its own way (and password) to a server. Promise: when sites
were moved, or a server came or left, the atlas is read once, whoever notices first, and nobody mixes two editions.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from tarrafa.clock import Clock
from tarrafa.errors import ConfigError
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresShard, ShardUnreachable
from tarrafa.frontier.postgres.sharding.shard_map import ShardLocator, ShardMap, check_servers, shareable_dsn
from tarrafa.frontier.store.leases import LeaseClock


class ShardRegistry:
    """The servers of one frontier, the first one first."""

    def __init__(
        self,
        dsns: Sequence[str],
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
    ) -> None:
        """Blocks."""
        self._clock, self._lease_clock = clock, lease_clock
        self.first, *named = [PostgresShard(dsn, suffix_list, clock, lease_clock) for dsn in dsns]
        for member in (self.first, *named):
            member.configure(len(dsns), None)
        self._reading = asyncio.Lock()
        self.guide: ShardLocator | None = None
        first = self.first.connect()
        self._suffix_list = first.meta["suffix_list"]
        for member in named:
            member.use_suffixes(self._suffix_list)
        atlas = first.read_shard_map() or self._create_map(named)
        self.first.place = first.meta["id"]
        self._identify(named, trusting=True)
        check_servers(atlas, [self.first.place, *(member.place for member in named)])
        if atlas.shard_ids[0] != self.first.place:
            raise ConfigError(f"{self.first.where}: is not the first of this frontier's servers")
        self._guess_ids(atlas, named)
        self.members: list[PostgresShard] = []
        self._apply_map(atlas, {member.place: member for member in (self.first, *named)})
        if not all(atlas.addresses) and len(self.members) == len(dsns):
            first.add_shard_addresses([shareable_dsn(member.dsn) for member in self.members])
        for member in self.members:
            with contextlib.suppress(ShardUnreachable):
                member.call_blocking(lambda server: server.set_membership(atlas.shard_ids[0], atlas.edition))

    @property
    def shard_map(self) -> ShardMap:
        assert self.guide is not None
        return self.guide.atlas

    @property
    def edition(self) -> int:
        return self.shard_map.edition

    def shard_of(self, host_key: str) -> PostgresShard:
        assert self.guide is not None
        return self.members[self.guide.shard_of(host_key)]

    def _create_map(self, named: list[PostgresShard]) -> ShardMap:
        """The very first time: all servers must answer."""
        self._identify(named, trusting=False)
        members, first = [self.first, *named], self.first.connect()
        places = [first.meta["id"], *(member.place for member in named)]
        if len(set(places)) < len(places):
            raise ConfigError("the same database is named twice")
        return first.create_shard_map(places, [shareable_dsn(member.dsn) for member in members])

    @staticmethod
    def _identify(named: list[PostgresShard], *, trusting: bool) -> None:
        """An address may be written in many ways; a database has one id."""
        for member in named:
            with contextlib.suppress(ShardUnreachable) if trusting else contextlib.nullcontext():
                member.place = member.call_blocking(lambda server: server.meta["id"])

    @staticmethod
    def _guess_ids(atlas: ShardMap, named: list[PostgresShard]) -> None:
        """Who does not answer is told by its address, else by its turn."""
        taken = {member.place for member in named}
        left = [place for place in atlas.shard_ids[1:] if place not in taken]
        addresses = dict(zip(atlas.addresses, atlas.shard_ids, strict=True))
        for number, member in enumerate(named, 1):
            if not member.place:
                turn = atlas.shard_ids[number]
                place = addresses.get(shareable_dsn(member.dsn), turn if turn in left else left[0])
                member.place = place if place in left else left[0]
                left.remove(member.place)

    def _apply_map(self, atlas: ShardMap, known: dict[str, PostgresShard]) -> None:
        """From now on this atlas holds. Nothing is asked of anybody here, so nobody sees half of it."""
        guide = ShardLocator(atlas, self._suffix_list, self.guide)
        members = []
        for place, address in zip(atlas.shard_ids, atlas.addresses, strict=True):
            member = known.get(place)
            if member is None:
                if not address:
                    raise ConfigError(
                        f"this frontier is spread over {len(atlas.shard_ids)} servers, and {len(known)} are named:"
                        " name them all"
                    )
                member = PostgresShard(
                    address, self._suffix_list, self._clock, self._lease_clock, place=place, learned=True
                )
            members.append(member)
        for member in members:
            member.configure(len(members), guide)
        self.members, self.guide = members, guide

    async def reload(self, edition: int) -> None:
        """Somebody who went by this edition was told that it is old, or that a server has not heard of it."""
        async with self._reading:
            if self.edition != edition:
                return
            atlas = await self.first.call(lambda server: server.read_shard_map())
            if atlas is None:
                raise ConfigError(f"{self.first.where}: is no longer the first of a frontier's servers")
            before = self.members
            self._apply_map(atlas, {member.place: member for member in before})
            for member in self.members:
                with contextlib.suppress(ShardUnreachable):
                    await member.call(lambda server: server.set_membership(atlas.shard_ids[0], atlas.edition))
            for member in before:
                if member not in self.members:
                    await member.close()

    async def close(self) -> None:
        for member in self.members:
            await member.close()
