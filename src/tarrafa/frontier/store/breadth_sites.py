"""Sites of the `breadth` order: table of sites by mentions, choice of sites, and one page of a site after the other.

The rows for `ordering.py`: each site's own row in `site`, and the gates of its hosts in `work`. New URLs
of a host with a closed gate are not handed out. A site with a running site session has one gate that is not closed:
that of the host of its best pending URL (OPEN), or of the host whose visit is handed out (OUT). So the pages of a site
are visited one after the other, whichever hosts they are on and whichever worker holds them.

Promises: a change of a URL touches the row of its own site only, by its key; other hosts of that site are read when a
session takes a step. Other sites are read only by `choose_sites`, through an index. Mentions are exact: the sum of the
in-links of a site's URLs. Other orders maintain none of this; a collection that changes its order is read once as a
whole.
"""

from typing import NamedTuple

from tarrafa.frontier import ordering
from tarrafa.frontier.messages import SiteFacts
from tarrafa.frontier.ordering import FRUITLESS_VISITS_MAX, SiteStage
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import CLOSED, OPEN, OUT
from tarrafa.model import HostId, Outcome, UrlId, UrlState

SITE_OF = "(SELECT site FROM host WHERE id = ?)"
MOST_MENTIONED = "stage = ? ORDER BY mentions DESC, best, name LIMIT ?"
EXCHANGED_MAX, MOVED_MAX = 1_000, 10_000  # at once; the most mentioned come in first
LEAST_MENTIONED = "stage = ? ORDER BY mentions, best DESC, name DESC LIMIT ?"


class BreadthSite(NamedTuple):
    """A site's row."""

    name: str
    stage: int
    mentions: int
    best: float | None  # the rank of its best URL
    host: HostId | None
    url: UrlId | None
    walked: int
    vain: int
    links: int


COLUMNS = ", ".join(BreadthSite._fields)


