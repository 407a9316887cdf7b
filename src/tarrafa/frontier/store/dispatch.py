"""Dispatch of visits: hands out numbered visits, settles the reported outcomes, and requeues what was not reported.

Promises: a visit gets its number when it is handed out, and the number is never given again; handed-out visits are
stored, so that they are pending again after the crash of a worker; a report on a visit that is no longer handed out
changes nothing. New URLs and revisits share a host's polite slots.
"""

import dataclasses
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tarrafa.frontier.messages import VISITS_PER_LEASE, VisitReport
from tarrafa.frontier.store.breadth_sites import BreadthSites
from tarrafa.frontier.store.collections import Collections, LoadedCollection
from tarrafa.frontier.store.counters import (
    BYTES,
    CHOSEN_WAITING,
    DISMISSED_WAITING,
    OLD_PAGES,
    REQUESTS,
    REVISITS_OUT,
    SHOWN_PAGES,
    VISITS,
    Counters,
)
from tarrafa.frontier.store.database import ALL_ROWS, SWEPT, SWEPT_RANK, UNSHOWN, FrontierDatabase
from tarrafa.frontier.store.page_replacement import PageReplacement
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.frontier.store.revisits import (
    CHOSEN_SHELF,
    DISMISSED_SHELF,
    RevisitQueue,
    UrlBeforeVisit,
    has_changed,
)
from tarrafa.frontier.store.runs import Runs
from tarrafa.frontier.store.urls import RANK_COLUMNS_SQL, FrontierUrls, rank_of
from tarrafa.model import (  # fmt: skip
    ATTEMPT_NOT_COUNTED,
    BUSY,
    GIVEN_UP,
    NO_REQUEST,
    TRANSIENT,
    HostId,
    Outcome,
    Status,
    UrlId,
    UrlRole,
    UrlState,
    Visit,
    is_inconclusive,
)

HISTORY_MAX = 100  # visits of a URL that are remembered one by one
TRIMMED_AT_ONCE = 8  # of those beyond
TYPES_COUNTED_MAX = 200  # servers invent them
AHEAD_S = 60.0  # pages to see again are handed out for so long
STATE_OF = "SELECT state FROM url WHERE host = ? AND collection = ? AND id = ?"
PUT_ASIDE_MAX = 1_000  # at once, of what an earlier run left in a host's queue
VISIT_COLUMNS_SQL = (
    " url, depth, redirects, visits, blamed, etag, last_modified, content_id, role, coalesce(parent, x''), payload,"
    " archived, shown"
)
STARVED_MAX = 10  # in a row; who is too slow on an idle machine too must be told so in the end


