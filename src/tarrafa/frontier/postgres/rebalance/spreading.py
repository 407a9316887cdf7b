"""How are the sites of a frontier spread over another list of servers, while everybody works?

The caller names the servers as they shall be. Buckets are evened out over them with the fewest moves, a group at a
time: frozen, waited for until its hosts are home, closed, taken, switched, forgotten (parting.py). Promises: whoever
is killed in between leaves nothing that running it again would not bring to its end; what another mover left half
done is brought to its end, or undone, before anything new is begun; one moves at a time.

Weakness: while nobody goes on with what a killed mover left, the hosts of that one group wait.
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, FrontierError, Locked
from tarrafa.frontier.clock_sync import CLOCK_SKEW_S_MAX
from tarrafa.frontier.postgres.database_session import describe_dsn
from tarrafa.frontier.postgres.postgres_server import PostgresServer
from tarrafa.frontier.postgres.rebalance.newcomer import Newcomer, look_at
from tarrafa.frontier.postgres.rebalance.parting import Cargo, Load
from tarrafa.frontier.postgres.sharding.shard_map import Passage, ShardLocator, ShardMap, even_out, shareable_dsn
from tarrafa.frontier.postgres.working_copy import StaleCopy
from tarrafa.frontier.store.collections import IMPORTING
from tarrafa.frontier.store.leases import LeaseClock

GROUPS_MAX = 32  # per pair of servers: for each of them all hosts are looked at once
GROUP_WEIGHT_MIN = 30_000
HOST_WEIGHT = 10  # what a host costs to move, in URLs
HOME_S_MAX = 1_200.0  # who is not home by then stays for now
LOOK_EVERY_S = 0.2
LOCK_S = 5.0  # a mover that was just killed may still seem to be there
TAKES_MAX = 10

Tell = Callable[[str, int], None]  # a step that was made, and how much it was about


class Stopped(Exception):
    """Somebody asked us to stop; what was begun is in order."""


class Move(msgspec.Struct, frozen=True):
    """Buckets that go from one server to another; both by their number in the atlas."""

    source: int
    target: int
    buckets: list[int]
    hosts: int = 0
    urls: int = 0  # roughly

    @property
    def weight(self) -> int:
        return self.urls + HOST_WEIGHT * self.hosts


class Placing(msgspec.Struct, frozen=True):
    """A server, and how many buckets it has before and after."""

    server: str
    before: int
    after: int


class Plan(msgspec.Struct, frozen=True):
    """What is to be done."""

    servers: list[Placing]
    moves: list[Move]


class Done(msgspec.Struct, frozen=True):
    """What was done. `stayed`: buckets whose hosts were not home in time."""

    buckets: int
    hosts: int
    urls: int
    stayed: int
    took_s: float


class Spread:
    """One change of the list of servers. Blocks; use it in a `with`."""

    def __init__(
        self,
        dsns: Sequence[str],
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
        *,
        remove: bool = False,
        tell: Tell = lambda step, size: None,
        group_weight_min: int = GROUP_WEIGHT_MIN,
    ) -> None:
        self._clocks, self._tell, self._weight_min = (clock, lease_clock), tell, group_weight_min
        self.stopping = False
        self._loads: dict[int, Load] = {}
        self._took_s, self._cargo, self._buckets, self._stayed = 0.0, Cargo(), 0, 0
        self._first = PostgresServer(dsns[0], suffix_list, *self._clocks)
        self._servers = [self._first]
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            atlas = self._first.read_shard_map() or self._first.create_shard_map([self._id], [shareable_dsn(dsns[0])])
            self._newcomers = self._recognise(atlas, dsns[1:])
            unnamed = self._open_others(atlas)
            if unnamed and not remove:
                there = self._servers[min(unnamed)].where
                raise ConfigError(f"{there}: is one of this frontier's servers and is not named; --remove empties it")
            self._leaving = frozenset(unnamed)
            self._use(atlas)
            undo.pop_all()

    @property
    def _id(self) -> str:
        return self._first.meta["id"]

    def __enter__(self) -> "Spread":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()

    # -- who is there -----------------------------------------------------------------------------------------

    def _recognise(self, atlas: ShardMap, dsns: Sequence[str]) -> list[str]:
        """Those that are new; the others are remembered by their place."""
        self._named: dict[str, str] = {}
        newcomers: list[str] = []
        seen = {self._id}
        for dsn in dsns:
            asked = self._first.time().now
            newcomer = look_at(dsn, self._id)
            if newcomer.id in seen:
                raise ConfigError(f"{newcomer.where}: the same database is named twice")
            seen |= {newcomer.id} - {""}
            if newcomer.id in atlas.shard_ids:
                self._named[newcomer.id] = dsn
            else:
                newcomer.check()
                if self._clocks[0] is None:
                    _check_clock(newcomer, asked, self._first.time().now)
                newcomers.append(dsn)
        return newcomers

    def _open_others(self, atlas: ShardMap) -> list[int]:
        """Those that the frontier has, named or not; which are not."""
        unnamed = []
        for number, (place, address) in enumerate(zip(atlas.shard_ids, atlas.addresses, strict=True)):
            if number == 0:
                continue
            if place not in self._named:
                unnamed.append(number)
                if not address:
                    raise ConfigError(f"server {number + 1} of this frontier is not named, and its address not known")
            self._servers.append(self._opened(self._named.get(place, address)))
        return unnamed

    def _opened(self, dsn: str) -> PostgresServer:
        return PostgresServer(dsn, self._first.meta["suffix_list"], *self._clocks)

    def _use(self, atlas: ShardMap) -> None:
        self._atlas = atlas
        guide = ShardLocator(atlas, self._first.meta["suffix_list"], self._first.guide)
        for server in self._servers:
            server.guide = guide

    # -- what is to be done -----------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Reads only."""
        count = len(self._atlas.shard_ids) + len(self._newcomers)
        mapping = even_out(self._atlas.servers, count, self._leaving)
        pairs: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for bucket, (before, after) in enumerate(zip(self._atlas.servers, mapping, strict=True)):
            if before != after:
                pairs[before, after].append(bucket)
        self._loads = {source: self._servers[source].load() for source in {source for source, _ in pairs}}
        moves = [_weighed(Move(*pair, buckets), self._loads[pair[0]]) for pair, buckets in sorted(pairs.items())]
        names = [server.where for server in self._servers] + [describe_dsn(dsn) for dsn in self._newcomers]
        had = [self._atlas.servers.count(number) for number in range(count)]
        placings = [Placing(name, had[number], mapping.count(number)) for number, name in enumerate(names)]
        return Plan(placings, moves)

    def _groups(self, move: Move, load: Load) -> Iterator[Move]:
        """So large that not too many are needed, so small that little waits at once."""
        most = max(self._weight_min, -(-move.weight // GROUPS_MAX))
        group = Move(move.source, move.target, [])
        for bucket in move.buckets:
            one = _weighed(Move(move.source, move.target, [bucket]), load)
            if group.buckets and group.weight + one.weight > most:
                yield group
                group = Move(move.source, move.target, [])
            figures = {"hosts": group.hosts + one.hosts, "urls": group.urls + one.urls}
            group = msgspec.structs.replace(group, buckets=[*group.buckets, bucket], **figures)
        yield group

    # -- doing it ---------------------------------------------------------------------------------------------

    def run(self) -> Done:
        """Raises `Stopped` when it was asked to stop; then everything is in order, too."""
        began = boottime()
        self._begin()
        try:
            self._settle()
            self._take_in()
            for move in self.plan().moves:
                for group in self._groups(move, self._loads[move.source]):
                    self._move(group)
            if not self._stayed:
                self._dismiss()
        finally:
            self._took_s = boottime() - began
        return self.done()

    def done(self) -> Done:
        return Done(self._buckets, self._cargo.hosts, self._cargo.urls, self._stayed, self._took_s)

    def _begin(self) -> None:
        """We alone move sites, and whoever did so before us can do nothing more."""
        until = boottime() + LOCK_S
        while not self._first.may_spread():
            if boottime() > until:
                raise Locked(f"{self._first.where}: another `tarrafa frontier spread` is at work on this frontier")
            time.sleep(LOOK_EVERY_S)
        for row in self._first.collections():
            if row.state == IMPORTING:
                raise FrontierError(f"{row.name}: is being imported; finish that first")
        epoch = self._first.next_epoch()
        for server in self._servers:
            server.obey(epoch)
        self._use(self._read())
        self._tell("begun", 0)

    def _read(self) -> ShardMap:
        atlas = self._first.read_shard_map()
        assert atlas is not None
        if len(atlas.shard_ids) != len(self._servers):
            raise Locked(f"{self._first.where}: the list of servers has just been changed; run the command again")
        return atlas

    def _check_stop(self) -> None:
        if self.stopping:
            raise Stopped

    # -- what was left half done ------------------------------------------------------------------------------

    def _settle(self) -> None:
        """What was taken goes to its end; what was not is undone, and planned anew."""
        numbers = {server.meta["id"]: number for number, server in enumerate(self._servers)}
        passages = [server.passages() for server in self._servers]
        for number, server in enumerate(self._servers):
            ways: defaultdict[tuple[Passage, str], list[int]] = defaultdict(list)
            for bucket, way in passages[number].items():
                ways[way].append(bucket)
            for (state, other), buckets in ways.items():
                if state == Passage.TAKEN:
                    continue
                there = passages[numbers[other]] if other in numbers else {}
                taken = all(there.get(bucket, (None, ""))[0] == Passage.TAKEN for bucket in buckets)
                if state == Passage.GONE or (state == Passage.CLOSED and taken):
                    self._pass_on(number, numbers[other], buckets)
                    self._clear_up(number, numbers[other], buckets)
                else:
                    server.drop_passage(buckets)
            server.let_go()
        for number, server in enumerate(self._servers):
            server.drop_passage([bucket for bucket, (state, _) in passages[number].items() if state == Passage.TAKEN])
            self._deliver(server, server)  # what was put aside for sites that stay after all
        self._tell("settled", 0)

    # -- servers that come and leave --------------------------------------------------------------------------

    def _take_in(self) -> None:
        if not self._newcomers:
            return
        fresh: list[PostgresServer] = []
        for dsn in self._newcomers:
            empty = self._opened(dsn)
            if empty.meta["id"] in {server.meta["id"] for server in fresh}:
                raise ConfigError(f"{empty.where}: the same database is named twice")
            empty.obey(self._first.epoch, is_new=True)
            empty.adopt(self._id, self._first.meta["suffix_list"])
            empty.close()
            server = self._opened(dsn)
            server.obey(self._first.epoch)
            server.guide = self._first.guide
            server.sync_collections(self._first.collections())
            server.tune(self._first.tunings())
            fresh.append(server)
        self._tell("adopted", 0)
        places = [server.meta["id"] for server in fresh]
        atlas = self._first.enlarge(places, [shareable_dsn(dsn) for dsn in self._newcomers])
        self._servers += fresh
        self._newcomers = []
        self._use(atlas)
        for server in self._servers:
            server.announce(atlas.edition)
        self._tell("enlarged", 0)

    def _dismiss(self) -> None:
        """Servers without any buckets left that nobody named."""
        for number in sorted(self._leaving, reverse=True):
            server = self._servers[number]
            if sum(server.load().hosts):
                raise FrontierError(f"{server.where}: still holds hosts; run the command again")
            atlas = self._first.reduce(server.meta["id"], server.events())
            for one in self._servers:
                one.announce(atlas.edition)
            del self._servers[number]
            server.close()
            self._use(atlas)
            self._tell("dismissed", 0)
        self._leaving = frozenset()

    # -- a group ----------------------------------------------------------------------------------------------

    def _move(self, group: Move) -> None:
        self._check_stop()
        source, target = self._servers[group.source], self._servers[group.target]
        place = target.meta["id"]
        source.freeze(group.buckets, place)
        self._tell("frozen", len(group.buckets))
        try:
            source.keep_back(group.buckets)
            self._tell("withheld", 0)
            buckets = self._closed(source, group.buckets, place)
        except Stopped:
            source.drop_passage(group.buckets)
            source.let_go()
            raise
        if not buckets:
            return
        self._tell("closed", len(buckets))
        try:
            cargo = self._taken(source, target, buckets)
            self._tell("taken", cargo.urls)
            self._pass_on(group.source, group.target, buckets)
        finally:
            self._first.unlock_limits()
        self._clear_up(group.source, group.target, buckets)
        self._cargo = Cargo(self._cargo.hosts + cargo.hosts, self._cargo.urls + cargo.urls)
        self._buckets += len(buckets)
        self._tell("moved", group.weight)

    def _closed(self, source: PostgresServer, buckets: list[int], place: str) -> list[int]:
        """Those of them that are closed, now that their hosts are home; the others stay."""
        until = boottime() + HOME_S_MAX
        while True:
            out = source.out(buckets)
            if out and boottime() > until:
                self._stayed += len(out)
                source.drop_passage(list(out))
                source.let_go()
                buckets = [bucket for bucket in buckets if bucket not in out]
                out.clear()
            if not out and (not buckets or source.close_buckets(buckets, place)):
                return buckets
            self._tell("waiting", out.total())
            self._check_stop()
            source.expire()
            time.sleep(LOOK_EVERY_S)

    def _taken(self, source: PostgresServer, target: PostgresServer, buckets: list[int]) -> Cargo:
        """A configuration that changes meanwhile is brought there first. Near a collection's limit nobody counts while
        its pages are counted twice, or are about to be counted elsewhere."""
        for _ in range(TAKES_MAX):
            target.sync_collections(self._first.collections())
            try:
                return target.take(source, buckets, self._first.lock_limits)
            except StaleCopy:
                self._first.unlock_limits()
        raise FrontierError(f"{target.where}: collections are changed too often; run the command again")

    def _pass_on(self, source: int, target: int, buckets: list[int]) -> None:
        """What is there is no longer counted here, nor looked for."""
        here, there = self._servers[source], self._servers[target]
        here.uncount(buckets)
        self._tell("uncounted", 0)
        edition = self._first.switch(buckets, target)
        self._tell("switched", 0)
        here.announce(edition)
        there.announce(edition)
        self._tell("announced", 0)

    def _clear_up(self, source: int, target: int, buckets: list[int]) -> None:
        """What came for it meanwhile is there too, and nothing of it is known here."""
        here, there = self._servers[source], self._servers[target]
        self._deliver(here, there)
        self._tell("delivered", 0)
        here.forget_buckets(buckets)
        self._tell("forgotten", 0)
        self._deliver(here, there)  # plans are told to everybody, up to the end
        there.drop_passage(buckets)
        self._use(self._read())

    @staticmethod
    def _deliver(source: PostgresServer, target: PostgresServer) -> None:
        while parcels := source.parcels():
            for parcel in parcels:
                getattr(target, parcel.method)(*parcel.arguments)
            source.drop_parcels([parcel.id for parcel in parcels])


def _check_clock(newcomer: Newcomer, asked: float, answered: float) -> None:
    """When a host may be visited again is asked of the clock of the server that keeps it."""
    ahead_s = max(newcomer.now - answered, 0.0) or min(newcomer.now - asked, 0.0)
    if abs(ahead_s) > CLOCK_SKEW_S_MAX:
        way = "ahead of" if ahead_s > 0 else "behind"
        raise ConfigError(
            f"{newcomer.where}: its clock is {abs(ahead_s):,.0f} s {way} the first server's; set it right"
        )


def _weighed(move: Move, load: Load) -> Move:
    hosts, urls = (sum(counts[bucket] for bucket in move.buckets) for counts in (load.hosts, load.urls))
    return msgspec.structs.replace(move, hosts=hosts, urls=urls)