class BreadthSites:
    """The sites of one frontier."""

    def __init__(self, context: StoreContext) -> None:
        self._db, self._counters, self._ready = context.db, context.counters, context.ready
        self._clock = context.clock

    # -- changes of URLs --------------------------------------------------------------------------------------

    def urls_added(self, known: LoadedCollection, host: HostId, added: int) -> None:
        """`added` more URLs of a host are pending."""
        if not known.order.is_breadth:
            return
        site = self._site(known, host)
        if site.stage == SiteStage.OVER:
            self._counters.add(known.row.id, Bucket.PASSED_OVER, added)
        if site.stage >= SiteStage.CHOSEN:
            return
        # In a row cache too: a row that is not at hand is no better than the best that the site's row names.
        place, url = self._db.required_row(
            "SELECT rank, id FROM pending WHERE host = ? AND collection = ? ORDER BY rank, id LIMIT 1",
            (host, known.row.id),
        )
        if site.best is None or (place, host) < (site.best, site.host):
            self._set_best_url(known, site.name, (place, host, url))
        if site.stage == SiteStage.UNHEARD:
            self._set_stage(known, site, SiteStage.HEARD)

    def urls_removed(self, known: LoadedCollection, host: HostId, count: int) -> None:
        """`count` URLs of a host are no longer pending, and its site session did not take them."""
        if not known.order.is_breadth or not count:
            return
        site = self._site(known, host)
        if site.stage == SiteStage.OVER:
            self._counters.add(known.row.id, Bucket.PASSED_OVER, -count)
        self._update_site(known, site)

    def rank_changed(self, known: LoadedCollection, host: HostId) -> None:
        """A pending URL of a host has another rank now."""
        if known.order.is_breadth:
            self._update_site(known, self._site(known, host))

    def _update_site(self, known: LoadedCollection, site: BreadthSite) -> None:
        self._db.acquire_walks(known.row.id, [site.name])
        if site.stage < SiteStage.CHOSEN:
            self._update_best_url(known, site)
        elif site.stage == SiteStage.CHOSEN and self._gate(known, site.host) == OPEN:
            self._continue_walk(known, site)

    def add_mentions(self, known: LoadedCollection, mentions: dict[HostId, int]) -> None:
        """Add the changes of the in-links of the hosts' URLs."""
        if known.order.is_breadth:
            for host in mentions:
                self._db.acquire_site(known.row.id, host)
            self._db.many(
                f"UPDATE site SET mentions = mentions + ? WHERE collection = ? AND name = {SITE_OF}",  # noqa: S608
                [(by, known.row.id, host) for host, by in sorted(mentions.items()) if by],
            )

    # -- a walk -----------------------------------------------------------------------------------------------

    def new_visits_allowed(self, known: LoadedCollection, host: HostId, count: int) -> int:
        """How many of `count` new URLs of a host may be handed out."""
        if not known.order.is_breadth:
            return count
        return min(count, 1) if self._gate(known, host) == OPEN else 0

    def visit_handed_out(self, known: LoadedCollection, host: HostId, url: UrlId) -> None:
        if known.order.is_breadth:
            self._set_gate(known, host, OUT)
            site = self._site(known, host)
            self._set_best_url(known, site.name, (site.best, host, url))

    def is_walk_visit(self, known: LoadedCollection, host: HostId, url: UrlId) -> bool:
        """Whether the session with the URL's site waits for this visit."""
        if not known.order.is_breadth or self._gate(known, host) != OUT:
            return False
        site = self._site(known, host)
        return (site.host, site.url) == (host, url)

    def visit_returned(self, known: LoadedCollection, host: HostId) -> None:
        """The visit was not made: its URL is pending again."""
        self._set_gate(known, host, OPEN)
        self._continue_walk(known, self._site(known, host))

    def visit_finished(self, known: LoadedCollection, host: HostId, outcome: Outcome, again: bool) -> None:
        """A visit of the session is over; `again`: its URL is tried once more, so that this visit counts for
        nothing."""
        self._set_gate(known, host, OPEN)
        site = self._site(known, host)
        if (outcome.kept or outcome.content_id) and not outcome.location:
            site = site._replace(walked=site.walked + 1, links=outcome.external)
            ends = not ordering.continues_walk(site.walked, site.links)
        else:
            site = site._replace(vain=site.vain + (not again))
            ends = site.vain >= FRUITLESS_VISITS_MAX
        self._update(known, site.name, "walked = ?, vain = ?, links = ?", site.walked, site.vain, site.links)
        if ends:
            self._end_walk(known, site)
        else:
            self._continue_walk(known, site)

    def _continue_walk(self, known: LoadedCollection, site: BreadthSite) -> None:
        """Open the gate of the host with the best pending URL of the site; without one the session is over."""
        best = self._best(known, site.name)
        if best is None:
            self._end_walk(known, site)
            return
        if site.host is not None and site.host != best[1]:
            self._set_gate(known, site.host, CLOSED)
        self._set_best_url(known, site.name, best)
        self._set_gate(known, best[1], OPEN)

    def _end_walk(self, known: LoadedCollection, site: BreadthSite) -> None:
        if site.host is not None:
            self._set_gate(known, site.host, CLOSED)
        self._set_best_url(known, site.name, (None, None, None))
        self._set_stage(known, site, SiteStage.OVER)
        self._counters.add(known.row.id, Bucket.PASSED_OVER, self._count_pending(known, site.name))

    # -- the table --------------------------------------------------------------------------------------------

    def is_cycle_due(self, known: LoadedCollection) -> bool:
        return ordering.is_cycle_due(self._under_way(known), known.config.strategy.cycle)

    def choose_sites(self, known: LoadedCollection) -> None:
        """Update the table, and choose from it."""
        number, cycle = known.row.id, known.config.strategy.cycle
        self._db.acquire_site_table(number, self._room(known), cycle, EXCHANGED_MAX)
        self._fill(known)
        self._exchange(known)
        sites = self._sites(known, MOST_MENTIONED, int(SiteStage.LISTED), cycle)
        self._db.acquire_walks(number, [site.name for site in sites])
        for site in sites:
            self._set_stage(known, site, SiteStage.CHOSEN)
            self._counters.add(number, Bucket.SITES_CHOSEN)
            self._update(known, site.name, "walked = 0, vain = 0, links = 0")
            self._continue_walk(known, site._replace(stage=SiteStage.CHOSEN))
        self._fill(known, len(sites))

    def _under_way(self, known: LoadedCollection) -> int:
        """The number of new URLs that are handed out, or could be now: sites that wait for a delay or in back-off hold
        up no cycle."""
        number, cycle = known.row.id, known.config.strategy.cycle
        out = self._counters.state(number, UrlState.HANDED_OUT) - self._counters.value(number, Bucket.REVISITS_OUT)
        return out + self._ready.count_new(number, self._clock.now(), cycle)

    def _room(self, known: LoadedCollection, most: int = MOVED_MAX) -> int:
        """How many sites may enter the table at once; negative: how many must leave it."""
        room = known.config.strategy.table_max - self._counters.value(known.row.id, Bucket.TABLE_SITES)
        return max(-most, min(room, most))

    def _fill(self, known: LoadedCollection, most: int = MOVED_MAX) -> int:
        """While there is room, the most mentioned sites outside enter the table; if it is too full, the least mentioned
        leave it. Returns how many moved."""
        room = self._room(known, most)
        if room > 0:
            before, after, order = SiteStage.HEARD, SiteStage.LISTED, MOST_MENTIONED
        else:
            before, after, order = SiteStage.LISTED, SiteStage.HEARD, LEAST_MENTIONED
        sites = self._sites(known, order, int(before), abs(room))
        for site in sites:
            self._set_stage(known, site, after)
        return len(sites)

    def _exchange(self, known: LoadedCollection) -> None:
        """Sites outside the table replace less mentioned sites in it."""
        for _ in range(EXCHANGED_MAX):
            outside = self._sites(known, MOST_MENTIONED, int(SiteStage.HEARD), 1)
            inside = self._sites(known, LEAST_MENTIONED, int(SiteStage.LISTED), 1)
            if not outside or not inside or outside[0].mentions <= inside[0].mentions:
                return
            self._set_stage(known, inside[0], SiteStage.HEARD)
            self._set_stage(known, outside[0], SiteStage.LISTED)

    # -- all sites --------------------------------------------------------------------------------------------

    def begin_order_change(self, known: LoadedCollection, before: str) -> None:
        """Counters of sites begin at 0 again when the order becomes, or ceases to be, breadth."""
        if known.order.is_breadth != (before == "breadth"):
            self._counters.reset(known.row.id, Bucket.TABLE_SITES, Bucket.PASSED_OVER, Bucket.SITES_CHOSEN)

    def apply_order_change(self, known: LoadedCollection, before: str) -> None:
        """Classify the sites that are at hand anew, or no longer. Scans them.

        A site with a visited or handed-out URL counts as a site whose session is over.
        """
        number = known.row.id
        if known.order.is_breadth and before == "breadth":
            for stage in (SiteStage.HEARD, SiteStage.LISTED):
                for site in self._sites(known, "stage = ?", int(stage)):
                    self._update_best_url(known, site)
        if known.order.is_breadth == (before == "breadth"):
            return
        self._forget(known, CLOSED if known.order.is_breadth else OPEN)
        if known.order.is_breadth:
            self._db.run(
                "UPDATE site SET mentions = (SELECT coalesce(sum(in_links), 0) FROM host JOIN url ON url.host = host.id"
                " AND url.collection = site.collection WHERE host.site = site.name) WHERE collection = ?",
                (number,),
            )
            for site in self._sites(known, "1"):
                self._classify_site(known, site)
        self._ready.rebuild_new(number)

    def end_order_change(self, known: LoadedCollection, before: str) -> None:
        """A smaller maximum of the table holds at once."""
        moved = int(known.order.is_breadth and before == "breadth")
        while moved:
            self._db.acquire_site_table(known.row.id, self._room(known), 0, 0)
            moved = self._fill(known)

    def _forget(self, known: LoadedCollection, gate: int) -> None:
        number = known.row.id
        self._db.run("UPDATE work SET gate = ? WHERE collection = ?", (gate, number))
        self._db.run(
            "UPDATE site SET stage = 0, mentions = 0, best = NULL, host = NULL, url = NULL, walked = 0, vain = 0,"
            " links = 0 WHERE collection = ?",
            (number,),
        )

    def _classify_site(self, known: LoadedCollection, site: BreadthSite) -> None:
        visited = self._db.value(
            "SELECT 1 FROM host JOIN work ON work.host = host.id AND work.collection = ? WHERE host.site = ?"
            " AND (visited > 0 OR EXISTS (SELECT 1 FROM handed WHERE handed.host = work.host"
            " AND handed.collection = work.collection)) LIMIT 1",
            (known.row.id, site.name),
        )
        if visited is not None:
            self._end_walk(known, site)
        else:
            self._update_best_url(known, site)

    def is_over(self, known: LoadedCollection) -> bool:
        """Whether no URL is handed out, and none is pending except those that are passed over."""
        number = known.row.id
        passed_over = self._counters.value(number, Bucket.PASSED_OVER)
        is_idle = not self._counters.state(number, UrlState.HANDED_OUT)
        return is_idle and self._counters.state(number, UrlState.PENDING) == passed_over

    def restart(self, known: LoadedCollection) -> None:
        """A collection whose run is over is started again: every site that is at hand may be chosen again."""
        if known.order.is_breadth:
            for site in self._sites(known, "stage = ?", int(SiteStage.OVER)):
                self._counters.add(known.row.id, Bucket.PASSED_OVER, -self._count_pending(known, site.name))
                self._set_stage(known, site, SiteStage.UNHEARD)
                self._update_best_url(known, site._replace(stage=SiteStage.UNHEARD))

    # -- rows -------------------------------------------------------------------------------------------------

    def site_facts(self, known: LoadedCollection, host: HostId) -> SiteFacts | None:
        if not known.order.is_breadth:
            return None
        self._db.prefetch("site", self._db.rows("SELECT ?, site FROM host WHERE id = ?", (known.row.id, host)))
        site = self._site(known, host)
        best = None
        if site.host is not None and site.url is not None:
            key = (site.host, known.row.id, site.url)
            self._db.prefetch("url", [key])
            best = self._db.find_url("url", key)
        stage = SiteStage(site.stage).name.lower()
        in_table = self._counters.value(known.row.id, Bucket.TABLE_SITES)
        url = best[0] if best else ""
        return SiteFacts(site.name, stage, site.mentions, url, site.walked, site.links, site.vain, in_table)

    def _sites(self, known: LoadedCollection, condition: str, *values: int | str) -> list[BreadthSite]:
        rows = self._db.rows(
            f"SELECT {COLUMNS} FROM site WHERE collection = ? AND {condition}",  # noqa: S608 (names of our own)
            (known.row.id, *values),
        )
        return [BreadthSite._make(row) for row in rows]

    def _site(self, known: LoadedCollection, host: HostId) -> BreadthSite:
        self._db.acquire_site(known.row.id, host)
        return self._sites(known, f"name = {SITE_OF}", host)[0]

    def _update(self, known: LoadedCollection, name: str, assignments: str, *values: float | bytes | None) -> None:
        self._db.run(
            f"UPDATE site SET {assignments} WHERE collection = ? AND name = ?",  # noqa: S608 (names of our own)
            (*values, known.row.id, name),
        )

    def _set_stage(self, known: LoadedCollection, site: BreadthSite, stage: SiteStage) -> None:
        entered = (stage == SiteStage.LISTED) - (site.stage == SiteStage.LISTED)
        self._counters.add(known.row.id, Bucket.TABLE_SITES, entered)
        self._update(known, site.name, "stage = ?", int(stage))

    def _set_best_url(
        self, known: LoadedCollection, name: str, best: tuple[float | None, HostId | None, UrlId | None]
    ) -> None:
        self._update(known, name, "best = ?, host = ?, url = ?", *best)

    def _update_best_url(self, known: LoadedCollection, site: BreadthSite) -> None:
        """Find the best URL of a site that was not chosen; without one it leaves the table."""
        best = self._best(known, site.name)
        self._set_best_url(known, site.name, best or (None, None, None))
        if best is None:
            self._set_stage(known, site, SiteStage.UNHEARD)
        elif site.stage == SiteStage.UNHEARD:
            self._set_stage(known, site, SiteStage.HEARD)

    def _best(self, known: LoadedCollection, name: str) -> tuple[float, HostId, UrlId] | None:
        """The best pending URL of a site, from the heads of its hosts' queues."""
        self._db.acquire_walks(known.row.id, [name])
        row = self._db.row(
            "SELECT (SELECT min(rank) FROM pending WHERE pending.host = work.host"
            " AND pending.collection = work.collection) AS head, work.host FROM host"
            " JOIN work ON work.host = host.id AND work.collection = ? WHERE site = ? AND head IS NOT NULL"
            " ORDER BY 1, 2 LIMIT 1",
            (known.row.id, name),
        )
        if row is None:
            return None
        url: UrlId = self._db.value(
            "SELECT id FROM pending WHERE host = ? AND collection = ? AND rank = ? ORDER BY id LIMIT 1",
            (row[1], known.row.id, row[0]),
        )
        return row[0], row[1], url

    def _count_pending(self, known: LoadedCollection, name: str) -> int:
        self._db.acquire_walks(known.row.id, [name])
        return int(
            self._db.value(
                "SELECT coalesce(sum(pending), 0) FROM host JOIN work ON work.host = host.id AND work.collection = ?"
                " WHERE site = ?",
                (known.row.id, name),
            )
        )

    def _gate(self, known: LoadedCollection, host: HostId | None) -> int:
        return int(
            self._db.value("SELECT gate FROM work WHERE host = ? AND collection = ?", (host, known.row.id)) or CLOSED
        )

    def _set_gate(self, known: LoadedCollection, host: HostId, gate: int) -> None:
        if self._gate(known, host) != gate:
            with self._ready.suspended(host):
                self._db.run("UPDATE work SET gate = ? WHERE host = ? AND collection = ?", (gate, host, known.row.id))
