"""Committer: the order of durability, links that are delivered once, and hosts that are no longer ours."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from msgspec.structs import replace

from tarrafa.crawl.worker import committer as committer_module
from tarrafa.crawl.worker.collection_state import WorkerCollections
from tarrafa.crawl.worker.committer import COMMIT_VISITS_MAX, Committer, LinkCache, VisitRecorder, split_into_messages
from tarrafa.crawl.worker.host_session import FEW_VISITS, LOCAL_COMMITS, LOG_COMMITS, HostSession
from tarrafa.crawl.worker.outcome import FinishedVisit, refuse_visit
from tarrafa.crawl.worker.stats import WorkerStats
from tarrafa.errors import LeaseLost
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import DiscoveredUrl, HostReport, NextVisits, RobotsCopy
from tests.contract.frontier_bodies import offer
from tests.crawl.worker.session_harness import Surroundings, a_collection, a_session, pages

LINK = "http://www.a.br/found"


class FakeRecorder:
    def __init__(self, log: list[str]) -> None:
        self._log = log

    def record_visit(self, session: HostSession, done: FinishedVisit) -> FinishedVisit:
        self._log.append("record")
        return done

    def record_host(self, session: HostSession, sitemaps: list[DiscoveredUrl]) -> None:
        self._log.append("host")

    def prepare_commit(self) -> Callable[[], None]:
        return lambda: self._log.append("durable")


class FakeFrontier:
    def __init__(self, log: list[str]) -> None:
        self._log = log
        self.held, self.reports = True, list[HostReport]()
        self.after_discover: Callable[[], None] = lambda: None

    async def discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        self._log.append("links")
        self.after_discover()

    async def finish(self, worker: int, reports: list[HostReport]) -> list[NextVisits]:
        self._log.append("finish")
        self.reports += reports
        return [NextVisits(self.held, []) for _ in reports]


class FakeCollections:
    def reload_takedowns(self) -> None: ...


class FakeRegistration:
    worker = 7
    held = True

    def is_valid(self) -> bool:
        return self.held


class CommitterHarness:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.ended: list[HostSession] = []
        self.reported: list[HostReport] = []
        self.registration, self.frontier, self.stats = FakeRegistration(), FakeFrontier(self.log), WorkerStats()
        self.committer = Committer(
            "w1",
            cast("Frontier", self.frontier),
            self.registration,
            cast("WorkerCollections", FakeCollections()),
            cast("VisitRecorder", FakeRecorder(self.log)),
            LinkCache(),
            self.stats,
            self.ended.append,
            self.reported.append,
        )
        self.session = a_session(Surroundings(), a_collection(), pages(50))

    def finish_a_visit(self) -> FinishedVisit:
        visit = self.session.visits.take()
        done = refuse_visit(visit, "c", 404, 1_000.0, requested=True)
        done.discovered.append(offer(LINK, 1))
        self.committer.record_visit(self.session, done)
        return done


@pytest.fixture
async def harness() -> CommitterHarness:
    return CommitterHarness()


async def test_a_visit_is_recorded_then_durable_then_its_links_are_delivered_then_it_is_finished(harness):
    done = harness.finish_a_visit()
    assert harness.log == ["record"]
    await harness.committer.commit()
    assert harness.log == ["record", "durable", "links", "finish"]
    (report,) = harness.frontier.reports
    assert [visit.id for visit in report.reports] == [done.visit.id]
    assert report.keep
    assert harness.session.visits.unreported == 0
    assert harness.reported == [report]
    assert not harness.ended
    harness.finish_a_visit()
    await harness.committer.commit()
    assert harness.log[4:] == ["record", "durable", "finish"], "the link was delivered before"


async def test_nothing_is_recorded_or_committed_without_the_lease(harness):
    harness.finish_a_visit()
    harness.registration.held = False
    harness.finish_a_visit()
    assert (harness.log, harness.stats.visits) == (["record"], 1)
    with pytest.raises(LeaseLost):
        await harness.committer.commit()
    assert harness.log == ["record"]


async def test_a_lease_that_is_lost_while_the_disk_writes_delivers_nothing(harness):
    harness.finish_a_visit()
    answers = iter([True, False])
    harness.registration.is_valid = lambda: next(answers)
    with pytest.raises(LeaseLost):
        await harness.committer.commit()
    assert harness.log == ["record", "durable"]


async def test_a_host_that_the_frontier_takes_back_ends_its_lease_and_is_reported_no_more(harness):
    harness.finish_a_visit()
    harness.frontier.held = False
    await harness.committer.commit()
    assert harness.ended == [harness.session]
    assert harness.session.is_stopped
    harness.committer.return_host(harness.session)
    harness.finish_a_visit()
    await harness.committer.commit()
    assert len(harness.frontier.reports) == 1


async def test_a_session_that_is_over_returns_its_host(harness):
    harness.committer.return_host(harness.session)
    await harness.committer.commit()
    (report,) = harness.frontier.reports
    assert (report.keep, report.reports) == (False, [])


async def test_a_session_that_fails_ends_the_commits(harness):
    async def fail() -> None:
        raise ZeroDivisionError

    task = asyncio.create_task(fail())
    task.add_done_callback(harness.committer.session_ended)
    harness.finish_a_visit()
    await asyncio.wait({task})
    with pytest.raises(ZeroDivisionError):
        await harness.committer.run()
    assert harness.log == ["record"]


async def test_what_waits_is_committed_when_it_is_asked_for_and_a_close_ends_the_loop(harness):
    harness.finish_a_visit()
    harness.committer.request_commit()
    harness.frontier.after_discover = harness.committer.close
    async with asyncio.timeout(30):
        await harness.committer.run()
    assert harness.log == ["record", "durable", "links", "finish"], "a commit under way comes to its end"


async def test_a_visit_after_a_quiet_moment_is_committed_at_once(harness, monkeypatch):
    harness.committer._timing = LOCAL_COMMITS._replace(every_s=3_600.0, few_every_s=3_600.0)
    monkeypatch.setattr(committer_module, "boottime", lambda: 10_000.0)
    harness.frontier.after_discover = harness.committer.close
    harness.finish_a_visit()
    async with asyncio.timeout(30):
        await harness.committer.run()
    assert harness.log == ["record", "durable", "links", "finish"], "nobody waits for the clock"


async def test_a_few_visits_wait_for_others_to_come_but_not_a_host_that_goes_back(harness, monkeypatch):
    harness.committer._timing = LOG_COMMITS
    now = 10_000.0
    monkeypatch.setattr(committer_module, "boottime", lambda: now)
    await harness.committer.commit()
    for later_s, visits, is_due in (
        (LOG_COMMITS.every_s, 1, False),
        (LOG_COMMITS.every_s, FEW_VISITS, True),
        (LOG_COMMITS.few_every_s, 1, True),
    ):
        harness.committer._wake.clear()
        harness.committer._pending.finished.clear()
        now = 10_000.0 + later_s
        for _ in range(visits):
            harness.finish_a_visit()
        assert harness.committer._wake.is_set() == is_due, (later_s, visits)
    harness.committer._pending.finished.clear()
    now = 10_000.0 + LOG_COMMITS.every_s
    assert not harness.committer._is_due
    harness.committer.return_host(harness.session)
    assert harness.committer._is_due


def test_reports_are_split_into_messages_by_their_size():
    session = a_session(Surroundings(), a_collection(), pages(1))
    robots = RobotsCopy(200, b"digest", 1e12, b"x" * (5 << 20))
    reports = [
        (session, HostReport(number, 1, [], 0.0, 0.0, 0.0, keep=True, robots_copy=robots)) for number in range(5)
    ]
    assert [len(part) for part in split_into_messages(reports)] == [2, 2, 1]
    assert COMMIT_VISITS_MAX < 8_000, "so many visits fit in one message"


def test_a_date_that_a_sitemap_gives_survives_a_shorter_way_in_the_same_breath():
    listed = replace(offer("http://a.br/x", 3), announced=900.0)
    for offers in ([listed, offer("http://a.br/x", 1)], [offer("http://a.br/x", 1), listed]):
        assert LinkCache().filter_new(1, offers) == [replace(offer("http://a.br/x", 1), announced=900.0)]


def test_what_was_told_is_not_told_again_unless_it_is_nearer_or_announced():
    delivered = LinkCache()
    delivered.remember(1, [offer("http://a.br/x", 2)])
    assert delivered.filter_new(1, [offer("http://a.br/x", 2), offer("http://a.br/x", 3)]) == []
    assert delivered.filter_new(2, [offer("http://a.br/x", 2)]) == [offer("http://a.br/x", 2)]
    assert delivered.filter_new(1, [offer("http://a.br/x", 1)]) == [offer("http://a.br/x", 1)]
    announced = replace(offer("http://a.br/x", 2), announced=5.0)
    assert delivered.filter_new(1, [announced]) == [announced]


def test_each_run_is_told_anew_and_a_straggler_of_an_earlier_one_tells_nothing_twice():
    delivered, found = LinkCache(), offer("http://a.br/x", 2)
    delivered.remember(1, [found], 1)
    assert delivered.filter_new(1, [found], 2) == [found]
    delivered.remember(1, [found], 2)
    assert delivered.filter_new(1, [found], 2) == []
    assert delivered.filter_new(1, [found], 1) == []
