"""The frontier is lost in mid-crawl: it is made again from the archive, and the crawl goes on to its end."""

import asyncio
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest

from tarrafa.archive.warc_writer import recover_archive
from tarrafa.frontier.store.revisits import read_history
from tarrafa.model import UrlState
from tarrafa.revisit.policy import PageHistory
from tarrafa.testweb.oracle import ExpectedRequests, expected_requests
from tarrafa.testweb.world.hosts import World
from tests.journey.accelerated_month import Month
from tests.journey.crawl_journey import (
    TYPES,
    Journey,
    a_journey,
    assert_exact,
    assert_polite,
    check_warc,
    kill_group,
    tarrafa,
    wait_until_kept,
)

FACTS = ("state", "depth", "redirects", "status", "type", "role", "content_id", "etag", "last_modified", "payload",
         "visits")  # fmt: skip


def facts(path: Path) -> dict[str, dict[str, Any]]:
    """Every URL of a frontier's file, by its columns."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = db.execute(f"SELECT url, in_links, {', '.join(FACTS)} FROM url").fetchall()
    db.close()
    return {str(row[0]): dict(zip(("in_links", *FACTS), row[1:], strict=True)) for row in rows}


def lose(journey: Journey) -> Path:
    """The frontier is gone; a copy, for us, is not."""
    aside = journey.folder / "lost"
    aside.mkdir()
    for part in journey.data.root.glob("frontier.sqlite*"):
        shutil.move(part, aside / part.name)
    return aside / "frontier.sqlite"


def assert_all_came_back(journey: Journey, lost: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Whatever was known is known. What differs: visits whose record was durable and that nobody had been told of yet
    are over now, what was out waits, and so does what was given up without a visit."""
    found = facts(journey.data.frontier)
    assert lost.keys() <= found.keys(), "nothing is forgotten"
    for url, before in lost.items():
        after = found[url]
        assert after["depth"] <= before["depth"], url
        assert after["visits"] > before["visits"], "no number is given twice"
        if before["state"] in (UrlState.HANDED_OUT, UrlState.PENDING) or before["status"] in (-13, -18):
            continue
        same = [name for name in FACTS if name not in ("depth", "redirects", "visits")]
        assert {name: after[name] for name in same} == {name: before[name] for name in same}, url
        assert after["in_links"] >= before["in_links"], url
    return found


def crawl_on(journey: Journey, file: Path, truth: ExpectedRequests, archived: set[str]) -> None:
    """To its end: everything is there, and nothing that was archived is fetched again."""
    before = Counter(entry.url for entry in journey.requests())
    journey.crawl(file, "--workers", "2")
    assert_exact(journey, truth)
    assert_polite(journey)
    asked = Counter(entry.url for entry in journey.requests())
    assert not [url for url in archived if asked[url] > before[url]], "what was archived is not fetched again"
    numbers = Counter((record.url, record.visit) for record in journey.records())
    assert max(numbers.values()) == 1, "a visit's number is never used twice"
    (status,) = asyncio.run(journey.overview()).collections
    assert (status.state, status.fetched, status.handed_out) == ("finished", len(truth.kept), 0)


def crawl_half(journey: Journey, file: Path, goal: int) -> set[str]:
    """And kill everything; the URLs whose visits are in the archive."""
    process = journey.start(file, "--workers", "2")
    wait_until_kept(journey, process, goal)
    kill_group(process)
    recover_archive(journey.data.archive)  # as any next command does: what was never durable is cut away
    return {record.url for record in journey.records()}


def test_a_lost_frontier_is_made_again_and_the_crawl_goes_on_as_if_nothing_had_happened(tmp_path):
    journey = a_journey(tmp_path, World(seed=31, hosts=6, pages=80))
    truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
    journey.delay_s = 0.3  # at first: it must not be over before half of it is lost
    with journey.web:
        archived = crawl_half(journey, journey.write_collection(), len(truth.kept) // 2)
        assert_polite(journey)
        lost = facts(lose(journey))
        said = tarrafa("rebuild", "frontier", "--data", journey.data.root)
        assert said.returncode == 0, said.stderr
        assert said.stdout.startswith(f"frontier: rebuilt from {len(journey.records())} visits: ")
        assert_all_came_back(journey, lost)
        journey.delay_s = 0.03
        crawl_on(journey, journey.write_collection(), truth, archived)


@pytest.fixture
def forty(tmp_path):
    journey = a_journey(tmp_path, World(seed=11, hosts=40, pages=2000, crawl_delay_s=0.1, crawl_delay_share=0.2))
    with journey.web:
        yield journey


@pytest.mark.long
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
def test_at_any_moment_with_or_without_the_graph(forty, share):
    """And the rebuild itself is killed a few times on the way."""
    truth = expected_requests(forty.world, [forty.world.root(1)], types=TYPES, sitemaps=True)
    file = forty.write_collection()
    archived = crawl_half(forty, file, int(len(truth.kept) * share))
    lost = facts(lose(forty))
    if share == 0.3:
        shutil.rmtree(forty.data.graph)
        for row in lost.values():
            row["in_links"], row["depth"] = 0, row["depth"] + 1  # the graph's follower will tell
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "rebuild", "frontier", "--data"]
    rng = random.Random(share)
    for _ in range(3):
        process = subprocess.Popen([*command, str(forty.data.root)], stdout=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(0.5, 1.5))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            assert not forty.data.frontier.exists(), "whole or not at all"
    if not forty.data.frontier.exists():
        said = tarrafa("rebuild", "frontier", "--data", forty.data.root)
        assert said.returncode == 0, said.stderr
    assert_all_came_back(forty, lost)
    crawl_on(forty, file, truth, archived)
    check_warc(forty)
    ends = facts(forty.data.frontier)
    kept = {url for url, row in ends.items() if row["state"] == UrlState.FETCHED}
    assert kept == truth.kept


