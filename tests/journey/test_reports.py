"""The report of a crawl that two nodes made: whole, true, and what it lacks is said."""

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tarrafa.coordinator.node.search_peers import read_recorded_nodes
from tarrafa.index.index_status import index_status
from tarrafa.parse.url import host_key, split
from tarrafa.report.schema import CollectionReport
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.oracle import ExpectedRequests, TruthPage, expected_requests, reachable
from tarrafa.testweb.world.hosts import World
from tests.journey.cluster import SECRET, Cluster, Process, wait_for, wait_until_said
from tests.journey.coordinator_process import free_port
from tests.journey.crawl_journey import TYPES, a_journey, tarrafa

HOME, GUEST, NAME = "home", "guest", "journey"
WORLD = World(seed=21, hosts=12, pages=240, crawl_delay_s=0.02, crawl_delay_share=0.3, changes=0.0)


@dataclass
class Two(Cluster):
    """A node that coordinates and crawls, and one that joined it."""

    console: int = 0

    def begin(self) -> tuple[Process, Process]:
        self.port, self.console = free_port(), free_port()
        where = ("--data", self.folder / HOME, "--name", HOME, "--workers", "1", "--token-file", self.token_file)
        doors = ("--port", str(self.console), "--listen", f"127.0.0.1:{self.port}")
        home = self.start(HOME, "node", *where, *doors)
        wait_until_said("search page: ", home)
        return home, self.join()

    def join(self) -> Process:
        where = ("--data", self.folder / GUEST, "--name", GUEST, "--workers", "1", "--token-file", self.token_file)
        guest = self.start(GUEST, "node", "--join", f"http://127.0.0.1:{self.console}", *where)
        wait_for(lambda: {one.name for one in self.overview().nodes} >= {"home-1", "guest-1"}, guest)
        return guest

    def api(self, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.console}/api/v1{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def made_by_the_console(self, home: Process) -> CollectionReport:
        at = f"/collections/{NAME}"
        before = self.api(f"{at}/reports")["moments"]
        self.api(f"{at}/reports", {})
        wait_for(lambda: self.api(f"{at}/reports")["moments"] != before, home)
        return msgspec.convert(self.api(f"{at}/report"), CollectionReport)

    def made_by_the_command(self, *more: str | Path) -> CollectionReport:
        made = tarrafa("report", NAME, "--data", self.folder / HOME, "--json", *more)
        assert made.returncode == 0, made.stderr
        return msgspec.json.decode(made.stdout, type=CollectionReport)

    def indexed(self) -> int:
        found = [index_status(DataDirectory(self.folder / name)) for name in (HOME, GUEST)]
        return sum(one.of(NAME).indexed for one in found if one is not None)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    journey = a_journey(tmp_path, WORLD)
    made = Two(journey)
    with journey.web:
        try:
            yield made
        finally:
            made.end()


def to_be_found(two: Two, truth: ExpectedRequests) -> int:
    """How many pages the index may hold."""
    pages: dict[str, TruthPage] = {}
    for host in {split(url).host for url in truth.kept}:
        told = json.loads(two.journey.web._get(f"/__truth__?host={host}"))["pages"]
        pages.update({page.url: page for page in msgspec.convert(told, list[TruthPage])})
    return sum(not pages[url].noindex for url in truth.kept)


def check_against_truth(report: CollectionReport, two: Two, truth: ExpectedRequests) -> None:
    asked = [entry for entry in two.journey.requests() if entry.path.partition("?")[0] != "/robots.txt"]
    assert (report.work.documents, report.work.requests) == (len(truth.kept), len(asked))
    assert report.links.accessed == len({entry.url for entry in asked})
    assert report.servers.documents == Counter(host_key(url) for url in truth.kept)
    reached = reachable(WORLD, [WORLD.root(1)], sitemaps=True)
    codes = Counter(reached[url].status for url in truth.redirects)
    assert {one.status: one.count for one in report.redirects.codes} == codes
    assert report.dead is not None
    assert report.dead.urls == len(truth.missing)
    assert report.robots.asked == WORLD.hosts
    assert report.links.indexed == to_be_found(two, truth)
    assert sum(one.documents for one in report.collectors) == len(truth.kept)
    assert {one.name for one in report.collectors} == {"home-1", "guest-1"}


def check_against_status(report: CollectionReport, two: Two) -> None:
    status = two.status()
    told = Counter({one.status: one.count for one in (*report.responses, *report.unvisited)})
    assert {str(code): count for code, count in told.items()} == status.statuses
    assert (report.work.visits, report.work.requests) == (status.visits, status.requests)
    assert (report.work.documents, report.links.discovered) == (status.fetched, status.known)
    assert report.servers.visited == status.hosts


@pytest.mark.long
def test_the_report_of_two_nodes_agrees_with_the_truth_and_with_status_and_names_who_is_missing(two):
    truth = expected_requests(WORLD, [WORLD.root(1)], types=TYPES, sitemaps=True)
    home, guest = two.begin()
    two.submit(two.journey.write_collection())
    wait_for(lambda: two.status().state == "finished", home)
    wait_for(lambda: two.indexed() == to_be_found(two, truth), home)

    whole = two.made_by_the_console(home)
    check_against_truth(whole, two, truth)
    check_against_status(whole, two)
    assert whole.notes == ["several"]
    assert [one.name for one in whole.storage_by_machine] == ["", GUEST]
    assert {one.name for one in whole.machines} == {HOME, GUEST}
    for part in whole.storage:
        sizes = [one.bytes for machine in whole.storage_by_machine for one in machine.parts if one.name == part.name]
        assert (len(sizes), sum(sizes)) == (2, part.bytes)

    own, nodes = read_recorded_nodes(DataDirectory(two.folder / HOME))
    assert own == HOME
    assert {name: bool(beat and beat.address) for name, (beat, _) in nodes.items()} == {HOME: False, GUEST: True}
    same = two.made_by_the_command("--token-file", two.token_file)
    check_against_truth(same, two, truth)
    check_against_status(same, two)
    nobody_noted = all(one.busy is None for one in same.machines)  # it was done within a minute
    assert same.notes == ["several", *(["no_busy"] if nobody_noted else [])]
    assert {one.name for one in same.machines} == {HOME, GUEST}

    alone = two.made_by_the_command()
    assert [(one.name, one.why) for one in alone.missing] == [(GUEST, "refused")]
    assert 0 < alone.work.visits < whole.work.visits
    assert alone.work.visits + alone.visits_elsewhere == whole.work.visits
    assert alone.notes[:2] == ["without", "elsewhere"]
    assert alone.unvisited == whole.unvisited, "the frontier knows"

    guest.kill()
    lacking = two.made_by_the_console(home)
    assert [(one.name, one.why) for one in lacking.missing] == [(GUEST, "away")]
    assert lacking.visits_elsewhere == alone.visits_elsewhere
    newest = two.folder / HOME / "reports" / NAME / two.api(f"/collections/{NAME}/reports")["moments"][0]
    assert f"Without node {GUEST}: it does not answer." in (newest / "report.md").read_text()
    assert "Traceback" not in home.said()
    assert SECRET not in home.said()
