"""Keeping a collection fresh, for real: the crawl comes back when it should, and freshness is what was predicted."""

import itertools
import signal
from collections import Counter, defaultdict

import pytest
from warcio.archiveiterator import ArchiveIterator

from tarrafa.model import VisitRecord
from tarrafa.testweb.http.request_log import measure_politeness, read_log
from tarrafa.testweb.oracle import version_of_url
from tarrafa.testweb.world.hosts import World
from tarrafa.testweb.world.resources import ResourceKind
from tests.journey.accelerated_month import Month
from tests.journey.crawl_journey import TIMER_S, kill_group, tarrafa
from tests.warc_check import check_warc_file

FIRST_DAY = 14.0  # of measuring: by then everything was found
POINTS = 0.03


def changes_as_archived(month: Month) -> tuple[int, int]:
    """How many pairs of successive copies were compared, and how many of them contradict the Web's truth."""
    kinds = {page.url: page.kind for page in month.expected()}
    copies: defaultdict[str, list[VisitRecord]] = defaultdict(list)
    for record in month.records():
        if record.outcome.kept and kinds.get(record.url) in (ResourceKind.PAGE, ResourceKind.PRINT):
            copies[record.url].append(record)
    compared = wrong = 0
    for url, records in copies.items():
        records.sort(key=lambda record: record.outcome.at)
        for one, two in itertools.pairwise(records):
            then, now = (version_of_url(month.world, url, record.outcome.at).number for record in (one, two))
            compared += 1
            wrong += (one.outcome.content_id != two.outcome.content_id) != (then != now)
    return compared, wrong


def test_a_crawl_that_is_killed_and_resumed_keeps_its_pages_fresh(tmp_path):
    month = Month(tmp_path, "index", real_s=30, days=8, world=World(seed=3, hosts=6, pages=60), share=0.5)
    with month.open() as web:
        process = month.start()
        month.live_until(process, 3)
        kill_group(process)
        process = month.start()
        month.live_until_seen_again(process, 7.5)
        month.stop(process)
        stats = web.stop()
    assert set(month.versions_kept()) == {page.url for page in month.expected()}
    visits = Counter(record.url for record in month.records() if record.outcome.status in (200, 304))
    assert min(visits.values()) >= 2, "every page was seen again"
    assert stats.statuses[304] > 20, "conditional requests"
    compared, wrong = changes_as_archived(month)
    assert compared > 100
    assert wrong <= 0.05 * compared  # a page may change while it is on its way
    for treated in measure_politeness(read_log(tmp_path / "requests.jsonl")).values():
        assert treated.simultaneous_max <= 1
        assert treated.gap_s_min * month.clock.scale >= month.delay_s - TIMER_S * month.clock.scale
    kinds: Counter[str] = Counter()
    for path in month.data.archive.glob("*.warc.gz"):
        check_warc_file(path)
        with path.open("rb") as stream:
            kinds.update(record.rec_type for record in ArchiveIterator(stream))
    assert kinds["revisit"] >= stats.statuses[304] - 10, "unchanged pages are archived as revisits"
    explained = tarrafa("explain", month.roots[0], "--data", month.data.root, env=month.environment)
    assert "a day, probably" in explained.stdout, explained.stdout + explained.stderr
    assert "when the collection runs again" in explained.stdout


@pytest.mark.long
def test_freshness_is_what_the_simulator_predicts_and_the_index_policy_is_best(tmp_path):
    """300 pages on 10 hosts for 30 days."""
    measured, predicted = {}, {}
    for policy in ("uniform", "proportional", "index"):
        (tmp_path / policy).mkdir()
        month = Month(tmp_path / policy, policy, real_s=120)
        with month.open():
            process = month.start()
            month.live_until(process, month.days)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        measured[policy] = month.freshness(FIRST_DAY, month.days)
        predicted[policy] = month.predicted(FIRST_DAY)
        visits = sum(len(times) for times in month.versions_kept().values())
        print(f"{policy}: measured {measured[policy]:.4f}, predicted {predicted[policy]:.4f}, {visits} visits")
    for policy, freshness in measured.items():
        assert abs(freshness - predicted[policy]) <= POINTS, (policy, measured, predicted)
    assert max(measured, key=lambda policy: measured[policy]) == "index"
