"""PostgreSQL frontier: the `Frontier` API over one or more PostgreSQL servers, sharded by site.

Sites are distributed over the servers (`sharding/shard_map.py`), for ever; no call changes two servers at once.
The first server keeps what all share: the list of servers, the collections, the workers' numbers, the claimed
addresses.
Promises: with one server unreachable the others continue; links for it wait in the outbox, and no discovered
URL is lost; a collection's limits hold over all servers together; a worker that a server no longer hears from loses its
hosts there, and knows it. A frontier with more or fewer servers is another frontier: this one is exported and imported
there.

Known weakness: a worker that joins needs the first server; a collection's revisits per day, and the site table of
breadth, are divided evenly over the servers, and each server chooses among its own sites.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from tarrafa import config as configuration
from tarrafa.clock import Clock, boottime
from tarrafa.errors import LeaseLost
from tarrafa.frontier.export_import.export_records import (
    CollectionExport,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostExport,
)
from tarrafa.frontier.messages import (
    CollectionRow,
    DiscoveredUrl,
    FrontierOverview,
    HostLoan,
    HostReport,
    Lease,
    NextVisits,
    RegistrationTerms,
    RevisitPage,
    RevisitShelf,
    UrlStatusFacts,
    UrlWeight,
)
from tarrafa.frontier.postgres.database_session import on_store
from tarrafa.frontier.postgres.operations import (
    collection_calls,
    deletion_calls,
    export_import_calls,
    lease_calls,
    outbox_calls,
    planner_calls,
    url_calls,
)
from tarrafa.frontier.postgres.operations.export_import_calls import LAST_URL
from tarrafa.frontier.postgres.sharding import shard_totals
from tarrafa.frontier.postgres.sharding.global_limits import GlobalLimits
from tarrafa.frontier.postgres.sharding.postgres_shard import (
    RETRY_AFTER_S,
    PostgresServer,
    PostgresShard,
    ServerSettings,
    ShardUnreachable,
)
from tarrafa.frontier.postgres.sharding.shard_map import ShardMap
from tarrafa.frontier.postgres.sharding.shard_router import ShardRouter
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.i18n import Message, message
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.process_identity import ProcessId
from tarrafa.runtime.public_suffix_list import bundled_suffix_list

MAINTAIN_EVERY_S = 2.0
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


async def open_postgres_frontier(
    dsns: Sequence[str], clock: Clock | None = None, suffixes: str | None = None, *, keeps_links: bool = False
) -> "PostgresFrontier":
    """Open the frontier on these databases; missing tables are created, with this public suffix list. A clock that runs
    faster is used, for tests; otherwise the database's own."""
    faster = clock if clock is not None and clock.scale != 1.0 else None
    return await asyncio.to_thread(
        PostgresFrontier, dsns, suffixes or bundled_suffix_list(), faster, keeps_links=keeps_links
    )


def _on_first(
    work: Callable[Concatenate[PostgresServer, P], R],
) -> "Callable[Concatenate[PostgresFrontier, P], Coroutine[Any, Any, R]]":
    """A call of the API that the first server answers."""

    def call(self: "PostgresFrontier", /, *positional: P.args, **named: P.kwargs) -> Coroutine[Any, Any, R]:
        return self._first.call(work, *positional, **named)

    return call


def _on_all(
    work: Callable[Concatenate[PostgresServer, P], T], merge: Callable[[list[T]], R]
) -> "Callable[Concatenate[PostgresFrontier, P], Coroutine[Any, Any, R]]":
    """A call of the API that each server answers for its sites, except unreachable ones."""

    async def call(self: "PostgresFrontier", /, *positional: P.args, **named: P.kwargs) -> R:
        return merge(list((await self._router.on_all(work, *positional, **named)).values()))

    return call


def _on_every(
    work: Callable[Concatenate[PostgresServer, P], T], merge: Callable[[list[T]], R]
) -> "Callable[Concatenate[PostgresFrontier, P], Coroutine[Any, Any, R]]":
    """The same for a call that no server may miss."""

    async def call(self: "PostgresFrontier", /, *positional: P.args, **named: P.kwargs) -> R:
        return merge(await self._router.on_every(work, *positional, **named))

    return call


def _nothing(results: list[None]) -> None:
    """Merge for calls without a result."""