class VisitDispatcher:
    """What is handed out by one frontier."""

    def __init__(
        self,
        db: FrontierDatabase,
        counters: Counters,
        collections: Collections,
        urls: FrontierUrls,
        runs: Runs,
        ready: ReadyQueue,
    ) -> None:
        self._db, self._counters, self._collections = db, counters, collections
        self._urls, self._runs, self._ready = urls, runs, ready
        self._revisits: RevisitQueue = urls.revisits
        self._exchange: PageReplacement = urls.page_replacement
        self._breadth: BreadthSites = urls.breadth
        self._chance = random.Random(0)

    def hand_out(self, known: LoadedCollection, host: HostId, count: int, held: int = 0) -> list[Visit]:
        """The next visits of a host, numbered and handed out: pages to see again up to their share, then new URLs; what
        the one kind leaves the other may have."""
        if not known.config.keeps_fresh or count < 1:
            return self._hand_out_new(known, host, count)
        delay_s = self._db.value("SELECT delay_s FROM host WHERE id = ?", (host,))  # as of its lease, if not later
        ahead = max(1, int(AHEAD_S / max(delay_s, 0.001))) - held  # by then others may be more urgent
        most = min(count, VISITS_PER_LEASE, ahead, self._collections.requests_left(known))
        share = int(most * known.config.revisit.share + self._chance.random())  # turns would fall into step with hosts
        visits = self._hand_out_revisits(known, host, share)
        visits += self._hand_out_new(known, host, min(count, ahead) - len(visits))
        return visits + self._hand_out_revisits(known, host, most - len(visits))

    def prefetch_visits(self, known: LoadedCollection, hosts: Sequence[HostId]) -> Sequence[HostId]:
        """What their next visits need is fetched for all of them together."""
        if not self._db.is_row_cache:
            return hosts
        number, most = known.row.id, 1 if known.order.is_breadth else VISITS_PER_LEASE
        self._db.prefetch_first("pending", [(host, number) for host in hosts], most)
        first = "SELECT host, collection, id FROM pending WHERE host = ? AND collection = ? ORDER BY rank, id LIMIT ?"
        self._db.prefetch("url", [row for host in hosts for row in self._db.rows(first, (host, number, most))])
        if known.config.keeps_fresh:
            self._revisits.prefetch_shelves(known, hosts)
        return hosts

    def _hand_out_revisits(self, known: LoadedCollection, host: HostId, count: int) -> list[Visit]:
        """Pages that are kept and worth another visit, and what a full collection exchanges."""
        visits: list[Visit] = []
        taken = self._revisits.pop_due(known, host, count)
        self._db.prefetch("url", [(host, known.row.id, url) for url, _ in taken])
        self._db.prefetch("page", [(host, known.row.id, url) for url, _ in taken])
        for url, shelf in taken:
            key = (host, known.row.id, url)
            state, found = self._db.value(STATE_OF, key), self._revisits.find(key)
            if shelf == CHOSEN_SHELF:
                self._counters.add(known.row.id, CHOSEN_WAITING, -1)
            elif found is None or state not in (UrlState.FETCHED, UrlState.DROPPED) or found[0] < 0 <= shelf:
                continue  # of a plan that is older than what happened since
            visit = self._hand_out_url(known, host, url, state)
            if shelf != CHOSEN_SHELF and found is not None:
                self._counters.add(known.row.id, REVISITS_OUT, int(state == UrlState.FETCHED))
                visit = replace(visit, gone=found[2], dismissed=shelf == DISMISSED_SHELF)
            visits.append(visit)
        return visits

    def _hand_out_url(self, known: LoadedCollection, host: HostId, url: UrlId, state: int) -> Visit:
        number, key = known.row.id, (host, known.row.id, url)
        row = self._db.required_row(
            "UPDATE url SET state = 1, visits = visits + 1 WHERE host = ? AND collection = ? AND id = ? RETURNING"  # noqa: S608
            + VISIT_COLUMNS_SQL,
            key,
        )
        self._db.run("INSERT INTO handed VALUES (?, ?, ?, ?)", (*key, row[3]))
        self._counters.move(number, state, UrlState.HANDED_OUT)
        return self._visit(known, host, url, row)

    @staticmethod
    def _visit(known: LoadedCollection, host: HostId, url: UrlId, row: tuple[Any, ...]) -> Visit:
        """In a later run it is asked for whole: a 304 would bring no links, and they are what a run goes by."""
        *facts, shown = row
        visit = replace(Visit(known.row.id, host, url, *facts), dismissed=shown == SWEPT)
        return visit if known.run == 1 else replace(visit, etag=None, last_modified=None)

    def outstanding_visits(self, known: LoadedCollection, host: HostId) -> list[Visit]:
        """What was handed out of a host and not reported yet, as it was handed out."""
        number, visits = known.row.id, list[Visit]()
        rows = self._db.rows("SELECT id FROM handed WHERE host = ? AND collection = ?", (host, number))
        self._db.prefetch("url", [(host, number, url) for (url,) in rows])
        for (url,) in rows:
            row = self._db.required_row(
                f"SELECT{VISIT_COLUMNS_SQL} FROM url WHERE host = ? AND collection = ? AND id = ?",
                (host, number, url),
            )
            visit, found = self._visit(known, host, url, row), self._revisits.find((host, number, url))
            if found is not None:
                visit = replace(visit, gone=found[2], dismissed=found[0] == DISMISSED_SHELF)
            visits.append(visit)
        return visits

    def _hand_out_new(self, known: LoadedCollection, host: HostId, count: int) -> list[Visit]:
        number = known.row.id
        visited, held, refused = self._db.required_row(
            "SELECT visited, (SELECT count(*) FROM handed WHERE handed.host = work.host"
            " AND handed.collection = work.collection), refused FROM work WHERE host = ? AND collection = ?",
            (host, number),
        )
        limit = known.config.scope.host_pages_max
        room = limit - visited - held
        slots = 0 if self._exchange.is_full(known) else self._collections.free_slots(known)
        if visited >= limit or refused:
            self.give_up_host(known, host, Status.HOST_FULL)
        visits = self._hand_out_swept(known, host, count)
        most = self._breadth.new_visits_allowed(known, host, max(0, min(count - len(visits), room, slots)))
        for url in self._next_waiting(known, host, most):
            visits.append(self._hand_out_url(known, host, url, UrlState.PENDING))
            self._breadth.visit_handed_out(known, host, url)
        return visits

    def _hand_out_swept(self, known: LoadedCollection, host: HostId, count: int) -> list[Visit]:
        """What is to be dismissed comes first, and counts towards no limit: nobody is asked for it."""
        if not self._counters.value(known.row.id, SHOWN_PAGES):
            return []
        taken = self._next_waiting(known, host, count, SWEPT_RANK)
        return [self._hand_out_url(known, host, url, UrlState.PENDING) for url in taken]

    def _next_waiting(
        self, known: LoadedCollection, host: HostId, count: int, rank_max: float = math.inf
    ) -> list[UrlId]:
        """The next URLs of a host's queue, up to a rank, taken out of it; what an earlier run left there is put
        aside."""
        urls, looked, number = list[UrlId](), 0, known.row.id
        more = count > 0
        while more and looked < PUT_ASIDE_MAX:
            wanted = count - len(urls)
            found = self._queue_heads(known, host, wanted, rank_max)
            for place, url in found:
                self._unqueue(known, host, place, url)
                if not self._is_left_over(known, (host, number, url)):
                    urls.append(url)
            looked += len(found)
            more = len(found) == wanted and len(urls) < count
        self._wait_less(known, host, looked)
        return urls

    def _is_left_over(self, known: LoadedCollection, key: tuple[HostId, int, UrlId]) -> bool:
        """Whether an earlier run left it in the queue: then it is put aside."""
        if known.run == 1:
            return False
        run, shown = self._db.required_row(
            "SELECT run, shown FROM url WHERE host = ? AND collection = ? AND id = ?", key
        )
        if run < known.run:
            self._runs.put_aside(known, key, shown)
        return bool(run < known.run)

    def _queue_heads(
        self, known: LoadedCollection, host: HostId, count: int, rank_max: float
    ) -> list[tuple[float, UrlId]]:
        self._db.prefetch_first("pending", [(host, known.row.id)], count)
        rows = self._db.rows(
            "SELECT rank, id FROM pending WHERE host = ? AND collection = ? AND rank <= ? ORDER BY rank, id LIMIT ?",
            (host, known.row.id, rank_max, count),
        )
        self._db.prefetch("url", [(host, known.row.id, url) for _, url in rows])
        return [(place, url) for place, url in rows]

    def _wait_less(self, known: LoadedCollection, host: HostId, count: int) -> None:
        self._db.run(
            "UPDATE work SET pending = pending - ? WHERE host = ? AND collection = ?", (count, host, known.row.id)
        )

    def _unqueue(self, known: LoadedCollection, host: HostId, place: float, url: UrlId) -> None:
        self._db.run(
            "DELETE FROM pending WHERE host = ? AND collection = ? AND rank = ? AND id = ?",
            (host, known.row.id, place, url),
        )
        if known.config.replaces_pages:
            in_links = self._db.value(
                "SELECT in_links FROM url WHERE host = ? AND collection = ? AND id = ?", (host, known.row.id, url)
            )
            self._exchange.remove(known, False, in_links, host, url)

    def needs_sites(self, known: LoadedCollection) -> bool:
        """Whether, before anything goes out, it is time to choose the sites that come next."""
        if not known.order.is_breadth or self._exchange.is_full(known):
            return False
        return self._collections.free_slots(known) > 0 and self._breadth.is_cycle_due(known)

    def new_url_slots(self, known: LoadedCollection) -> int:
        """How many new URLs may go out. A collection that is full takes in only what it chooses itself."""
        if not self._exchange.is_full(known):
            return self._collections.free_slots(known)
        while (best := self._exchange.next_candidate(known)) is not None:
            self._choose(known, best[0], best[1])
        if self._collections.requests_left(known):
            self._exchange.dismiss_worst(known)
        return 0

    def _choose(self, known: LoadedCollection, host: HostId, url: UrlId) -> None:
        """It waits no longer in its host's queue, but on the shelf of the chosen ones."""
        self._db.prefetch("url", [(host, known.row.id, url)])
        worker = self._db.value("SELECT worker FROM host WHERE id = ?", (host,))
        if worker is None:
            self._ready.remove(host)
        place = rank_of(known, url, self._db.required_row(RANK_COLUMNS_SQL, (host, known.row.id, url)))
        self._db.prefetch("pending", [(host, known.row.id, place, url)])
        self._unqueue(known, host, place, url)
        self._db.run("UPDATE work SET pending = pending - 1 WHERE host = ? AND collection = ?", (host, known.row.id))
        if worker is None:
            self._ready.add(host)
        self._breadth.urls_removed(known, host, 1)
        self._exchange.reserve_place(known, host, url)

    def unchoose(self, known: LoadedCollection) -> None:
        """The limits changed: what was chosen waits again in its host's queue."""
        waiting: dict[HostId, int] = {}
        rows = self._db.rows(
            "SELECT due.host, due.key, due.id, url, sequence, in_links, attempts, role FROM due"
            " JOIN url USING (host, collection, id) WHERE due.collection = ? AND due.shelf = ?",
            (known.row.id, CHOSEN_SHELF),
        )
        for host, key, url, *facts in rows:
            self._revisits.remove(host, known.row.id, CHOSEN_SHELF, key, url)
            self._counters.add(known.row.id, CHOSEN_WAITING, -1)
            self._urls.enqueue(known, host, url, tuple(facts), waiting)
        self._urls.add_pending(known.row.id, waiting)

    def finish(self, known: LoadedCollection, host: HostId, reports: Iterable[VisitReport], worker: str) -> None:
        """Take what became of visits. A report on what is no longer handed out changes nothing."""
        number, waiting = known.row.id, dict[HostId, int]()
        settled, step = 0, None
        for report in reports:
            held = self._db.run(
                "DELETE FROM handed WHERE host = ? AND collection = ? AND id = ? AND number = ?",
                (host, number, report.id, report.number),
            )
            if held:
                again = known.config.keeps_fresh and self._revisits.find((host, number, report.id)) is not None
                step = report if self._breadth.is_walk_visit(known, host, report.id) else step
                self._settle(known, host, report, waiting, worker)
                settled += _was_requested(report.outcome) and not again
        self._revisits.update_due(known, host)
        if settled:
            self._db.run(
                "UPDATE work SET visited = visited + ? WHERE host = ? AND collection = ?", (settled, host, number)
            )
        self._urls.add_pending(number, waiting)
        if step is not None:
            again = self._db.value(STATE_OF, (host, number, step.id)) == UrlState.PENDING
            self._breadth.visit_finished(known, host, step.outcome, again)

    def replay_visit(self, known: LoadedCollection, host: HostId, report: VisitReport, worker: str) -> bool:
        """A visit that was made in a former life of this frontier, as its record tells it: the URL is handed out under
        that very number, and at once reported on. False: that visit, or a later one, is known."""
        number, key = known.row.id, (host, known.row.id, report.id)
        state, last = self._db.required_row(
            "SELECT state, (SELECT max(number) FROM visit WHERE visit.host = url.host"
            " AND visit.collection = url.collection AND visit.id = url.id) FROM url"
            " WHERE host = ? AND collection = ? AND id = ?",
            key,
        )
        if report.number <= (last or 0):
            return False
        found = self._revisits.find(key)
        if state == UrlState.PENDING:
            shown = self._db.value("SELECT shown FROM url WHERE host = ? AND collection = ? AND id = ?", key)
            place = rank_of(known, report.id, self._db.required_row(RANK_COLUMNS_SQL, key))
            self._unqueue(known, host, SWEPT_RANK if shown == SWEPT else place, report.id)
            self._db.run("UPDATE work SET pending = pending - 1 WHERE host = ? AND collection = ?", (host, number))
        elif found is not None:
            self._revisits.remove(host, number, found[0], found[1], report.id)
            self._counters.add(number, REVISITS_OUT, int(state == UrlState.FETCHED))
        self._db.run(
            "UPDATE url SET state = 1, visits = max(visits, ?) WHERE host = ? AND collection = ? AND id = ?",
            (report.number, *key),
        )
        self._db.run("INSERT INTO handed VALUES (?, ?, ?, ?)", (*key, report.number))
        self._counters.move(number, state, UrlState.HANDED_OUT)
        self.finish(known, host, [report], worker)
        return True

    def _settle(
        self, known: LoadedCollection, host: HostId, report: VisitReport, waiting: dict[HostId, int], worker: str
    ) -> None:
        number, outcome, key = known.row.id, report.outcome, (host, known.row.id, report.id)
        blamed, shown, run, *facts = self._db.required_row(
            "SELECT blamed, shown, run, content_id, role, in_links, last_modified, announced, payload, attempts,"
            " pagerank FROM url WHERE host = ? AND collection = ? AND id = ?",
            key,
        )
        before = UrlBeforeVisit(*facts)
        if self._revisits.end_former_revisit(known, key) or (
            known.config.keeps_fresh and before.role == UrlRole.PAGE and self._revisits.find(key) is not None
        ):
            self._counters.add(number, REVISITS_OUT, -1)
        if outcome.kept and before.role != UrlRole.PAGE:  # it was announced as a sitemap or feed
            self._db.run("UPDATE url SET role = 0 WHERE host = ? AND collection = ? AND id = ?", key)
            before = dataclasses.replace(before, role=int(UrlRole.PAGE), was_listing=True)
        state = _as_shown(self._state_after(known, host, report, before, blamed), outcome.status, shown)
        again = state == UrlState.PENDING
        if shown and not (again and is_inconclusive(outcome.status)):  # those who show it have heard, or it is kept
            self._db.run("UPDATE url SET shown = 0 WHERE host = ? AND collection = ? AND id = ?", key)
            self._counters.add(number, SHOWN_PAGES, -1)
        self._counters.add(number, OLD_PAGES, int(state == UrlState.FETCHED and run < known.run))
        blame = again and not _is_excused(outcome.status, before)
        tried = again or (state == UrlState.FETCHED and is_inconclusive(outcome.status) and outcome.status != 304)
        self._db.run(
            "UPDATE url SET state = ?, attempts = ?, blamed = ?, status = ?, type = ?, fetched = ?"
            " WHERE host = ? AND collection = ? AND id = ?",
            (int(state), before.attempts + 1 if tried else 0, blamed + blame if again else 0, outcome.status,
             outcome.type or None, outcome.at, *key),
        )  # fmt: skip
        if outcome.kept or outcome.payload:  # what an error page says of itself is nothing to compare the page with
            self._db.run(
                "UPDATE url SET content_id = ?, etag = ?, last_modified = ?, payload = ?,"
                " archived = CASE WHEN payload = ? AND payload != '' THEN archived ELSE ? END"
                " WHERE host = ? AND collection = ? AND id = ?",
                (outcome.content_id or None, outcome.etag, outcome.last_modified, outcome.payload, outcome.payload,
                 outcome.at, *key),
            )  # fmt: skip
        self._db.run(
            "INSERT OR REPLACE INTO visit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, report.number, outcome.at, outcome.status, outcome.length, has_changed(outcome, before), worker),
        )
        if report.number > HISTORY_MAX:
            self._db.prefetch_first("visit", [key], TRIMMED_AT_ONCE)
            self._db.run(
                "DELETE FROM visit WHERE host = ? AND collection = ? AND id = ? AND number <= ?",
                (*key, report.number - HISTORY_MAX),
            )
        self._count(number, outcome)
        if again:
            self._urls.requeue(known, host, report.id, UrlState.HANDED_OUT, waiting)
        else:
            self._counters.move(number, UrlState.HANDED_OUT, state)

    def _state_after(
        self, known: LoadedCollection, host: HostId, report: VisitReport, before: UrlBeforeVisit, blamed: int
    ) -> UrlState:
        """Where a visit leaves a URL. PENDING: it is to be tried again."""
        outcome, key = report.outcome, (host, known.row.id, report.id)
        if known.config.keeps_fresh:
            found = self._revisits.find(key)
            if found is not None and found[0] == DISMISSED_SHELF:
                self._counters.add(known.row.id, DISMISSED_WAITING, -1)
            state = self._revisits.settle(known, host, report, before)
            if found is not None and state is None:
                self._exchange.remove(known, True, before.in_links, host, report.id)
            if state == UrlState.FETCHED:
                self._exchange.add(known, True, before.in_links, host, report.id)
            if state is not None:
                return state
            if found is not None:  # who gave up its place waits again: it may be the best that can be had
                return UrlState.PENDING if outcome.status == Status.REPLACED else state_after(outcome)
        again = outcome.status in TRANSIENT and (
            _is_excused(outcome.status, before) or blamed < known.config.fetch.retries
        )
        # or it was asked for as a page, and meanwhile turned out to be a sitemap or feed
        again = again or (outcome.status == Status.TYPE_NOT_WANTED and outcome.role != before.role)
        if again:
            return UrlState.PENDING
        unchanged = outcome.status == 304 and before.content_id is not None  # what was kept is still the page
        return UrlState.FETCHED if unchanged else state_after(outcome)

    def _count(self, number: int, outcome: Outcome) -> None:
        self._counters.add(number, VISITS)
        if _was_requested(outcome):
            self._counters.add(number, REQUESTS)
        if outcome.length:
            self._counters.add(number, BYTES, outcome.length)
        self._counters.add(number, f"status:{outcome.status}")
        if outcome.type:
            bucket = f"type:{outcome.type}"
            known = self._counters.has(number, bucket) or self._counters.size(number, "type:") < TYPES_COUNTED_MAX
            self._counters.add(number, bucket if known else "type:other")

    def requeue_outstanding(self, host: HostId) -> None:
        """What a host's former holder did not report on waits again."""
        rows = self._db.rows("DELETE FROM handed WHERE host = ? RETURNING collection, id", (host,))
        self._db.prefetch("url", [(host, *row) for row in rows])
        self._db.prefetch("page", [(host, *row) for row in rows])
        for number, url in rows:
            waiting: dict[HostId, int] = {}
            known, key = self._collections.by_id(number), (host, number, url)
            if self._revisits.end_former_revisit(known, key) or self._revisits.put_back(
                known, host, url
            ):  # it is kept as it was
                state, run = self._db.required_row(
                    "UPDATE url SET state = CASE role WHEN 0 THEN 2 ELSE 3 END"
                    " WHERE host = ? AND collection = ? AND id = ? RETURNING state, run",
                    key,
                )
                self._counters.move(number, UrlState.HANDED_OUT, state)
                self._counters.add(number, REVISITS_OUT, -int(state == UrlState.FETCHED))
                self._counters.add(number, OLD_PAGES, int(state == UrlState.FETCHED and run < known.run))
                self._revisits.update_due(known, host)
                continue
            self._db.run("UPDATE url SET state = 0 WHERE host = ? AND collection = ? AND id = ?", key)
            self._urls.requeue(known, host, url, UrlState.HANDED_OUT, waiting)
            self._urls.add_pending(number, waiting)
            if self._breadth.is_walk_visit(known, host, url):
                self._breadth.visit_returned(known, host)

    def give_up_host(self, known: LoadedCollection, host: HostId, status: Status = Status.HOST_GIVEN_UP) -> None:
        """A host that failed too often in a row, or has given enough: nothing of it waits any more."""
        number = known.row.id
        state = UrlState.FAILED if status in GIVEN_UP else UrlState.DROPPED
        self._db.prefetch_first("pending", [(host, number)], ALL_ROWS)
        gone = self._db.rows(
            "DELETE FROM pending WHERE host = ? AND collection = ? AND rank > ? RETURNING id",
            (host, number, SWEPT_RANK),
        )
        self._db.prefetch("url", [(host, number, url) for (url,) in gone])
        for (url,) in gone:
            if self._leave_as_it_was(known, (host, number, url)):
                continue
            in_links = self._db.value(
                "SELECT in_links FROM url WHERE host = ? AND collection = ? AND id = ?", (host, number, url)
            )
            self._exchange.remove(known, False, in_links, host, url)
            tried = status == Status.HOST_FULL and self._db.run(  # it was to be tried again: that is how it failed
                "UPDATE url SET state = ? WHERE host = ? AND collection = ? AND id = ? AND attempts > 0",
                (int(UrlState.FAILED), host, number, url),
            )
            if not tried:
                self._db.run(
                    "UPDATE url SET state = ?, status = ? WHERE host = ? AND collection = ? AND id = ?",
                    (int(state), int(status), host, number, url),
                )
                self._counters.add(number, f"status:{int(status)}")
            self._counters.move(number, UrlState.PENDING, UrlState.FAILED if tried else state)
        self._wait_less(known, host, len(gone))
        self._breadth.urls_removed(known, host, len(gone))

    def _leave_as_it_was(self, known: LoadedCollection, key: tuple[HostId, int, UrlId]) -> bool:
        """Of a host that is given up: what an earlier run left is put aside, and a page that is kept stays so."""
        if self._is_left_over(known, key):
            return True
        shown = self._db.run(
            "UPDATE url SET state = ?, shown = 0 WHERE host = ? AND collection = ? AND id = ? AND shown > 0",
            (int(UrlState.FETCHED), *key),
        )
        if shown:
            self._counters.move(known.row.id, UrlState.PENDING, UrlState.FETCHED)
            self._counters.add(known.row.id, SHOWN_PAGES, -1)
        return bool(shown)


def _as_shown(state: UrlState, status: int, shown: int) -> UrlState:
    """A page that is still shown is kept after an inconclusive visit; a page that was found again while it was being
    dismissed is pending after all."""
    if shown == UNSHOWN or state == UrlState.PENDING:
        return state
    if status == Status.NOT_FOUND_AGAIN:
        return UrlState.DROPPED if shown == SWEPT else UrlState.PENDING
    return UrlState.FETCHED if is_inconclusive(status) else state


def _was_requested(outcome: Outcome) -> bool:
    return outcome.requested and outcome.status not in NO_REQUEST


def _is_excused(status: int, before: UrlBeforeVisit) -> bool:
    """Whether the attempt does not count: the host is busy, or this machine is."""
    return status in ATTEMPT_NOT_COUNTED and (status in BUSY or before.attempts < STARVED_MAX)


def state_after(outcome: Outcome) -> UrlState:
    """State of a URL after its last visit."""
    if outcome.kept:
        return UrlState.FETCHED
    if outcome.status == Status.ROBOTS:
        return UrlState.EXCLUDED
    return UrlState.FAILED if outcome.status in GIVEN_UP else UrlState.DROPPED
