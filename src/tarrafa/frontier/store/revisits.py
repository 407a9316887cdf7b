"""Revisits: keeps the pages of a fresh collection on shelves by policy, and takes the due ones.

The policy of `revisit/policy.py` decides on which shelf a page stands after a visit; here the shelves are rows. A
decision compares the heads of one host's shelves, found by one query. Beside the policy's shelves there are shelves of
our own, with negative numbers, whose pages are due at their key: pages to be tried once more (gone, or failing), URLs
that a full collection has chosen to take in, and pages that it gives up for them.

Promises: whatever happens to a visit, a kept page is on a shelf or handed out; it leaves only when the Web says twice
that it is gone, when it is no longer wanted, or when its place is needed. No more revisits are made than the
collection's `rate` allows (`revisit/budget.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from tarrafa.frontier.messages import PageFreshness
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import ALL_ROWS, OLD, UrlKey
from tarrafa.model import GONE, HostId, Outcome, UrlId, UrlRole, UrlState, is_inconclusive
from tarrafa.parse.date_formats import parse_date
from tarrafa.revisit import date_trust
from tarrafa.revisit.budget import BudgetLimit
from tarrafa.revisit.change_rate import DAY_S, NO_PRIOR, RatePrior, RateSums, log_rate_prior
from tarrafa.revisit.policy import (
    EXPLORE_EVERY,
    IndexPolicy,
    PageHistory,
    PlannedPolicy,
    ProportionalPolicy,
    RateUpdatePolicy,
    RevisitPolicy,
    UniformPolicy,
    choose_shelf,
    record_first_visit,
    record_visit,
)

PLANNED = frozenset({"psp", "mp2", "m-wolf"})
DISMISSED_SHELF, CHOSEN_SHELF, RETRY_SHELF, LISTING_SHELF = -4, -3, -2, -1  # shelves of our own
RETRY_S, RETRY_MAX_S = 3600.0, 7 * DAY_S  # a failing page is tried again after so long, twice as long each time
LISTING_WEIGHT = 16.0  # of a sitemap or feed: it tells about many pages at once
RATE_UNIT = 1000  # rates, and logarithms of rates, are counted in thousandths
LOG_RATE_BUCKETS = (Bucket.LOG_RATES, Bucket.LOG_RATE_SQUARES)
HEADS_AT_HAND = 3  # pages per shelf that are fetched ahead

_encode = msgspec.msgpack.Encoder().encode
read_history = msgspec.msgpack.Decoder(PageHistory).decode


class KeptPage(NamedTuple):
    """A row of `page`, without its key: a page that is kept fresh, and its place on a shelf."""

    shelf: int
    key: float  # its place on the shelf
    gone: int  # visits in a row that did not find it
    history: PageHistory


@dataclass(frozen=True, slots=True)
class UrlBeforeVisit:
    """What the frontier knew of a URL when its visit was reported."""

    content_id: str | None
    role: int
    in_links: int
    last_modified: str | None
    announced: float | None
    payload: str
    attempts: int = 0  # that failed, in a row
    pagerank: float = 0.0
    was_listing: bool = False  # so far: this visit found a page


def page_weight(known: LoadedCollection, in_links: int, rank: float) -> float:
    """Weight of a page, where the collection weighs pages. In-links and ranks follow a power law, which the square root
    tames. A page without a rank has the mean."""
    if known.config.revisit.weigh == "rank":
        return math.sqrt(rank or 1.0)
    return math.sqrt(1.0 + in_links) if known.config.revisit.weigh == "links" else 1.0


def has_changed(outcome: Outcome, before: UrlBeforeVisit) -> bool | None:
    """Whether this visit saw another text than the one kept before; None: there is nothing to compare."""
    if outcome.status == 304:
        return False
    if before.role != UrlRole.PAGE:
        return outcome.payload != before.payload if outcome.payload and before.payload else None
    return outcome.content_id != before.content_id if outcome.kept and before.content_id else None


class RevisitQueue:
    """The `page`, `due` and `shelf` rows of one frontier."""

    def __init__(self, context: StoreContext) -> None:
        self._db, self._counters, self._ready = context.db, context.counters, context.ready
        self._clock = context.clock
        self._decisions = 0

    # -- the policy -------------------------------------------------------------------------------------------

    def policy(self, known: LoadedCollection) -> RevisitPolicy:
        """The collection's policy with its present numbers."""
        chosen, number, least = known.config.revisit, known.row.id, float(known.config.revisit.interval_min)
        if chosen.policy == "uniform":
            kept = self._counters.state(number, UrlState.FETCHED)
            return UniformPolicy(max(least, kept / chosen.rate * DAY_S if chosen.rate else 0.0))
        if chosen.policy == "proportional":
            return ProportionalPolicy(least)
        if chosen.policy == "rateupdate":
            rates = self._counters.value(number, Bucket.RATES) / RATE_UNIT
            return RateUpdatePolicy(max(rates, 1.0) / chosen.rate * DAY_S if chosen.rate else DAY_S, least)
        if chosen.policy == "index":
            return IndexPolicy(known.tuning.price, least)
        end = known.tuning.plan_end or self._clock.now()
        return PlannedPolicy(known.tuning.plan, end + chosen.horizon)  # new pages wait for the next plan

    def revisits_allowed(self, known: LoadedCollection) -> int:
        """How many revisits the collection's `rate` allows now."""
        if not known.config.keeps_fresh:
            return 0
        limit = self._limit(known)
        return 1 << 30 if limit is None else known.tokens.available(limit, self._clock.now())

    def revisits_ahead(self, known: LoadedCollection) -> int:
        """How many revisits may be made ahead of their time, while none is due: the index policy spends its budget."""
        limit = self._limit(known) if known.config.revisit.policy == "index" else None
        return 0 if limit is None else known.tokens.available_ahead(limit, self._clock.now())

    def _limit(self, known: LoadedCollection) -> BudgetLimit | None:
        """A plan keeps to the rate by itself."""
        rate = known.config.revisit.rate
        if rate is None or known.config.revisit.policy in PLANNED:
            return None
        return BudgetLimit.from_rate(rate / DAY_S, self._clock.scale)

    def _spend(self, known: LoadedCollection) -> None:
        limit = self._limit(known)
        if limit is not None:  # otherwise a limit that is set later would begin with a debt
            known.tokens.spend(limit, self._clock.now())

    # -- shelves ----------------------------------------------------------------------------------------------

    def prefetch_shelves(self, known: LoadedCollection, hosts: Sequence[HostId]) -> None:
        """Fetch the heads of the hosts' shelves, for all hosts together."""
        if not self._db.is_row_cache:
            return
        number = known.row.id
        self._db.prefetch_first("shelf", [(number, host) for host in hosts], ALL_ROWS)
        shelves = [
            (host, number, shelf)
            for host in hosts
            for (shelf,) in self._db.rows(
                "SELECT shelf FROM shelf WHERE collection = ? AND host = ? AND pages > 0", (number, host)
            )
        ]
        self._db.prefetch_first("due", shelves, HEADS_AT_HAND)

    def add(self, key: UrlKey, shelf: int, at: float) -> None:
        """Put a page on a shelf, at a place."""
        host, number, url = key
        self._db.prefetch("shelf", [(number, host, shelf)])
        if self._db.run("INSERT OR IGNORE INTO due VALUES (?, ?, ?, ?, ?)", (host, number, shelf, at, url)):
            self._db.run(
                "INSERT INTO shelf VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET pages = pages + 1",
                (number, host, shelf),
            )

    def remove(self, key: UrlKey, shelf: int, at: float) -> bool:
        """Take a page from a shelf; False: it was not there."""
        host, number, url = key
        self._db.prefetch("due", [(host, number, shelf, at, url)])
        self._db.prefetch("shelf", [(number, host, shelf)])
        was_there = self._db.run(
            "DELETE FROM due WHERE host = ? AND collection = ? AND shelf = ? AND key = ? AND id = ?",
            (host, number, shelf, at, url),
        )
        if was_there:
            self._db.run(
                "UPDATE shelf SET pages = pages - 1 WHERE collection = ? AND host = ? AND shelf = ?",
                (number, host, shelf),
            )
        return bool(was_there)

    def _heads(self, known: LoadedCollection, host: HostId) -> dict[int, float]:
        number = known.row.id
        self.prefetch_shelves(known, [host])
        rows = self._db.rows(
            "SELECT shelf, (SELECT min(key) FROM due WHERE due.host = ?1 AND due.collection = ?2"
            " AND due.shelf = shelf.shelf) FROM shelf WHERE collection = ?2 AND host = ?1 AND pages > 0",
            (host, number),
        )
        return {shelf: key for shelf, key in rows if key is not None}

    def pop_due(
        self, known: LoadedCollection, host: HostId, count: int, ahead: bool = False
    ) -> list[tuple[UrlId, int]]:
        """Take the next pages of a host to revisit from their shelves, most urgent first; returns them with their
        shelves. If none is due, `ahead` takes the one that is due next."""
        number, now, policy = known.row.id, self._clock.now(), self.policy(known)
        heads, taken = self._heads(known, host), list[tuple[UrlId, int]]()
        while len(taken) < count and heads:
            shelf = self._choose(known, policy, heads, now, ahead and not taken)
            if shelf is None:
                break
            url = self._db.value(
                "SELECT id FROM due WHERE host = ? AND collection = ? AND shelf = ? AND key = ? ORDER BY id LIMIT 1",
                (host, number, shelf, heads[shelf]),
            )
            self.remove((host, number, url), shelf, heads[shelf])
            taken.append((url, shelf))
            self._db.prefetch_first("due", [(host, number, shelf)], 1)
            key = self._db.value(
                "SELECT min(key) FROM due WHERE host = ? AND collection = ? AND shelf = ?", (host, number, shelf)
            )
            if key is None:
                del heads[shelf]
            else:
                heads[shelf] = key
        self._set_due(known, policy, host, heads)
        return taken

    def _choose(
        self, known: LoadedCollection, policy: RevisitPolicy, heads: dict[int, float], now: float, ahead: bool
    ) -> int | None:
        own = min((shelf for shelf, key in heads.items() if shelf < 0 and key <= now), default=0)
        if own in (DISMISSED_SHELF, CHOSEN_SHELF):  # no revisits
            return own
        if self.revisits_allowed(known) < 1:
            return None
        if own:
            self._spend(known)
            return own
        shelf = choose_shelf(
            policy,
            ((shelf, key) for shelf, key in heads.items() if shelf >= 0),
            now,
            self._decisions % EXPLORE_EVERY == EXPLORE_EVERY - 1,
            ahead and self.revisits_ahead(known) > 0,
        )
        if shelf is not None:
            self._decisions += 1
            self._spend(known)
        return shelf

    def _set_due(self, known: LoadedCollection, policy: RevisitPolicy, host: HostId, heads: dict[int, float]) -> None:
        moments = [key if shelf < 0 else policy.due(shelf, key) for shelf, key in heads.items()]
        first = min(moments, default=math.inf)
        self._ready.set_due(known.row.id, host, first if first < math.inf else None)

    def update_due(self, known: LoadedCollection, host: HostId) -> None:
        """Recompute when the first page on the host's shelves is worth a visit."""
        if known.config.keeps_fresh:
            self._set_due(known, self.policy(known), host, self._heads(known, host))

    # -- one page ---------------------------------------------------------------------------------------------

    def find(self, key: UrlKey) -> KeptPage | None:
        self._db.prefetch("page", [key])
        row = self._db.row(
            "SELECT shelf, key, gone, history FROM page WHERE host = ? AND collection = ? AND id = ?", key
        )
        return None if row is None else KeptPage(row[0], row[1], row[2], read_history(row[3]))

    def save_page(self, key: UrlKey, history: PageHistory, place: tuple[int, float], gone: int = 0) -> None:
        """Store the history of a page, and put the page on its shelf."""
        self._db.run("INSERT OR REPLACE INTO page VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, *place, gone, _encode(history)))
        self.add(key, *place)

    def put_back(self, key: UrlKey) -> bool:
        """A visit was not made: the page is on its shelf again. False: it is not kept fresh."""
        page = self.find(key)
        if page is None:
            return False
        # The same place may be planned for it again.
        self._db.prefetch("due", [(key[0], key[1], page.shelf, page.key, key[2])])
        self.add(key, page.shelf, page.key)
        return True

    def end_former_revisit(self, known: LoadedCollection, key: UrlKey) -> bool:
        """Whether this page was handed out for a revisit when its collection ceased to be kept fresh. From now on it is
        a kept page like any other, and the caller counts it no longer in REVISITS_OUT."""
        if known.config.keeps_fresh or not self._counters.value(known.row.id, Bucket.REVISITS_OUT):
            return False
        self._db.prefetch("page", [key])
        return bool(self._db.run("DELETE FROM page WHERE host = ? AND collection = ? AND id = ?", key))

    def settle(self, known: LoadedCollection, key: UrlKey, outcome: Outcome, before: UrlBeforeVisit) -> UrlState | None:
        """State of a page that is kept fresh, after a visit; None: it is not (or no longer) kept fresh, and the common
        rules hold."""
        page = self.find(key)
        if page is not None:
            self._counters.add(known.row.id, Bucket.REVISITS)
        resting = UrlState.FETCHED if before.role == UrlRole.PAGE else UrlState.DROPPED
        is_listing = before.role != UrlRole.PAGE and outcome.status == 200
        is_same = outcome.status == 304 and (before.content_id is not None or before.role != UrlRole.PAGE)
        if outcome.kept or is_listing or is_same:
            self._observe(known, key, outcome, before, page)
            return resting
        if page is None:
            return None
        if outcome.status in GONE and not page.gone:
            self.remove(key, page.shelf, page.key)
            self.save_page(key, page.history, (RETRY_SHELF, outcome.at + known.config.revisit.grace), gone=1)
            return resting
        if is_inconclusive(outcome.status):
            self.remove(key, page.shelf, page.key)
            wait_s = min(RETRY_S * 2.0 ** min(before.attempts, 20), RETRY_MAX_S)
            self.save_page(key, page.history, (RETRY_SHELF, outcome.at + wait_s), page.gone)
            return resting
        self.drop_page(known, key)
        return None

    def _observe(
        self,
        known: LoadedCollection,
        key: UrlKey,
        outcome: Outcome,
        before: UrlBeforeVisit,
        page: KeptPage | None,
    ) -> None:
        """Learn from a visit that found the page: about its change rate, and about the trust in its host's dates."""
        changed, at = has_changed(outcome, before), outcome.at
        old = page.history if page else None
        counted = None if before.was_listing else old
        claimed = parse_date(outcome.last_modified or "")
        dates = self._update_date_trust(key[0], outcome, before, changed, old.last if old else 0.0)
        if page is None or changed is None:
            is_page = before.role == UrlRole.PAGE
            weight = page_weight(known, before.in_links, before.pagerank) if is_page else LISTING_WEIGHT
            prior = self._rate_prior(known, key[0], counted) if is_page else NO_PRIOR
            new = record_first_visit(at, prior, weight, claimed)
        else:
            self.remove(key, page.shelf, page.key)
            modified = claimed if claimed and dates[0].is_trusted else None
            announced = before.announced or 0.0
            if modified is None and dates[1].is_trusted and page.history.last < announced <= at:
                modified = announced
            prior = self._rate_prior(known, key[0], counted) if before.role == UrlRole.PAGE else NO_PRIOR
            new = record_visit(page.history, at, changed, modified, dates[0].is_trusted, prior)
            self._counters.add(known.row.id, Bucket.CHANGES, int(changed))
            if before.role == UrlRole.PAGE:
                self._count_calibration(known, page.history, at, changed)
        self.update_site_sums(known, key[0], before.role, counted, new)
        self.save_page(key, new, self._shelf_for(known, before.role, new))

    def _count_calibration(self, known: LoadedCollection, page: PageHistory, at: float, changed: bool) -> None:
        """Count what was believed of a page before this visit, and what the visit found."""
        if page.has_evidence and page.announced <= page.last:
            belief = page.belief
            expected = 1.0 - belief.fresh_probability(at - page.last)
            self._counters.add_calibration(known.row.id, belief.median * DAY_S, expected, changed)

    def _shelf_for(self, known: LoadedCollection, role: int, page: PageHistory) -> tuple[int, float]:
        """Plans do not include sitemaps and feeds: with a plan these are read once a day."""
        if role != UrlRole.PAGE and known.config.revisit.policy in PLANNED:
            return LISTING_SHELF, page.last + DAY_S
        return self.policy(known).place(page)

    def _rate_prior(self, known: LoadedCollection, host: HostId, own: PageHistory | None) -> RatePrior:
        """What the rates of other pages tell about a page: those of its site, and of the collection."""
        number = known.row.id
        self._prefetch_site(known, host)
        row = self._db.row(
            "SELECT pages, means, squares FROM site WHERE collection = ?"
            " AND name = (SELECT site FROM host WHERE id = ?)",
            (number, host),
        )
        site = RateSums(*(row or (0.0, 0.0, 0.0)))
        means, squares = (self._counters.value(number, bucket) / RATE_UNIT for bucket in LOG_RATE_BUCKETS)
        collection = RateSums(self._counters.value(number, Bucket.RATED_PAGES), means, squares)
        if own is not None and own.has_evidence:
            site, collection = (sums.plus(own.alpha, own.beta, -1) for sums in (site, collection))
        return log_rate_prior(site, collection)

    def _update_date_trust(
        self, host: HostId, outcome: Outcome, before: UrlBeforeVisit, changed: bool | None, last: float
    ) -> tuple[date_trust.DateTrust, date_trust.DateTrust]:
        """Update the trust in the host's dates by this visit."""
        modified, announced = before_visit = self._date_trust(host)
        if changed is None or before.role != UrlRole.PAGE or not last:
            return modified, announced
        if outcome.status == 200:
            was, claimed = parse_date(before.last_modified or ""), parse_date(outcome.last_modified or "")
            modified = modified.updated(date_trust.check_last_modified(changed, was, claimed, last, outcome.at))
        announced = announced.updated(date_trust.check_sitemap_date(changed, before.announced or 0.0, last, outcome.at))
        if (modified, announced) != before_visit:
            self._db.run(
                "UPDATE host SET modified_right = ?, modified_wrong = ?, announced_right = ?, announced_wrong = ?"
                " WHERE id = ?",
                (*modified, *announced, host),
            )
        return modified, announced

    def _date_trust(self, host: HostId) -> tuple[date_trust.DateTrust, date_trust.DateTrust]:
        """Trust in a host's Last-Modified, and in the dates of its sitemaps."""
        row = self._db.required_row(
            "SELECT modified_right, modified_wrong, announced_right, announced_wrong FROM host WHERE id = ?", (host,)
        )
        return date_trust.DateTrust(*row[:2]), date_trust.DateTrust(*row[2:])

    def update_site_sums(
        self, known: LoadedCollection, host: HostId, role: int, old: PageHistory | None, new: PageHistory | None
    ) -> None:
        """Replace a page's history in the sums of its site and collection, which are the prior of their other pages."""
        if role != UrlRole.PAGE:
            return
        sums, rates = RateSums(), 0
        for page, sign in ((old, -1), (new, +1)):
            if page is not None:
                rates += sign * round(RATE_UNIT * page.rate)
                if page.has_evidence:
                    sums = sums.plus(page.alpha, page.beta, sign)
                    whole = RateSums().plus(page.alpha, page.beta)  # rounded alike when it comes and when it goes
                    for bucket, value in zip(LOG_RATE_BUCKETS, whole[1:], strict=True):
                        self._counters.add(known.row.id, bucket, sign * round(RATE_UNIT * value))
        self._counters.add(known.row.id, Bucket.RATES, rates)
        self._counters.add(known.row.id, Bucket.RATED_PAGES, round(sums.pages))
        self._prefetch_site(known, host)
        self._db.run(
            "UPDATE site SET pages = max(0, pages + ?), means = means + ?, squares = max(0, squares + ?)"
            " WHERE collection = ? AND name = (SELECT site FROM host WHERE id = ?)",
            (round(sums.pages), sums.means, sums.squares, known.row.id, host),
        )

    def _prefetch_site(self, known: LoadedCollection, host: HostId) -> None:
        self._db.prefetch("site", [(known.row.id, self._db.value("SELECT site FROM host WHERE id = ?", (host,)))])

    def drop_page(self, known: LoadedCollection, key: UrlKey) -> None:
        """The page is no longer kept."""
        page = self.find(key)
        if page is None:
            return
        self.remove(key, page.shelf, page.key)
        (role,) = self._db.url("role", key)
        self.update_site_sums(known, key[0], role, page.history, None)
        self._db.run("DELETE FROM page WHERE host = ? AND collection = ? AND id = ?", key)
        # If it comes back, it must be fetched whole: the index has dropped it too.
        self._db.update_url(key, "etag = NULL, last_modified = NULL, content_id = NULL")

    def move_to_shelf(self, known: LoadedCollection, key: UrlKey, shelf: int, at: float) -> None:
        """Move a page to one of our own shelves."""
        page = self.find(key)
        if page is not None:
            self.remove(key, page.shelf, page.key)
            self.save_page(key, page.history, (shelf, at), page.gone)
            self.update_due(known, key[0])

    def _revise(self, known: LoadedCollection, key: UrlKey, page: KeptPage, **changes: float) -> None:
        """Change a page's history without a visit."""
        history = msgspec.structs.replace(page.history, **changes)
        was_on_shelf = self.remove(key, page.shelf, page.key)
        place = self.policy(known).place(history) if page.shelf >= 0 else (page.shelf, page.key)
        self._db.run(
            "UPDATE page SET shelf = ?, key = ?, history = ? WHERE host = ? AND collection = ? AND id = ?",
            (*place, _encode(history), *key),
        )
        if was_on_shelf:
            self.add(key, *place)
            self.update_due(known, key[0])

    def set_weight(self, known: LoadedCollection, key: UrlKey, in_links: int, rank: float) -> None:
        """Take new in-links or a new rank. A small change is not worth the move."""
        page = self.find(key) if known.config.revisit.weigh != "equal" else None
        weight = page_weight(known, in_links, rank)
        if page is not None and not 0.7 < weight / page.history.weight < 1.4:
            self._revise(known, key, page, weight=weight)

    def record_announced_change(self, known: LoadedCollection, key: UrlKey, at: float) -> None:
        """A sitemap or feed says that the page has changed: a reason for a revisit, if such dates are trusted."""
        page = self.find(key)
        if page is None or at <= page.history.last or at > self._clock.now() + date_trust.SLACK_S:
            return
        if self._date_trust(key[0])[1].is_trusted:
            self._revise(known, key, page, announced=at)

    def freshness(self, known: LoadedCollection, key: UrlKey) -> PageFreshness | None:
        page = self.find(key) if known.config.keeps_fresh else None
        if page is None:
            return None
        dates = self._date_trust(key[0])
        due = page.key if page.shelf < 0 else self._next_due(self.policy(known), key, page)
        return PageFreshness(
            page.history, due if due < math.inf else None, page.gone, page.shelf, known.tuning.price,
            dates[0].is_trusted, dates[1].is_trusted,
        )  # fmt: skip

    def _next_due(self, policy: RevisitPolicy, key: UrlKey, page: KeptPage) -> float:
        if not isinstance(policy, PlannedPolicy):
            return policy.due(page.shelf, page.key)
        self._db.prefetch_first("due", [(key[0], key[1], policy.shelf)], ALL_ROWS)
        planned = self._db.value(
            "SELECT min(key) FROM due WHERE host = ? AND collection = ? AND shelf = ? AND id = ?",
            (key[0], key[1], policy.shelf, key[2]),
        )
        return math.inf if planned is None else float(planned)

    # -- all pages --------------------------------------------------------------------------------------------

    def begin_policy_change(self, known: LoadedCollection) -> None:
        """Counters of the collection as a whole begin at 0 again; `apply_policy_change` counts host by host."""
        self._counters.reset(
            known.row.id,
            *(Bucket.RATES, Bucket.RATED_PAGES, *LOG_RATE_BUCKETS, Bucket.DISMISSED_WAITING, Bucket.REVISITS_OUT),
        )

    def apply_policy_change(self, known: LoadedCollection) -> None:
        """The collection is kept fresh from now on, or by another policy, or no longer. Scans its URLs.

        The history of a page is read from its visits, so nothing that was learned is lost.
        """
        number = known.row.id
        for table in ("due", "shelf"):
            self._db.run(f"DELETE FROM {table} WHERE collection = ?", (number,))  # noqa: S608 (names of our own)
        self._db.run("DELETE FROM ready WHERE collection = ? AND kind = ?", (number, OLD))
        self._db.run("UPDATE work SET due = NULL WHERE collection = ?", (number,))
        self._db.run("UPDATE site SET pages = 0, means = 0, squares = 0 WHERE collection = ?", (number,))
        if not known.config.keeps_fresh:
            self._stop_revisits(known)
        out = self._db.value(
            "SELECT count(*) FROM page JOIN url USING (host, collection, id)"
            " WHERE collection = ? AND state = ? AND role = 0",
            (number, int(UrlState.HANDED_OUT)),
        )
        self._counters.add(number, Bucket.REVISITS_OUT, out)
        if not known.config.keeps_fresh:
            return
        hosts = set[HostId]()
        rows = self._db.rows(
            "SELECT host, id, role, in_links, pagerank, state FROM url WHERE collection = ?"
            " AND (state = ? OR role > 0 AND state = 3 AND status IN (200, 304) OR EXISTS (SELECT 1 FROM page"
            " WHERE page.host = url.host AND page.collection = url.collection AND page.id = url.id))",
            (number, int(UrlState.FETCHED)),
        )
        for host, url, role, in_links, rank, state in rows:
            weight = page_weight(known, in_links, rank) if role == UrlRole.PAGE else LISTING_WEIGHT
            self._apply_policy_to_page(known, (host, number, url), role, weight, state == UrlState.HANDED_OUT)
            hosts.add(host)
        for host in sorted(hosts):
            self.update_due(known, host)

    def _stop_revisits(self, known: LoadedCollection) -> None:
        """Nothing is kept fresh any more. Only pages that are handed out keep their row, until they are reported: it
        says that they are kept pages."""
        number = known.row.id
        out = self._db.rows(
            "SELECT page.host, page.id, gone FROM page JOIN url USING (host, collection, id)"
            " WHERE collection = ? AND state = ? AND role = 0",
            (number, int(UrlState.HANDED_OUT)),
        )
        self._db.run("DELETE FROM page WHERE collection = ?", (number,))
        for host, url, gone in out:
            key = (host, number, url)
            history = self._history_of(key)
            if history is not None:
                self._db.run("INSERT INTO page VALUES (?, ?, ?, 0, 0, ?, ?)", (*key, gone, _encode(history)))

    def _apply_policy_to_page(
        self, known: LoadedCollection, key: UrlKey, role: int, weight: float, is_out: bool
    ) -> None:
        """Put a page on its shelf; a page that is handed out is put there when it is reported."""
        page, history = self.find(key), self._history_of(key)
        if history is None:
            return
        history = msgspec.structs.replace(history, weight=weight)
        self.update_site_sums(known, key[0], role, None, history)
        place, gone = self._shelf_for(known, role, history), 0
        if page is not None and page.shelf == RETRY_SHELF:
            place, gone = (RETRY_SHELF, page.key), page.gone
        self.save_page(key, history, place, gone)
        if is_out:
            self.remove(key, *place)

    def _history_of(self, key: UrlKey) -> PageHistory | None:
        """A page's history as it is stored, otherwise as its visits tell it."""
        page = self.find(key)
        if page is not None:
            return page.history
        history: PageHistory | None = None
        self._db.prefetch_first("visit", [key], ALL_ROWS)
        for at, changed in self._db.rows(
            "SELECT at, changed FROM visit WHERE host = ? AND collection = ? AND id = ? AND status IN (200, 304)"
            " ORDER BY number",
            key,
        ):
            if history is None or changed is None:
                history = record_first_visit(at)
            else:
                history = record_visit(history, at, bool(changed))
        return history
