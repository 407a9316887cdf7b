"""The frontier in one PostgreSQL database, as one process sees it.

Each call says which hosts it is about and what it needs of them, and then runs the store's own code. Promises: two
processes never hold one host; no two calls wait for each other in a ring (sites that are walked through are locked
first, then hosts, both in order, and what hangs below none last).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

from msgspec.structs import replace

from tarrafa.clock import boottime
from tarrafa.config import Collection
from tarrafa.frontier.protocol import (
    CollectionRow,
    Continuation,
    Facts,
    HostReport,
    Instant,
    Lease,
    Loan,
    Offer,
    Overview,
    Standing,
    Terms,
    Weight,
)
from tarrafa.frontier.store.collections import DELETING, Known, Tally
from tarrafa.frontier.store.hosts import LOAN_WAIT_S
from tarrafa.frontier.store.postgres.buckets import Passage
from tarrafa.frontier.store.postgres.claims import RELEASE, Claims
from tarrafa.frontier.store.postgres.copy import Row, Stale
from tarrafa.frontier.store.postgres.moves import Moves
from tarrafa.frontier.store.postgres.news import new_offers, new_weights
from tarrafa.frontier.store.postgres.parting import SHUT
from tarrafa.frontier.store.postgres.places import Places
from tarrafa.frontier.store.postgres.plans import Plans
from tarrafa.frontier.store.postgres.rounds import Rounds
from tarrafa.frontier.store.postgres.session import LIMIT_LOCK, DatabaseLeaseClock, Work
from tarrafa.frontier.store.postgres.takedowns import Takedowns
from tarrafa.frontier.store.postgres.walks import Walks
from tarrafa.frontier.store.schema import ALL
from tarrafa.model import HostId, UrlId
from tarrafa.process import ProcessId

EXPIRE_EVERY_S = 1.0
NEAR_LIMIT = 100_000  # visits per worker: more than any one call hands out
OFFERS_AT_ONCE = 4_000  # a transaction in which we think for longer than a moment is taken from us
HOSTS_PER_CHANGE = 500


class Server(Rounds, Plans, Moves, Places, Walks, Claims, Takedowns):
    """The Protocol's methods; they block."""

    # -- collections ------------------------------------------------------------------------------------------

    def open_collection(
        self,
        config: bytes,
        roots: list[Offer],
        number: int | None = None,
        *,
        start: bool = True,
        is_over_elsewhere: bool = True,
    ) -> CollectionRow:
        """Elsewhere: where there are several servers, a run is over when it is on all of them."""
        self._reserve(len(roots))

        def work(work: Work) -> CollectionRow:
            finished = {known.row.id for known in work.store.catalogue.all() if known.row.state == "finished"}
            known, before = work.store.catalogue.open(config, number, start=start)
            if before is not None:
                work.store.is_taken_down = self._orders(work).covers
                work.store.begin_change(known, before)
                self._change(work, known.row.id, before, start=start)
                if start and known.row.id in finished and is_over_elsewhere:
                    self._begin_again(work, known.row.id)
            known = work.known(known.row.id)
            self._seed(work, known, roots)
            return known.row

        return self._call(work, alone=True)

    def _seed(self, work: Work, known: Known, roots: list[Offer]) -> None:
        at_home = self._put_aside(work, "seed", known.row.id, roots)
        work.receive_hosts(((root.host, root.host_key) for root in at_home), known)
        work.store.urls.seed(known.row.id, at_home)

    def seed(self, collection: int, roots: list[Offer]) -> None:
        """More roots of a collection that was opened; also those that were put aside then."""
        self._reserve(len(roots))
        self._call(lambda work: self._seed(work, work.known(collection), roots))

    def _change(self, work: Work, number: int, before: Collection, *, start: bool) -> None:
        for hosts in self._site_by_site(work, number):
            for table in ("url", "pending", "page", "due", "visit"):
                work.copy.need_first(table, [(host, number) for host in hosts], ALL)
            work.copy.need_first("shelf", [(number, host) for host in hosts], ALL)
            self._need_standing(work, number)
            self._need_walks(work, number)
            work.store.change(work.known(number), before, start=start)
        work.store.end_change(work.known(number), before)
        self._flush(work)

    def _begin_again(self, work: Work, number: int) -> None:
        if work.known(number).order.is_breadth and work.store.urls.breadth.is_over(work.known(number)):
            for _ in self._site_by_site(work, number):
                self._need_walks(work, number)
                work.store.urls.breadth.begin_again(work.known(number))

    def _site_by_site(self, work: Work, number: int) -> Iterator[list[HostId]]:
        """A collection's hosts, whole sites together: memory holds some of them only, but the transaction all."""
        rows = work.cursor.execute(
            "SELECT host.id, site, key FROM work JOIN host ON host.id = work.host WHERE collection = %b::bigint"
            " ORDER BY site, host.id",
            [number],
        ).fetchall()
        counted = [(host, site) for host, site, key in rows if self.passage(key) != Passage.GONE]
        for hosts in _chunks(counted):
            self._flush(work)
            work.copy.lock_hosts(hosts)
            sites = [site for (site,) in work.copy.rows("SELECT DISTINCT site FROM host")]
            work.copy.need("site", [(number, site) for site in sites])
            yield hosts
        self._flush(work)

    @staticmethod
    def _need_standing(work: Work, number: int) -> None:
        """By no prefix of its key: read as a whole, the few times that this happens."""
        urls = work.copy.rows("SELECT host, id, in_links FROM url WHERE collection = ?", (number,))
        work.copy.need("standing", [(number, kept, links, host, url) for host, url, links in urls for kept in (0, 1)])

    def collections(self) -> list[CollectionRow]:
        return self._call(lambda work: work.store.catalogue.rows())

    def collection(self, name: str) -> CollectionRow | None:
        return self._call(lambda work: work.store.catalogue.row(name))

    def standings(self) -> list[Standing]:
        """Asked every second by everybody: without what a transaction needs to begin."""
        return [Standing(*row) for row in self._read("SELECT id, state, revision, name FROM collection ORDER BY id")]

    def take_over(self, rows: list[CollectionRow]) -> None:
        """The collections are as the first of several servers has them."""
        mine = {row.id: row for row in self.collections()}
        for row in rows:
            here = mine.get(row.id)
            if here == row or (here is None and row.state == DELETING):
                continue
            if here is None or here.config != row.config:  # nobody asked us then
                starts = row.state == "running"
                here = self.open_collection(row.config, [], row.id, start=starts, is_over_elsewhere=False)
            if here.run < row.run:
                self.begin_run_too(row)

            def work(work: Work, row: CollectionRow = row) -> None:
                work.store.catalogue.set_revision(work.known(row.id), row.revision)
                work.store.catalogue.put(work.known(row.id), row.state, row.reason)

            self._call(work)

    def tally(self) -> dict[int, Tally]:
        return self._call(lambda work: work.store.catalogue.tally())

    def workers(self) -> int:
        return self._call(lambda work: len(work.copy.rows("SELECT id FROM worker")))

    def share_limits(self, elsewhere: dict[int, Tally]) -> None:
        """What other servers have of the collections counts towards their limits too."""
        self._catalogue.elsewhere = elsewhere

    def share_rates(self, servers: int) -> None:
        """Revisits are paid for here by one in so many of what comes in."""
        self._catalogue.share(servers)

    def control(self, name: str, state: str, reason: str) -> None:
        self._call(lambda work: work.store.catalogue.control(name, state, reason))

    # -- URLs -------------------------------------------------------------------------------------------------

    def discover(self, collection: int, offers: list[Offer]) -> None:
        for start in range(0, len(offers), OFFERS_AT_ONCE):
            self._discover(collection, offers[start : start + OFFERS_AT_ONCE])

    def _discover(self, collection: int, offers: list[Offer]) -> None:
        news = self._call(lambda work: new_offers(work.cursor, collection, offers))
        if not news:
            return
        self._reserve(len(news))
        first = self._catalogue.reserved

        def work(work: Work) -> None:
            if work.store.catalogue.is_deleted(collection):
                return
            known, number = work.known(collection), collection
            self._catalogue.reserved = first
            at_home = self._put_aside(work, "discover", collection, news)
            work.receive_hosts(((offer.host, offer.host_key) for offer in at_home), known)
            work.copy.need("url", [(offer.host, number, offer.id) for offer in at_home])
            if known.config.keeps_fresh:
                self._prepare(work, known, [(offer.host, number, offer.id) for offer in at_home])
            work.store.urls.discover(collection, at_home)

        self._call(work)

    def _prepare(self, work: Work, known: Known, keys: list[tuple[HostId, int, UrlId]]) -> None:
        """What is kept fresh has more to it."""
        work.copy.need("page", keys)
        rows = work.copy.rows("SELECT host, collection, shelf, key, id FROM page")
        work.copy.need("due", rows)
        hosts = sorted({key[0] for key in keys})
        work.store.urls.revisits.prepare(known, hosts)
        sites = dict(work.copy.rows("SELECT id, site FROM host"))
        work.copy.need("site", [(known.row.id, sites[host]) for host in hosts if host in sites])

    def weigh(self, collection: str, weights: list[Weight]) -> list[Weight] | None:
        """Those, if any, that cannot be taken now: their sites are on the way to another server."""

        def work(work: Work) -> list[Weight] | None:
            known = work.store.catalogue.find(collection)
            if known is None:
                return None
            shut = self._shut_hosts(work, (weight.host for weight in weights))
            shut |= {one.host: one.host_key for one in weights if one.host_key and self.passage(one.host_key) in SHUT}
            late = [replace(weight, host_key=shut[weight.host]) for weight in weights if weight.host in shut]
            news = new_weights(work.cursor, known.row.id, [one for one in weights if one.host not in shut])
            if known.order.is_breadth:
                work.copy.lock_sites((known.row.id, weight.host) for weight in news)
            work.copy.lock_hosts(weight.host for weight in news)
            keys = [(weight.host, known.row.id, weight.id) for weight in news]
            work.copy.need("url", keys)
            if known.config.keeps_fresh:
                self._prepare(work, known, keys)
            work.store.urls.weigh(known, news)
            return late or None

        return self._call(work)

    def look_up(self, host: HostId, url: UrlId) -> Facts:
        def work(work: Work) -> Facts:
            shut = self._shut_hosts(work, [host])
            if host in shut and self.passage(shut[host]) == Passage.GONE:
                return Facts(None, [])  # another server knows more of it by now
            return work.store.look_up(host, url)

        return self._call(work)

    # -- workers and hosts ------------------------------------------------------------------------------------

    def join(self, name: str, process: ProcessId, number: int | None = None) -> Terms:
        self.expire()
        ghost = self._call(lambda work: work.store.hosts.namesake(name, process))
        if ghost is not None:
            self.leave(ghost)

        def work(work: Work) -> Terms:
            terms = work.store.hosts.join(name, process, number)
            if number is not None:
                self._unconfirmed[number] = self._lease_clock.now() + self._lease_clock.lease_s
            return terms

        return self._call(work)

    def of_process(self, process: ProcessId) -> list[int]:
        return self._call(lambda work: work.store.hosts.of_process(process))

    def time(self) -> Instant:
        return self._call(lambda work: Instant(self._clock.now(), self._clock.scale))

    def is_confirmed(self, worker: int) -> bool:
        """Whether it has renewed since it joined: what renews knows of this server, and would miss it."""
        first = self._unconfirmed.get(worker)
        if first is None:
            return True

        def deadline(work: Work) -> float:
            return float(work.copy.value("SELECT deadline FROM worker WHERE id = ?", (worker,)) or 0.0)

        if self._call(deadline) > first:
            del self._unconfirmed[worker]
        return worker not in self._unconfirmed

    def renew(self, worker: int, note: str) -> float:
        return self._call(lambda work: work.store.hosts.renew(worker, note))

    def leave(self, worker: int) -> None:
        self._call(lambda work: self._free(work, worker, 0.0))
        self._held.pop(worker, None)

    def expire(self) -> None:
        """Take back the hosts of workers that are dead or silent, each in a transaction of its own."""
        for worker, _ in self._call(lambda work: work.store.hosts.silent()):

            def work(work: Work, worker: int = worker) -> None:
                wait_s = dict(work.store.hosts.silent()).get(worker)
                if wait_s is not None:
                    # The database's clock may have been set: by its own, it may have up to one lease left.
                    self._free(work, worker, max(wait_s, self._lease_clock.lease_s) if wait_s else 0.0)

            self._call(work)

    def _free(self, work: Work, worker: int, wait_s: float, keep: Iterable[HostId] = ()) -> None:
        """Take hosts back; all of them, if none are to be kept, and then it is no worker any more."""
        question = "SELECT id FROM host WHERE worker = %b::bigint ORDER BY id"
        kept = set(keep)
        hosts = [host for host in work.hosts_after(question, worker) if host not in kept]
        self._lock_walks(work, hosts)
        handed = work.copy.rows("SELECT host, collection, id FROM handed")
        work.copy.need("url", handed)
        work.copy.need("page", handed)
        if kept:
            work.store.hosts.hand_back(worker, hosts)
            return
        work.store.hosts.free(worker, wait_s)
        work.cursor.execute(RELEASE, [self._clock.now() + wait_s * self._clock.scale, worker])
        self._flush(work)
        if work.hosts_after(question, worker):
            raise Stale("it leased one more host meanwhile")

    def lease(self, worker: int, hosts: int) -> list[Lease]:
        if boottime() - self._expired_at > EXPIRE_EVERY_S or not isinstance(self._lease_clock, DatabaseLeaseClock):
            self.expire()
            self._expired_at = boottime()
        self._drop_ghosts(worker)
        leases: list[Lease] = []
        try:
            self._lease_in_turn(worker, hosts, leases)
        except Exception:
            self._lost_answers = self._lost_answers or bool(leases)
            raise
        self._held[worker].update(lease.host for lease in leases)
        return leases

    def _lease_in_turn(self, worker: int, hosts: int, leases: list[Lease]) -> None:
        """One transaction, but for collections that have to choose sites first: those are chosen in one of their own,
        because that waits for others, and who leases has locked hosts already."""
        rest: list[int] | None = None
        while rest is None or rest:
            some = partial(self._lease_some, worker=worker, wanted=hosts - len(leases), rest=rest)
            found, rest = self._call(some)
            leases += found
            if rest:
                self._choose_sites(rest[0])

    def _lease_some(
        self, work: Work, worker: int, wanted: int, rest: list[int] | None
    ) -> tuple[list[Lease], list[int]]:
        """Hosts, and the collections from which none were taken yet. The first of `rest` has chosen its sites."""
        self._respect_limits(work)
        hosts, visits, leases = work.store.hosts, work.store.visits, list[Lease]()
        numbers = [known.row.id for known in hosts.in_turn(worker, wanted)] if rest is None else rest
        for place, number in enumerate(numbers):
            known = work.known(number)
            is_ready = rest is not None and not place
            if not is_ready and visits.wants_sites(known) and work.copy.has_candidates(number):
                return leases, numbers[place:]
            if known.row.state == "running":
                leases += hosts.lease_of(worker, known, wanted - len(leases))
        return leases, []

    def _respect_limits(self, work: Work) -> None:
        """Near a collection's limit visits are handed out by one at a time, who counts what the others have."""
        catalogue = work.store.catalogue
        workers = len(work.copy.rows("SELECT id FROM worker"))
        near = [known for known in catalogue.running() if catalogue.slots(known) < NEAR_LIMIT * workers]
        if near:
            for known in near:
                work.cursor.execute(f"SELECT pg_advisory_xact_lock({LIMIT_LOCK}, %b::int)", [known.row.id])
            self._counters.refresh()

    def _drop_ghosts(self, worker: int) -> None:
        """Leases that were given in an answer that never came are not known to their holder."""
        if self._lost_answers:
            self._lost_answers = False
            self._call(lambda work: self._free(work, worker, 0.0, self._held[worker] | {-1}))

    def held(self, worker: int) -> list[Lease]:
        def work(work: Work) -> list[Lease]:
            work.copy.lock_hosts(work.hosts_after("SELECT id FROM host WHERE worker = %b::bigint ORDER BY id", worker))
            return work.store.hosts.held(worker)

        leases = self._call(work)
        self._held[worker] = {lease.host for lease in leases}
        return leases

    def borrow(self, worker: int, collection: int, host: HostId, host_key: str) -> Loan:
        self._drop_ghosts(worker)

        def work(work: Work) -> Loan:
            if self.passage(host_key) in SHUT:
                return Loan(False, self._clock.now() + LOAN_WAIT_S)
            work.ensure_hosts([(host, host_key)], work.known(collection))
            return work.store.hosts.borrow(worker, collection, host, host_key)

        loan = self._call(work)
        if loan.granted:
            self._held[worker].add(host)
        return loan

    def robots_text(self, digest: bytes) -> bytes:
        return self._call(lambda work: work.store.hosts.robots_text(digest))

    def finish(self, worker: int, batch: list[HostReport]) -> list[Continuation]:
        def work(work: Work) -> list[Continuation]:
            walked = work.walked()
            walks = [(report.collection, report.host) for report in batch if report.collection in walked]
            work.copy.lock_walks(walks, (report.host for report in batch))
            self._respect_limits(work)
            reports = self._last_ones(work, batch)
            by_collection: defaultdict[int, list[HostReport]] = defaultdict(list)
            for report in reports:
                by_collection[report.collection].append(report)
            for number, some in by_collection.items():
                known = work.known(number)
                keys = [(report.host, number, one.id) for report in some for one in report.reports]
                work.copy.need("url", keys)
                if known.config.keeps_fresh:
                    self._prepare(work, known, keys)
                work.store.visits.prepare(known, sorted({report.host for report in some if report.keep}))
            return work.store.hosts.finish(worker, reports)

        answers = self._call(work)
        for report, answer in zip(batch, answers, strict=True):
            if not answer.held:
                self._held[worker].discard(report.host)
        return answers

    def overview(self) -> Overview:
        self.expire()

        def work(work: Work) -> Overview:
            status = self._with_parcels(work, work.store.catalogue.status())
            return Overview(status, work.store.hosts.nodes(), self._passage_notes(work))

        return self._call(work)


def _chunks(rows: list[Row]) -> Iterator[list[HostId]]:
    """Some hundreds of hosts at a time; those of one site stay together."""
    chunk: list[HostId] = []
    before = None
    for host, site in rows:
        if len(chunk) >= HOSTS_PER_CHANGE and site != before:
            yield chunk
            chunk = []
        chunk.append(host)
        before = site
    if chunk:
        yield chunk
