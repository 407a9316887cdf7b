"""From a root URL to a search result, with real processes on a synthetic Web."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tarrafa.archive.warc_reader import bytes_behind, visit_lengths
from tarrafa.testweb.http.request_log import measure_politeness
from tarrafa.testweb.oracle import expected_requests, reachable
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import (
    TIMEOUT_S,
    TIMER_S,
    TYPES,
    a_journey,
    assert_exact,
    assert_polite,
    check_warc,
    finished_visits,
    kill_group,
    pids_of,
    tarrafa,
    urls_handed_out,
    wait_until_kept,
)


@pytest.fixture
def forty(tmp_path):
    """40 hosts and 2,000 pages."""
    journey = a_journey(tmp_path, World(seed=11, hosts=40, pages=2000, crawl_delay_s=0.1, crawl_delay_share=0.2))
    with journey.web:
        yield journey


def test_a_crawl_finds_exactly_what_is_reachable_and_allowed_once_and_politely(forty):
    forty.sections = "[fetch]\nhosts_at_once = 20\n"  # of each worker: who comes first leaves half of them to the other
    forty.crawl(forty.write_collection(), "--workers", "2")
    truth = expected_requests(forty.world, [forty.world.root(1)], types=TYPES, sitemaps=True)
    assert_exact(forty, truth)
    assert max(forty.kept().values()) == 1
    per_url = Counter(entry.url for entry in forty.requests())
    assert max(per_url.values()) == 1, per_url.most_common(3)
    assert_polite(forty)
    check_warc(forty)
    workers = {path.name.split("-")[2] for path in forty.data.archive.glob("*.durable")}
    assert workers == {"w1", "w2"}, "both worked"

    overview = asyncio.run(forty.overview())
    (status,) = overview.collections
    assert (status.state, status.fetched, status.pending, status.handed_out) == ("finished", len(truth.kept), 0, 0)
    assert bytes_behind(forty.data.archive, visit_lengths(forty.data.archive)) == 0

    again = forty.crawl(forty.write_collection())
    assert "finished" in again
    assert len(forty.requests()) == sum(per_url.values()), "run again, it has nothing to do"

    depths = {record.url: record.depth for record in forty.records()}
    for url, reached in reachable(forty.world, [forty.world.root(1)], sitemaps=True).items():
        assert url in truth.unwanted or depths[url] >= reached.depth


def test_what_was_crawled_is_searched_and_its_links_are_known(forty):
    journey = forty
    journey.crawl(journey.write_collection(scope='hosts = ["*.test"]\npages_max = 300'))
    pages = {record.url: record.page for record in journey.records() if record.outcome.kept}
    assert len(pages) == 300
    record = next(page for page in pages.values() if page is not None and page.title and not page.robots.noindex)
    found = tarrafa("search", f'"{record.title}"', "--data", journey.data.root, "--json", "--limit", "50")
    answer = json.loads(found.stdout)
    assert set(answer) == {"query", "total", "time_s", "hits", "suggestion", "shards"}
    assert record.url in [hit["url"] for hit in answer["hits"]], found.stderr
    linked = tarrafa("links", record.url, "--data", journey.data.root, "--json")
    neighbours = json.loads(linked.stdout)
    wanted = {link.url for link in record.links if link.url != record.url}
    assert {link["url"] for link in neighbours["out"]} >= set(sorted(wanted)[:20]) & wanted
    told = json.loads(tarrafa("status", "--data", journey.data.root, "--json").stdout)
    assert told["collections"][0]["fetched"] == 300


KILLS = 5


def test_killed_five_times_at_random_moments_and_resumed_nothing_is_lost(forty):
    seed = os.environ.get("TARRAFA_SEED") or str(random.randrange(10**6))
    forty.delay_s = 0.06  # at first: it must not be over before it was killed so often
    file, rng = forty.write_collection(), random.Random(seed)
    truth = expected_requests(forty.world, [forty.world.root(1)], types=TYPES, sitemaps=True)
    in_flight: Counter[str] = Counter()
    for kill, goal in enumerate(sorted(rng.sample(range(1, len(truth.kept) * 9 // 10), KILLS))):
        process = forty.start(file, "--workers", "2")
        wait_until_kept(forty, process, max(goal, len(forty.kept()) + 1))
        kill_group(process)
        handed_out = urls_handed_out(forty)
        in_flight.update(handed_out)
        print(f"kill {kill + 1} (seed {seed}): {len(forty.kept())} pages kept, {len(handed_out)} visits in flight")
    assert_polite(forty)
    forty.delay_s = 0.03
    forty.crawl(forty.write_collection(), "--workers", "2")

    assert_exact(forty, truth)
    assert_polite(forty)
    records = check_warc(forty)
    asked = Counter(entry.url for entry in forty.requests() if entry.path != "/robots.txt")
    repeated = {url: count - 1 for url, count in asked.items() if count > 1}
    print(f"{sum(repeated.values())} requests repeated of {sum(asked.values())}; {records} WARC records")
    assert all(times <= in_flight[url] for url, times in repeated.items()), "only what was in flight is fetched again"
    numbers = Counter((record.url, record.visit) for record in forty.records())
    assert max(numbers.values()) == 1, "a visit's number is never used twice"
    (status,) = asyncio.run(forty.overview()).collections
    assert (status.state, status.fetched, status.handed_out) == ("finished", len(truth.kept), 0)
    assert finished_visits(forty) <= set(numbers), "every finished visit has its record"


LATER = [
    pytest.param(f"supervisor.followers --projection {role}", marks=pytest.mark.long) for role in ("graph", "index")
]


@pytest.mark.parametrize("victim", ["worker.worker --name w1", "rpc.frontier_server", *LATER])
def test_any_process_may_be_killed_and_the_crawl_goes_on(tmp_path, victim):
    journey = a_journey(tmp_path, World(seed=12, hosts=12, pages=300))
    journey.delay_s = 0.1  # ten seconds on its largest host: it must not be over before somebody is killed
    with journey.web:
        process = journey.start(journey.write_collection(), "--workers", "2")
        wait_until_kept(journey, process, 60)
        (pid,) = pids_of(process.pid, victim)
        os.kill(pid, signal.SIGKILL)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
        assert_exact(journey, truth)
        assert_polite(journey)
        check_warc(journey)
        found = json.loads(tarrafa("search", "pescador", "--data", journey.data.root, "--json").stdout)
        assert found["total"] > 0
        (status,) = asyncio.run(journey.overview()).collections
        assert (status.fetched, status.pending, status.handed_out) == (len(truth.kept), 0, 0)


def test_a_depth_limit_is_kept_and_a_raised_one_opens_what_it_had_cut(tmp_path):
    journey = a_journey(tmp_path, World(seed=3, hosts=12, pages=400))
    journey.sections = '[strategy]\norder = "lifo"\n[fetch]\nsitemaps = false\n'
    with journey.web:
        journey.crawl(journey.write_collection(scope='hosts = ["*.test"]\ndepth_max = 3'))
        truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, depth_max=3)
        everything = expected_requests(journey.world, [journey.world.root(1)], types=TYPES)
        assert len(truth.kept) < len(everything.kept), "the limit cuts something"
        assert_exact(journey, truth)
        journey.crawl(journey.write_collection(scope='hosts = ["*.test"]'))
        assert_exact(journey, everything)


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(tmp_path):
    journey = a_journey(tmp_path, World(seed=5, hosts=10, pages=300))
    journey.delay_s = 0.2  # at first: it must not be over before somebody stops it
    with journey.web:
        process = journey.start(journey.write_collection())
        wait_until_kept(journey, process, 30)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert "goes on where it was" in said
        assert "Traceback" not in said
        (status,) = asyncio.run(journey.overview()).collections
        assert (status.state, status.handed_out) == ("paused", 0)
        journey.delay_s = 0.03
        journey.crawl(journey.write_collection())
        truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
        assert_exact(journey, truth)
        assert max(Counter(entry.url for entry in journey.requests() if "robots" not in entry.path).values()) == 1


def test_a_second_crawl_is_handed_to_the_first_and_both_are_polite_together(tmp_path):
    journey = a_journey(tmp_path, World(seed=6, hosts=8, pages=200))
    journey.delay_s = 0.1  # the first must not be over before the second is there
    with journey.web:
        first = journey.start(journey.write_collection("one"))
        wait_until_kept(journey, first, 5, "one")
        said = journey.crawl(journey.write_collection("two"))
        assert "takes two over" in said
        _, words = first.communicate(timeout=120)
        assert first.returncode == 0, words
        truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
        assert set(journey.kept("one")) == truth.kept
        assert set(journey.kept("two")) == truth.kept
        assert_polite(journey)


def test_hosts_that_share_an_address_are_never_visited_at_once(tmp_path):
    journey = a_journey(tmp_path, World(seed=8, hosts=16, pages=160), addresses=True)
    with journey.web:
        form = journey.web.form
        journey.roots, journey.network = [journey.world.root(1, form)], "allow_private = true"
        journey.crawl(journey.write_collection(scope='hosts = ["*"]'))
        truth = expected_requests(journey.world, journey.roots, types=TYPES, form=form, sitemaps=True)
        assert set(journey.kept()) == truth.kept
        shared = measure_politeness(journey.requests(), by="address")
        assert len(shared) < 16
        for address, treated in shared.items():
            assert treated.simultaneous_max <= 1, address
            assert treated.gap_s_min >= journey.delay_s - TIMER_S, address


def test_nothing_that_lies_where_somebody_stands_is_run(tmp_path):
    """There, each module of Python has a namesake (a script may be named copy.py) that tells when it is imported."""
    trap, told = tmp_path / "here", tmp_path / "told"
    trap.mkdir()
    for name in sys.stdlib_module_names:
        (trap / f"{name}.py").write_text(f"open({str(told)!r}, 'a').write('{name} ')\nraise SystemExit(3)\n")
    journey = a_journey(tmp_path, World(seed=5, hosts=3, pages=40))
    with journey.web:
        for said in (["crawl", journey.write_collection()], ["rebuild", "index"]):
            line = [Path(sys.executable).with_name("tarrafa"), *said, "--data", journey.data.root]
            done = subprocess.run(line, cwd=trap, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert done.returncode == 0, done.stderr
    assert not told.exists(), told.read_text()
    assert journey.kept()


def test_a_dead_host_is_given_up_and_the_crawl_ends(tmp_path):
    journey = a_journey(tmp_path, World(seed=9, hosts=4, pages=40))
    with journey.web:
        journey.roots = [journey.world.root(1), "http://gone.invalid/"]
        journey.sections = "[fetch]\nretries = 1\n"
        journey.politeness = 'backoff = "100ms"\ndelay_factor = 0'  # after each of five failures twice as long
        journey.crawl(journey.write_collection(scope='hosts = ["*.test", "*.invalid"]'))
        (status,) = asyncio.run(journey.overview()).collections
        assert (status.failed, status.statuses.get("-13")) == (1, 1)
        assert (
            set(journey.kept())
            == expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True).kept
        )


def test_as_a_library_pages_come_as_they_are_kept_and_resume_where_they_stopped(tmp_path):
    from tarrafa.crawl import pages

    journey = a_journey(tmp_path, World(seed=4, hosts=6, pages=120))
    truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)

    async def some(file: Path, most: int | None) -> list[str]:
        seen: list[str] = []
        stream = pages(file, journey.data.root)
        async for page in stream:
            assert page.text or page.title
            seen.append(page.url)
            if most is not None and len(seen) >= most:
                await stream.aclose()
                break
        return seen

    journey.delay_s = 0.25  # at first: it must not be over before somebody has read a few pages
    with journey.web:
        file = journey.write_collection()
        first = asyncio.run(some(file, 5))
        (status,) = asyncio.run(journey.overview()).collections
        assert status.state == "paused"
        journey.delay_s = 0.03
        rest = asyncio.run(some(journey.write_collection(), None))
        assert len(first) == 5
        assert set(first) | set(rest) == truth.kept
        assert len(set(first) & set(rest)) <= 1, "at most the page that was in hand is given again"
