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

from tarrafa.frontier.messages import VISITS_OF_NEW_LEASE, VisitReport
from tarrafa.frontier.ordering import REQUISITE_RANK_MAX
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import ALL_ROWS, SWEPT, SWEPT_RANK, UNSHOWN, UrlKey
from tarrafa.frontier.store.revisits import CHOSEN_SHELF, DISMISSED_SHELF, UrlBeforeVisit, has_changed
from tarrafa.frontier.store.runs import Runs
from tarrafa.frontier.store.urls import NEEDED_PAGE, RANK_COLUMNS, REQUISITE, FrontierUrls, Queued, rank_of
from tarrafa.model import (  # fmt: skip
    ATTEMPT_NOT_COUNTED,
    BUSY,
    GIVEN_UP,
    NO_REQUEST,
    TRANSIENT,
    UNWANTED_PAGE,
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
TRIMMED_AT_ONCE = 8  # older visits
TYPES_COUNTED_MAX = 200  # servers invent types
REVISITS_AHEAD_S = 60.0  # revisits are handed out for so long
PUT_ASIDE_MAX = 1_000  # URLs that an earlier run left in a host's queue, in one call
STARVED_MAX = 10  # timeouts in a row that are blamed on this machine
VISIT_COLUMNS = (
    "url, depth, redirects, visits, blamed, etag, last_modified, content_id, role, coalesce(parent, x''), payload,"
    " archived, announced, shown"
)


class VisitDispatcher:
    """The visits that one frontier hands out."""

    def __init__(self, context: StoreContext, urls: FrontierUrls, runs: Runs) -> None:
        self._db, self._counters, self._collections = context.db, context.counters, context.collections
        self._ready, self._urls, self._runs = context.ready, urls, runs
        self._revisits, self._replacement, self._breadth = urls.revisits, urls.page_replacement, urls.breadth
        self._random = random.Random(0)

    # -- handing out ------------------------------------------------------------------------------------------

    def hand_out(
        self, known: LoadedCollection, host: HostId, count: int, held: int = 0, ahead: bool = False
    ) -> list[Visit]:
        """The next visits of a host: revisits up to their share, then new URLs; each kind may use what the other
        leaves. If there are none, `ahead` takes the page that is due next."""
        if not known.config.keeps_fresh or count < 1:
            return self._hand_out_new(known, host, count)
        delay_s = self._db.value("SELECT delay_s FROM host WHERE id = ?", (host,))  # as of its lease, if not later
        soon = max(1, int(REVISITS_AHEAD_S / max(delay_s, 0.001))) - held  # later other pages may be more urgent
        most = min(count, VISITS_OF_NEW_LEASE, soon, self._collections.requests_left(known))
        share = int(most * known.config.revisit.share + self._random.random())  # turns would fall into step with hosts
        visits = self._hand_out_revisits(known, host, share)
        visits += self._hand_out_new(known, host, min(count, soon) - len(visits))
        return visits + self._hand_out_revisits(known, host, most - len(visits), ahead and not visits)

    def prefetch_visits(self, known: LoadedCollection, hosts: Sequence[HostId]) -> Sequence[HostId]:
        """Fetch the rows that the next visits of these hosts need, for all of them together."""
        if not self._db.is_row_cache:
            return hosts
        number, most = known.row.id, 1 if known.order.is_breadth else VISITS_OF_NEW_LEASE
        self._db.prefetch_first("pending", [(host, number) for host in hosts], most)
        first = "SELECT host, collection, id FROM pending WHERE host = ? AND collection = ? ORDER BY rank, id LIMIT ?"
        self._db.prefetch("url", [row for host in hosts for row in self._db.rows(first, (host, number, most))])
        if known.config.keeps_fresh:
            self._revisits.prefetch_shelves(known, hosts)
        return hosts

    def _hand_out_revisits(self, known: LoadedCollection, host: HostId, count: int, ahead: bool = False) -> list[Visit]:
        """Kept pages that are worth another visit, and the pages that a full collection replaces."""
        number, visits = known.row.id, list[Visit]()
        taken = self._revisits.pop_due(known, host, count, ahead)
        self._db.prefetch("url", [(host, number, url) for url, _ in taken])
        self._db.prefetch("page", [(host, number, url) for url, _ in taken])
        for url, shelf in taken:
            key = (host, number, url)
            (state,), page = self._db.find_url("state", key) or (None,), self._revisits.find(key)
            if shelf == CHOSEN_SHELF:
                self._counters.add(number, Bucket.CHOSEN_WAITING, -1)
            elif page is None or state not in (UrlState.FETCHED, UrlState.DROPPED) or page.shelf < 0 <= shelf:
                continue  # the plan is older than what happened since
            visit = self._hand_out_url(known, key, state)
            if shelf != CHOSEN_SHELF and page is not None:
                self._counters.add(number, Bucket.REVISITS_OUT, int(state == UrlState.FETCHED))
                visit = replace(visit, gone=page.gone, dismissed=shelf == DISMISSED_SHELF)
            visits.append(visit)
        return visits

    def _hand_out_url(self, known: LoadedCollection, key: UrlKey, state: int) -> Visit:
        row = self._db.required_row(
            "UPDATE url SET state = 1, visits = visits + 1 WHERE host = ? AND collection = ? AND id = ?"  # noqa: S608
            f" RETURNING {VISIT_COLUMNS}",
            key,
        )
        self._db.run("INSERT INTO handed VALUES (?, ?, ?, ?)", (*key, row[3]))
        self._urls.count_unkept(key, state, -1)
        self._counters.move(known.row.id, state, UrlState.HANDED_OUT, row[8])
        return self._visit(known, key, row)

    @staticmethod
    def _visit(known: LoadedCollection, key: UrlKey, row: tuple[Any, ...]) -> Visit:
        """In a later run the page is requested whole: a 304 has no links, and a run follows links."""
        host, number, url = key
        *facts, announced, shown = row
        visit = replace(Visit(number, host, url, *facts), dismissed=shown == SWEPT, announced=announced or 0.0)
        if visit.role == NEEDED_PAGE:
            visit = replace(visit, role=int(UrlRole.PAGE))
        return visit if known.run == 1 else replace(visit, etag=None, last_modified=None)

    def outstanding_visits(self, known: LoadedCollection, host: HostId) -> list[Visit]:
        """The visits of a host that were handed out and not reported yet, as they were handed out."""
        number, visits = known.row.id, list[Visit]()
        rows = self._db.rows("SELECT id FROM handed WHERE host = ? AND collection = ?", (host, number))
        self._db.prefetch("url", [(host, number, url) for (url,) in rows])
        for (url,) in rows:
            key = (host, number, url)
            visit, page = self._visit(known, key, self._db.url(VISIT_COLUMNS, key)), self._revisits.find(key)
            if page is not None:
                visit = replace(visit, gone=page.gone, dismissed=page.shelf == DISMISSED_SHELF)
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
        slots = 0 if self._replacement.is_full(known) else self._collections.free_slots(known)
        if visited >= limit or refused:
            self.give_up_host(known, host, Status.HOST_FULL)
        visits = self._hand_out_swept(known, host, count)
        visits += self._hand_out_requisites(known, host, count - len(visits))
        most = self._breadth.new_visits_allowed(known, host, max(0, min(count - len(visits), room, slots)))
        for url in self._next_pending(known, host, most):
            visits.append(self._hand_out_url(known, (host, number, url), UrlState.PENDING))
            self._breadth.visit_handed_out(known, host, url)
        return visits

    def _hand_out_swept(self, known: LoadedCollection, host: HostId, count: int) -> list[Visit]:
        """Pages to be dismissed come first, and count towards no limit: they are not requested."""
        if not self._counters.value(known.row.id, Bucket.SHOWN_PAGES):
            return []
        taken = self._next_pending(known, host, count, SWEPT_RANK)
        return [self._hand_out_url(known, (host, known.row.id, url), UrlState.PENDING) for url in taken]

    def has_requisites(self, known: LoadedCollection) -> bool:
        """Whether requisites wait for their visit."""
        return self._counters.value(known.row.id, Bucket.REQUISITES_PENDING) > 0

    def _hand_out_requisites(self, known: LoadedCollection, host: HostId, count: int) -> list[Visit]:
        """Requisites come before pages, and count towards no limit of pages."""
        if not self.has_requisites(known):
            return []
        most = min(count, self._collections.requests_left(known))
        taken = self._next_pending(known, host, most, REQUISITE_RANK_MAX)
        return [self._hand_out_url(known, (host, known.row.id, url), UrlState.PENDING) for url in taken]

    def _next_pending(
        self, known: LoadedCollection, host: HostId, count: int, rank_max: float = math.inf
    ) -> list[UrlId]:
        """Take the next URLs out of a host's queue, up to a rank; URLs that an earlier run left there are put aside."""
        urls, looked, number = list[UrlId](), 0, known.row.id
        more = count > 0
        while more and looked < PUT_ASIDE_MAX:
            wanted = count - len(urls)
            self._db.prefetch_first("pending", [(host, number)], wanted)
            found = self._db.rows(
                "SELECT rank, id FROM pending WHERE host = ? AND collection = ? AND rank <= ? ORDER BY rank, id"
                " LIMIT ?",
                (host, number, rank_max, wanted),
            )
            self._db.prefetch("url", [(host, number, url) for _, url in found])
            for rank, url in found:
                self._unqueue(known, rank, (host, number, url))
                if not self._put_aside_if_left_over(known, (host, number, url)):
                    urls.append(url)
            looked += len(found)
            more = len(found) == wanted and len(urls) < count
        self._urls.change_pending(known, host, -looked)
        return urls

    def _put_aside_if_left_over(self, known: LoadedCollection, key: UrlKey) -> bool:
        """Put a URL aside that an earlier run left in the queue."""
        if known.run == 1:
            return False
        run, shown = self._db.url("run, shown", key)
        if run < known.run:
            self._runs.put_aside(known, key, shown)
        return bool(run < known.run)

    def _unqueue(self, known: LoadedCollection, rank: float, key: UrlKey) -> None:
        host, number, url = key
        self._db.run(
            "DELETE FROM pending WHERE host = ? AND collection = ? AND rank = ? AND id = ?", (host, number, rank, url)
        )
        if known.config.replaces_pages:
            (in_links,) = self._db.url("in_links", key)
            self._replacement.remove(known, False, in_links, key)

    # -- choice of sites and pages ----------------------------------------------------------------------------

    def needs_sites(self, known: LoadedCollection) -> bool:
        """Whether the next sites of breadth are to be chosen before anything is handed out."""
        if not known.order.is_breadth or self._replacement.is_full(known):
            return False
        return self._collections.free_slots(known) > 0 and self._breadth.is_cycle_due(known)

    def new_url_slots(self, known: LoadedCollection) -> int:
        """How many new URLs may be handed out. A full collection takes in only URLs that it has chosen."""
        if not self._replacement.is_full(known):
            return self._collections.free_slots(known)
        while (best := self._replacement.next_candidate(known)) is not None:
            self._choose(known, best[0], best[1])
        if self._collections.requests_left(known):
            self._replacement.dismiss_worst(known)
        return 0

    def _choose(self, known: LoadedCollection, host: HostId, url: UrlId) -> None:
        """Move a pending URL from its host's queue to the shelf of chosen URLs."""
        key = (host, known.row.id, url)
        self._db.prefetch("url", [key])
        with self._ready.suspended(host):
            rank = rank_of(known, url, self._db.url(RANK_COLUMNS, key))
            self._db.prefetch("pending", [(host, known.row.id, rank, url)])
            self._unqueue(known, rank, key)
            self._urls.change_pending(known, host, -1)
        self._breadth.urls_removed(known, host, 1)
        self._replacement.reserve_place(known, key)

    def unchoose(self, known: LoadedCollection) -> None:
        """The limits have changed: chosen URLs are pending in their hosts' queues again."""
        number, queued = known.row.id, Queued()
        rows = self._db.rows(
            "SELECT due.host, due.key, due.id, url, sequence, in_links, attempts, role FROM due"
            " JOIN url USING (host, collection, id) WHERE due.collection = ? AND due.shelf = ?",
            (number, CHOSEN_SHELF),
        )
        for host, at, url, *facts in rows:
            self._revisits.remove((host, number, url), CHOSEN_SHELF, at)
            self._counters.add(number, Bucket.CHOSEN_WAITING, -1)
            self._urls.enqueue(known, (host, number, url), tuple(facts), queued)
        self._urls.add_pending(number, queued)

    # -- reports ----------------------------------------------------------------------------------------------

    def finish(self, known: LoadedCollection, host: HostId, reports: Iterable[VisitReport], worker: str) -> None:
        """Settle reported visits. A report on a visit that is no longer handed out changes nothing."""
        number, queued = known.row.id, Queued()
        settled, step = 0, None
        for report in reports:
            key = (host, number, report.id)
            was_out = self._db.run(
                "DELETE FROM handed WHERE host = ? AND collection = ? AND id = ? AND number = ?", (*key, report.number)
            )
            if was_out:
                is_revisit = known.config.keeps_fresh and self._revisits.find(key) is not None
                step = report if self._breadth.is_walk_visit(known, host, report.id) else step
                self._settle(known, key, report, queued, worker)
                is_page = report.outcome.role != REQUISITE
                settled += _was_requested(report.outcome) and not is_revisit and is_page
        self._revisits.update_due(known, host)
        if settled:
            self._db.run(
                "UPDATE work SET visited = visited + ? WHERE host = ? AND collection = ?", (settled, host, number)
            )
        self._urls.add_pending(number, queued)
        if step is not None:
            (state,) = self._db.url("state", (host, number, step.id))
            self._breadth.visit_finished(known, host, step.outcome, state == UrlState.PENDING)

    def replay_visit(self, known: LoadedCollection, host: HostId, report: VisitReport, worker: str) -> bool:
        """Repeat a visit that the archive recorded: hand it out under its old number and report it at once. False: the
        frontier knows this visit, or a later one."""
        number, key = known.row.id, (host, known.row.id, report.id)
        state, shown, role, last = self._db.url(
            "state, shown, role, (SELECT max(number) FROM visit WHERE visit.host = url.host"
            " AND visit.collection = url.collection AND visit.id = url.id)",
            key,
        )
        if report.number <= (last or 0):
            return False
        page = self._revisits.find(key)
        if state == UrlState.PENDING:
            rank = rank_of(known, report.id, self._db.url(RANK_COLUMNS, key))
            self._unqueue(known, SWEPT_RANK if shown == SWEPT else rank, key)
            self._urls.change_pending(known, host, -1)
        elif page is not None:
            self._revisits.remove(key, page.shelf, page.key)
            self._counters.add(number, Bucket.REVISITS_OUT, int(state == UrlState.FETCHED))
        self._db.update_url(key, "state = 1, visits = max(visits, ?)", report.number)
        self._db.run("INSERT INTO handed VALUES (?, ?, ?, ?)", (*key, report.number))
        self._urls.count_unkept(key, state, -1)
        self._counters.move(number, state, UrlState.HANDED_OUT, role)
        self.finish(known, host, [report], worker)
        return True

    def _settle(self, known: LoadedCollection, key: UrlKey, report: VisitReport, queued: Queued, worker: str) -> None:
        number, outcome = known.row.id, report.outcome
        blamed, shown, run, *facts = self._db.url(
            "blamed, shown, run, content_id, role, in_links, last_modified, announced, payload, attempts, pagerank", key
        )
        before = UrlBeforeVisit(*facts)
        is_needed = before.role == NEEDED_PAGE
        if is_needed:
            before = dataclasses.replace(before, role=int(UrlRole.PAGE))
        if self._revisits.end_former_revisit(known, key) or (
            known.config.keeps_fresh and before.role == UrlRole.PAGE and self._revisits.find(key) is not None
        ):
            self._counters.add(number, Bucket.REVISITS_OUT, -1)
        if outcome.kept and before.role != UrlRole.PAGE:  # it was announced as a sitemap or feed
            self._db.update_url(key, "role = 0")
            self._counters.count_role(number, UrlState.HANDED_OUT, before.role, UrlRole.PAGE)
            before = dataclasses.replace(before, role=int(UrlRole.PAGE), was_listing=True)
        state = _as_shown(self._state_after(known, key, outcome, before, blamed), outcome.status, shown)
        again = state == UrlState.PENDING
        if shown and not (again and is_inconclusive(outcome.status)):  # the followers know of it, or it is kept
            self._db.update_url(key, "shown = 0")
            self._counters.add(number, Bucket.SHOWN_PAGES, -1)
        self._counters.add(number, Bucket.OLD_PAGES, int(state == UrlState.FETCHED and run < known.run))
        blame = again and not _is_excused(outcome.status, before)
        tried = again or (state == UrlState.FETCHED and is_inconclusive(outcome.status) and outcome.status != 304)
        self._db.update_url(
            key,
            "state = ?, attempts = ?, blamed = ?, status = ?, type = ?, fetched = ?",
            int(state), before.attempts + 1 if tried else 0, blamed + blame if again else 0, outcome.status,
            outcome.type or None, outcome.at,
        )  # fmt: skip
        if outcome.kept or (outcome.payload and not outcome.same_as):  # the page is never compared with an error page
            self._db.update_url(
                key,
                "content_id = ?, etag = ?, last_modified = ?, payload = ?,"
                " archived = CASE WHEN payload = ? AND payload != '' THEN archived ELSE ? END",
                outcome.content_id or None, outcome.etag, outcome.last_modified, outcome.payload, outcome.payload,
                outcome.at,
            )  # fmt: skip
        self._remember_visit(key, report, has_changed(outcome, before), worker)
        self._count(number, outcome)
        if again:
            self._urls.requeue(known, key, UrlState.HANDED_OUT, queued)
        else:
            self._counters.move(number, UrlState.HANDED_OUT, state, before.role)
            self._counters.count_unkept(number, state, outcome.status, before.role, 1)
            if is_needed:
                self._settle_needed_page(known, key, state, outcome, queued)

    def _settle_needed_page(
        self, known: LoadedCollection, key: UrlKey, state: UrlState, outcome: Outcome, queued: Queued
    ) -> None:
        """A URL that was visited as a page, and that another page needs: if it is not kept, it is a requisite."""
        self._db.update_url(key, "role = 0")
        if state == UrlState.DROPPED and outcome.status in UNWANTED_PAGE and outcome.role == UrlRole.PAGE:
            self._urls.turn_into_requisite(known, key, state, queued)

    def _remember_visit(self, key: UrlKey, report: VisitReport, changed: bool | None, worker: str) -> None:
        outcome = report.outcome
        self._db.run(
            "INSERT OR REPLACE INTO visit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, report.number, outcome.at, outcome.status, outcome.length, changed, worker),
        )
        if report.number > HISTORY_MAX:
            self._db.prefetch_first("visit", [key], TRIMMED_AT_ONCE)
            self._db.run(
                "DELETE FROM visit WHERE host = ? AND collection = ? AND id = ? AND number <= ?",
                (*key, report.number - HISTORY_MAX),
            )

    def _state_after(
        self, known: LoadedCollection, key: UrlKey, outcome: Outcome, before: UrlBeforeVisit, blamed: int
    ) -> UrlState:
        """State of a URL after a visit. PENDING: it is tried again."""
        if known.config.keeps_fresh and before.role != UrlRole.REQUISITE:  # requisites are due when their page changes
            page = self._revisits.find(key)
            if page is not None and page.shelf == DISMISSED_SHELF:
                self._counters.add(known.row.id, Bucket.DISMISSED_WAITING, -1)
            state = self._revisits.settle(known, key, outcome, before)
            if page is not None and state is None:
                self._replacement.remove(known, True, before.in_links, key)
            if state == UrlState.FETCHED:
                self._replacement.add(known, True, before.in_links, key)
            if state is not None:
                return state
            if page is not None:  # a page that was replaced is pending again: it may be the best candidate later
                return UrlState.PENDING if outcome.status == Status.REPLACED else state_after(outcome)
        is_retried = outcome.status in TRANSIENT and (
            _is_excused(outcome.status, before) or blamed < known.config.fetch.retries
        )
        # It was requested as a page, and meanwhile turned out to be a sitemap or feed; or as a requisite, and meanwhile
        # a link led to it.
        is_promoted = outcome.status == Status.TYPE_NOT_WANTED or outcome.role == UrlRole.REQUISITE
        if is_retried or (is_promoted and outcome.role != before.role):
            return UrlState.PENDING
        is_unchanged = outcome.status == 304 and before.content_id is not None
        return UrlState.FETCHED if is_unchanged else state_after(outcome)

    def _count(self, number: int, outcome: Outcome) -> None:
        self._counters.add(number, Bucket.VISITS)
        if _was_requested(outcome):
            self._counters.add(number, Bucket.REQUESTS)
        if outcome.length:
            self._counters.add(number, Bucket.BYTES, outcome.length)
        self._counters.add(number, f"status:{outcome.status}")
        if outcome.type:
            bucket = f"type:{outcome.type}"
            if not self._counters.has(number, bucket):
                types = self._counters.with_prefix(number, "type:")
                bucket = bucket if len(types) < TYPES_COUNTED_MAX else "type:other"
            self._counters.add(number, bucket)

    # -- visits that are not made -----------------------------------------------------------------------------

    def requeue_outstanding(self, host: HostId) -> None:
        """The visits that the holder of a host has not reported are pending again."""
        rows = self._db.rows("DELETE FROM handed WHERE host = ? RETURNING collection, id", (host,))
        self._db.prefetch("url", [(host, *row) for row in rows])
        self._db.prefetch("page", [(host, *row) for row in rows])
        for number, url in rows:
            queued = Queued()
            known, key = self._collections.by_id(number), (host, number, url)
            if self._revisits.end_former_revisit(known, key) or self._revisits.put_back(key):  # kept as it was
                state, run = self._db.required_row(
                    "UPDATE url SET state = CASE role WHEN 0 THEN 2 ELSE 3 END"
                    " WHERE host = ? AND collection = ? AND id = ? RETURNING state, run",
                    key,
                )
                self._counters.move(number, UrlState.HANDED_OUT, state)
                self._urls.count_unkept(key, state, 1)
                self._counters.add(number, Bucket.REVISITS_OUT, -int(state == UrlState.FETCHED))
                self._counters.add(number, Bucket.OLD_PAGES, int(state == UrlState.FETCHED and run < known.run))
                self._revisits.update_due(known, host)
                continue
            self._db.update_url(key, "state = 0")
            self._urls.requeue(known, key, UrlState.HANDED_OUT, queued)
            self._urls.add_pending(number, queued)
            if self._breadth.is_walk_visit(known, host, url):
                self._breadth.visit_returned(known, host)

    def give_up_host(self, known: LoadedCollection, host: HostId, status: Status = Status.HOST_GIVEN_UP) -> None:
        """End the pending URLs of a host that failed too often in a row, or that has reached its limit of pages."""
        number = known.row.id
        state = UrlState.FAILED if status in GIVEN_UP else UrlState.DROPPED
        above = REQUISITE_RANK_MAX if status == Status.HOST_FULL else SWEPT_RANK  # requisites are no pages
        self._db.prefetch_first("pending", [(host, number)], ALL_ROWS)
        gone = self._db.rows(
            "DELETE FROM pending WHERE host = ? AND collection = ? AND rank > ? RETURNING id",
            (host, number, above),
        )
        self._db.prefetch("url", [(host, number, url) for (url,) in gone])
        for (url,) in gone:
            key = (host, number, url)
            if self._leave_as_it_was(known, key):
                continue
            in_links, role = self._db.url("in_links, role", key)
            self._replacement.remove(known, False, in_links, key)
            tried = status == Status.HOST_FULL and self._db.run(  # it was to be tried again: so it has failed
                "UPDATE url SET state = ? WHERE host = ? AND collection = ? AND id = ? AND attempts > 0",
                (int(UrlState.FAILED), *key),
            )
            if not tried:
                self._db.update_url(key, "state = ?, status = ?", int(state), int(status))
                self._counters.add_refused(number, status)
            self._counters.move(number, UrlState.PENDING, UrlState.FAILED if tried else state, role)
            self._urls.count_unkept(key, UrlState.FAILED if tried else state, 1)
        self._urls.change_pending(known, host, -len(gone))
        self._breadth.urls_removed(known, host, len(gone))

    def _leave_as_it_was(self, known: LoadedCollection, key: UrlKey) -> bool:
        """On a host that is given up, a URL of an earlier run is put aside, and a kept page stays kept."""
        if self._put_aside_if_left_over(known, key):
            return True
        shown = self._db.run(
            "UPDATE url SET state = ?, shown = 0 WHERE host = ? AND collection = ? AND id = ? AND shown > 0",
            (int(UrlState.FETCHED), *key),
        )
        if shown:
            self._counters.move(known.row.id, UrlState.PENDING, UrlState.FETCHED)
            self._counters.add(known.row.id, Bucket.SHOWN_PAGES, -1)
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
