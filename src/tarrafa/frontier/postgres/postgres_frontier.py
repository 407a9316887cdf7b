"""PostgreSQL frontier: the `Frontier` API over one or more PostgreSQL servers, sharded by site.

Sites are spread over the servers (roster.py), for ever; no call changes two of them at once. The first one keeps what
is one for all: the list of servers, the collections, the workers' numbers, and which addresses are taken. Promises:
with one server away the others go on; links for it wait in the worker's outbox, and nothing that was found is lost; a
collection's limits hold over all servers together; a worker that a server no longer hears from is nobody's holder
there, and knows it. More servers, or fewer, are another frontier: this one is exported and imported there.

Weakness: who joins needs the first server; a collection's revisits per day, and breadth's table of sites, are shared
out evenly over the servers, and each chooses among its own sites.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tarrafa import config as configuration
from tarrafa.clock import Clock, boottime
from tarrafa.errors import LeaseLost
from tarrafa.fetch.suffix_list import bundled_suffix_list
from tarrafa.frontier.api import (
    ClockReading,
    CollectionRow,
    DeletedCollection,
    DiscoveredUrl,
    FrontierCollectionState,
    FrontierOverview,
    HostCounts,
    HostLoan,
    HostReport,
    Lease,
    NextVisits,
    PlannedVisit,
    RetryBatch,
    RevisitPage,
    RevisitShelf,
    TakedownBatch,
    UrlLookup,
    UrlStatusFacts,
    UrlWeight,
    WorkerRegistration,
)
from tarrafa.frontier.postgres.database_session import DatabaseLeaseClock
from tarrafa.frontier.postgres.operations.transfer_calls import LAST_URL
from tarrafa.frontier.postgres.postgres_server import PostgresServer
from tarrafa.frontier.postgres.sharding import shard_totals
from tarrafa.frontier.postgres.sharding.global_limits import LimitedShardRouter
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresShard, ShardUnreachable
from tarrafa.frontier.postgres.sharding.shard_registry import ShardRegistry
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.transfer.host_export import (
    CollectionExport,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostExport,
)
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.process import ProcessId
from tarrafa.takedown import TakedownEntry

MAINTAIN_EVERY_S = 2.0


async def open_postgres_frontier(
    dsns: Sequence[str], clock: Clock | None = None, outbox: Path | None = None, suffixes: str | None = None
) -> "PostgresFrontier":
    """The frontier on these databases; its tables are made if they are not there, with this list of suffixes. A clock
    that runs faster is kept, for tests; otherwise the database's own counts."""
    faster = clock if clock is not None and clock.scale != 1.0 else None
    leases = DatabaseLeaseClock.from_environment()
    return await asyncio.to_thread(PostgresFrontier, dsns, suffixes or bundled_suffix_list(), faster, leases, outbox)


