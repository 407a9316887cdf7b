"""Runs of a collection: begins a run from the roots and sweeps pages that it did not find.

A run visits everything again from the roots. It begins by one number in the collection's row: nothing else is touched.
A URL's row has the run in which a link last led there (`urls.py` renews it), so the remains of an earlier run are
recognised wherever they are read:

- a kept page stays kept, and shown, until this run has seen it (OLD_PAGES counts those not yet found);
- a URL that was pending when the earlier run ended is put aside when its turn comes (LEFT_OVER counts those still in a
queue).

When no URL is pending any more, the run has looked everywhere, and the supervisor, which sees all servers, calls the
sweep. The sweep goes through all URLs once, some at a time; pages that were not found are then pending to be dismissed:
handed out like a visit, but not requested, so that the archive records it and every follower drops the page. Its
versions stay archived.
Promises: killed at any moment, the sweep continues where it was; a URL that a link leads to meanwhile is visited after
all.

A host that fails is spared: pages of an unreachable host are not known to be gone.
Known weakness: if a single page cannot be fetched, pages that only it links to count as not found.
"""

from tarrafa.config import Collection
from tarrafa.errors import FrontierError
from tarrafa.frontier.messages import FIRST_HOST, DiscoveredUrl
from tarrafa.frontier.store.collections import (
    DELETING,
    IMPORTING,
    SWEEPING,
    SWEPT_OUT,
    Collections,
    LoadedCollection,
    RunProgress,
)
from tarrafa.frontier.store.counters import LEFT_OVER, OLD_PAGES, SHOWN_PAGES, Counters
from tarrafa.frontier.store.database import SWEPT, SWEPT_RANK, FrontierDatabase
from tarrafa.frontier.store.urls import FrontierUrls
from tarrafa.i18n import Message
from tarrafa.model import HostId, UrlId, UrlState
from tarrafa.parse.url import host_id, host_key, url_id

HOSTS_PER_SWEEP = 200  # looked through in one call, however little they have
OF_EARLIER = (
    f"collection = ? AND run < ? AND (state = {UrlState.FETCHED:d} OR state = {UrlState.PENDING:d} AND shown > 0)"
)
Key = tuple[HostId, int, UrlId]


