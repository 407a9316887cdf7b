"""Pages change, are gone and come back; whatever becomes of its follower, the triple store says what they state now."""

import json
import os
import signal

import pytest

from tarrafa.index.index_state import IndexAction, index_action
from tarrafa.model import VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.world.hosts import World
from tarrafa.triples.follower import catch_up, rebuild
from tarrafa.triples.status import behind
from tarrafa.triples.triple_writer import graph_of, quads_of, statements_of
from tests.journey.accelerated_month import Month
from tests.journey.crawl_journey import a_journey, pids_of, tarrafa, wait_until_kept
from tests.triples.sample_statements import books, contents, counted


def stated(records: list[VisitRecord]) -> set[str]:
    """What the newest visits have found, read from the archive by nobody's follower."""
    newest: dict[str, VisitRecord] = {}
    for record in records:
        known = newest.get(record.url)
        if index_action(record) is not IndexAction.NOTHING and (known is None or known.visit < record.visit):
            newest[record.url] = record
    found: set[str] = set()
    for url, record in newest.items():
        if index_action(record) is IndexAction.WRITE and record.page is not None:
            graph, key = graph_of(url, url_id(url)), url_id(url)
            found |= {str(quad) for quad in quads_of(statements_of(record.page.statements, key), graph)}
    return found


def check(data: DataDirectory, records: list[VisitRecord]) -> None:
    assert behind(data) == 0
    found = contents(data)
    assert {line for line in found if "<urn:tarrafa:" not in line} == stated(records)
    noted = books(data)
    assert counted(data) == {key: noted[key] for key in ("counts", "together")}
    rebuild(data)
    assert contents(data) == found
    assert books(data) == noted


@pytest.mark.long
def test_a_crawl_whose_follower_is_killed_leaves_what_the_pages_state(tmp_path):
    journey = a_journey(tmp_path, World(seed=12, hosts=12, pages=300))
    with journey.web:
        process = journey.start(journey.write_collection())
        for goal in (20, 90, 160):
            wait_until_kept(journey, process, goal)
            for pid in pids_of(process.pid, "triples"):
                os.kill(pid, signal.SIGKILL)
        said = process.communicate(timeout=300)[1]
        assert process.returncode == 0, said
    told = json.loads(tarrafa("status", "--data", journey.data.root, "--json").stdout)["triples"]
    assert (told["statements"], told["behind_bytes"]) == (len(stated(journey.records())), 0)
    assert told["pages"] > 100
    check(journey.data, journey.records())


@pytest.mark.long
def test_pages_that_are_kept_fresh_are_right_in_the_store(tmp_path):
    month = Month(tmp_path, "index", real_s=30, days=8, world=World(seed=3, hosts=6, pages=60), share=0.5)
    with month.open():
        process = month.start()
        for day in (2, 3, 4, 5):
            month.live_until(process, day)
            for pid in pids_of(process.pid, "triples"):
                os.kill(pid, signal.SIGKILL)
        month.live_until_seen_again(process, 7.5)
        month.stop(process)
    assert dict(books(month.data)["totals"])["pages"] > 10, "it had followed"
    records = month.records()
    assert len({record.visit for record in records}) > 2, "pages were seen again"
    catch_up(month.data)  # it may have been stopped in the middle of its work
    check(month.data, records)
