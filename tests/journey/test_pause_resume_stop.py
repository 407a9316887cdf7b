"""Pause, resume and stop: said in one terminal to a crawl that runs in another."""

import asyncio
import signal

import pytest

from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import (
    TIMEOUT_S,
    TYPES,
    a_journey,
    assert_exact,
    kill_group,
    run_json,
    tarrafa,
    wait_until_kept,
)


@pytest.mark.long
def test_what_is_paused_rests_what_is_resumed_goes_on_and_what_is_stopped_ends(tmp_path):
    journey = a_journey(tmp_path, World(seed=5, hosts=10, pages=300))
    where = ("--data", journey.data.root)
    with journey.web:
        file = journey.write_collection()
        process = journey.start(file)
        wait_until_kept(journey, process, 20)
        assert tarrafa("pause", "journey", *where).stdout == "journey: paused\n"
        told = tarrafa("status", *where).stdout
        assert "journey is paused: by `tarrafa pause`; `tarrafa resume` goes on" in told
        resting = len(journey.requests())
        assert "workers: w1" in tarrafa("status", *where).stdout, "its processes wait"
        assert len(journey.requests()) - resting <= 10, "only what was under way is brought home"
        assert process.poll() is None
        kept = len(journey.kept())
        assert tarrafa("resume", "journey", *where).stdout == "journey: running\n"
        wait_until_kept(journey, process, kept + 20)
        assert tarrafa("stop", "journey", *where).stdout == "journey: stopped\n"
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1, "it did not reach its end"
        assert "journey: stopped (by `tarrafa stop`; `tarrafa crawl FILE` goes on)" in said
        journey.crawl(file)
        assert_exact(journey, expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True))
        over = tarrafa("pause", "journey", *where)
        assert over.returncode == 2
        assert "nothing runs here" in over.stderr


def test_a_collection_is_over_while_another_one_runs(tmp_path):
    journey = a_journey(tmp_path, World(seed=5, hosts=12, pages=20_000))
    journey.delay_s = 0.1
    with journey.web:
        process = journey.start(journey.write_collection())
        try:
            wait_until_kept(journey, process, 20)
            journey.crawl(journey.write_collection("little", 'hosts = ["h0001.br.test"]\npages_max = 3'))
            assert len(journey.kept("little")) == 3
            states = {one.name: one.state for one in asyncio.run(journey.overview()).collections}
            assert states == {"journey": "running", "little": "finished"}
        finally:
            kill_group(process)


def test_what_was_archived_before_ctrl_c_can_be_searched_afterwards(tmp_path):
    journey = a_journey(tmp_path, World(seed=3, hosts=20, pages=2000))
    with journey.web:
        process = journey.start(journey.write_collection())
        wait_until_kept(journey, process, 100)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, said
    told = run_json("status", "--data", journey.data.root)
    assert told["index"]["behind_bytes"] == told["triples"]["behind_bytes"] == 0, said