class PostgresFrontier(LimitedShardRouter):
    """The Protocol on one or more databases."""

    def __init__(
        self,
        dsns: Sequence[str],
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
        outbox: Path | None = None,
    ) -> None:
        super().__init__(ShardRegistry(dsns, suffix_list, clock, lease_clock), outbox)
        self._home: dict[HostId, PostgresShard] = {}  # of the hosts that our workers hold
        self._workers: dict[int, tuple[str, ProcessId]] = {}
        self._renewed: dict[tuple[int, str], float] = {}
        self._rows: list[CollectionRow] = []
        self._maintained_at = 0.0
        self._turn = 0

    # -- collections ------------------------------------------------------------------------------------------

    async def open_collection(
        self, config: bytes, roots: Sequence[DiscoveredUrl] = (), start: bool = True
    ) -> CollectionRow:
        wanted = configuration.decode_collection(config)
        await self._roster.tell_sites_apart(list(wanted.network.suffixes))
        is_over, parts = await self._is_over(wanted), await self._by_shard(roots)
        mine = parts.pop(self._first, [])
        row = await self._first.call(
            lambda server: server.open_collection(config, mine, start=start, is_over_elsewhere=is_over)
        )
        for member in self._shards[1:]:
            part = parts.get(member, [])

            def open_there(server: PostgresServer, part: list[DiscoveredUrl] = part) -> None:
                server.open_collection(config, part, row.id, start=start, is_over_elsewhere=is_over)
                server.sync_collections([row])

            try:
                await member.call(open_there)
            except ShardUnreachable:
                if part:
                    raise
        self._rows = await self.collections()
        return row

    async def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
        for member, part in (await self._by_shard(roots)).items():

            def seed_there(server: PostgresServer, part: list[DiscoveredUrl] = part) -> None:
                server.seed(collection, part)

            await member.call(seed_there)

    async def _is_over(self, wanted: configuration.Collection) -> bool:
        """Whether a run of breadth is, on all servers; one that is away cannot say so."""
        if len(self._shards) == 1 or wanted.strategy.order != "breadth":
            return True
        said = await self._on_all_shards(lambda server: server.is_over(wanted.name))
        return len(said) == len(self._shards) and all(over for _, over in said)

    async def collections(self) -> list[CollectionRow]:
        return await self._ask(self._first, lambda server: server.collections())

    async def _cached_collections(self) -> list[CollectionRow]:
        """As they were when we last looked."""
        return self._rows or await self.collections()

    async def collection(self, name: str) -> CollectionRow | None:
        return await self._ask(self._first, lambda server: server.collection(name))

    async def collection_states(self) -> list[FrontierCollectionState]:
        return await self._ask(self._first, lambda server: server.collection_states())

    async def set_state(self, name: str, state: str, reason: str) -> None:
        await self._ask(self._first, lambda server: server.set_state(name, state, reason))
        await self._sync_collections()

    async def begin_run(self, name: str, reason: str) -> CollectionRow:
        await self._roster.tell_sites_apart()
        row = await self._ask(self._first, lambda server: server.begin_run(name, reason))
        await self._sync_collections()
        return row

    async def sweep(self, name: str, limit: int) -> bool:
        found = await self._on_all_shards(lambda server: server.sweep(name, limit), all_of_them=True)
        return any(more for _, more in found)

    async def delete_collection(self, name: str, limit: int) -> bool:
        """Everywhere else first: the first server has its name."""
        more = await self._ask(self._first, lambda server: server.delete_collection(name, 0))
        await self._sync_collections()
        for member in self._shards[1:] if limit > 0 else ():
            if await self._ask(member, lambda server: server.delete_collection(name, limit, is_first=False)):
                return True
        if limit > 0:
            more = await self._ask(self._first, lambda server: server.delete_collection(name, limit))
            self._rows = await self.collections()
        return more

    async def record_deletion(self, name: str) -> bool:
        """The first server notes it, when all of them know that it is to be deleted, and have nothing of it out."""
        await self._sync_collections()
        for member in self._shards:

            def is_home(server: PostgresServer, is_first: bool = member is self._first) -> bool:
                server.expire()
                return server.has_no_visits_out(name, is_first=is_first)

            try:
                if not await self._ask(member, is_home):
                    return False
            except ShardUnreachable:
                return False
        return await self._ask(self._first, lambda server: server.record_deletion(name))

    async def deletions(self, after: int) -> list[DeletedCollection]:
        return await self._ask(self._first, lambda server: server.deletions(after))

    async def retry_host(self, host: HostId, host_key: str) -> None:
        await (await self._shard_of(host_key)).call(lambda server: server.retry_host(host))

    async def urls_by_status(self, name: str, status: int) -> UrlStatusFacts:
        found = await self._on_all_shards(lambda server: server.urls_by_status(name, status))
        facts = shard_totals.merge_status_facts([one for _, one in found])
        return facts if len(found) == len(self._shards) else replace(facts, whole=False)

    async def retry_by_status(self, name: str, status: int, after: FrontierCursor, limit: int) -> RetryBatch:
        """As far as all of them have looked: who is ahead looks again, and finds that it was done."""
        found = await self._on_all_shards(
            lambda server: server.retry_by_status(name, status, after, limit), all_of_them=True
        )
        ends = [one.end for _, one in found if one.end is not None]
        end = min(ends, key=lambda place: (place.host, place.url), default=None)
        return RetryBatch(sum(one.urls for _, one in found), end)

    async def host_counts(self, name: str) -> HostCounts:
        return shard_totals.sum_host_counts(
            [counts for _, counts in await self._on_all_shards(lambda server: server.host_counts(name))]
        )

    async def _sync_collections(self) -> None:
        """Whoever was away hears of it when it is back."""
        self._rows = await self.collections()
        if len(self._shards) > 1:
            await self._roster.tell_sites_apart()
            await self._on_all_shards(lambda server: server.sync_collections(self._rows))

    # -- URLs -------------------------------------------------------------------------------------------------

    async def discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        await self._send_to_shards("discover", collection, offers)

    async def update_weights(self, collection: str, weights: list[UrlWeight]) -> None:
        await self._send_to_shards("update_weights", collection, weights)

    async def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        facts = [facts for _, facts in await self._on_all_shards(lambda server: server.look_up(host, url))]
        return next((one for one in facts if one.urls), None) or next((one for one in facts if one.host), facts[0])

    async def robots_text(self, digest: bytes) -> bytes:
        texts = await self._on_all_shards(lambda server: server.robots_text(digest))
        return next((text for _, text in texts if text), b"")

    # -- workers ----------------------------------------------------------------------------------------------

    async def join(self, name: str, process: ProcessId) -> WorkerRegistration:
        terms = await self._ask(self._first, lambda server: server.join(name, process))
        self._first.joined.add(terms.worker)
        self._workers[terms.worker] = (name, process)
        await self._join_others(terms.worker)
        return terms

    async def _join_others(self, worker: int) -> None:
        name, process = self._workers[worker]
        for member in self._shards[1:]:
            if worker not in member.joined:
                with contextlib.suppress(ShardUnreachable):
                    await self._ask(member, lambda server: server.join(name, process, worker))
                    member.joined.add(worker)

    async def release_process(self, process: ProcessId) -> None:
        for member, workers in await self._on_all_shards(lambda server: server.workers_of_process(process)):
            for worker in workers:

                def leave(server: PostgresServer, worker: int = worker) -> None:
                    server.leave(worker)

                await self._ask(member, leave)

    async def time(self) -> ClockReading:
        return await self._ask(self._first, lambda server: server.time())

    async def renew(self, worker: int, note: str) -> float:
        """For as long as the server that heard of us the longest ago still waits for us."""
        left: list[float] = []
        for member in self._shards:
            asked_at, key = boottime(), (worker, member.where)
            try:
                lease_s = await self._ask(member, lambda server: server.renew(worker, note))
                self._renewed[key] = asked_at + lease_s
            except LeaseLost:
                if member is self._first or key in self._renewed:
                    raise
            except ShardUnreachable:
                if member is self._first:
                    raise
            if key in self._renewed:
                left.append(self._renewed[key])
        rest = min(left) - boottime()
        if rest <= 0:
            raise LeaseLost(f"worker {worker} has lost its leases: a server did not hear from it in time")
        return rest

    async def leave(self, worker: int) -> None:
        for member in self._shards:
            if worker in member.joined:
                with contextlib.suppress(ShardUnreachable):
                    await self._ask(member, lambda server: server.leave(worker))
                member.joined.discard(worker)
        self._workers.pop(worker, None)

    async def lease(self, worker: int, hosts: int) -> list[Lease]:
        await self._maintain(worker)
        if len(self._shards) == 1:
            return await self._first.call(lambda server: server.lease(worker, hosts))
        self._turn = (self._turn + 1) % len(self._shards)
        members = self._shards[self._turn :] + self._shards[: self._turn]
        leases: list[Lease] = []
        while members and len(leases) < hosts:  # whoever gave its share may have more
            generous: list[PostgresShard] = []
            for place, member in enumerate(members):
                share = -(-(hosts - len(leases)) // (len(members) - place))
                with contextlib.suppress(ShardUnreachable):
                    found = await self._lease_from(member, worker, share)
                    leases += found
                    generous += [member] if share and len(found) == share else []
            members = generous
        return leases

    async def _lease_from(self, member: PostgresShard, worker: int, hosts: int) -> list[Lease]:
        if hosts < 1 or worker not in member.joined:
            return []
        if not await self._ask(member, lambda server: server.is_confirmed(worker)):
            return []
        leases = await self._within_limits(
            member, await self._cached_collections(), lambda server: server.lease(worker, hosts)
        )
        self._home.update((lease.host, member) for lease in leases)
        return leases

    async def held_leases(self, worker: int) -> list[Lease]:
        """Also for a worker that joined when we were another process: where it is known, it takes part."""
        leases: list[Lease] = []
        for member in self._shards:
            try:
                some = await self._ask(member, lambda server: server.held_leases(worker))
            except (ShardUnreachable, LeaseLost):
                if member is self._first:
                    raise
                continue
            member.joined.add(worker)
            self._home.update((lease.host, member) for lease in some)
            leases += some
        return leases

    async def _maintain(self, worker: int) -> None:
        """What is done now and then: nothing of it is urgent."""
        if len(self._shards) == 1 or boottime() - self._maintained_at < MAINTAIN_EVERY_S:
            return
        self._maintained_at = boottime()
        await self._sync_collections()
        if worker in self._workers:
            await self._join_others(worker)
        held = list(self._home)
        await self._ask(self._first, lambda server: server.release_addresses_elsewhere(worker, held))
        await self._empty_outbox()

    async def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        member = await self._shard_of(host_key)
        if len(self._shards) > 1 and (worker not in member.joined or member.is_away):
            raise ShardUnreachable(f"{member.where}: is away")
        loan = await member.call(lambda server: server.borrow_host(worker, collection, host, host_key))
        if loan.granted:
            self._home[host] = member
        return loan

    async def claim_address(self, worker: int, host: HostId, address: str) -> float:
        """One server knows its addresses itself; of several, the first one does."""
        if len(self._shards) == 1:
            return await self._first.call(lambda server: server.claim_address(worker, host, address))
        member = self._home.get(host)
        if member is None:
            raise LeaseLost(f"worker {worker} does not hold the host that it claims {address} for")
        delay_s = await member.call(lambda server: server.held_delay(worker, host))
        return await self._first.call(lambda server: server.claim_address_elsewhere(worker, host, delay_s, address))

    async def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        if len(self._shards) == 1:
            return await self._first.call(lambda server: server.finish(worker, batch))
        answers: dict[int, NextVisits] = {}
        places: defaultdict[PostgresShard | None, list[int]] = defaultdict(list)
        for place, report in enumerate(batch):
            places[self._home.get(report.host)].append(place)
        for member, some in places.items():
            reports = [batch[place] for place in some]
            found = [NextVisits(False, [])] * len(some)
            if member is not None:
                with contextlib.suppress(ShardUnreachable):  # what is there now will be somebody else's when it is back
                    finish = partial(PostgresServer.finish, worker=worker, batch=reports)
                    found = await self._within_limits(member, await self._cached_collections(), finish)
            answers.update(zip(some, found, strict=True))
        lost = [report.host for place, report in enumerate(batch) if not answers[place].held]
        for host in lost:
            self._home.pop(host, None)
        if lost:
            held = list(self._home)
            await self._ask(self._first, lambda server: server.release_addresses_elsewhere(worker, held))
        return [answers[place] for place in range(len(batch))]

    async def overview(self) -> FrontierOverview:
        found = await self._on_all_shards(lambda server: server.overview())
        whole = shard_totals.merge_overviews([view for _, view in found])
        answered = {member.where for member, _ in found}
        away = [member for member in self._shards if member.where not in answered]
        if not away:
            return whole
        notes = [f"{one.where}: does not answer ({one.trouble or 'it is away'})" for one in away]
        return replace(whole, notes=whole.notes + notes, whole=False)

    # -- plans ------------------------------------------------------------------------------------------------

    async def may_plan(self) -> bool:
        """Many supervise; one plans."""
        return await self._ask(self._first, lambda server: server.may_plan())

    async def collections_to_plan(self) -> list[int]:
        return await self._ask(self._first, lambda server: server.collections_to_plan())

    async def revisit_pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[RevisitPage]:
        found = await self._on_all_shards(lambda server: server.revisit_pages(collection, host, url, limit))
        pages = sorted((page for _, some in found for page in some), key=lambda page: (page.host, page.id))
        return pages if limit < 0 else pages[:limit]

    async def revisit_shelves(self, collection: int, host: HostId, limit: int) -> list[RevisitShelf]:
        found = await self._on_all_shards(lambda server: server.revisit_shelves(collection, host, limit))
        whole = [some for _, some in found if some]
        last = min((some[-1].host for some in whole if len({one.host for one in some}) >= limit), default=None)
        shelves = [one for some in whole for one in some if last is None or one.host <= last]
        return sorted(shelves, key=lambda one: (one.host, one.shelf))

    async def set_price(self, collection: int, price: float) -> None:
        await self._on_all_shards(lambda server: server.set_price(collection, price))

    async def recompute_due(self, collection: int, host: HostId, limit: int) -> HostId | None:
        found = await self._on_all_shards(lambda server: server.recompute_due(collection, host, limit))
        return min((last for _, last in found if last is not None), default=None)

    async def add_planned_visits(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        await self._on_all_shards(lambda server: server.add_planned_visits(collection, number, visits))

    async def activate_plan(self, collection: int, number: int, end: float) -> None:
        await self._on_all_shards(lambda server: server.activate_plan(collection, number, end))

    async def drop_old_plans(self, collection: int, limit: int) -> int:
        return sum(
            count for _, count in await self._on_all_shards(lambda server: server.drop_old_plans(collection, limit))
        )

    # -- hosts as a whole -------------------------------------------------------------------------------------

    async def export_catalogue(self) -> ExportCatalogue:
        return shard_totals.merge_catalogues(
            [one for _, one in await self._on_all_shards(lambda server: server.export_catalogue(), all_of_them=True)]
        )

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        """In the order of hosts over all servers: as far as all of them were looked at, and no more than is wanted."""
        albums = [
            album
            for _, album in await self._on_all_shards(
                lambda server: server.export_hosts(after, limit), all_of_them=True
            )
        ]
        end = min((album.end for album in albums if album.end is not None), key=lambda one: one.host, default=None)
        found = (one for album in albums for one in album.images if end is None or one.id <= end.host)
        images, urls = sorted(found, key=lambda one: one.id), 0
        for number, image in enumerate(images):
            urls += max(1, image.urls)
            if number and urls > limit:  # those before are whole: only the last one may be a part of its host
                return ExportBatch(images[:number], FrontierCursor(images[number - 1].id, *LAST_URL))
        return ExportBatch(images, end)

    async def import_collection(self, image: CollectionExport) -> CollectionRow:
        await self._roster.tell_sites_apart(list(configuration.decode_collection(image.config).network.suffixes))
        row = await self._ask(self._first, lambda server: server.import_collection(image))
        for member in self._shards[1:]:
            await self._ask(member, lambda server: server.import_collection(replace(image, counters={}), row.id))
        return row

    async def import_hosts(self, images: list[HostExport]) -> None:
        await self._roster.tell_sites_apart()
        parts: defaultdict[PostgresShard, list[HostExport]] = defaultdict(list)
        for image in images:
            parts[self._roster.shard_of(image.key)].append(image)
        for member, part in parts.items():

            def take_in(server: PostgresServer, part: list[HostExport] = part) -> None:
                server.import_hosts(part)

            await member.call(take_in)

    async def import_deletions(self, moments: dict[str, float]) -> None:
        await self._ask(self._first, lambda server: server.import_deletions(moments))

    async def forget_host(self, host: HostId) -> None:
        await self._on_all_shards(lambda server: server.forget_host(host), all_of_them=True)

    async def record_takedowns(self, entries: list[TakedownEntry]) -> None:
        await self._on_all_shards(lambda server: server.record_takedowns(entries))

    async def takedowns(self, after: int) -> TakedownBatch:
        return await self._ask(self._first, lambda server: server.takedowns(after))
