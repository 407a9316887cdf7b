"""Which kept pages are to be seen again, and when?

The policy of `revisit/policy.py` says where a page stands after a visit; here the shelves are rows. A decision compares
the heads of one host's shelves, found by one query. Beside the policy's shelves there are three of our own, with
negative numbers, whose pages are due at their key: those to be tried once more (gone, or in trouble), those that a full
collection has chosen to take in, and those that it gives up for them.

Promise: whatever happens to a visit, a kept page is on a shelf or handed out; it leaves only when the Web says twice
that it is gone, when it is no longer wanted, or when its place is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tarrafa.clock import Clock
from tarrafa.frontier.protocol import Freshness, Report
from tarrafa.frontier.store.collections import (
    CHANGES,
    DISMISSED_WAITING,
    OUT_AGAIN,
    PAID,
    RATES,
    REVISITS,
    Counters,
    Known,
    state_bucket,
)
from tarrafa.frontier.store.ready import Ready
from tarrafa.frontier.store.schema import ALL, OLD, Database
from tarrafa.model import GONE, HostId, Outcome, Role, UrlId, UrlState, is_weather
from tarrafa.parse.moment import moment
from tarrafa.revisit import belief, estimate
from tarrafa.revisit.estimate import DAY_S
from tarrafa.revisit.policy import (
    EXPLORE_EVERY,
    History,
    Index,
    Planned,
    Policy,
    Proportional,
    RateUpdate,
    Uniform,
    choose,
    meet,
    see,
)

PLANNED = frozenset({"psp", "mp2", "m-wolf"})
DISMISSED, CHOSEN, LATER, LISTED = -4, -3, -2, -1  # shelves of our own
RETRY_S, RETRY_MAX_S = 3600.0, 7 * DAY_S  # a page in trouble is tried again after so long, twice as long each time
LISTING_WEIGHT = 16.0  # of a sitemap or feed: it tells about many pages at once
BURST_S = 3600.0  # revisits that were not made may be made up for, but no more than this much of them
RATE_UNIT = 1000  # rates are counted in thousandths
HEADS_AT_HAND = 3  # pages per shelf that are fetched ahead

_encode = msgspec.msgpack.Encoder().encode
read_history = msgspec.msgpack.Decoder(History).decode
Key = tuple[HostId, int, UrlId]


@dataclass(frozen=True, slots=True)
class Before:
    """What the frontier knew of a URL when its visit was reported."""

    content_id: str | None
    role: int
    in_links: int
    last_modified: str | None
    announced: float | None
    payload: str
    attempts: int = 0  # failed ones, in a row
    pagerank: float = 0.0
    was_listing: bool = False  # so far: this visit found a page


def importance(known: Known, in_links: int, rank: float) -> float:
    """A page's weight, where the collection weighs pages: in-links and ranks follow a power law, its root tames it.

    Who has no rank yet has the mean.
    """
    if known.config.revisit.weigh == "rank":
        return math.sqrt(rank or 1.0)
    return math.sqrt(1.0 + in_links) if known.config.revisit.weigh == "links" else 1.0


def has_changed(outcome: Outcome, before: Before) -> bool | None:
    """Whether this visit saw another text than the one kept before; None where there is nothing to compare."""
    if outcome.status == 304:
        return False
    if before.role != Role.PAGE:
        return outcome.payload != before.payload if outcome.payload and before.payload else None
    return outcome.content_id != before.content_id if outcome.kept and before.content_id else None


def _limit(known: Known) -> tuple[float, float] | None:
    """How many revisits a second, and how many at once after a pause. A plan keeps to the rate by itself."""
    rate = known.config.revisit.rate
    if rate is None or known.config.revisit.policy in PLANNED:
        return None
    return rate / DAY_S, max(2.0, rate * BURST_S / DAY_S)


class Revisits:
    """The `page`, `due` and `shelf` rows of one frontier."""

    def __init__(self, db: Database, counters: Counters, ready: Ready, clock: Clock) -> None:
        self._db, self._counters, self._ready, self._clock = db, counters, ready, clock
        self._decisions = 0

    # -- the policy -------------------------------------------------------------------------------------------

    def policy(self, known: Known) -> Policy:
        """The collection's policy as its numbers stand now."""
        chosen, number, least = known.config.revisit, known.row.id, float(known.config.revisit.interval_min)
        if chosen.policy == "uniform":
            kept = self._counters.value(number, state_bucket(UrlState.FETCHED))
            return Uniform(max(least, kept / chosen.rate * DAY_S if chosen.rate else 0.0))
        if chosen.policy == "proportional":
            return Proportional(least)
        if chosen.policy == "rateupdate":
            rates = self._counters.value(number, RATES) / RATE_UNIT
            return RateUpdate(max(rates, 1.0) / chosen.rate * DAY_S if chosen.rate else DAY_S, least)
        if chosen.policy == "index":
            return Index(known.tuning.price, least)
        end = known.tuning.plan_end or self._clock.now()
        return Planned(known.tuning.plan, end + chosen.horizon)  # new pages wait for the next plan

    def allowed(self, known: Known) -> int:
        """How many revisits may go out now, by the collection's `rate`."""
        if not known.config.keeps_fresh:
            return 0
        limit = _limit(known)
        return 1 << 30 if limit is None else known.tokens.left(*limit, self._clock.now())

    def _spend(self, known: Known) -> None:
        self._counters.add(known.row.id, PAID)
        limit = _limit(known)
        if limit is not None:  # else one that is set later would begin with a debt
            known.tokens.spend(*limit, self._clock.now())

    # -- shelves ----------------------------------------------------------------------------------------------

    def prepare(self, known: Known, hosts: Sequence[HostId]) -> None:
        """The heads of the hosts' shelves are fetched for all of them together."""
        if not self._db.is_copy:
            return
        number = known.row.id
        self._db.need_first("shelf", [(number, host) for host in hosts], ALL)
        shelves = [
            (host, number, shelf)
            for host in hosts
            for (shelf,) in self._db.rows(
                "SELECT shelf FROM shelf WHERE collection = ? AND host = ? AND pages > 0", (number, host)
            )
        ]
        self._db.need_first("due", shelves, HEADS_AT_HAND)

    def put(self, host: HostId, number: int, shelf: int, key: float, url: UrlId) -> None:
        self._db.need("shelf", [(number, host, shelf)])
        if self._db.run("INSERT OR IGNORE INTO due VALUES (?, ?, ?, ?, ?)", (host, number, shelf, key, url)):
            self._db.run(
                "INSERT INTO shelf VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET pages = pages + 1",
                (number, host, shelf),
            )

    def pull(self, host: HostId, number: int, shelf: int, key: float, url: UrlId) -> bool:
        self._db.need("due", [(host, number, shelf, key, url)])
        self._db.need("shelf", [(number, host, shelf)])
        there = self._db.run(
            "DELETE FROM due WHERE host = ? AND collection = ? AND shelf = ? AND key = ? AND id = ?",
            (host, number, shelf, key, url),
        )
        if there:
            self._db.run(
                "UPDATE shelf SET pages = pages - 1 WHERE collection = ? AND host = ? AND shelf = ?",
                (number, host, shelf),
            )
        return bool(there)

    def _heads(self, known: Known, host: HostId) -> dict[int, float]:
        number = known.row.id
        self.prepare(known, [host])
        rows = self._db.rows(
            "SELECT shelf, (SELECT min(key) FROM due WHERE due.host = ?1 AND due.collection = ?2"
            " AND due.shelf = shelf.shelf) FROM shelf WHERE collection = ?2 AND host = ?1 AND pages > 0",
            (host, number),
        )
        return {shelf: key for shelf, key in rows if key is not None}

    def take(self, known: Known, host: HostId, count: int) -> list[tuple[UrlId, int]]:
        """The next pages of a host to see again, with their shelves, most urgent first; they are on no shelf now."""
        number, now, policy = known.row.id, self._clock.now(), self.policy(known)
        heads, taken = self._heads(known, host), list[tuple[UrlId, int]]()
        while len(taken) < count and heads:
            shelf = self._choose(known, policy, heads, now)
            if shelf is None:
                break
            url = self._db.value(
                "SELECT id FROM due WHERE host = ? AND collection = ? AND shelf = ? AND key = ? ORDER BY id LIMIT 1",
                (host, number, shelf, heads[shelf]),
            )
            self.pull(host, number, shelf, heads[shelf], url)
            taken.append((url, shelf))
            self._db.need_first("due", [(host, number, shelf)], 1)
            key = self._db.value(
                "SELECT min(key) FROM due WHERE host = ? AND collection = ? AND shelf = ?", (host, number, shelf)
            )
            if key is None:
                del heads[shelf]
            else:
                heads[shelf] = key
        self._set_due(known, policy, host, heads)
        return taken

    def _choose(self, known: Known, policy: Policy, heads: dict[int, float], now: float) -> int | None:
        own = min((shelf for shelf, key in heads.items() if shelf < 0 and key <= now), default=0)
        if own in (DISMISSED, CHOSEN):  # no revisits
            return own
        if self.allowed(known) < 1:
            return None
        if own:
            self._spend(known)
            return own
        shelf = choose(
            policy,
            ((shelf, key) for shelf, key in heads.items() if shelf >= 0),
            now,
            self._decisions % EXPLORE_EVERY == EXPLORE_EVERY - 1,
        )
        if shelf is not None:
            self._decisions += 1
            self._spend(known)
        return shelf

    def _set_due(self, known: Known, policy: Policy, host: HostId, heads: dict[int, float]) -> None:
        moments = [key if shelf < 0 else policy.due(shelf, key) for shelf, key in heads.items()]
        first = min(moments, default=math.inf)
        self._ready.set_due(known.row.id, host, first if first < math.inf else None)

    def look_again(self, known: Known, host: HostId) -> None:
        """Something on its shelves changed: when is the first of them worth a visit?"""
        if known.config.keeps_fresh:
            self._set_due(known, self.policy(known), host, self._heads(known, host))

    # -- one page ---------------------------------------------------------------------------------------------

    def find(self, key: Key) -> tuple[int, float, int, History] | None:
        """Shelf, key, times gone, history."""
        self._db.need("page", [key])
        row = self._db.row(
            "SELECT shelf, key, gone, history FROM page WHERE host = ? AND collection = ? AND id = ?", key
        )
        return None if row is None else (row[0], row[1], row[2], read_history(row[3]))

    def _stand(self, key: Key, history: History, place: tuple[int, float], gone: int = 0) -> None:
        """Write down what is known of a page, and put it on its shelf."""
        self._db.run("INSERT OR REPLACE INTO page VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, *place, gone, _encode(history)))
        self.put(key[0], key[1], *place, key[2])

    def _leave(self, key: Key, found: tuple[int, float, int, History]) -> None:
        self.pull(key[0], key[1], found[0], found[1], key[2])

    def put_back(self, known: Known, host: HostId, url: UrlId) -> bool:
        """A visit was not made: the page stands where it stood. False: it is none that is kept fresh."""
        found = self.find((host, known.row.id, url))
        if found is None:
            return False
        self._db.need("due", [(host, known.row.id, found[0], found[1], url)])  # it may be planned for just then again
        self.put(host, known.row.id, found[0], found[1], url)
        return True

    def let_home(self, known: Known, key: Key) -> bool:
        """Whether this page was out when its collection ceased to be kept fresh. It is kept then, and from now on like
        any other; who asks counts it as out again no longer."""
        if known.config.keeps_fresh or not self._counters.value(known.row.id, OUT_AGAIN):
            return False
        self._db.need("page", [key])
        return bool(self._db.run("DELETE FROM page WHERE host = ? AND collection = ? AND id = ?", key))

    def settle(self, known: Known, host: HostId, report: Report, before: Before) -> UrlState | None:
        """Where a visit leaves a page that is kept fresh; None: it is none, or no longer, and the common rules hold."""
        outcome, key = report.outcome, (host, known.row.id, report.id)
        found = self.find(key)
        if found is not None:
            self._counters.add(known.row.id, REVISITS)
        resting = UrlState.FETCHED if before.role == Role.PAGE else UrlState.DROPPED
        listed = before.role != Role.PAGE and outcome.status == 200
        same = outcome.status == 304 and (before.content_id is not None or before.role != Role.PAGE)
        if outcome.kept or listed or same:
            self._observe(known, key, outcome, before, found)
            return resting
        if found is None:
            return None
        if outcome.status in GONE and not found[2]:
            self._leave(key, found)
            self._stand(key, found[3], (LATER, outcome.at + known.config.revisit.grace), gone=1)
            return resting
        if is_weather(outcome.status):
            self._leave(key, found)
            wait_s = min(RETRY_S * 2.0 ** min(before.attempts, 20), RETRY_MAX_S)
            self._stand(key, found[3], (LATER, outcome.at + wait_s), found[2])
            return resting
        self.forget(known, key)
        return None

    def _observe(
        self,
        known: Known,
        key: Key,
        outcome: Outcome,
        before: Before,
        found: tuple[int, float, int, History] | None,
    ) -> None:
        """The page was there: what does that say about it, and about its host's dates?"""
        changed, at = has_changed(outcome, before), outcome.at
        claimed = moment(outcome.last_modified or "")
        dates = self._judge(key[0], outcome, before, changed, found[3].last if found else 0.0)
        if found is None or changed is None:
            page = self._meet(known, key[0], at, before, claimed)
        else:
            self._leave(key, found)
            modified = claimed if claimed and dates[0].is_believed else None
            announced = before.announced or 0.0
            if modified is None and dates[1].is_believed and found[3].last < announced <= at:
                modified = announced
            page = see(found[3], at, changed, modified, dates[0].is_believed)
            self._counters.add(known.row.id, CHANGES, int(changed))
        self.count(known, key[0], before.role, found[3] if found and not before.was_listing else None, page)
        self._stand(key, page, self._place(known, before.role, page))

    def _place(self, known: Known, role: int, page: History) -> tuple[int, float]:
        """No plan knows of sitemaps and feeds: under one they are read once a day."""
        if role != Role.PAGE and known.config.revisit.policy in PLANNED:
            return LISTED, page.last + DAY_S
        return self.policy(known).place(page)

    def _meet(self, known: Known, host: HostId, at: float, before: Before, claimed: float) -> History:
        if before.role != Role.PAGE:
            return meet(at, estimate.PRIOR_ALPHA, estimate.PRIOR_BETA, LISTING_WEIGHT, claimed)
        self._need_site(known, host)
        sums = self._db.row(
            "SELECT pages, means, squares FROM site WHERE collection = ?"
            " AND name = (SELECT site FROM host WHERE id = ?)",
            (known.row.id, host),
        )
        weight = importance(known, before.in_links, before.pagerank)
        return meet(at, *estimate.prior(*(sums or (0, 0.0, 0.0))), weight, claimed)

    def _judge(
        self, host: HostId, outcome: Outcome, before: Before, changed: bool | None, last: float
    ) -> tuple[belief.Record, belief.Record]:
        """How far the host's dates are believed, this visit included."""
        modified, announced = before_visit = self._dates(host)
        if changed is None or before.role != Role.PAGE or not last:
            return modified, announced
        if outcome.status == 200:
            was, claimed = moment(before.last_modified or ""), moment(outcome.last_modified or "")
            modified = modified.with_(belief.modified(changed, was, claimed, last, outcome.at))
        announced = announced.with_(belief.announced(changed, before.announced or 0.0, last, outcome.at))
        if (modified, announced) != before_visit:
            self._db.run(
                "UPDATE host SET modified_right = ?, modified_wrong = ?, announced_right = ?, announced_wrong = ?"
                " WHERE id = ?",
                (*modified, *announced, host),
            )
        return modified, announced

    def _dates(self, host: HostId) -> tuple[belief.Record, belief.Record]:
        """The records of a host's Last-Modified and of its sitemaps."""
        row = self._db.must(
            "SELECT modified_right, modified_wrong, announced_right, announced_wrong FROM host WHERE id = ?", (host,)
        )
        return belief.Record(*row[:2]), belief.Record(*row[2:])

    def count(self, known: Known, host: HostId, role: int, old: History | None, new: History | None) -> None:
        """What a site's pages have in common is what a new one of them is believed to be like."""
        if role != Role.PAGE:
            return
        pages, means, squares, rates = 0, 0.0, 0.0, 0
        for page, sign in ((old, -1), (new, +1)):
            if page is not None:
                pages += sign
                means += sign * page.estimate
                squares += sign * estimate.second_moment(page.alpha, page.beta)
                rates += sign * round(RATE_UNIT * page.rate)
        self._counters.add(known.row.id, RATES, rates)
        self._need_site(known, host)
        self._db.run(
            "UPDATE site SET pages = max(0, pages + ?), means = max(0, means + ?), squares = max(0, squares + ?)"
            " WHERE collection = ? AND name = (SELECT site FROM host WHERE id = ?)",
            (pages, means, squares, known.row.id, host),
        )

    def _need_site(self, known: Known, host: HostId) -> None:
        self._db.need("site", [(known.row.id, self._db.value("SELECT site FROM host WHERE id = ?", (host,)))])

    def forget(self, known: Known, key: Key) -> None:
        """It is kept no longer."""
        found = self.find(key)
        if found is None:
            return
        self._leave(key, found)
        role = self._db.value("SELECT role FROM url WHERE host = ? AND collection = ? AND id = ?", key)
        self.count(known, key[0], role, found[3], None)
        self._db.run("DELETE FROM page WHERE host = ? AND collection = ? AND id = ?", key)
        self._db.run(  # whoever comes back must come whole: search has forgotten it too
            "UPDATE url SET etag = NULL, last_modified = NULL, content_id = NULL"
            " WHERE host = ? AND collection = ? AND id = ?",
            key,
        )

    def move(self, known: Known, key: Key, shelf: int, at: float) -> None:
        """To one of our own shelves, or to where it is due at once."""
        found = self.find(key)
        if found is not None:
            self._leave(key, found)
            self._stand(key, found[3], (shelf, at), found[2])
            self.look_again(known, key[0])

    def _revise(self, known: Known, key: Key, page: History, found: tuple[int, float, int, History]) -> None:
        """Something about it was learned without a visit."""
        waits = self.pull(key[0], key[1], found[0], found[1], key[2])
        place = self.policy(known).place(page) if found[0] >= 0 else found[:2]  # pages only
        self._db.run(
            "UPDATE page SET shelf = ?, key = ?, history = ? WHERE host = ? AND collection = ? AND id = ?",
            (*place, _encode(page), *key),
        )
        if waits:
            self.put(key[0], key[1], *place, key[2])
            self.look_again(known, key[0])

    def weigh(self, known: Known, key: Key, in_links: int, rank: float) -> None:
        """Its in-links or its rank changed. A small change is not worth the move."""
        found = self.find(key) if known.config.revisit.weigh != "equal" else None
        weight = importance(known, in_links, rank)
        if found is not None and not 0.7 < weight / found[3].weight < 1.4:
            self._revise(known, key, msgspec.structs.replace(found[3], weight=weight), found)

    def announce(self, known: Known, key: Key, at: float) -> None:
        """A sitemap or feed says that it changed; where such dates are believed, that is a reason to go."""
        found = self.find(key)
        if found is None or at <= found[3].last or at > self._clock.now() + belief.SLACK_S:
            return
        if self._dates(key[0])[1].is_believed:
            self._revise(known, key, msgspec.structs.replace(found[3], announced=at), found)

    def freshness(self, known: Known, key: Key) -> Freshness | None:
        """What is believed of a page, for people."""
        found = self.find(key) if known.config.keeps_fresh else None
        if found is None:
            return None
        policy, dates = self.policy(known), self._dates(key[0])
        due = found[1] if found[0] < 0 else self._next(policy, key, found)
        return Freshness(
            found[3], due if due < math.inf else None, found[2], found[0], known.tuning.price,
            dates[0].is_believed, dates[1].is_believed,
        )  # fmt: skip

    def _next(self, policy: Policy, key: Key, found: tuple[int, float, int, History]) -> float:
        if not isinstance(policy, Planned):
            return policy.due(found[0], found[1])
        self._db.need_first("due", [(key[0], key[1], policy.shelf)], ALL)
        planned = self._db.value(
            "SELECT min(key) FROM due WHERE host = ? AND collection = ? AND shelf = ? AND id = ?",
            (key[0], key[1], policy.shelf, key[2]),
        )
        return math.inf if planned is None else float(planned)

    # -- all pages --------------------------------------------------------------------------------------------

    def begin_adoption(self, known: Known) -> None:
        """What is counted of the collection as a whole is counted anew, host by host."""
        for bucket in (RATES, DISMISSED_WAITING, OUT_AGAIN):
            self._counters.add(known.row.id, bucket, -self._counters.value(known.row.id, bucket))

    def adopt(self, known: Known) -> None:
        """The collection is to be kept fresh from now on, or in another way, or no longer.

        What the visits made so far say of a page is not lost: its history is read again from them.
        """
        number = known.row.id
        for table in ("due", "shelf"):
            self._db.run(f"DELETE FROM {table} WHERE collection = ?", (number,))  # noqa: S608 (names of our own)
        self._db.run("DELETE FROM ready WHERE collection = ? AND kind = ?", (number, OLD))
        self._db.run("UPDATE work SET due = NULL WHERE collection = ?", (number,))
        self._db.run("UPDATE site SET pages = 0, means = 0, squares = 0 WHERE collection = ?", (number,))
        if not known.config.keeps_fresh:
            self._let_go(known)
        out = self._db.value(
            "SELECT count(*) FROM page JOIN url USING (host, collection, id)"
            " WHERE collection = ? AND state = ? AND role = 0",
            (number, int(UrlState.HANDED_OUT)),
        )
        self._counters.add(number, OUT_AGAIN, out)
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
            weight = importance(known, in_links, rank) if role == Role.PAGE else LISTING_WEIGHT
            self._adopt(known, (host, number, url), role, weight, state == UrlState.HANDED_OUT)
            hosts.add(host)
        for host in sorted(hosts):
            self.look_again(known, host)

    def _let_go(self, known: Known) -> None:
        """Nothing is kept fresh any more. A page that is out stays written down until it comes home, or nobody would
        know that it is kept; what is believed of it is what its visits tell, as of those that are at home."""
        number = known.row.id
        out = self._db.rows(
            "SELECT page.host, page.id, gone FROM page JOIN url USING (host, collection, id)"
            " WHERE collection = ? AND state = ? AND role = 0",
            (number, int(UrlState.HANDED_OUT)),
        )
        self._db.run("DELETE FROM page WHERE collection = ?", (number,))
        for host, url, gone in out:
            key = (host, number, url)
            page = self._remembered(key)
            if page is not None:
                self._db.run("INSERT INTO page VALUES (?, ?, ?, 0, 0, ?, ?)", (*key, gone, _encode(page)))

    def _adopt(self, known: Known, key: Key, role: int, weight: float, is_out: bool) -> None:
        """One page, under the policy as it is now; one that is out is put on its shelf when it comes home."""
        found, page = self.find(key), self._remembered(key)
        if page is None:
            return
        page = msgspec.structs.replace(page, weight=weight)
        self.count(known, key[0], role, None, page)
        place, gone = self._place(known, role, page), 0
        if found is not None and found[0] == LATER:
            place, gone = (LATER, found[1]), found[2]
        self._stand(key, page, place, gone)
        if is_out:
            self.pull(key[0], key[1], *place, key[2])

    def _remembered(self, key: Key) -> History | None:
        """A page's history: as it was written down, else as its visits tell it."""
        found = self.find(key)
        if found is not None:
            return found[3]
        page: History | None = None
        self._db.need_first("visit", [key], ALL)
        for at, changed in self._db.rows(
            "SELECT at, changed FROM visit WHERE host = ? AND collection = ? AND id = ? AND status IN (200, 304)"
            " ORDER BY number",
            key,
        ):
            if page is None or changed is None:
                page = meet(at, estimate.PRIOR_ALPHA, estimate.PRIOR_BETA)
            else:
                page = see(page, at, bool(changed))
        return page
