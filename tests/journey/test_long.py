"""Long journeys: more hosts, more pages, more violence. `make test-long` runs them and prints their figures."""

import os
import random
import signal
import subprocess
from collections import Counter

import pytest

from tarrafa.clock import boottime
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import (
    TYPES,
    Journey,
    a_journey,
    assert_exact,
    assert_polite,
    check_warc,
    finished_visits,
    kill_group,
    peak_mb,
    pids_of,
    urls_handed_out,
    wait_until_kept,
)

pytestmark = pytest.mark.long


def test_a_web_of_four_hundred_hosts_is_crawled_exactly_and_politely(tmp_path):
    journey = a_journey(tmp_path, World(seed=21, hosts=400, pages=20_000, crawl_delay_s=0.1, crawl_delay_share=0.1))
    truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
    with journey.web:
        started = boottime()
        process = journey.start(journey.write_collection(), "--workers", "2")
        wait_until_kept(journey, process, len(truth.kept) * 95 // 100)
        print(f"peak memory in MB: {peak_mb(process)}")
        said = process.communicate(timeout=600)[1]
        assert process.returncode == 0, said
        elapsed_s = boottime() - started
        assert_exact(journey, truth)
        assert max(Counter(entry.url for entry in journey.requests()).values()) == 1
        assert_polite(journey)
        print(f"{len(truth.kept)} pages in {elapsed_s:.0f} s; {check_warc(journey)} WARC records")


def test_thirty_kills_of_any_process_or_of_all_lose_nothing(tmp_path):
    seed = os.environ.get("TARRAFA_SEED") or str(random.randrange(10**6))
    rng = random.Random(seed)
    journey = a_journey(tmp_path, World(seed=22, hosts=60, pages=4_000))
    truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
    in_flight: Counter[str] = Counter()
    with journey.web:
        file = journey.write_collection()
        process = journey.start(file, "--workers", "3")
        for goal in sorted(rng.sample(range(1, len(truth.kept) * 9 // 10), 30)):
            wait_until_kept(journey, process, max(goal, len(journey.kept()) + 1))
            in_flight.update(urls_handed_out(journey))
            if rng.random() < 0.3:
                kill_group(process)
                in_flight.update(urls_handed_out(journey))
                process = journey.start(file, "--workers", "3")
            else:
                kill_one(journey, process, rng)
        said = process.communicate(timeout=600)[1]
        if process.returncode:  # killed children too often: that is said, and the next run goes on
            assert "keeps dying" in said, said
            journey.crawl(file, "--workers", "3")
        assert_exact(journey, truth)
        assert_polite(journey)
        numbers = Counter((record.url, record.visit) for record in journey.records())
        assert max(numbers.values()) == 1
        assert finished_visits(journey) <= set(numbers)
        asked = Counter(entry.url for entry in journey.requests() if entry.path != "/robots.txt")
        repeated = sum(count - 1 for count in asked.values())
        print(f"seed {seed}: {repeated} of {sum(asked.values())} requests repeated; {check_warc(journey)} WARC records")


def kill_one(journey: Journey, process: "subprocess.Popen[str]", rng: random.Random) -> None:
    victims = pids_of(process.pid)
    if victims:
        os.kill(rng.choice(victims), signal.SIGKILL)
