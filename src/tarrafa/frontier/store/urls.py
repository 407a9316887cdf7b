"""URL rows of the frontier: discovers URLs, queues them per host, and changes their depth, rank and role.

A URL's row is made once and never removed; events move it between states. `pending` and `work` follow every move, so
that pending URLs are never searched for by scanning.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from tarrafa.config.sections import StrategyConfig
from tarrafa.frontier.messages import DiscoveredUrl, UrlWeight, is_significant_rank_change, similar_ranks
from tarrafa.frontier.ordering import order_of
from tarrafa.frontier.store.breadth_sites import BreadthSites
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import CLOSED, OPEN, SHOWN, SWEPT, SWEPT_RANK, UNSHOWN, UrlKey
from tarrafa.frontier.store.page_replacement import PageReplacement
from tarrafa.frontier.store.revisits import RevisitQueue
from tarrafa.model import (  # fmt: skip
    GIVEN_UP,
    LISTING_ROLES,
    UNKEPT_STATES,
    UNWANTED_PAGE,
    HostId,
    Status,
    UrlId,
    UrlRole,
    UrlState,
)
from tarrafa.parse.public_suffix import PublicSuffixes

RANK_COLUMNS = "url, sequence, in_links, attempts, role"  # that the rank of a URL depends on, with its id
# In-links, and the rank if it has changed enough; a URL without a rank has the mean, 1.
SET_WEIGHT = """UPDATE url SET in_links = ?1,
    pagerank = CASE WHEN ifnull(nullif(pagerank, 0), 1) BETWEEN ?5 AND ?6 THEN pagerank ELSE ?7 END
    WHERE host = ?2 AND collection = ?3 AND id = ?4
    AND (in_links != ?1 OR ifnull(nullif(pagerank, 0), 1) NOT BETWEEN ?5 AND ?6)"""
CHANGE_PENDING = "UPDATE work SET pending = pending + ? WHERE host = ? AND collection = ?"
CLOSED_SQL = (
    "SELECT host.id, failures, next_at, visited, refused FROM host JOIN work ON work.host = host.id"
    " WHERE host.id = ? AND collection = ?"
)
REQUISITE, NEEDED_PAGE = int(UrlRole.REQUISITE), int(UrlRole.NEEDED_PAGE)
Queued = dict[HostId, int]  # URLs put into the queues and not yet counted in `work`, per host


class _Discovery(NamedTuple):
    """State of one call of `discover`."""

    queued: Queued
    closed: dict[HostId, int]  # `closed_status` of the hosts


class FrontierUrls:
    """The URL rows of one frontier."""

    def __init__(self, context: StoreContext) -> None:
        self._db, self._counters, self._collections = context.db, context.counters, context.collections
        self._ready, self._clock = context.ready, context.clock
        self.revisits = RevisitQueue(context)
        self.page_replacement = PageReplacement(context, self.revisits)
        self.breadth = BreadthSites(context)
        self._suffix_text = str(self._db.value("SELECT value FROM meta WHERE key = 'suffix_list'"))
        self._suffixes: dict[tuple[str, ...], PublicSuffixes] = {}

    # -- discovery --------------------------------------------------------------------------------------------

    def discover(self, collection: int, offers: Sequence[DiscoveredUrl]) -> None:
        """Insert new URLs, lower the depth of known ones, and renew URLs of earlier runs. Sorted by key, so that
        neighbouring rows are changed together."""
        if self._collections.is_deleted(collection):
            return  # the sender was away for long
        known = self._collections.by_id(collection)
        first = self._collections.reserve_sequence(known, len(offers))
        ordered = sorted(enumerate(offers, first), key=lambda one: (one[1].host, one[1].id))
        keys = [(offer.host, collection, offer.id) for _, offer in ordered]
        self._db.prefetch("url", keys)
        there = self._db.known_urls(keys)
        batch = _Discovery(Queued(), self._closed_statuses(known, offers))
        new: dict[UrlId, tuple[int, DiscoveredUrl]] = {}
        again: list[tuple[int, DiscoveredUrl]] = []
        for sequence, offer in ordered:
            if offer.id in there or offer.id in new:
                again.append((sequence, offer))
            else:
                is_both = offer.role == NEEDED_PAGE
                new[offer.id] = sequence, self._with_first_role(known, offer, batch) if is_both else offer
        self._insert(known, list(new.values()), batch)
        for sequence, offer in again:
            if offer.role == NEEDED_PAGE:  # a page, and needed by another page
                self._offer_known(known, replace(offer, role=int(UrlRole.PAGE)), sequence, batch)
                offer = replace(offer, role=int(UrlRole.REQUISITE))  # noqa: PLW2901
            self._offer_known(known, offer, sequence, batch)
        self.add_pending(collection, batch.queued)

    def _offer_known(self, known: LoadedCollection, offer: DiscoveredUrl, sequence: int, batch: _Discovery) -> None:
        key = (offer.host, known.row.id, offer.id)
        depth, redirects, state, announced, status, role, run, shown = self._db.url(
            "depth, redirects, state, announced, status, role, run, shown", key
        )
        if run < known.run or _was_swept(state, status, shown):
            self._rediscover(known, offer, sequence, batch)
            return
        is_need = offer.role == REQUISITE
        if is_need or role == REQUISITE:
            (self._offer_need if is_need else self._offer_as_page)(known, key, offer, batch)
            return
        if (offer.depth, offer.redirects) < (depth, redirects):
            self._lower(known, key, offer.depth, offer.redirects, state, batch.queued)
        if offer.role != role == UrlRole.PAGE and not shown:  # a shown URL is kept as a page
            self._promote(known, key, offer.role, state, status, batch.queued)
        if offer.announced > (announced or 0.0):
            self._db.update_url(key, "announced = ?", offer.announced)
            if state == UrlState.FETCHED and known.config.keeps_fresh:
                self.revisits.record_announced_change(known, key, offer.announced)

    def _promote(
        self, known: LoadedCollection, key: UrlKey, role: int, state: int, status: int | None, queued: Queued
    ) -> None:
        """A plain link turns out to be a sitemap or feed. If it was refused for its type, it is pending again."""
        if self.revisits.find(key) is not None:
            return  # it is kept as a page
        was_refused = state == UrlState.DROPPED and status == Status.TYPE_NOT_WANTED
        if state == UrlState.PENDING:
            facts = self._db.url(RANK_COLUMNS, key)
            self._rerank(known, key, facts, (*facts[:4], role))
            self.breadth.rank_changed(known, key[0])
        if was_refused or state in (UrlState.PENDING, UrlState.HANDED_OUT):
            self._db.update_url(key, "role = ?, state = ?", role, 0 if was_refused else state)
            (in_links,) = self._db.url("in_links", key)
            self.page_replacement.remove(known, False, in_links, key)  # listings compete with no page
        if was_refused:
            self.requeue(known, key, state, queued)

    # -- requisites of pages ----------------------------------------------------------------------------------

    def _with_first_role(self, known: LoadedCollection, offer: DiscoveredUrl, batch: _Discovery) -> DiscoveredUrl:
        """A new URL that is a page and a requisite is a requisite only, if it is not to be visited as a page."""
        state, _ = self._first_state(known, offer, batch)
        return offer if state == UrlState.PENDING else replace(offer, role=int(UrlRole.REQUISITE))

    def _offer_need(self, known: LoadedCollection, key: UrlKey, offer: DiscoveredUrl, batch: _Discovery) -> None:
        """A page needs a known URL. Whatever is archived as a page, sitemap or feed is there already."""
        state, status, role, shown, fetched = self._db.url("state, status, role, shown, coalesce(fetched, 0)", key)
        if role == UrlRole.REQUISITE:
            is_settled = state not in (UrlState.PENDING, UrlState.HANDED_OUT)
            if is_settled and offer.announced and offer.announced - fetched >= known.config.requisites.again:
                self._queue_need(known, key, state, batch.queued)
        elif role == UrlRole.PAGE and not shown:
            if state in (UrlState.PENDING, UrlState.HANDED_OUT):
                self._set_role(known, key, state, role, UrlRole.NEEDED_PAGE)
            elif state == UrlState.TOO_DEEP or (state == UrlState.DROPPED and status in UNWANTED_PAGE):
                self.turn_into_requisite(known, key, state, batch.queued)

    def _offer_as_page(self, known: LoadedCollection, key: UrlKey, offer: DiscoveredUrl, batch: _Discovery) -> None:
        """A link leads to a requisite: it is visited as a page, unless it is known not to be one that is wanted."""
        state, kind = self._db.url("state, coalesce(type, '')", key)
        limit = known.config.scope.depth_max
        is_closed = batch.closed[offer.host] or (limit is not None and offer.depth > limit)
        if offer.status or offer.role != UrlRole.PAGE or is_closed or (kind and not known.config.wants_type(kind)):
            return
        role = UrlRole.NEEDED_PAGE if state in (UrlState.PENDING, UrlState.HANDED_OUT) else UrlRole.PAGE
        self.count_unkept(key, state, -1)
        self._set_role(known, key, state, UrlRole.REQUISITE, role)
        self._db.update_url(key, "depth = ?, redirects = ?", offer.depth, offer.redirects)
        if state == UrlState.PENDING:
            (in_links,) = self._db.url("in_links", key)
            self.page_replacement.add(known, False, in_links, key)
        if role == UrlRole.PAGE:
            self._db.update_url(key, "state = 0, attempts = 0, blamed = 0, etag = NULL, last_modified = NULL")
            self._counters.move(key[1], state, UrlState.PENDING)
            self.requeue_counted(known, key, batch.queued)

    def turn_into_requisite(self, known: LoadedCollection, key: UrlKey, state: int, queued: Queued) -> None:
        """A URL that is not kept as a page is fetched as a requisite; it is in no queue."""
        self.count_unkept(key, state, -1)
        (role,) = self._db.url("role", key)
        self._set_role(known, key, state, role, UrlRole.REQUISITE)
        self._db.update_url(
            key, "state = 0, redirects = 0, attempts = 0, blamed = 0, etag = NULL, last_modified = NULL"
        )
        self._counters.move(key[1], state, UrlState.PENDING, UrlRole.REQUISITE)
        self.requeue_counted(known, key, queued)

    def _queue_need(self, known: LoadedCollection, key: UrlKey, state: int, queued: Queued) -> None:
        self.count_unkept(key, state, -1)
        self._db.update_url(key, "state = 0, attempts = 0, blamed = 0")
        self._counters.move(key[1], state, UrlState.PENDING, UrlRole.REQUISITE)
        self.requeue_counted(known, key, queued)

    def _set_role(self, known: LoadedCollection, key: UrlKey, state: int, before: int, after: UrlRole) -> None:
        """Give a URL another role, and the place in its queue that belongs to it."""
        facts = self._db.url(RANK_COLUMNS, key)
        if state == UrlState.PENDING and UrlRole.REQUISITE in (before, after):
            self._rerank(known, key, facts, (*facts[:4], int(after)))
        self._db.update_url(key, "role = ?", int(after))
        self._counters.count_role(key[1], state, before, after)

    def seed(self, collection: int, roots: Sequence[DiscoveredUrl]) -> None:
        """Add roots. A root that was visited at a greater depth is fetched again, and whole: only then does the graph
        learn about it and its links."""
        known, queued = self._collections.by_id(collection), Queued()
        self._db.prefetch("url", [(root.host, collection, root.id) for root in roots])
        for root in roots:
            key = (root.host, collection, root.id)
            depth, run, state = self._db.find_url("depth, run, state", key) or (0, 0, 0)
            if depth > 0 and run == known.run and state in (UrlState.FETCHED, UrlState.DROPPED):
                self._db.update_url(key, "depth = 0")
                self.page_replacement.depth_changed(known, key)
                self._fetch_whole(known, key, state, queued)
        self.add_pending(collection, queued)
        for root in roots:  # a root is never refused, however many hosts its site has
            self._ensure_host(known, root)
            self._db.run("UPDATE work SET refused = 0 WHERE host = ? AND collection = ?", (root.host, collection))
        self.discover(collection, roots)

    def refetch(self, known: LoadedCollection, host: HostId, url: UrlId) -> None:
        """Fetch a URL whole once more, because its content is lost."""
        key, queued = (host, known.row.id, url), Queued()
        (state,) = self._db.find_url("state", key) or (None,)
        if state in (UrlState.FETCHED, UrlState.DROPPED):
            self._db.update_url(key, "payload = ''")
            self._fetch_whole(known, key, state, queued)
            self.add_pending(known.row.id, queued)

    def _fetch_whole(self, known: LoadedCollection, key: UrlKey, state: int, queued: Queued) -> None:
        self._db.update_url(key, "state = 0, etag = NULL, last_modified = NULL")
        (in_links,) = self._db.url("in_links", key)
        self.page_replacement.remove(known, True, in_links, key)
        self.revisits.drop_page(known, key)
        self.requeue(known, key, state, queued)

    def _insert(self, known: LoadedCollection, new: Sequence[tuple[int, DiscoveredUrl]], batch: _Discovery) -> None:
        """Insert unknown URLs, with their sequence numbers. A linked URL begins with one in-link: then the first weight
        of most URLs changes nothing. Where more than the row depends on in-links, URLs begin with none."""
        number, now, counts_links = known.row.id, self._clock.now(), not known.watches_in_links
        states = [self._first_state(known, offer, batch) for _, offer in new]
        self._db.many(
            "INSERT INTO url (host, collection, id, url, depth, redirects, state, status, sequence, discovered,"
            " role, announced, parent, run, in_links) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (offer.host, number, offer.id, offer.url, offer.depth, offer.redirects, int(state), status or None,
                 sequence, now, offer.role, offer.announced or None, offer.parent or None, known.run,
                 int(offer.is_linked and counts_links))
                for (sequence, offer), (state, status) in zip(new, states, strict=True)
            ],
        )  # fmt: skip
        self._counters.add(number, Bucket.KNOWN, len(new))
        for (state, status), count in Counter(states).items():
            self._counters.add(number, Bucket.state(state), count)
            self._counters.count_unkept(number, state, status, UrlRole.PAGE, count)
            if status:
                self._counters.add_refused(number, status, count)
        if known.config.is_faithful:
            for (_, offer), (state, _) in zip(new, states, strict=True):
                self._counters.count_role(number, state, UrlRole.PAGE, offer.role)
        pending = [one for one, (state, _) in zip(new, states, strict=True) if state == UrlState.PENDING]
        self._enqueue_new(known, pending, batch.queued)

    def _enqueue_new(self, known: LoadedCollection, new: Sequence[tuple[int, DiscoveredUrl]], queued: Queued) -> None:
        number, rank = known.row.id, known.order.rank
        self._db.many(
            "INSERT INTO pending VALUES (?, ?, ?, ?)",
            [
                (offer.host, number, rank(offer.url, sequence, offer.id, 0, 0, offer.role), offer.id)
                for sequence, offer in new
            ],
        )
        for _, offer in new:
            queued[offer.host] = queued.get(offer.host, 0) + 1
        for _, offer in new if known.config.replaces_pages else ():
            self.page_replacement.add(known, False, 0, (offer.host, number, offer.id))

    def _first_state(self, known: LoadedCollection, offer: DiscoveredUrl, batch: _Discovery) -> tuple[UrlState, int]:
        """State of a URL that this run finds for the first time, and the status for which it is not pending."""
        limit, closed = known.config.scope.depth_max, batch.closed[offer.host]
        if offer.role == REQUISITE:  # the limits of pages do not hold for it
            limit, closed = None, 0 if closed == Status.HOST_FULL else closed
        if limit is not None and offer.depth > limit:
            return UrlState.TOO_DEEP, 0
        status = offer.status or closed
        if not status:
            return UrlState.PENDING, 0
        return UrlState.FAILED if status in GIVEN_UP else UrlState.DROPPED, status

    def _closed_statuses(self, known: LoadedCollection, offers: Sequence[DiscoveredUrl]) -> dict[HostId, int]:
        """`closed_status` of the hosts of these URLs, which get their rows if they are new."""
        number, by_host = known.row.id, {offer.host: offer for offer in offers}
        keys = [(host, number) for host in sorted(by_host)]
        if known.run > 1:  # visits to a host are counted anew in each run
            self._db.many(
                "UPDATE work SET visited = 0, run = ? WHERE host = ? AND collection = ? AND run < ?",
                [(known.run, *key, known.run) for key in keys],
            )
        facts = {row[0]: row[1:] for row in self._db.many_rows(CLOSED_SQL, keys)}
        new = [key for key in keys if key[0] not in facts]
        for host, _ in new:
            self._ensure_host(known, by_host[host])
        facts |= {row[0]: row[1:] for row in self._db.many_rows(CLOSED_SQL, new)}
        now = self._clock.now()
        return {host: _closed_status(known, now, *facts[host]) for host in by_host}

    def closed_status(self, known: LoadedCollection, host: HostId) -> int:
        """The status for which no new URL of this host is pending; 0: new URLs are."""
        _, *facts = self._db.required_row(CLOSED_SQL, (host, known.row.id))
        return _closed_status(known, self._clock.now(), *facts)

    def _rediscover(self, known: LoadedCollection, offer: DiscoveredUrl, sequence: int, batch: _Discovery) -> None:
        """A link of this run leads to a URL of an earlier run: it is like a new URL, except for its history.

        A URL that is handed out stays so. A kept page is pending, even if it would be refused now: only its visit tells
        the followers to drop the page. Where its host is closed, it stays as it is.
        """
        number, key = known.row.id, (offer.host, known.row.id, offer.id)
        state, shown, run, role, announced, in_links, status = self._db.url(
            "state, shown, run, role, announced, in_links, status", key
        )
        is_revisit_out = self.revisits.end_former_revisit(known, key)
        self._counters.add(number, Bucket.REVISITS_OUT, -int(is_revisit_out))
        is_kept = state == UrlState.FETCHED or shown != UNSHOWN or is_revisit_out
        if is_kept:
            after, why = UrlState.FETCHED if batch.closed[offer.host] else UrlState.PENDING, 0
        else:
            after, why = self._first_state(known, offer, batch)
            if why:
                self._counters.add_refused(number, why)
        if state == UrlState.HANDED_OUT:
            after, why = UrlState.HANDED_OUT, 0
        elif state == UrlState.PENDING:
            self.dequeue(known, key)
            self._counters.add(number, Bucket.LEFT_OVER, -int(run < known.run))
            if after != UrlState.PENDING:
                with self._ready.suspended(offer.host):
                    self.change_pending(known, offer.host, -1)
        elif state == UrlState.FETCHED:
            self._counters.add(number, Bucket.OLD_PAGES, -1)
        is_waiting = after in (UrlState.PENDING, UrlState.HANDED_OUT)
        now_shown = SHOWN if is_kept and is_waiting else UNSHOWN
        self._counters.add(number, Bucket.SHOWN_PAGES, (now_shown != UNSHOWN) - (shown != UNSHOWN))
        self._counters.count_unkept(number, state, status, role, -1)
        before_role, role = role, _role_of_run(role, offer.role, is_kept=is_kept)
        self._counters.count_role(number, state, before_role, role)
        self._counters.count_unkept(number, after, why or status, role, 1)
        self._db.update_url(
            key,
            "depth = ?, redirects = ?, state = ?, status = ?, sequence = ?, role = ?, announced = ?, parent = ?,"
            " run = ?, shown = ?, attempts = 0, blamed = 0",
            offer.depth, offer.redirects, int(after), why or status, sequence, role,
            max(offer.announced, announced or 0.0) or None, offer.parent or None, known.run, now_shown,
        )  # fmt: skip
        self.page_replacement.depth_changed(known, key)
        self._counters.move(number, state, after, role)
        if after == UrlState.PENDING:
            counted = Queued() if state == UrlState.PENDING else batch.queued  # it was counted as pending before
            self.enqueue(known, key, (offer.url, sequence, in_links, 0, role), counted)

    # -- hosts and sites --------------------------------------------------------------------------------------

    def _ensure_host(self, known: LoadedCollection, offer: DiscoveredUrl) -> None:
        self.ensure_host_row(offer.host, offer.host_key, known.config.network.suffixes)
        if self._db.run(
            "INSERT OR IGNORE INTO work (host, collection, pending, gate, favoured, run) VALUES (?, ?, 0, ?, ?, ?)",
            (offer.host, known.row.id, *self.gate_of(known, offer.url), known.run),
        ):
            self._counters.add(known.row.id, Bucket.HOSTS)
            self.admit_host(known, offer.host)

    @staticmethod
    def gate_of(known: LoadedCollection, url: str) -> tuple[int, bool]:
        """Gate of a new host, and whether it is favoured."""
        return CLOSED if known.order.is_breadth else OPEN, known.order.favours(url)

    def admit_host(self, known: LoadedCollection, host: HostId) -> None:
        """Count the host among the visited hosts of its site, or refuse it: a wildcard in the DNS has no end."""
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
        site = self.site_of(key, extra)
        self._db.run("INSERT OR IGNORE INTO host (id, key, site) VALUES (?, ?, ?)", (host, key, site))

    def site_of(self, key: str, extra: tuple[str, ...] = ()) -> str:
        """The site of a host, by the public suffix list that the frontier was created with."""
        if extra not in self._suffixes:
            self._suffixes[extra] = PublicSuffixes(self._suffix_text, extra)
        return self._suffixes[extra].site(key.partition("://")[2].rpartition(":")[0])

    # -- queues -----------------------------------------------------------------------------------------------

    def requeue(self, known: LoadedCollection, key: UrlKey, before: int, queued: Queued) -> None:
        """Queue a known URL again; its row has the state PENDING already, and `before` is its former state."""
        (role,) = self._db.url("role", key)
        self.count_unkept(key, before, -1)
        self._counters.move(known.row.id, before, UrlState.PENDING, role)
        self.requeue_counted(known, key, queued)

    def count_unkept(self, key: UrlKey, state: int, delta: int) -> None:
        """Count a URL that gets or leaves this state, if it is then settled and not kept; its row has its status."""
        if state in UNKEPT_STATES:
            status, role = self._db.url("status, role", key)
            self._counters.count_unkept(key[1], state, status, role, delta)

    def requeue_counted(self, known: LoadedCollection, key: UrlKey, queued: Queued) -> None:
        """Queue a URL again that is counted as pending."""
        shown, run, *facts = self._db.url(f"shown, run, {RANK_COLUMNS}", key)
        self._counters.add(known.row.id, Bucket.LEFT_OVER, int(run < known.run))
        if shown == SWEPT:
            self._db.run("INSERT INTO pending VALUES (?, ?, ?, ?)", (key[0], key[1], SWEPT_RANK, key[2]))
            queued[key[0]] = queued.get(key[0], 0) + 1
        else:
            self.enqueue(known, key, tuple(facts), queued)

    def enqueue(self, known: LoadedCollection, key: UrlKey, facts: tuple[Any, ...], queued: Queued) -> None:
        """`facts` are the RANK_COLUMNS."""
        host, number, url = key
        self._db.run("INSERT INTO pending VALUES (?, ?, ?, ?)", (host, number, rank_of(known, url, facts), url))
        self.page_replacement.add(known, False, facts[2], key)
        queued[host] = queued.get(host, 0) + 1

    def dequeue(self, known: LoadedCollection, key: UrlKey) -> None:
        """Take a pending URL out of its host's queue; it is still counted in `work`."""
        host, number, url = key
        shown, *facts = self._db.url(f"shown, {RANK_COLUMNS}", key)
        rank = SWEPT_RANK if shown == SWEPT else rank_of(known, url, tuple(facts))
        self._db.prefetch("pending", [(host, number, rank, url)])
        self._db.run(
            "DELETE FROM pending WHERE host = ? AND collection = ? AND rank = ? AND id = ?", (host, number, rank, url)
        )

    def _rerank(self, known: LoadedCollection, key: UrlKey, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        """Move a pending URL whose RANK_COLUMNS have changed."""
        place = (key[0], key[1], rank_of(known, key[2], before), key[2])
        self._db.prefetch("pending", [place])
        self._db.run(
            "UPDATE pending SET rank = ? WHERE host = ? AND collection = ? AND rank = ? AND id = ?",
            (rank_of(known, key[2], after), *place),
        )

    def change_pending(self, known: LoadedCollection, host: HostId, count: int) -> None:
        self._db.run(CHANGE_PENDING, (count, host, known.row.id))

    def add_pending(self, number: int, queued: Queued) -> None:
        """Count the queued URLs. A host that had none, and that no worker holds, becomes ready."""
        added = sorted((host, count) for host, count in queued.items() if count)
        if not added:
            return
        known = self._collections.by_id(number)
        self._db.many(CHANGE_PENDING, [(count, host, number) for host, count in added])
        for host, count in added:
            self.breadth.urls_added(known, host, count)
        self._ready.add_new(number, [host for host, _ in added])

    # -- depth, weights and order -----------------------------------------------------------------------------

    def _lower(
        self, known: LoadedCollection, key: UrlKey, depth: int, redirects: int, state: int, queued: Queued
    ) -> None:
        """Set a smaller depth; a URL that was too deep may be pending now."""
        limit = known.config.scope.depth_max
        is_opened = state == UrlState.TOO_DEEP and (limit is None or depth <= limit)
        after = int(UrlState.PENDING) if is_opened else state
        self._db.update_url(key, "depth = ?, redirects = ?, state = ?", depth, redirects, after)
        if not depth:
            self.page_replacement.depth_changed(known, key)
        if is_opened:
            self.requeue(known, key, UrlState.TOO_DEEP, queued)

    def update_weights(self, known: LoadedCollection, weights: list[UrlWeight]) -> None:
        """Take absolute values from the link graph. Unknown URLs are out of scope, and are ignored."""
        number, queued, mentions = known.row.id, Queued(), dict[HostId, int]()
        ordered = sorted(weights, key=lambda one: (one.host, one.id))
        self._db.prefetch("url", [(weight.host, number, weight.id) for weight in ordered])
        if not known.watches_in_links:  # then most weights need no look at their row
            plain = [weight for weight in ordered if weight.depth < 0]
            self._db.many(SET_WEIGHT, [_weight_values(number, weight) for weight in plain])
            ordered = [weight for weight in ordered if weight.depth >= 0]
        for weight in ordered:
            self._update_weight(known, weight, queued, mentions)
        self.breadth.add_mentions(known, mentions)
        self.add_pending(number, queued)

    def _update_weight(
        self, known: LoadedCollection, weight: UrlWeight, queued: Queued, mentions: dict[HostId, int]
    ) -> None:
        key = (weight.host, known.row.id, weight.id)
        row = self._db.find_url(f"depth, redirects, state, pagerank, run, {RANK_COLUMNS}", key)
        if row is None:
            return
        depth, redirects, state, pagerank, run, url, sequence, in_links, attempts, role = row
        is_kept_fresh = known.config.keeps_fresh and role == UrlRole.PAGE
        if is_significant_rank_change(weight.rank, pagerank):
            self._db.update_url(key, "pagerank = ?", weight.rank)
            pagerank = weight.rank
            if is_kept_fresh:
                self.revisits.set_weight(known, key, weight.in_links, pagerank)
        if weight.in_links != in_links:
            self._db.update_url(key, "in_links = ?", weight.in_links)
            mentions[weight.host] = mentions.get(weight.host, 0) + weight.in_links - in_links
            self.page_replacement.set_in_links(known, in_links, weight.in_links, key)
            if is_kept_fresh:
                self.revisits.set_weight(known, key, weight.in_links, pagerank)
            if state == UrlState.PENDING and known.config.strategy.order == "backlinks":
                before = (url, sequence, in_links, attempts, role)
                self._rerank(known, key, before, (url, sequence, weight.in_links, attempts, role))
        if 0 <= weight.depth < depth and run == known.run:  # a URL of an earlier run has no depth until it is found
            self._lower(known, key, weight.depth, redirects, state, queued)

    def reorder(self, known: LoadedCollection, before: StrategyConfig) -> None:
        """Give every pending URL its rank in the new order. Scans the pending URLs."""
        number, old = known.row.id, order_of(before)
        rows = self._db.rows(
            "SELECT url.host, url.id, url, sequence, in_links, attempts, role"
            " FROM pending JOIN url USING (host, collection, id) WHERE pending.collection = ? AND shown != ?",
            (number, SWEPT),
        )
        moves = []
        for host, url, text, sequence, *facts in rows:
            new_rank, old_rank = (order.rank(text, sequence, url, *facts) for order in (known.order, old))
            moves.append((new_rank, host, number, old_rank, url))
        self._db.many("UPDATE pending SET rank = ? WHERE host = ? AND collection = ? AND rank = ? AND id = ?", moves)
        if before.favour != known.config.strategy.favour:
            self._update_favoured_hosts(known)
        self.breadth.apply_order_change(known, before.order)

    def _update_favoured_hosts(self, known: LoadedCollection) -> None:
        """Scans the hosts of the collection."""
        hosts = self._db.rows("SELECT id, key FROM work JOIN host ON id = host WHERE collection = ?", (known.row.id,))
        self._db.many(
            "UPDATE work SET favoured = ? WHERE host = ? AND collection = ?",
            [(known.order.favours(f"{key}/"), host, known.row.id) for host, key in hosts],
        )
        self._ready.rebuild_new(known.row.id)


def _closed_status(
    known: LoadedCollection, now: float, failures: int, next_at: float, visited: int, refused: int
) -> int:
    if refused or visited >= known.config.scope.host_pages_max:
        return Status.HOST_FULL
    if known.is_given_up(failures) and next_at > now:
        return Status.HOST_GIVEN_UP  # it failed too often, and its back-off is not over
    return 0


def _role_of_run(before: int, offered: int, *, is_kept: bool) -> int:
    """The role of a URL of an earlier run that this run has found."""
    is_listing = before in LISTING_ROLES and offered in (UrlRole.PAGE, UrlRole.REQUISITE)
    return before if is_kept or is_listing else offered


def _was_swept(state: int, status: int | None, shown: int) -> bool:
    """Whether this run has judged the page as not found."""
    if state == UrlState.DROPPED:
        return status == Status.NOT_FOUND_AGAIN
    return shown == SWEPT


def _weight_values(number: int, weight: UrlWeight) -> tuple[Any, ...]:
    """The values of SET_WEIGHT."""
    return weight.in_links, weight.host, number, weight.id, *similar_ranks(weight.rank), weight.rank


def rank_of(known: LoadedCollection, url: UrlId, facts: tuple[Any, ...]) -> float:
    """Rank of a URL in its host's queue; `facts` are the RANK_COLUMNS."""
    text, sequence, in_links, attempts, role = facts
    return known.order.rank(text, sequence, url, in_links, attempts, role)