@pytest.mark.long
def test_lost_again_and_again(forty):
    truth = expected_requests(forty.world, [forty.world.root(1)], types=TYPES, sitemaps=True)
    file = forty.write_collection()
    for turn in range(3):
        archived = crawl_half(forty, file, len(truth.kept) * (turn + 1) // 4)
        lost = facts(lose(forty))
        shutil.rmtree(forty.folder / "lost")
        assert tarrafa("rebuild", "frontier", "--data", forty.data.root).returncode == 0
        assert_all_came_back(forty, lost)
    crawl_on(forty, file, truth, archived)


@pytest.mark.long
def test_a_backup_and_everything_archived_since(forty):
    """A file that was exported early, and the archive: together they are the frontier that was lost."""
    truth = expected_requests(forty.world, [forty.world.root(1)], types=TYPES, sitemaps=True)
    file, backup = forty.write_collection(), forty.folder / "backup"
    process = forty.start(file, "--workers", "2")
    wait_until_kept(forty, process, len(truth.kept) // 4)
    said = tarrafa("export", "frontier", backup, "--data", forty.data.root)
    assert said.returncode == 0, said.stderr
    wait_until_kept(forty, process, len(truth.kept) // 2)
    kill_group(process)
    recover_archive(forty.data.archive)
    archived = {record.url for record in forty.records()}
    lost = facts(lose(forty))
    refused = tarrafa("import", "frontier", backup, "--data", forty.data.root)
    assert refused.returncode == 2
    assert "holds visits of journey that" in refused.stderr
    said = tarrafa("rebuild", "frontier", "--from", backup, "--data", forty.data.root)
    assert said.returncode == 0, said.stderr
    assert_all_came_back(forty, lost)
    crawl_on(forty, file, truth, archived)


@pytest.mark.long
def test_a_crawl_moves_to_another_directory_with_its_archive(forty):
    truth = expected_requests(forty.world, [forty.world.root(1)], types=TYPES, sitemaps=True)
    file = forty.write_collection()
    archived = crawl_half(forty, file, len(truth.kept) // 2)
    assert tarrafa("export", "frontier", forty.folder / "f", "--data", forty.data.root).returncode == 0
    elsewhere = forty.folder / "elsewhere"
    (elsewhere / "archive").mkdir(parents=True)
    (elsewhere / "VERSION").write_text((forty.data.root / "VERSION").read_text())
    for path in forty.data.archive.iterdir():
        shutil.copy(path, elsewhere / "archive" / path.name)
    said = tarrafa("import", "frontier", forty.folder / "f", "--data", elsewhere)
    assert said.returncode == 0, said.stderr
    before, after = facts(forty.data.frontier), facts(elsewhere / "frontier.sqlite")
    for row in before.values():
        row["state"] = UrlState.PENDING if row["state"] == UrlState.HANDED_OUT else row["state"]
    assert after == before
    shutil.rmtree(forty.data.root)
    elsewhere.rename(forty.data.root)
    in_flight = {url for url, row in before.items() if row["state"] == UrlState.PENDING}
    crawl_on(forty, file, truth, archived - in_flight)


def histories(path: Path) -> dict[str, PageHistory]:
    """What is believed of every page that is kept fresh."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = db.execute("SELECT url, history FROM page JOIN url USING (host, collection, id)").fetchall()
    db.close()
    return {str(url): read_history(bytes(history)) for url, history in rows}  # type: ignore[arg-type]


@pytest.mark.long
def test_what_was_learned_of_pages_kept_fresh_is_learned_again(tmp_path):
    """From the same visits comes the same belief, to the last bit but for those that were in flight."""
    month = Month(tmp_path, "index", real_s=60, days=8, world=World(seed=3, hosts=6, pages=60), share=0.5)
    with month.open():
        process = month.start()
        month.live_until(process, 4)
        kill_group(process)
        lost = tmp_path / "lost.sqlite"
        for part in ("", "-wal"):
            shutil.copy(f"{month.data.frontier}{part}", f"{lost}{part}")
        made = tarrafa("rebuild", "frontier", "--force", "--data", month.data.root, env=month.environment)
        assert made.returncode == 0, made.stderr
        before, after = histories(lost), histories(month.data.frontier)
        same = [url for url, page in before.items() if after[url] == page]
        assert len(before) > 30
        assert before.keys() <= after.keys()
        assert len(same) >= 0.9 * len(before)
        assert all(after[url].visits >= page.visits for url, page in before.items())
        process = month.start()
        month.live_until_seen_again(process, 7.5)
        month.stop(process)
    assert set(month.versions_kept()) == {page.url for page in month.expected()}
    numbers = Counter((record.url, record.visit) for record in month.records())
    assert max(numbers.values()) == 1
