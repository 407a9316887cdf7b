"""URL rows of the frontier: discovers URLs, queues them per host, and changes their depth, rank and state.

A URL's row is made once and never removed; events move it between states. `pending` and `work` follow every move, so
that pending URLs are never searched for by scanning.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tarrafa.clock import Clock
from tarrafa.config.sections import StrategyConfig
from tarrafa.frontier.messages import DiscoveredUrl, UrlWeight, is_significant_rank_change
from tarrafa.frontier.ordering import order_of
from tarrafa.frontier.store.breadth_sites import BreadthSites
from tarrafa.frontier.store.collections import Collections, LoadedCollection
from tarrafa.frontier.store.counters import (
    HOSTS,
    KNOWN,
    LEFT_OVER,
    OLD_PAGES,
    REVISITS_OUT,
    SHOWN_PAGES,
    Counters,
    state_bucket,
)
from tarrafa.frontier.store.database import CLOSED, OPEN, SHOWN, SWEPT, SWEPT_RANK, UNSHOWN, FrontierDatabase
from tarrafa.frontier.store.page_replacement import PageReplacement
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.frontier.store.revisits import RevisitQueue
from tarrafa.model import GIVEN_UP, HostId, Status, UrlId, UrlRole, UrlState
from tarrafa.parse.public_suffix import PublicSuffixes

IN_LINKS_OF = "SELECT in_links FROM url WHERE host = ? AND collection = ? AND id = ?"
RANK_COLUMNS_SQL = (
    "SELECT url, sequence, in_links, attempts, role FROM url WHERE host = ? AND collection = ? AND id = ?"
)


class FrontierUrls:
    """The URL rows of one frontier."""

    def __init__(
        self, db: FrontierDatabase, counters: Counters, collections: Collections, ready: ReadyQueue, clock: Clock
    ) -> None:
        self._db, self._counters, self._collections, self._clock = db, counters, collections, clock
        self._ready = ready
        self.revisits = RevisitQueue(db, counters, ready, clock)
        self.page_replacement = PageReplacement(db, counters, collections, self.revisits, clock)
        self.breadth = BreadthSites(db, counters, ready, clock)
        self._suffix_text = str(db.value("SELECT value FROM meta WHERE key = 'suffix_list'"))
        self._suffixes: dict[tuple[str, ...], PublicSuffixes] = {}

    def discover(self, collection: int, offers: Sequence[DiscoveredUrl]) -> None:
        """Insert what is new, lower what was deeper, renew what an earlier run knew. Sorted, so that neighbours in the
        tree are touched together."""
        if self._collections.is_deleted(collection):
            return  # who still has to tell something of it was away for long
        known = self._collections.by_id(collection)
        waiting: dict[HostId, int] = {}
        closed: dict[HostId, int] = {}
        first = self._collections.reserve_sequence(known, len(offers))
        self._db.prefetch("url", [(offer.host, collection, offer.id) for offer in offers])
        for sequence, offer in sorted(enumerate(offers, first), key=lambda one: (one[1].host, one[1].id)):
            key = (offer.host, collection, offer.id)
            row = self._db.row(
                "SELECT depth, redirects, state, announced, status, role, run, shown FROM url"
                " WHERE host = ? AND collection = ? AND id = ?",
                key,
            )
            if row is None:
                self._insert(known, offer, sequence, waiting, closed)
                continue
            if row[6] < known.run or _was_swept(row[2], row[4], row[7]):
                self._rediscover(known, offer, sequence, waiting, closed)
                continue
            if (offer.depth, offer.redirects) < (row[0], row[1]):
                self._lower(known, offer.host, offer.id, offer.depth, offer.redirects, row[2], waiting)
            if offer.role != row[5] == UrlRole.PAGE and not row[7]:  # else it is kept as a page
                self._promote(known, offer, row[2], row[4], waiting)
            if offer.announced > (row[3] or 0.0):
                self._db.run(
                    "UPDATE url SET announced = ? WHERE host = ? AND collection = ? AND id = ?", (offer.announced, *key)
                )
                if row[2] == UrlState.FETCHED and known.config.keeps_fresh:
                    self.revisits.record_announced_change(known, key, offer.announced)
        self.add_pending(collection, waiting)

    def _promote(
        self, known: LoadedCollection, offer: DiscoveredUrl, state: int, status: int | None, waiting: dict[HostId, int]
    ) -> None:
        """What was met as a plain link is a sitemap or feed; if it was turned away for its type, it waits again."""
        if self.revisits.find((offer.host, known.row.id, offer.id)) is not None:
            return  # it is kept as a page
        turned_away = state == UrlState.DROPPED and status == Status.TYPE_NOT_WANTED
        if state == UrlState.PENDING:
            self._rerank(known, offer.host, offer.id, role=offer.role)
        if turned_away or state in (UrlState.PENDING, UrlState.HANDED_OUT):
            self._db.run(
                "UPDATE url SET role = ?, state = ? WHERE host = ? AND collection = ? AND id = ?",
                (offer.role, 0 if turned_away else state, offer.host, known.row.id, offer.id),
            )
            in_links = self._db.value(IN_LINKS_OF, (offer.host, known.row.id, offer.id))
            self.page_replacement.remove(known, False, in_links, offer.host, offer.id)  # it is no page's rival
        if turned_away:
            self.requeue(known, offer.host, offer.id, state, waiting)

    def seed(self, collection: int, roots: Sequence[DiscoveredUrl]) -> None:
        """The roots. One that was visited as something deeper is visited again, and fetched whole: only so does the
        graph hear of it and of its links."""
        known, waiting = self._collections.by_id(collection), dict[HostId, int]()
        self._db.prefetch("url", [(root.host, collection, root.id) for root in roots])
        for root in roots:
            row = self._db.row(
                "SELECT state FROM url WHERE host = ? AND collection = ? AND id = ? AND depth > 0 AND run = ?",
                (root.host, collection, root.id, known.run),
            )
            if row is not None and row[0] in (UrlState.FETCHED, UrlState.DROPPED):
                self._db.run(
                    "UPDATE url SET depth = 0 WHERE host = ? AND collection = ? AND id = ?",
                    (root.host, collection, root.id),
                )
                self.page_replacement.depth_changed(known, root.host, root.id)
                self._fetch_whole(known, root.host, root.id, row[0], waiting)
        self.add_pending(collection, waiting)
        for root in roots:  # whoever names a root means it, however many hosts its site has
            self._ensure_host(known, root)
            self._db.run("UPDATE work SET refused = 0 WHERE host = ? AND collection = ?", (root.host, collection))
        self.discover(collection, roots)

    def refetch(self, known: LoadedCollection, host: HostId, url: UrlId) -> None:
        """What it said is lost: it is fetched whole once more."""
        key, waiting = (host, known.row.id, url), dict[HostId, int]()
        state = self._db.value("SELECT state FROM url WHERE host = ? AND collection = ? AND id = ?", key)
        if state in (UrlState.FETCHED, UrlState.DROPPED):
            self._db.run("UPDATE url SET payload = '' WHERE host = ? AND collection = ? AND id = ?", key)
            self._fetch_whole(known, host, url, state, waiting)
            self.add_pending(known.row.id, waiting)

    def _fetch_whole(
        self, known: LoadedCollection, host: HostId, url: UrlId, state: int, waiting: dict[HostId, int]
    ) -> None:
        key = (host, known.row.id, url)
        self._db.run(
            "UPDATE url SET state = 0, etag = NULL, last_modified = NULL WHERE host = ? AND collection = ? AND id = ?",
            key,
        )
        self._drop_page(known, key)
        self.requeue(known, host, url, state, waiting)

    def _insert(
        self,
        known: LoadedCollection,
        offer: DiscoveredUrl,
        sequence: int,
        waiting: dict[HostId, int],
        closed: dict[HostId, int],
    ) -> None:
        number = known.row.id
        if offer.host not in waiting:
            self._ensure_host(known, offer)
            waiting[offer.host] = 0
        state, status = self._first_state(known, offer, closed)
        self._db.run(
            "INSERT INTO url (host, collection, id, url, depth, redirects, state, status, sequence, discovered,"
            " role, announced, parent, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (offer.host, number, offer.id, offer.url, offer.depth, offer.redirects, int(state), status or None,
             sequence, self._clock.now(), offer.role, offer.announced or None, offer.parent or None, known.run),
        )  # fmt: skip
        self._counters.add(number, KNOWN)
        self._counters.add(number, state_bucket(state))
        if state == UrlState.PENDING:
            self.enqueue(known, offer.host, offer.id, (offer.url, sequence, 0, 0, offer.role), waiting)

    def _first_state(
        self, known: LoadedCollection, offer: DiscoveredUrl, closed: dict[HostId, int]
    ) -> tuple[UrlState, int]:
        """Where a URL stands that a run meets for the first time, and why it does not wait, if so."""
        limit, status = (
            known.config.scope.depth_max,
            offer.status or self._cached_closed_status(known, offer.host, closed),
        )
        if limit is not None and offer.depth > limit:
            return UrlState.TOO_DEEP, 0
        if not status:
            return UrlState.PENDING, 0
        self._counters.add(known.row.id, f"status:{status}")
        return UrlState.FAILED if status in GIVEN_UP else UrlState.DROPPED, status

    def _cached_closed_status(self, known: LoadedCollection, host: HostId, closed: dict[HostId, int]) -> int:
        if host not in closed:
            self._enter_run(known, host)
            closed[host] = self._closed_status(known, host)
        return closed[host]

    def _enter_run(self, known: LoadedCollection, host: HostId) -> None:
        """Visits to a host are counted anew in each run."""
        if known.run > 1:
            self._db.run(
                "UPDATE work SET visited = 0, run = ? WHERE host = ? AND collection = ? AND run < ?",
                (known.run, host, known.row.id, known.run),
            )

    def _rediscover(
        self,
        known: LoadedCollection,
        offer: DiscoveredUrl,
        sequence: int,
        waiting: dict[HostId, int],
        closed: dict[HostId, int],
    ) -> None:
        """Somebody of this run leads to what an earlier one knew: it is as if it were new, but for its history. What is
        out is on its way. A page that is kept waits, whatever it looks like now: if it is no longer wanted, those who
        show it must hear so; only where its host is closed it stays as it is."""
        key = (offer.host, known.row.id, offer.id)
        state, shown, run, role, announced, in_links, status = self._db.required_row(
            "SELECT state, shown, run, role, announced, in_links, status FROM url"
            " WHERE host = ? AND collection = ? AND id = ?",
            key,
        )
        is_out_again = self.revisits.end_former_revisit(known, key)
        self._counters.add(known.row.id, REVISITS_OUT, -int(is_out_again))
        is_kept = state == UrlState.FETCHED or shown != UNSHOWN or is_out_again
        if is_kept:
            after, why = (
                UrlState.FETCHED if self._cached_closed_status(known, offer.host, closed) else UrlState.PENDING,
                0,
            )
        else:
            after, why = self._first_state(known, offer, closed)
        if state == UrlState.HANDED_OUT:
            after, why = UrlState.HANDED_OUT, 0
        elif state == UrlState.PENDING:
            self.dequeue(known, key)
            self._counters.add(known.row.id, LEFT_OVER, -int(run < known.run))
            if after != UrlState.PENDING:
                self._decrement_pending(known, offer.host)
        elif state == UrlState.FETCHED:
            self._counters.add(known.row.id, OLD_PAGES, -1)
        waits = after in (UrlState.PENDING, UrlState.HANDED_OUT)
        now_shown = SHOWN if is_kept and waits else UNSHOWN
        self._counters.add(known.row.id, SHOWN_PAGES, (now_shown != UNSHOWN) - (shown != UNSHOWN))
        role = offer.role if role == UrlRole.PAGE and not is_kept else role
        self._db.run(
            "UPDATE url SET depth = ?, redirects = ?, state = ?, status = ?, sequence = ?, role = ?, announced = ?,"
            " parent = ?, run = ?, shown = ?, attempts = 0, blamed = 0 WHERE host = ? AND collection = ? AND id = ?",
            (offer.depth, offer.redirects, int(after), why or status, sequence, role,
             max(offer.announced, announced or 0.0) or None, offer.parent or None, known.run, now_shown, *key),
        )  # fmt: skip
        self.page_replacement.depth_changed(known, offer.host, offer.id)
        self._counters.move(known.row.id, state, after)
        if after == UrlState.PENDING:
            counted = dict[HostId, int]() if state == UrlState.PENDING else waiting  # it was counted as waiting before
            self.enqueue(known, offer.host, offer.id, (offer.url, sequence, in_links, 0, role), counted)

    def dequeue(self, known: LoadedCollection, key: tuple[HostId, int, UrlId]) -> None:
        """Take what waits out of its host's queue, where it is still counted."""
        shown, *facts = self._db.required_row(
            "SELECT shown, url, sequence, in_links, attempts, role FROM url"
            " WHERE host = ? AND collection = ? AND id = ?",
            key,
        )
        rank = SWEPT_RANK if shown == SWEPT else rank_of(known, key[2], tuple(facts))
        self._db.prefetch("pending", [(key[0], key[1], rank, key[2])])
        self._db.run(
            "DELETE FROM pending WHERE host = ? AND collection = ? AND rank = ? AND id = ?",
            (key[0], key[1], rank, key[2]),
        )

    def _decrement_pending(self, known: LoadedCollection, host: HostId) -> None:
        """One URL of a host waits no longer; if that was the last one, the host is not ready."""
        is_free = self._db.value("SELECT worker FROM host WHERE id = ?", (host,)) is None
        if is_free:
            self._ready.remove(host)
        self._db.run("UPDATE work SET pending = pending - 1 WHERE host = ? AND collection = ?", (host, known.row.id))
        if is_free:
            self._ready.add(host)

    def _closed_status(self, known: LoadedCollection, host: HostId) -> int:
        """Why nothing new of this host waits; 0 if it may."""
        failures, next_at, visited, refused = self._db.required_row(
            "SELECT failures, next_at, visited, refused FROM host JOIN work ON work.host = host.id"
            " WHERE host.id = ? AND collection = ?",
            (host, known.row.id),
        )
        if refused or visited >= known.config.scope.host_pages_max:
            return Status.HOST_FULL
        if known.is_given_up(failures) and next_at > self._clock.now():
            return Status.HOST_GIVEN_UP  # it failed too often, and its time has not come yet
        return 0

    def _ensure_host(self, known: LoadedCollection, offer: DiscoveredUrl) -> None:
        """Its rows; a site's first hosts only are visited, or a wildcard in the DNS would have no end."""
        self.ensure_host_row(offer.host, offer.host_key, known.config.network.suffixes)
        if not self._db.run(
            "INSERT OR IGNORE INTO work (host, collection, pending, gate, favoured, run) VALUES (?, ?, 0, ?, ?, ?)",
            (offer.host, known.row.id, *self.gate_of(known, offer.url), known.run),
        ):
            return
        self._counters.add(known.row.id, HOSTS)
        self._admit(known, offer.host)

    @staticmethod
    def gate_of(known: LoadedCollection, url: str) -> tuple[int, bool]:
        """How a host comes in: whether anything of it may be handed out yet, and whether it is favoured."""
        return CLOSED if known.order.is_breadth else OPEN, known.order.favours(url)

    def _admit(self, known: LoadedCollection, host: HostId) -> None:
        """Count the host among those of its site that are visited, or refuse it."""
        number, most = known.row.id, known.config.scope.site_hosts_max
        site = self._db.value("SELECT site FROM host WHERE id = ?", (host,))
        self._db.prefetch("site", [(number, site)])
        counted = self._db.run(
            "INSERT INTO site (collection, name, hosts) VALUES (?, ?, 1)"
            " ON CONFLICT DO UPDATE SET hosts = hosts + 1 WHERE hosts < ?",
            (number, site, most),
        )
        self._db.run("UPDATE work SET refused = ? WHERE host = ? AND collection = ?", (not counted, host, number))

    def ensure_host_row(self, host: HostId, key: str, extra: tuple[str, ...] = ()) -> None:
        self._db.run(
            "INSERT OR IGNORE INTO host (id, key, site) VALUES (?, ?, ?)", (host, key, self.site_of(key, extra))
        )

    def site_of(self, key: str, extra: tuple[str, ...] = ()) -> str:
        """The site of a host, by the list as it was when the frontier was made."""
        if extra not in self._suffixes:
            self._suffixes[extra] = PublicSuffixes(self._suffix_text, extra)
        return self._suffixes[extra].site(key.partition("://")[2].rpartition(":")[0])

    def _lower(
        self,
        known: LoadedCollection,
        host: HostId,
        url: UrlId,
        depth: int,
        redirects: int,
        state: int,
        waiting: dict[HostId, int],
    ) -> None:
        number, limit = known.row.id, known.config.scope.depth_max
        opened = state == UrlState.TOO_DEEP and (limit is None or depth <= limit)
        self._db.run(
            "UPDATE url SET depth = ?, redirects = ?, state = ? WHERE host = ? AND collection = ? AND id = ?",
            (depth, redirects, int(UrlState.PENDING) if opened else state, host, number, url),
        )
        if not depth:
            self.page_replacement.depth_changed(known, host, url)
        if opened:
            self.requeue(known, host, url, UrlState.TOO_DEEP, waiting)

    def requeue(
        self, known: LoadedCollection, host: HostId, url: UrlId, before: int, waiting: dict[HostId, int]
    ) -> None:
        """Put a known URL among the waiting ones; its row says PENDING already."""
        self._counters.move(known.row.id, before, UrlState.PENDING)
        self.requeue_counted(known, host, url, waiting)

    def requeue_counted(self, known: LoadedCollection, host: HostId, url: UrlId, waiting: dict[HostId, int]) -> None:
        """The same for what is counted as waiting already."""
        shown, run, *facts = self._db.required_row(
            "SELECT shown, run, url, sequence, in_links, attempts, role FROM url"
            " WHERE host = ? AND collection = ? AND id = ?",
            (host, known.row.id, url),
        )
        self._counters.add(known.row.id, LEFT_OVER, int(run < known.run))
        if shown == SWEPT:
            self._db.run("INSERT INTO pending VALUES (?, ?, ?, ?)", (host, known.row.id, SWEPT_RANK, url))
            waiting[host] = waiting.get(host, 0) + 1
        else:
            self.enqueue(known, host, url, tuple(facts), waiting)

    def enqueue(
        self, known: LoadedCollection, host: HostId, url: UrlId, facts: tuple[Any, ...], waiting: dict[HostId, int]
    ) -> None:
        """`facts` are those of `RANKED_BY`."""
        self._db.run("INSERT INTO pending VALUES (?, ?, ?, ?)", (host, known.row.id, rank_of(known, url, facts), url))
        self.page_replacement.add(known, False, facts[2], host, url)
        waiting[host] = waiting.get(host, 0) + 1

    def _rerank(self, known: LoadedCollection, host: HostId, url: UrlId, *, role: int) -> None:
        """It turns out to be something else while it waits."""
        facts = self._db.required_row(RANK_COLUMNS_SQL, (host, known.row.id, url))
        place = (host, known.row.id, rank_of(known, url, facts), url)
        self._db.prefetch("pending", [place])
        self._db.run(
            "UPDATE pending SET rank = ? WHERE host = ? AND collection = ? AND rank = ? AND id = ?",
            (rank_of(known, url, (*facts[:4], role)), *place),
        )
        self.breadth.rank_changed(known, host)

    def _drop_page(self, known: LoadedCollection, key: tuple[HostId, int, UrlId]) -> None:
        """It is not kept any more, for whatever reason."""
        in_links = self._db.value(IN_LINKS_OF, key)
        self.page_replacement.remove(known, True, in_links, key[0], key[2])
        self.revisits.drop_page(known, key)

    def add_pending(self, number: int, waiting: dict[HostId, int]) -> None:
        """Count what was queued; a host that had nothing and is with nobody becomes ready."""
        for host, added in sorted(waiting.items()):
            if not added:
                continue
            self._db.run(
                "UPDATE work SET pending = pending + ? WHERE host = ? AND collection = ?", (added, host, number)
            )
            self.breadth.urls_added(self._collections.by_id(number), host, added)
            self._ready.add_new(number, host)

    def update_weights(self, known: LoadedCollection, weights: list[UrlWeight]) -> None:
        """Absolute values from the link graph. What the frontier does not know is out of scope and not its business."""
        number, order, waiting = known.row.id, known.config.strategy.order, dict[HostId, int]()
        self._db.prefetch("url", [(weight.host, number, weight.id) for weight in weights])
        mentions = dict[HostId, int]()
        for weight in sorted(weights, key=lambda one: (one.host, one.id)):
            row = self._db.row(
                "SELECT depth, redirects, state, url, sequence, in_links, attempts, role, pagerank, run FROM url"
                " WHERE host = ? AND collection = ? AND id = ?",
                (weight.host, number, weight.id),
            )
            if row is None:
                continue
            depth, redirects, state, url, sequence, in_links, attempts, role, rank, run = row
            key = (weight.host, number, weight.id)
            if is_significant_rank_change(weight.rank, rank):
                self._db.run(
                    "UPDATE url SET pagerank = ? WHERE host = ? AND collection = ? AND id = ?", (weight.rank, *key)
                )
                rank = weight.rank
                if known.config.keeps_fresh and role == UrlRole.PAGE:
                    self.revisits.set_weight(known, key, weight.in_links, rank)
            if weight.in_links != in_links:
                self._db.run(
                    "UPDATE url SET in_links = ? WHERE host = ? AND collection = ? AND id = ?", (weight.in_links, *key)
                )
                mentions[weight.host] = mentions.get(weight.host, 0) + weight.in_links - in_links
                self.page_replacement.set_in_links(known, in_links, weight.in_links, weight.host, weight.id)
                if known.config.keeps_fresh and role == UrlRole.PAGE:
                    self.revisits.set_weight(known, key, weight.in_links, rank)
                if state == UrlState.PENDING and order == "backlinks":
                    old = rank_of(known, weight.id, (url, sequence, in_links, attempts, role))
                    place = (weight.host, number, old, weight.id)
                    self._db.prefetch("pending", [place])
                    self._db.run(
                        "UPDATE pending SET rank = ? WHERE host = ? AND collection = ? AND rank = ? AND id = ?",
                        (rank_of(known, weight.id, (url, sequence, weight.in_links, attempts, role)), *place),
                    )
            if 0 <= weight.depth < depth and run == known.run:  # else it has none until this run finds it
                self._lower(known, weight.host, weight.id, weight.depth, redirects, state, waiting)
        self.breadth.add_mentions(known, mentions)
        self.add_pending(number, waiting)

    def reopen_depth(self, known: LoadedCollection) -> None:
        """The depth limit was raised: what it no longer cuts waits. Scans the collection, once per such change."""
        number, limit = known.row.id, known.config.scope.depth_max
        waiting: dict[HostId, int] = {}
        rows = self._db.rows(
            "UPDATE url SET state = 0 WHERE collection = ? AND state = ? AND depth <= ? AND run = ? RETURNING host, id",
            (number, int(UrlState.TOO_DEEP), 1 << 30 if limit is None else limit, known.run),
        )
        for host, url in rows:
            self.requeue(known, host, url, UrlState.TOO_DEEP, waiting)
        self.add_pending(number, waiting)

    def recheck_scope(self, known: LoadedCollection) -> None:
        """The scope was changed: what was refused unseen waits again, to be judged when its turn comes. Scans, once.
        Who was refused without a visit is no longer counted so; a visit that ended so was made, and stays counted."""
        number, waiting = known.row.id, dict[HostId, int]()
        for (host,) in self._db.rows("SELECT host FROM work WHERE collection = ? AND refused", (number,)):
            self._admit(known, host)
        rows = self._db.rows(
            "SELECT host, id, status, coalesce(fetched, 0) FROM url WHERE collection = ? AND run = ? AND state = ?"
            " AND (status IN (?, ?, ?, ?) OR status = ? AND type IS NULL)",
            (number, known.run, int(UrlState.DROPPED), *map(int, (Status.TRAP, Status.HOST_FULL, Status.OUT_OF_SCOPE,
             Status.LANGUAGE_OUTSIDE, Status.TYPE_NOT_WANTED))),
        )  # fmt: skip
        for host, url, status, visited in rows:
            if status == Status.HOST_FULL and self._closed_status(known, host) == status:
                continue
            self._db.run("UPDATE url SET state = 0 WHERE host = ? AND collection = ? AND id = ?", (host, number, url))
            if not visited or (known.run > 1 and visited < known.run_progress.started):
                self._counters.add(number, f"status:{status}", -1)
            self.requeue(known, host, url, UrlState.DROPPED, waiting)
        self.add_pending(number, waiting)

    def retry_failed(self, known: LoadedCollection) -> None:
        """Somebody starts the collection anew: what failed gets another chance. Scans it, if anything failed."""
        number, waiting = known.row.id, dict[HostId, int]()
        if not self._counters.value(number, state_bucket(UrlState.FAILED)):
            return
        rows = self._db.rows(
            "UPDATE url SET state = 0, attempts = 0, blamed = 0 WHERE collection = ? AND state = ? AND run = ?"
            " RETURNING host, id",
            (number, int(UrlState.FAILED), known.run),
        )
        for host, url in rows:
            self.requeue(known, host, url, UrlState.FAILED, waiting)
        for host in waiting:
            self._reset_backoff(host)
        self.add_pending(number, waiting)

    def requeue_lifted_takedowns(self, known: LoadedCollection, is_taken_down: Callable[[str], bool]) -> None:
        """What was taken down and is so no longer waits again. Scans the collection, if anything was."""
        number, waiting, bucket = known.row.id, dict[HostId, int](), f"status:{int(Status.TAKEN_DOWN)}"
        if not self._counters.value(number, bucket):
            return
        rows = self._db.rows(
            "SELECT host, id, url FROM url WHERE collection = ? AND state = ? AND status = ? AND run = ?",
            (number, int(UrlState.DROPPED), int(Status.TAKEN_DOWN), known.run),
        )
        for host, url, text in rows:
            if not is_taken_down(text):
                key = (host, number, url)
                self._db.run("UPDATE url SET state = 0 WHERE host = ? AND collection = ? AND id = ?", key)
                self.requeue(known, host, url, UrlState.DROPPED, waiting)
        self.add_pending(number, waiting)

    def _reset_backoff(self, host: HostId) -> None:
        """Its failures are forgotten, and so is its back-off; wherever it is ready, it is so under its new time."""
        self._ready.remove(host)
        worker = self._db.value(
            "UPDATE host SET failures = 0, trouble = '', memory = NULL, next_at = min(next_at, ?) WHERE id = ?"
            " RETURNING worker",
            (self._clock.now(), host),
        )
        if worker is None:
            self._ready.add(host)

    def reorder(self, known: LoadedCollection, before: StrategyConfig) -> None:
        """The order of discovery was changed: every waiting URL gets its new rank. Scans what waits, once."""
        number, old = known.row.id, order_of(before)
        rows = self._db.rows(
            "SELECT url.host, url.id, url, sequence, in_links, attempts, role"
            " FROM pending JOIN url USING (host, collection, id) WHERE pending.collection = ? AND shown != ?",
            (number, SWEPT),
        )
        moves = []
        for host, url, text, seen, links, tries, role in rows:
            facts = (text, seen, url, links, tries, role)
            moves.append((known.order.rank(*facts), host, number, old.rank(*facts), url))
        self._db.many("UPDATE pending SET rank = ? WHERE host = ? AND collection = ? AND rank = ? AND id = ?", moves)
        if before.favour != known.config.strategy.favour:
            self._update_favoured_hosts(known)
        self.breadth.apply_order_change(known, before.order)

    def _update_favoured_hosts(self, known: LoadedCollection) -> None:
        """Other hosts are favoured now. Scans them, once per such change."""
        hosts = self._db.rows("SELECT id, key FROM work JOIN host ON id = host WHERE collection = ?", (known.row.id,))
        self._db.many(
            "UPDATE work SET favoured = ? WHERE host = ? AND collection = ?",
            [(known.order.favours(f"{key}/"), host, known.row.id) for host, key in hosts],
        )
        self._ready.rebuild_new(known.row.id)


def _was_swept(state: int, status: int | None, shown: int) -> bool:
    """This run has judged it as not found, and somebody finds it after all."""
    if state == UrlState.DROPPED:
        return status == Status.NOT_FOUND_AGAIN
    return shown == SWEPT


def rank_of(known: LoadedCollection, url: UrlId, facts: tuple[Any, ...]) -> float:
    """Where a URL stands in its host's queue; `facts` are those of `RANKED_BY`."""
    text, sequence, in_links, attempts, role = facts
    return known.order.rank(text, sequence, url, in_links, attempts, role)