class Runs:
    """The runs of one frontier's collections."""

    def __init__(self, db: FrontierDatabase, counters: Counters, collections: Collections, urls: FrontierUrls) -> None:
        self._db, self._counters, self._collections, self._urls = db, counters, collections, urls

    def begin(self, known: LoadedCollection, reason: Message | str, run: int, roots: list[DiscoveredUrl]) -> None:
        """Run number so and so, from these roots."""
        self._collections.begin_run(known, run)
        self._collections.write_state(known, "running", reason)
        self._urls.seed(known.row.id, roots)

    # -- what an earlier run left in the queues ------------------------------------------------------------------

    def put_aside(self, known: LoadedCollection, key: Key, shown: int) -> None:
        """It waited when an earlier run ended, and is in no queue any more: a page is as it was kept."""
        state = UrlState.FETCHED if shown else UrlState.ASIDE
        self._db.run(
            "UPDATE url SET state = ?, shown = 0 WHERE host = ? AND collection = ? AND id = ?", (int(state), *key)
        )
        self._counters.move(known.row.id, UrlState.PENDING, state)
        self._counters.add(known.row.id, LEFT_OVER, -1)
        if shown:
            self._counters.add(known.row.id, SHOWN_PAGES, -1)
            self._counters.add(known.row.id, OLD_PAGES)

    def end_runs(self, known: LoadedCollection) -> None:
        """The collection has no runs any more: everything known is this one's, and what was put aside waits again. For
        the hosts that are at hand; scans them, once per such change."""
        number, run, waiting = known.row.id, known.run, dict[HostId, int]()
        for bucket, state in ((OLD_PAGES, UrlState.FETCHED), (LEFT_OVER, UrlState.PENDING)):
            count = self._db.value(
                "SELECT count(*) FROM url WHERE collection = ? AND run < ? AND state = ?", (number, run, int(state))
            )
            self._counters.add(number, bucket, -count)
        self._db.run("UPDATE url SET run = ? WHERE collection = ? AND run < ?", (run, number, run))
        self._clear_shown(known)
        rows = self._db.rows(
            "UPDATE url SET state = 0 WHERE collection = ? AND state = ? RETURNING host, id",
            (number, int(UrlState.ASIDE)),
        )
        for host, url in rows:
            self._urls.requeue(known, host, url, UrlState.ASIDE, waiting)
        self._urls.add_pending(number, waiting)

    def _clear_shown(self, known: LoadedCollection) -> None:
        """What waits is like any other from now on."""
        shown = self._db.rows(
            "SELECT host, id, shown, state FROM url WHERE collection = ? AND shown > 0", (known.row.id,)
        )
        for host, url, how, state in shown:
            key, uncounted = (host, known.row.id, url), dict[HostId, int]()
            is_swept = how == SWEPT and state == UrlState.PENDING
            if is_swept:
                self._urls.dequeue(known, key)
            self._db.run("UPDATE url SET shown = 0 WHERE host = ? AND collection = ? AND id = ?", key)
            if is_swept:
                self._urls.requeue_counted(known, host, url, uncounted)
        self._counters.add(known.row.id, SHOWN_PAGES, -len(shown))

    # -- the sweep -----------------------------------------------------------------------------------------------

    def sweep(self, known: LoadedCollection, limit: int) -> bool:
        """The next part of it; False: there is no more."""
        if not self.needs_sweep(known):
            return False
        hosts = self.next_hosts(known)
        keys, last = self._unfound(known, hosts, limit)
        self.dismiss(known, keys)
        return self.advance(known, last, hosts)

    @staticmethod
    def needs_sweep(known: LoadedCollection) -> bool:
        return known.has_runs and known.run > 1 and known.run_progress.phase != SWEPT_OUT

    def next_hosts(self, known: LoadedCollection) -> list[HostId]:
        """Those that come next, the one included in which the last part ended."""
        rows = self._db.rows(
            "SELECT host FROM work WHERE collection = ? AND host >= ? ORDER BY host LIMIT ?",
            (known.row.id, self.sweep_position(known)[0], HOSTS_PER_SWEEP),
        )
        return [host for (host,) in rows]

    @staticmethod
    def sweep_position(known: LoadedCollection) -> tuple[HostId, UrlId]:
        """Behind which the sweep goes on."""
        round_ = known.run_progress
        return FIRST_HOST if round_.host is None else round_.host, round_.url or b""

    def _unfound(self, known: LoadedCollection, hosts: list[HostId], limit: int) -> tuple[list[Key], Key | None]:
        """Pages of these hosts that this run has not found; the last one, if there may be more."""
        first, after = self.sweep_position(known)
        keys: list[Key] = []
        for host in hosts:
            rows = self._db.rows(
                f"SELECT id FROM url WHERE host = ? AND {OF_EARLIER} AND id > ? ORDER BY id LIMIT ?",  # noqa: S608
                (host, known.row.id, known.run, after if host == first else b"", max(1, limit) - len(keys)),
            )
            keys += [(host, known.row.id, url) for (url,) in rows]
            if len(keys) >= max(1, limit):
                return keys, keys[-1]
        return keys, None

    def advance(self, known: LoadedCollection, last: Key | None, hosts: list[HostId]) -> bool:
        """Note how far the sweep is: behind a URL, or behind all of these hosts."""
        if last is not None:
            place = RunProgress(known.run_progress.started, SWEEPING, last[0], last[2])
        elif len(hosts) == HOSTS_PER_SWEEP and hosts[-1] < (1 << 63) - 1:
            place = RunProgress(known.run_progress.started, SWEEPING, hosts[-1] + 1, b"")
        else:
            place = RunProgress(known.run_progress.started, SWEPT_OUT)
        self._collections.set_sweep_position(known, place)
        return place.phase != SWEPT_OUT

    def dismiss(self, known: LoadedCollection, keys: list[Key]) -> None:
        """These wait to be taken out where they are shown, but for those whose host is in trouble."""
        number, waiting = known.row.id, dict[HostId, int]()
        for key in keys:
            if self._db.value("SELECT failures FROM host WHERE id = ?", (key[0],)):
                continue
            row = self._db.row(
                f"SELECT state FROM url WHERE host = ? AND {OF_EARLIER} AND id = ?",  # noqa: S608
                (key[0], number, known.run, key[2]),
            )
            if row is None:  # somebody led there, a moment ago
                continue
            if row[0] == UrlState.PENDING:
                self._urls.dequeue(known, key)
                self._counters.add(number, LEFT_OVER, -1)
            else:
                self._counters.move(number, UrlState.FETCHED, UrlState.PENDING)
                self._counters.add(number, OLD_PAGES, -1)
                self._counters.add(number, SHOWN_PAGES)
                waiting[key[0]] = waiting.get(key[0], 0) + 1
            self._db.run(
                "UPDATE url SET state = 0, shown = ?, run = ? WHERE host = ? AND collection = ? AND id = ?",
                (SWEPT, known.run, *key),
            )
            self._db.run("INSERT INTO pending VALUES (?, ?, ?, ?)", (key[0], number, SWEPT_RANK, key[2]))
        self._urls.add_pending(number, waiting)


def roots_of(known: LoadedCollection) -> list[DiscoveredUrl]:
    """As the configuration in force names them."""
    keyed = ((url, host_key(url)) for url in known.config.roots)
    return [DiscoveredUrl(host_id(key), url_id(url), url, key, 0) for url, key in keyed]


def check_can_begin_run(known: LoadedCollection) -> None:
    """Raise why the next run of a collection cannot begin."""
    name, state = known.row.name, known.row.state
    if state in (IMPORTING, DELETING):
        raise FrontierError(f"{name}: is {state}; no run of it can begin")
    if state == "running":
        raise FrontierError(f"{name}: its run {known.run} is under way; stop it before the next one begins")
    if known.config.keeps_fresh:
        raise FrontierError(f"{name}: is kept fresh page by page ([revisit]); it has no runs")
    if known.order.is_breadth:
        raise FrontierError(
            f'{name}: a collection with [strategy] order = "breadth" has no runs; use another order, or `tarrafa crawl`'
            " again, by which each site may be chosen anew"
        )


def has_runs(collection: Collection) -> bool:
    return not collection.keeps_fresh and collection.strategy.order != "breadth"
