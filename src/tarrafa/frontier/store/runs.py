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
    LoadedCollection,
    RunProgress,
    StoreContext,
)
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import SWEPT, SWEPT_RANK, UrlKey
from tarrafa.frontier.store.urls import FrontierUrls, Queued
from tarrafa.i18n import Message, message
from tarrafa.model import HostId, UrlId, UrlState, collection_state
from tarrafa.parse.url import host_id, host_key, url_id

HOSTS_PER_SWEEP = 200  # in one call, however few URLs they have
OF_EARLIER = (
    f"collection = ? AND run < ? AND (state = {UrlState.FETCHED:d} OR state = {UrlState.PENDING:d} AND shown > 0)"
)


class Runs:
    """The runs of one frontier's collections."""

    def __init__(self, context: StoreContext, urls: FrontierUrls) -> None:
        self._db, self._counters, self._collections = context.db, context.counters, context.collections
        self._urls = urls

    def begin(self, known: LoadedCollection, reason: Message | str, run: int, roots: list[DiscoveredUrl]) -> None:
        self._collections.begin_run(known, run)
        self._collections.write_state(known, "running", reason)
        self._urls.seed(known.row.id, roots)

    # -- URLs that an earlier run left pending -------------------------------------------------------------------

    def put_aside(self, known: LoadedCollection, key: UrlKey, shown: int) -> None:
        """Put a URL aside that an earlier run left pending, and that is in no queue any more; a kept page stays
        kept."""
        state = UrlState.FETCHED if shown else UrlState.ASIDE
        (role,) = self._db.url("role", key)
        self._db.update_url(key, "state = ?, shown = 0", int(state))
        self._counters.move(known.row.id, UrlState.PENDING, state, role)
        self._counters.add(known.row.id, Bucket.LEFT_OVER, -1)
        if shown:
            self._counters.add(known.row.id, Bucket.SHOWN_PAGES, -1)
            self._counters.add(known.row.id, Bucket.OLD_PAGES)

    def end_runs(self, known: LoadedCollection) -> None:
        """The collection has no runs any more: every known URL belongs to the last one, and URLs that were put aside
        are pending again. Scans the hosts that are at hand."""
        number, run, queued = known.row.id, known.run, Queued()
        for bucket, state in ((Bucket.OLD_PAGES, UrlState.FETCHED), (Bucket.LEFT_OVER, UrlState.PENDING)):
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
            self._urls.requeue(known, (host, number, url), UrlState.ASIDE, queued)
        self._urls.add_pending(number, queued)

    def _clear_shown(self, known: LoadedCollection) -> None:
        """Pending URLs whose page is still shown are like any others from now on."""
        shown = self._db.rows(
            "SELECT host, id, shown, state FROM url WHERE collection = ? AND shown > 0", (known.row.id,)
        )
        for host, url, how, state in shown:
            key = (host, known.row.id, url)
            is_swept = how == SWEPT and state == UrlState.PENDING
            if is_swept:
                self._urls.dequeue(known, key)
            self._db.update_url(key, "shown = 0")
            if is_swept:
                self._urls.requeue_counted(known, key, Queued())
        self._counters.add(known.row.id, Bucket.SHOWN_PAGES, -len(shown))

    # -- the sweep -----------------------------------------------------------------------------------------------

    def sweep(self, known: LoadedCollection, limit: int) -> bool:
        """Sweep the next part; False: there is no more."""
        if not self.needs_sweep(known):
            return False
        first, after = self.sweep_position(known)
        rows = self._db.rows(
            "SELECT host FROM work WHERE collection = ? AND host >= ? ORDER BY host LIMIT ?",
            (known.row.id, first, HOSTS_PER_SWEEP),
        )
        hosts, keys, most = [host for (host,) in rows], list[UrlKey](), max(1, limit)
        for host in hosts:
            found = self._db.rows(
                f"SELECT id FROM url WHERE host = ? AND {OF_EARLIER} AND id > ? ORDER BY id LIMIT ?",  # noqa: S608
                (host, known.row.id, known.run, after if host == first else b"", most - len(keys)),
            )
            keys += [(host, known.row.id, url) for (url,) in found]
            if len(keys) >= most:
                break
        self.dismiss(known, keys)
        return self.advance(known, keys[-1] if len(keys) >= most else None, hosts)

    @staticmethod
    def needs_sweep(known: LoadedCollection) -> bool:
        return known.has_runs and known.run > 1 and known.run_progress.phase != SWEPT_OUT

    @staticmethod
    def sweep_position(known: LoadedCollection) -> tuple[HostId, UrlId]:
        """The sweep continues on this host, after this URL."""
        progress = known.run_progress
        return FIRST_HOST if progress.host is None else progress.host, progress.url or b""

    def advance(self, known: LoadedCollection, last: UrlKey | None, hosts: list[HostId]) -> bool:
        """Store how far the sweep is: after a URL, or after all of these hosts. False: it is at its end."""
        started = known.run_progress.started
        if last is not None:
            progress = RunProgress(started, SWEEPING, last[0], last[2])
        elif len(hosts) == HOSTS_PER_SWEEP and hosts[-1] < (1 << 63) - 1:
            progress = RunProgress(started, SWEEPING, hosts[-1] + 1, b"")
        else:
            progress = RunProgress(started, SWEPT_OUT)
        self._collections.set_sweep_position(known, progress)
        return progress.phase != SWEPT_OUT

    def dismiss(self, known: LoadedCollection, keys: list[UrlKey]) -> None:
        """Make pages pending to be dismissed, except on hosts that fail."""
        number, queued = known.row.id, Queued()
        for key in keys:
            host, _, url = key
            if self._db.value("SELECT failures FROM host WHERE id = ?", (host,)):
                continue
            row = self._db.row(
                f"SELECT state FROM url WHERE host = ? AND {OF_EARLIER} AND id = ?",  # noqa: S608
                (host, number, known.run, url),
            )
            if row is None:  # a link led there a moment ago
                continue
            if row[0] == UrlState.PENDING:
                self._urls.dequeue(known, key)
                self._counters.add(number, Bucket.LEFT_OVER, -1)
            else:
                self._counters.move(number, UrlState.FETCHED, UrlState.PENDING)
                self._counters.add(number, Bucket.OLD_PAGES, -1)
                self._counters.add(number, Bucket.SHOWN_PAGES)
                queued[host] = queued.get(host, 0) + 1
            self._db.update_url(key, "state = 0, shown = ?, run = ?", SWEPT, known.run)
            self._db.run("INSERT INTO pending VALUES (?, ?, ?, ?)", (host, number, SWEPT_RANK, url))
        self._urls.add_pending(number, queued)