class PostgresFrontier:
    """The `Frontier` API on one or more databases."""

    def __init__(
        self,
        dsns: Sequence[str],
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
        *,
        keeps_links: bool = False,
    ) -> None:
        settings = ServerSettings(suffix_list, clock, lease_clock, len(dsns))
        self._map = ShardMap(dsns, settings)
        self._router = ShardRouter(self._map, keeps_links=keeps_links)
        self._first, self._shards = self._map.first, self._map.shards
        self._limits = GlobalLimits(self._router)
        self._home: dict[HostId, PostgresShard] = {}  # server of each host that our workers hold
        self._workers: dict[int, tuple[str, ProcessId]] = {}
        self._joined: set[tuple[int, PostgresShard]] = set()  # our workers, where they are registered
        self._renewed: dict[tuple[int, PostgresShard], float] = {}
        self._rows: list[CollectionRow] = []
        self._maintained_at = 0.0
        self._turn = 0

    async def close(self) -> None:
        await self._router.close()

    # -- collections ------------------------------------------------------------------------------------------

    async def open_collection(
        self, config: bytes, roots: Sequence[DiscoveredUrl] = (), start: bool = True
    ) -> CollectionRow:
        wanted = configuration.decode_collection(config)
        await self._map.load_suffixes(list(wanted.network.suffixes))
        is_over, parts = await self._is_over(wanted), await self._router.by_shard(roots)
        open_collection = partial(collection_calls.open_collection, start=start, is_over_elsewhere=is_over)
        row = await self._first.call(open_collection, config, parts.pop(self._first, []))
        for shard in self._shards[1:]:
            part = parts.get(shard, [])
            try:
                await shard.call(open_collection, config, part, row.id)
                await shard.call(collection_calls.sync_collections, [row], self._map.server_id_of)
            except ShardUnreachable:
                if part:
                    raise
        self._rows = await self.collections()
        return row

    async def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
        for shard, part in (await self._router.by_shard(roots)).items():
            await shard.call(collection_calls.seed, collection, part)

    async def _is_over(self, wanted: configuration.Collection) -> bool:
        """Whether a run of breadth is over on all servers; False if one is unreachable."""
        if len(self._shards) == 1 or wanted.strategy.order != "breadth":
            return True
        is_over = await self._router.on_all(collection_calls.is_over, wanted.name)
        return len(is_over) == len(self._shards) and all(is_over.values())

    async def _cached_collections(self) -> list[CollectionRow]:
        """The collections as last read."""
        return self._rows or await self.collections()

    async def set_state(self, name: str, state: str, reason: Message | str) -> None:
        await self._first.call(on_store(lambda store: store.collections.set_state), name, state, reason)
        await self._sync_collections()

    async def begin_run(self, name: str, reason: Message | str) -> CollectionRow:
        await self._map.load_suffixes()
        row = await self._first.call(collection_calls.begin_run, name, reason, self._map.server_id_of)
        await self._sync_collections()
        return row

    async def delete_collection(self, name: str, limit: int) -> bool:
        """On all other servers first: the first server has the name."""
        more = await self._first.call(deletion_calls.delete_collection, name, 0)
        await self._sync_collections()
        for shard in self._shards[1:] if limit > 0 else ():
            if await shard.call(deletion_calls.delete_collection, name, limit, is_first=False):
                return True
        if limit > 0:
            more = await self._first.call(deletion_calls.delete_collection, name, limit)
            self._rows = await self.collections()
        return more

    async def record_deletion(self, name: str) -> bool:
        """Note the deletion on the first server, when all servers know it and have no visit of the collection handed
        out."""
        await self._sync_collections()
        for shard in self._shards:
            try:
                await shard.call(lambda server: server.leases.expire())
                if not await shard.call(deletion_calls.has_no_visits_out, name, is_first=shard is self._first):
                    return False
            except ShardUnreachable:
                return False
        return await self._first.call(deletion_calls.record_deletion, name)

    async def retry_host(self, host: HostId, host_key: str) -> None:
        await (await self._router.shard_of(host_key)).call(url_calls.retry_host, host)

    async def urls_by_status(self, name: str, status: int) -> UrlStatusFacts:
        found = await self._router.on_all(url_calls.urls_by_status, name, status)
        facts = shard_totals.merge_status_facts(list(found.values()))
        return facts if len(found) == len(self._shards) else replace(facts, whole=False)

    async def _sync_collections(self) -> None:
        """Update the servers that missed a change while they were unreachable."""
        self._rows = await self.collections()
        if len(self._shards) > 1:
            await self._map.load_suffixes()
            await self._router.on_all(collection_calls.sync_collections, self._rows, self._map.server_id_of)

    # -- URLs -------------------------------------------------------------------------------------------------

    async def discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        await self._router.discover(collection, offers)

    async def update_weights(self, collection: str, weights: list[UrlWeight], epoch: int = 0) -> bool:
        return await self._router.update_weights(collection, weights, epoch)

    # -- workers ----------------------------------------------------------------------------------------------

    async def join(self, name: str, process: ProcessId) -> RegistrationTerms:
        terms = await self._first.call(lambda server: server.leases.join(name, process))
        self._joined.add((terms.worker, self._first))
        self._workers[terms.worker] = (name, process)
        await self._join_others(terms.worker)
        return terms

    async def _join_others(self, worker: int) -> None:
        name, process = self._workers[worker]
        for shard in self._shards[1:]:
            if (worker, shard) not in self._joined:
                with contextlib.suppress(ShardUnreachable):
                    await shard.call(lambda server: server.leases.join(name, process, worker))
                    self._joined.add((worker, shard))

    async def release_process(self, process: ProcessId) -> None:
        workers_of = on_store(lambda store: store.hosts.workers_of_process)
        for shard, workers in (await self._router.on_all(workers_of, process)).items():
            for worker in workers:
                await shard.call(_leave, worker)

    async def renew(self, worker: int, note: Message | str) -> float:
        """Renew on all servers; the lease lasts until the first of them stops waiting for the worker."""
        left: list[float] = []
        for shard in self._shards:
            asked_at, key = boottime(), (worker, shard)
            try:
                lease_s = await shard.call(on_store(lambda store: store.hosts.renew), worker, note)
                self._renewed[key] = asked_at + lease_s
            except LeaseLost:
                if shard is self._first or key in self._renewed:
                    raise
                self._joined.discard((worker, shard))  # it never held a host there, and joins again
            except ShardUnreachable:
                if shard is self._first:
                    raise
            if key in self._renewed:
                left.append(self._renewed[key])
        rest = min(left) - boottime()
        if rest <= 0:
            raise LeaseLost(
                message(
                    "worker {worker} has lost its leases: a server did not hear from it in time", worker=str(worker)
                )
            )
        return rest

    async def leave(self, worker: int) -> None:
        for shard in self._shards:
            if (worker, shard) in self._joined:
                with contextlib.suppress(ShardUnreachable):
                    await shard.deliver_late_reports(worker)
                    await shard.call(_leave, worker)
                self._joined.discard((worker, shard))
        self._workers.pop(worker, None)

    async def lease(self, worker: int, hosts: int) -> list[Lease]:
        await self._maintain(worker)
        if len(self._shards) == 1:
            return await self._first.call(_lease, worker, hosts)
        self._turn = (self._turn + 1) % len(self._shards)
        shards = self._shards[self._turn :] + self._shards[: self._turn]
        leases: list[Lease] = []
        while shards and len(leases) < hosts:  # a server that gave its full share may have more
            generous: list[PostgresShard] = []
            for place, shard in enumerate(shards):
                share = -(-(hosts - len(leases)) // (len(shards) - place))
                with contextlib.suppress(ShardUnreachable):
                    found = await self._lease_from(shard, worker, share)
                    leases += found
                    generous += [shard] if share and len(found) == share else []
            shards = generous
        return leases

    async def _lease_from(self, shard: PostgresShard, worker: int, hosts: int) -> list[Lease]:
        if hosts < 1 or (worker, shard) not in self._joined:
            return []
        await shard.deliver_late_reports(worker)
        if not await shard.call(lambda server: server.leases.is_confirmed(worker)):
            return []
        async with self._limits.within(shard, await self._cached_collections()):
            leases = await shard.call(_lease, worker, hosts)
        self._home.update((lease.host, shard) for lease in leases)
        return leases

    async def held_leases(self, worker: int) -> list[Lease]:
        """Also for a worker that joined in an earlier process: it is registered on the servers that know it."""
        leases: list[Lease] = []
        for shard in self._shards:
            try:
                some = await shard.call(lambda server: server.leases.held_leases(worker))
            except (ShardUnreachable, LeaseLost):
                if shard is self._first:
                    raise
                continue
            self._joined.add((worker, shard))
            self._home.update((lease.host, shard) for lease in some)
            leases += some
        return leases

    async def _maintain(self, worker: int) -> None:
        """Do what is due now and then: nothing of it is urgent."""
        if len(self._shards) == 1 or boottime() - self._maintained_at < MAINTAIN_EVERY_S:
            return
        self._maintained_at = boottime()
        await self._sync_collections()
        if worker in self._workers:
            await self._join_others(worker)
        held = list(self._home)
        await self._first.call(lease_calls.release_addresses_elsewhere, worker, held)
        await self._router.empty_outbox()

    async def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        shard = await self._router.shard_of(host_key)
        try:
            if len(self._shards) > 1 and (worker, shard) not in self._joined:
                raise ShardUnreachable(message("{server}: the worker has not joined here yet", server=shard.where))
            loan = await shard.call(lambda server: server.leases.borrow_host(worker, collection, host, host_key))
        except ShardUnreachable:
            return HostLoan(granted=False, free_at=await self._retry_at())
        if loan.granted:
            self._home[host] = shard
        return loan

    async def _retry_at(self) -> float:
        """When an unreachable server may answer, by the clock of the frontier."""
        reading = await self.time()
        return reading.now + RETRY_AFTER_S * reading.scale

    async def claim_address(self, worker: int, host: HostId, address: str) -> float:
        """A single server keeps its own addresses; of several, the first keeps all."""
        if len(self._shards) == 1:
            return await self._first.call(lease_calls.claim_address, worker, host, address)
        shard = self._home.get(host)
        if shard is None:
            raise LeaseLost(
                message(
                    "worker {worker} does not hold the host that it claims {address} for",
                    worker=str(worker),
                    address=str(address),
                )
            )
        try:
            delay_s = await shard.call(lease_calls.held_delay, worker, host)
        except ShardUnreachable:
            return await self._retry_at()
        return await self._first.call(lease_calls.claim_address_elsewhere, worker, host, delay_s, address)

    async def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        if len(self._shards) == 1:
            return await self._first.call(_finish, worker, batch)
        answers: dict[int, NextVisits] = {}
        places: defaultdict[PostgresShard | None, list[int]] = defaultdict(list)
        for place, report in enumerate(batch):
            places[self._home.get(report.host)].append(place)
        for shard, some in places.items():
            reports = [batch[place] for place in some]
            found = [NextVisits(False, [])] * len(some)
            if shard is not None:
                async with self._limits.within(shard, await self._cached_collections()):
                    is_first = shard is self._first
                    found = await (shard.call(_finish, worker, reports) if is_first else shard.finish(worker, reports))
            answers.update(zip(some, found, strict=True))
        lost = [report.host for place, report in enumerate(batch) if not answers[place].is_leased]
        for host in lost:
            self._home.pop(host, None)
        if lost:
            held = list(self._home)
            await self._first.call(lease_calls.release_addresses_elsewhere, worker, held)
        return [answers[place] for place in range(len(batch))]

    async def overview(self) -> FrontierOverview:
        found = await self._router.on_all(lambda server: server.leases.overview())
        whole = shard_totals.merge_overviews(list(found.values()))
        away = [shard for shard in self._shards if shard not in found]
        if not away:
            is_whole = len(self._shards) == 1 or not await self._first.call(outbox_calls.server_with_links)
            return replace(whole, whole=is_whole)
        notes = [
            message(
                "{server}: does not answer ({reason})", server=one.where, reason=one.trouble or message("it is away")
            )
            for one in away
        ]
        return replace(whole, notes=whole.notes + notes, whole=False)

    # -- plans ------------------------------------------------------------------------------------------------

    async def revisit_pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[RevisitPage]:
        found = await self._router.on_all(planner_calls.revisit_pages, collection, host, url, limit)
        pages = sorted((page for some in found.values() for page in some), key=lambda page: (page.host, page.id))
        return pages if limit < 0 else pages[:limit]

    async def revisit_shelves(self, collection: int, host: HostId, limit: int) -> list[RevisitShelf]:
        found = await self._router.on_all(planner_calls.revisit_shelves, collection, host, limit)
        whole = [some for some in found.values() if some]
        last = min((some[-1].host for some in whole if len({one.host for one in some}) >= limit), default=None)
        shelves = [one for some in whole for one in some if last is None or one.host <= last]
        return sorted(shelves, key=lambda one: (one.host, one.shelf))

    # -- hosts as a whole -------------------------------------------------------------------------------------

    async def export_catalogue(self) -> ExportCatalogue:
        """Links that wait are delivered first: the outbox is not exported."""
        await self._router.empty_outbox(taken_s=0.0)
        return shard_totals.merge_catalogues(await self._router.on_every(export_import_calls.export_catalogue))

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        """In the order of hosts over all servers: as far as all of them were read, and no more than `limit`."""
        albums = await self._router.on_every(export_import_calls.export_hosts, after, limit)
        end = min((album.end for album in albums if album.end is not None), key=lambda one: one.host, default=None)
        found = (one for album in albums for one in album.images if end is None or one.id <= end.host)
        images, urls = sorted(found, key=lambda one: one.id), 0
        for number, image in enumerate(images):
            urls += max(1, image.urls)
            if number and urls > limit:  # the hosts before are complete: only the last may be partial
                return ExportBatch(images[:number], FrontierCursor(images[number - 1].id, *LAST_URL))
        return ExportBatch(images, end)

    async def import_collection(self, image: CollectionExport) -> CollectionRow:
        await self._map.load_suffixes(list(configuration.decode_collection(image.config).network.suffixes))
        row = await self._first.call(export_import_calls.import_collection, image)
        for shard in self._shards[1:]:
            await shard.call(export_import_calls.import_collection, replace(image, counters={}), row.id)
        return row

    async def import_hosts(self, images: list[HostExport]) -> None:
        for shard, part in (await self._router.by_shard(images, key=lambda image: image.key)).items():
            await shard.call(export_import_calls.import_hosts, part)

    # -- calls that need no more than one server, or all of them ------------------------------------------------

    collections = _on_first(on_store(lambda store: store.collections.rows))
    collection = _on_first(on_store(lambda store: store.collections.row))
    collection_states = _on_first(collection_calls.collection_states)
    deletions = _on_first(deletion_calls.deletions)
    import_deletions = _on_first(deletion_calls.import_deletions)
    claim_parts = _on_first(lease_calls.claim_parts)
    takedowns = _on_first(deletion_calls.takedowns)
    time = _on_first(on_store(lambda store: store.time))
    may_plan = _on_first(planner_calls.may_plan)
    collections_to_plan = _on_first(on_store(lambda store: store.planning.collections_to_plan))
    host_counts = _on_all(url_calls.host_counts, shard_totals.sum_host_counts)
    look_up = _on_all(on_store(lambda store: store.lookup.look_up), shard_totals.choose_lookup)
    robots_text = _on_all(on_store(lambda store: store.hosts.robots_text), shard_totals.choose_text)
    set_price = _on_all(on_store(lambda store: store.planning.set_price), _nothing)
    recompute_due = _on_all(planner_calls.recompute_due, shard_totals.lowest_host)
    add_planned_visits = _on_all(planner_calls.add_planned_visits, _nothing)
    activate_plan = _on_all(on_store(lambda store: store.planning.activate_plan), _nothing)
    drop_old_plans = _on_all(planner_calls.drop_old_plans, shard_totals.sum_counts)
    record_takedowns = _on_all(deletion_calls.record_takedowns, _nothing)
    sweep = _on_every(collection_calls.sweep, any)
    retry_by_status = _on_every(url_calls.retry_by_status, shard_totals.merge_retries)
    forget_host = _on_every(deletion_calls.forget_host, _nothing)


def _leave(server: PostgresServer, worker: int) -> None:
    server.leases.leave(worker)


def _lease(server: PostgresServer, worker: int, hosts: int) -> list[Lease]:
    return server.leases.lease(worker, hosts)


def _finish(server: PostgresServer, worker: int, batch: list[HostReport]) -> list[NextVisits]:
    return server.leases.finish(worker, batch)
