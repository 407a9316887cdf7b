"""Sites of the `breadth` order: keeps the table of sites by mentions, chooses sites, and walks through them.

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

from tarrafa.clock import Clock
from tarrafa.frontier import ordering
from tarrafa.frontier.messages import SiteFacts
from tarrafa.frontier.ordering import FRUITLESS_VISITS_MAX, SiteStage
from tarrafa.frontier.store.collections import LoadedCollection
from tarrafa.frontier.store.counters import PASSED_OVER, REVISITS_OUT, SITES_CHOSEN, TABLE_SITES, Counters, state_bucket
from tarrafa.frontier.store.database import CLOSED, OPEN, OUT, FrontierDatabase
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.model import HostId, Outcome, UrlId, UrlState

SITE_OF = "(SELECT site FROM host WHERE id = ?)"
MOST_MENTIONED = "ORDER BY mentions DESC, best, name LIMIT ?"
EXCHANGED_MAX, MOVED_MAX = 1_000, 10_000  # at once; the most mentioned come in first
LEAST_MENTIONED = "ORDER BY mentions, best DESC, name DESC LIMIT ?"


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

    def __init__(self, db: FrontierDatabase, counters: Counters, ready: ReadyQueue, clock: Clock) -> None:
        self._db, self._counters, self._ready, self._clock = db, counters, ready, clock

    # -- what happens to URLs ---------------------------------------------------------------------------------

    def urls_added(self, known: LoadedCollection, host: HostId, added: int) -> None:
        """So many more URLs of a host wait."""
        if not known.order.is_breadth:
            return
        site = self._site(known, host)
        if site.stage == SiteStage.OVER:
            self._counters.add(known.row.id, PASSED_OVER, added)
        if site.stage >= SiteStage.CHOSEN:
            return
        # In a row cache too: what is not at hand is no better than the best that the row names.
        place, url = self._db.required_row(
            "SELECT rank, id FROM pending WHERE host = ? AND collection = ? ORDER BY rank, id LIMIT 1",
            (host, known.row.id),
        )
        if site.best is None or (place, host) < (site.best, site.host):
            self._set_best_url(known, site.name, (place, host, url))
        if site.stage == SiteStage.UNHEARD:
            self._set_stage(known, site, SiteStage.HEARD)

    def urls_removed(self, known: LoadedCollection, host: HostId, count: int) -> None:
        """So many URLs of a host wait no longer, and it was no walk that took them."""
        if not known.order.is_breadth or not count:
            return
        site = self._site(known, host)
        if site.stage == SiteStage.OVER:
            self._counters.add(known.row.id, PASSED_OVER, -count)
        self._update_site(known, site)

    def rank_changed(self, known: LoadedCollection, host: HostId) -> None:
        """Something that waits on a host has another rank now."""
        if known.order.is_breadth:
            self._update_site(known, self._site(known, host))

    def _update_site(self, known: LoadedCollection, site: BreadthSite) -> None:
        self._db.acquire_walks(known.row.id, [site.name])
        if site.stage < SiteStage.CHOSEN:
            self._update_best_url(known, site)
        elif site.stage == SiteStage.CHOSEN and self._gate(known, site.host) == OPEN:
            self._continue_walk(known, site)

    def add_mentions(self, known: LoadedCollection, mentions: dict[HostId, int]) -> None:
        """By how much the in-links of the hosts' URLs have changed."""
        if known.order.is_breadth:
            for host in mentions:
                self._db.acquire_site(known.row.id, host)
            self._db.many(
                f"UPDATE site SET mentions = mentions + ? WHERE collection = ? AND name = {SITE_OF}",  # noqa: S608
                [(by, known.row.id, host) for host, by in sorted(mentions.items()) if by],
            )

    # -- a walk -----------------------------------------------------------------------------------------------

    def new_visits_allowed(self, known: LoadedCollection, host: HostId, count: int) -> int:
        """How many of so many new URLs of a host may be handed out."""
        if not known.order.is_breadth:
            return count
        return min(count, 1) if self._gate(known, host) == OPEN else 0

    def visit_handed_out(self, known: LoadedCollection, host: HostId, url: UrlId) -> None:
        """The walk's next page is fetched."""
        if known.order.is_breadth:
            self._set_gate(known, host, OUT)
            site = self._site(known, host)
            self._set_best_url(known, site.name, (site.best, host, url))

    def is_walk_visit(self, known: LoadedCollection, host: HostId, url: UrlId) -> bool:
        """Whether this is the visit that the walk through its site waits for."""
        if not known.order.is_breadth or self._gate(known, host) != OUT:
            return False
        site = self._site(known, host)
        return (site.host, site.url) == (host, url)

    def visit_returned(self, known: LoadedCollection, host: HostId) -> None:
        """The visit was not made: what it was to ask for waits again."""
        self._set_gate(known, host, OPEN)
        self._continue_walk(known, self._site(known, host))

    def visit_finished(self, known: LoadedCollection, host: HostId, outcome: Outcome, again: bool) -> None:
        """A visit of the walk is over; `again`: it will be tried once more, and has said nothing yet."""
        self._set_gate(known, host, OPEN)
        site = self._site(known, host)
        if (outcome.kept or outcome.content_id) and not outcome.location:
            site = site._replace(walked=site.walked + 1, links=outcome.external)
            ends = not ordering.continues_walk(site.walked, site.links)
        else:
            site = site._replace(vain=site.vain + (not again))
            ends = site.vain >= FRUITLESS_VISITS_MAX
        self._db.run(
            "UPDATE site SET walked = ?, vain = ?, links = ? WHERE collection = ? AND name = ?",
            (site.walked, site.vain, site.links, known.row.id, site.name),
        )
        if ends:
            self._end_walk(known, site)
        else:
            self._continue_walk(known, site)

    def _continue_walk(self, known: LoadedCollection, site: BreadthSite) -> None:
        """To the host where the best URL of the site waits; if none does, the walk is over."""
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
        self._counters.add(known.row.id, PASSED_OVER, self._waiting(known, site.name))

    # -- the table --------------------------------------------------------------------------------------------

    def is_cycle_due(self, known: LoadedCollection) -> bool:
        """Whether it is time to choose."""
        return ordering.is_cycle_due(self._under_way(known), known.config.strategy.cycle)

    def choose_sites(self, known: LoadedCollection) -> None:
        """Bring the table up to date, and choose from it."""
        number, cycle = known.row.id, known.config.strategy.cycle
        self._db.acquire_site_table(number, self._room(known), cycle, EXCHANGED_MAX)
        self._fill(known)
        self._exchange(known)
        rows = self._db.rows(
            f"SELECT {COLUMNS} FROM site WHERE collection = ? AND stage = ? {MOST_MENTIONED}",  # noqa: S608
            (number, int(SiteStage.LISTED), cycle),
        )
        sites = [BreadthSite._make(row) for row in rows]
        self._db.acquire_walks(number, [site.name for site in sites])
        for site in sites:
            self._set_stage(known, site, SiteStage.CHOSEN)
            self._counters.add(number, SITES_CHOSEN)
            self._db.run(
                "UPDATE site SET walked = 0, vain = 0, links = 0 WHERE collection = ? AND name = ?", (number, site.name)
            )
            self._continue_walk(known, site._replace(stage=SiteStage.CHOSEN))
        self._fill(known, len(sites))

    def _under_way(self, known: LoadedCollection) -> int:
        """How many new URLs are out, or could be at once. Who waits for a delay or in back-off keeps nobody waiting."""
        number, cycle = known.row.id, known.config.strategy.cycle
        out = self._counters.value(number, state_bucket(UrlState.HANDED_OUT)) - self._counters.value(
            number, REVISITS_OUT
        )
        return out + self._ready.count_new(number, self._clock.now(), cycle)

    def _room(self, known: LoadedCollection, most: int = MOVED_MAX) -> int:
        """How many may come into the table at once, or have to leave it."""
        room = known.config.strategy.table_max - self._counters.value(known.row.id, TABLE_SITES)
        return max(-most, min(room, most))

    def _fill(self, known: LoadedCollection, most: int = MOVED_MAX) -> int:
        """While there is room, the most mentioned that were left out come in. If there is too little, it is made. How
        many moved."""
        number, room = known.row.id, self._room(known, most)
        stages = (SiteStage.HEARD, SiteStage.LISTED) if room > 0 else (SiteStage.LISTED, SiteStage.HEARD)
        rows = self._db.rows(
            f"SELECT {COLUMNS} FROM site WHERE collection = ? AND stage = ?"  # noqa: S608
            f" {MOST_MENTIONED if room > 0 else LEAST_MENTIONED}",
            (number, int(stages[0]), abs(room)),
        )
        for site in map(BreadthSite._make, rows):
            self._set_stage(known, site, stages[1])
        return len(rows)

    def _exchange(self, known: LoadedCollection) -> None:
        """The least mentioned of the table give way to those that were left out and are mentioned more often."""
        sql = f"SELECT {COLUMNS} FROM site WHERE collection = ? AND stage = ?"  # noqa: S608
        for _ in range(EXCHANGED_MAX):
            outside = self._db.row(f"{sql} {MOST_MENTIONED}", (known.row.id, int(SiteStage.HEARD), 1))
            inside = self._db.row(f"{sql} {LEAST_MENTIONED}", (known.row.id, int(SiteStage.LISTED), 1))
            if (
                outside is None
                or inside is None
                or BreadthSite._make(outside).mentions <= BreadthSite._make(inside).mentions
            ):
                return
            self._set_stage(known, BreadthSite._make(inside), SiteStage.HEARD)
            self._set_stage(known, BreadthSite._make(outside), SiteStage.LISTED)

    # -- all sites --------------------------------------------------------------------------------------------

    def begin_order_change(self, known: LoadedCollection, before: str) -> None:
        """The strategy was changed: what was counted of the sites is counted anew, or no longer."""
        if known.order.is_breadth != (before == "breadth"):
            for bucket in (TABLE_SITES, PASSED_OVER, SITES_CHOSEN):
                self._counters.add(known.row.id, bucket, -self._counters.value(known.row.id, bucket))

    def apply_order_change(self, known: LoadedCollection, before: str) -> None:
        """The sites are looked at anew, or no longer: those that are at hand. Scans them, once per change.

        A site of which something was visited, or is being visited, counts as one that was walked.
        """
        number = known.row.id
        if known.order.is_breadth and before == "breadth":
            for name in self._names(known, SiteStage.HEARD, SiteStage.LISTED):
                self._update_best_url(known, self._named(known, name))
        if known.order.is_breadth == (before == "breadth"):
            return
        self._forget(known, CLOSED if known.order.is_breadth else OPEN)
        if known.order.is_breadth:
            self._db.run(
                "UPDATE site SET mentions = (SELECT coalesce(sum(in_links), 0) FROM host JOIN url ON url.host = host.id"
                " AND url.collection = site.collection WHERE host.site = site.name) WHERE collection = ?",
                (number,),
            )
            for (name,) in self._db.rows("SELECT name FROM site WHERE collection = ?", (number,)):
                self._classify_site(known, self._named(known, name))
        self._ready.rebuild_new(number)

    def end_order_change(self, known: LoadedCollection, before: str) -> None:
        """The table's maximum may be another one: a smaller one holds at once."""
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
        """Whether nothing is out, and nothing waits but what is passed over."""
        number = known.row.id
        waiting = self._counters.value(number, state_bucket(UrlState.PENDING))
        out = self._counters.value(number, state_bucket(UrlState.HANDED_OUT))
        return not out and waiting == self._counters.value(number, PASSED_OVER)

    def restart(self, known: LoadedCollection) -> None:
        """Somebody starts a collection whose run is over: another one, in which every site may be chosen. For the
        sites that are at hand."""
        if known.order.is_breadth:
            for name in self._names(known, SiteStage.OVER):
                self._restart_site(known, self._named(known, name))

    def _restart_site(self, known: LoadedCollection, site: BreadthSite) -> None:
        self._counters.add(known.row.id, PASSED_OVER, -self._waiting(known, site.name))
        self._set_stage(known, site, SiteStage.UNHEARD)
        self._update_best_url(known, site._replace(stage=SiteStage.UNHEARD))

    # -- rows -------------------------------------------------------------------------------------------------

    def site_facts(self, known: LoadedCollection, host: HostId) -> SiteFacts | None:
        """Where the site of a host stands, for people."""
        if not known.order.is_breadth:
            return None
        self._db.prefetch("site", self._db.rows("SELECT ?, site FROM host WHERE id = ?", (known.row.id, host)))
        site = self._site(known, host)
        self._db.prefetch("url", [(site.host, known.row.id, site.url)] if site.url is not None else [])
        best = self._db.value(
            "SELECT url FROM url WHERE host = ? AND collection = ? AND id = ?", (site.host, known.row.id, site.url)
        )
        stage = SiteStage(site.stage).name.lower()
        in_table = self._counters.value(known.row.id, TABLE_SITES)
        return SiteFacts(site.name, stage, site.mentions, best or "", site.walked, site.links, site.vain, in_table)

    def _site(self, known: LoadedCollection, host: HostId) -> BreadthSite:
        self._db.acquire_site(known.row.id, host)
        row = self._db.required_row(
            f"SELECT {COLUMNS} FROM site WHERE collection = ? AND name = {SITE_OF}",  # noqa: S608
            (known.row.id, host),
        )
        return BreadthSite._make(row)

    def _named(self, known: LoadedCollection, name: str) -> BreadthSite:
        row = self._db.required_row(
            f"SELECT {COLUMNS} FROM site WHERE collection = ? AND name = ?",  # noqa: S608
            (known.row.id, name),
        )
        return BreadthSite._make(row)

    def _names(self, known: LoadedCollection, *stages: SiteStage) -> list[str]:
        return [
            name
            for stage in stages
            for (name,) in self._db.rows(
                "SELECT name FROM site WHERE collection = ? AND stage = ?", (known.row.id, int(stage))
            )
        ]

    def _set_stage(self, known: LoadedCollection, site: BreadthSite, stage: SiteStage) -> None:
        self._counters.add(known.row.id, TABLE_SITES, (stage == SiteStage.LISTED) - (site.stage == SiteStage.LISTED))
        self._db.run(
            "UPDATE site SET stage = ? WHERE collection = ? AND name = ?", (int(stage), known.row.id, site.name)
        )

    def _set_best_url(
        self, known: LoadedCollection, name: str, best: tuple[float | None, HostId | None, UrlId | None]
    ) -> None:
        self._db.run(
            "UPDATE site SET best = ?, host = ?, url = ? WHERE collection = ? AND name = ?", (*best, known.row.id, name)
        )

    def _update_best_url(self, known: LoadedCollection, site: BreadthSite) -> None:
        """Find the best URL of a site that was not chosen; without one it has no place in the table."""
        best = self._best(known, site.name)
        self._set_best_url(known, site.name, best or (None, None, None))
        if best is None:
            self._set_stage(known, site, SiteStage.UNHEARD)
        elif site.stage == SiteStage.UNHEARD:
            self._set_stage(known, site, SiteStage.HEARD)

    def _best(self, known: LoadedCollection, name: str) -> tuple[float, HostId, UrlId] | None:
        """The best URL that waits on any host of the site: one look at the head of each queue."""
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

    def _waiting(self, known: LoadedCollection, name: str) -> int:
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
        """If it is with nobody, it is ready when its gate is open, and not when it is not."""
        if self._gate(known, host) == gate:
            return
        is_free = self._db.value("SELECT worker FROM host WHERE id = ?", (host,)) is None
        if is_free:
            self._ready.remove(host)
        self._db.run("UPDATE work SET gate = ? WHERE host = ? AND collection = ?", (gate, host, known.row.id))
        if is_free:
            self._ready.add(host)