def roots_of(known: LoadedCollection) -> list[DiscoveredUrl]:
    """The roots of the configuration in force."""
    keyed = ((url, host_key(url)) for url in known.config.roots)
    return [DiscoveredUrl(host_id(key), url_id(url), url, key, 0) for url, key in keyed]


def check_can_begin_run(known: LoadedCollection) -> None:
    """Raise if the next run of a collection cannot begin."""
    name, state = known.row.name, known.row.state
    if state in (IMPORTING, DELETING):
        raise FrontierError(
            message("{name}: is {state}; no run of it can begin", name=name, state=collection_state(state))
        )
    if state == "running":
        raise FrontierError(
            message(
                "{name}: its run {run} is under way; stop it before the next one begins", name=name, run=str(known.run)
            )
        )
    if known.config.keeps_fresh:
        raise FrontierError(message("{name}: is kept fresh page by page ([revisit]); it has no runs", name=name))
    if known.order.is_breadth:
        raise FrontierError(
            message(
                '{name}: a collection with [strategy] order = "breadth" has no runs; use another order, or'
                " `tarrafa crawl` again, by which each site may be chosen anew",
                name=name,
            )
        )


def has_runs(collection: Collection) -> bool:
    return not collection.keeps_fresh and collection.strategy.order != "breadth"
