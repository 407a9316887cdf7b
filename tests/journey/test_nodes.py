"""Nodes that join a coordinator: seen while they live, missed when they do not, and obedient."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from tarrafa.archive.warc_reader import follow
from tarrafa.clock import boottime
from tarrafa.coordinator.node.agent import NodeAgent
from tarrafa.coordinator.node.messages import NODE_SILENT_AFTER_S, NodeHeartbeat, NodeOrders, ProcessState
from tarrafa.coordinator.node.process_health import NodeHealth
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.crawl.supervisor import child_processes
from tarrafa.crawl.supervisor.supervisor import Supervisor, submit_collection
from tarrafa.errors import ShardUnavailable
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.runtime.token import Token
from tarrafa.search.remote_shard import RemoteShard
from tarrafa.testweb.oracle import ExpectedRequests, expected_requests
from tarrafa.testweb.world.hosts import World
from tests.journey.cluster import SECRET, Process, command_lines, wait_for, wait_until_said
from tests.journey.coordinator_process import CoordinatedCluster, free_port
from tests.journey.crawl_journey import TYPES, Journey, a_journey, assert_exact, assert_polite, pids_of
from tests.journey.scripted_web import ScriptedResponse, ScriptedWeb, links, scripted_web

LEASE_S = 6.0
HASTE = '[fetch]\ntime_max = "2s"\n'  # hosts of a silent worker rest for so long
TIMEOUT_S = 240.0


def the_truth(journey: Journey) -> ExpectedRequests:
    return expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)


# -- one machine -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def a_node(journey: Journey, workers: int = 2) -> AsyncIterator[tuple[Supervisor, NodeAgent]]:
    """As the coordinator itself lives, with a collection that runs."""
    said: list[str] = []
    supervisor = Supervisor(journey.data, workers, patient=True, lasting=True, print_line=said.append)
    journey.data.create()
    vitals = NodeHealth(journey.data, "here", "w")
    async with supervisor, NodeAgent(supervisor, vitals, workers, NodeOrders(), said.append) as living:
        await submit_collection(supervisor.frontier, load_collection(journey.write_collection()))
        yield supervisor, living


async def beats_of(supervisor: Supervisor, living: NodeAgent) -> AsyncIterator[tuple[NodeHeartbeat, str]]:
    """A beat, and the state of the collection, several times a second, as long as somebody listens."""
    began = boottime()
    async for overview in supervisor.overviews():
        assert boottime() - began < TIMEOUT_S
        yield living.heartbeat(), overview.collections[0].state


@pytest.mark.long
def test_a_worker_that_is_killed_is_seen_and_started_again_and_nothing_is_lost(tmp_path):
    journey = a_journey(tmp_path, World(seed=3, hosts=6, pages=240))
    journey.delay_s = 0.1  # so that it takes some seconds
    truth = the_truth(journey)
    victims: list[ProcessState] = []
    seen: list[ProcessState] = []
    lines: list[str] = []

    async def live() -> NodeHeartbeat:
        async with a_node(journey) as (supervisor, living):
            async for beat, state in beats_of(supervisor, living):
                lines.extend(line.text for line in beat.lines)
                if not victims and state == "running":
                    victims.extend(one for one in beat.processes if one.pulse is not None and one.pulse.hosts)
                    for one in victims[:1]:
                        os.kill(one.pid, signal.SIGKILL)
                elif victims:
                    seen.append(next(one for one in beat.processes if one.name == victims[0].name))
                    assert state in ("running", "finished")
                    if state == "finished" and seen[-1].state == "running" and seen[-1].restarts:
                        return beat
        raise AssertionError

    with journey.web:
        beat = asyncio.run(live())
        assert_exact(journey, truth)
        assert_polite(journey)
    assert {"starting", "dead"} & {one.state for one in seen}
    last = seen[-1]
    assert (last.state, last.restarts, str(last.cause)) == ("running", 1, "killed by signal 9 (SIGKILL)")
    assert last.pid != victims[0].pid
    assert last.died > victims[0].since
    assert f"{last.name} died: killed by signal 9 (SIGKILL)" in lines
    assert {one.role for one in beat.processes} == {"frontier", "worker", "graph", "captures", "index", "triples"}
    assert {one.state for one in beat.processes} == {"running"}


@pytest.mark.long
def test_a_nodes_workers_and_what_they_take_change_while_the_crawl_goes_on(tmp_path):
    journey = a_journey(tmp_path, World(seed=5, hosts=24, pages=700))
    truth = the_truth(journey)

    def workers(beat: NodeHeartbeat) -> list[str]:
        return [one.name for one in beat.processes if one.role == "worker" and one.state == "running"]

    def hosts(beat: NodeHeartbeat) -> int:
        return sum(one.pulse.hosts for one in beat.processes if one.pulse is not None)

    def most(beat: NodeHeartbeat) -> int:
        return sum(one.pulse.hosts_max for one in beat.processes if one.pulse is not None)

    steps: list[tuple[NodeOrders, Callable[[NodeHeartbeat], bool]]] = [
        (NodeOrders(1, workers=1), lambda beat: workers(beat) == ["w1"]),
        (
            NodeOrders(2, workers=3, hosts_at_once=6),
            lambda beat: workers(beat) == ["w1", "w2", "w3"] and 0 < hosts(beat) <= 6,
        ),
        (NodeOrders(3, workers=2, paused=True), lambda beat: workers(beat) == ["w1", "w2"] and not hosts(beat)),
        (NodeOrders(4, roles=("follower",)), lambda beat: not workers(beat)),
        (NodeOrders(5, roles=("worker",)), lambda beat: {one.role for one in beat.processes} == {"frontier", "worker"}),
        (NodeOrders(6), lambda beat: len(beat.processes) == 7 and most(beat) > 100),
    ]
    done: list[int] = []

    async def live() -> None:
        async with a_node(journey) as (supervisor, living):
            async for beat, state in beats_of(supervisor, living):
                if len(done) < len(steps):
                    orders, is_so = steps[len(done)]
                    living.apply_orders(orders)
                    if beat.orders == orders.number and is_so(beat):
                        done.append(orders.number)
                        assert state == "running", "there must be something left to order"
                elif state == "finished":
                    return

    with journey.web:
        asyncio.run(live())
        assert_exact(journey, truth)
        assert_polite(journey)
    assert done == [1, 2, 3, 4, 5, 6]


@pytest.mark.long
def test_a_limit_of_bandwidth_holds_while_the_crawl_goes_on(tmp_path):
    journey = a_journey(tmp_path, World(seed=5, hosts=24, pages=700))
    rates: list[float] = []

    async def live() -> None:
        async with a_node(journey) as (supervisor, living):
            ordered_at = 0.0
            async for beat, _ in beats_of(supervisor, living):
                rate = sum(one.bytes_per_s for one in beat.processes)
                if not ordered_at and rate > 100_000:
                    ordered_at = boottime()
                    living.apply_orders(NodeOrders(1, bandwidth=20_000))
                if ordered_at and boottime() - ordered_at > 5:
                    rates.append(rate)
                if len(rates) > 20:
                    return

    with journey.web:
        asyncio.run(live())
    assert sum(rates) / len(rates) < 30_000


@pytest.mark.long
def test_a_node_with_a_full_disk_pauses_itself_says_so_and_goes_on_by_itself(tmp_path):
    mount = tmp_path / "disk"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "none", mount], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    journey = a_journey(tmp_path, World(seed=3, hosts=12, pages=300))
    truth, ballast = the_truth(journey), mount / "ballast"
    told: list[str] = []

    class OnSmallDisk(Journey):
        @property
        def data(self):
            return type(journey.data)(mount / "data")

    small = OnSmallDisk(journey.folder, journey.world, journey.web, journey.log_path)

    async def live() -> None:
        async with a_node(small) as (supervisor, living):
            quiet = 0
            async for beat, state in beats_of(supervisor, living):
                hosts = sum(one.pulse.hosts for one in beat.processes if one.pulse is not None)
                visits = sum(one.pulse.visits for one in beat.processes if one.pulse is not None)
                if not told and visits > 20:
                    ballast.write_bytes(bytes(shutil.disk_usage(mount).free - (50 << 20)))
                    told.append("full")
                if told == ["full"] and "the disk is nearly full" in str(beat.trouble):
                    quiet = quiet + 1 if not hosts else 0
                    assert state == "running"
                    if quiet > 8:
                        told.append("paused")
                        ballast.unlink()
                if told == ["full", "paused"] and not beat.trouble and hosts:
                    told.append("back")
                if state == "finished":
                    return

    try:
        with journey.web:
            asyncio.run(live())
            assert told == ["full", "paused", "back"]
            assert_exact(small, truth)
    finally:
        subprocess.run(["umount", mount], check=True)


# -- several machines ------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path):
    """A Web of 24 hosts and no process yet; leases are short."""
    journey = a_journey(tmp_path, World(seed=21, hosts=24, pages=600, crawl_delay_s=0.1, crawl_delay_share=0.2))
    journey.sections = HASTE
    made = CoordinatedCluster(journey, {"TARRAFA_LEASE_S": str(LEASE_S)}, console=free_port())
    with journey.web:
        try:
            yield made
        finally:
            made.end()


def is_running(cluster: CoordinatedCluster, name: str) -> bool:
    workers = cluster.processes_of(name)
    return bool(workers) and all(one.state == "running" for one in workers)


@pytest.mark.long
def test_two_machines_that_join_share_the_crawl_and_are_both_seen_and_no_secret_shows(cluster):
    server, coordinator = cluster.serve(), cluster.coordinate()
    one, two = cluster.join("one", "--workers", "1"), cluster.join("two", "--workers", "1")
    wait_for(lambda: is_running(cluster, "one") and is_running(cluster, "two"), one)
    cluster.submit(cluster.journey.write_collection())
    cluster.wait_until_visited(50, one)
    assert SECRET.encode() not in b"".join(map(command_lines, (server, coordinator, one, two)))
    cluster.wait_until_exhausted(one)
    assert cluster.kept("one")
    assert cluster.kept("two")
    assert set(cluster.kept("one", "two")) == the_truth(cluster.journey).kept
    assert_polite(cluster.journey)
    for name in ("one", "two"):
        state = cluster.states()[name]
        assert not state.is_silent
        roles = {"worker", "graph", "captures", "index", "triples", "search"}
        assert {process.role for process in state.beat.processes} == roles
        shard = RemoteShard(state.beat.address, Token(SECRET.encode()), limit_s=20.0)
        wait_for(shard.documents, one)
        shard.close()
        with pytest.raises(ShardUnavailable, match="wrong token"):
            RemoteShard(state.beat.address, Token(b"another one of many letters")).documents()
        assert any(process.pulse is not None and process.pulse.pages for process in state.beat.processes)
        assert SECRET not in str(state)
    taken = cluster.join("two", "--data", str(cluster.folder / "elsewhere"))
    assert taken.popen.wait(60) == 2
    assert "another node of that name is running; choose another with --name" in taken.said()
    assert one.stop() == 130
    assert "Traceback" not in one.said() + two.said() + coordinator.said()
    assert cluster.overview().nodes[0].name == "two-1"


@pytest.mark.long
def test_a_node_that_is_stopped_is_silent_within_seconds_its_hosts_fate_is_told_and_it_comes_back_by_itself(cluster):
    cluster.serve()
    cluster.coordinate()
    one = cluster.join("one", "--workers", "1")
    wait_for(lambda: is_running(cluster, "one"), one)
    cluster.submit(cluster.journey.write_collection())
    wait_for(lambda: cluster.states()["one"].hosts_held, one)
    one.signal(signal.SIGSTOP)
    stopped_at = boottime()
    wait_for(lambda: cluster.states()["one"].is_silent, one)
    assert boottime() - stopped_at < NODE_SILENT_AFTER_S + 1.5
    state = cluster.states()["one"]
    assert state.hosts_held > 0
    assert state.held_until <= state.beat.at + LEASE_S + 5
    wait_for(lambda: not cluster.overview().nodes, one)  # the frontier has given it up
    assert cluster.states()["one"].hosts_held == state.hosts_held, "people still see what it had"
    one.signal(signal.SIGCONT)
    wait_for(lambda: not cluster.states()["one"].is_silent, one)
    wait_for(lambda: is_running(cluster, "one"), one)
    cluster.wait_until_exhausted(one)
    assert set(cluster.kept("one")) == the_truth(cluster.journey).kept
    assert_polite(cluster.journey)


@pytest.mark.long
def test_a_coordinator_that_is_killed_is_missed_once_and_found_again_and_the_work_goes_on(cluster):
    cluster.serve()
    coordinator = cluster.coordinate()
    one = cluster.join("one", "--workers", "1")
    wait_for(lambda: is_running(cluster, "one"), one)
    cluster.order("one", NodeOrders(workers=2))
    wait_for(lambda: len(cluster.processes_of("one")) == 2 and is_running(cluster, "one"), one)
    coordinator.kill()
    wait_until_said("working without the coordinator", one)
    cluster.submit(cluster.journey.write_collection())
    cluster.wait_until_visited(100, one)
    coordinator = cluster.coordinate()
    assert cluster.states()["one"].is_silent, "it is known, and missed, before it is heard"
    wait_until_said("the coordinator answers again", one)
    wait_for(lambda: not cluster.states()["one"].is_silent, one)
    assert one.said().count("working without the coordinator") == 1
    assert len(cluster.processes_of("one")) == 2, "its orders outlived the coordinator"
    cluster.wait_until_exhausted(one)
    assert set(cluster.kept("one")) == the_truth(cluster.journey).kept


@pytest.mark.long
def test_a_node_may_come_before_its_coordinator_and_waits(cluster):
    one = cluster.join("one", "--workers", "1")
    wait_until_said("waiting for the coordinator: http://127.0.0.1:", one)
    cluster.serve()
    cluster.coordinate()
    wait_for(lambda: is_running(cluster, "one"), one)
    (worker,) = pids_of(one.pid, "--name one-1")
    assert worker
    assert one.said().count("waiting for the coordinator") == 1


@pytest.mark.long
def test_a_node_with_a_wrong_token_is_told_so_and_ends(tmp_path):
    journey = a_journey(tmp_path, World(seed=3, hosts=1, pages=5))
    cluster = CoordinatedCluster(journey)
    with journey.web:
        try:
            cluster.port = 9
            cluster.coordinate()
            where = ("--data", str(tmp_path / "one"), "--name", "one")
            one = cluster.start("one", "node", "--join", cluster.url, *where, TARRAFA_TOKEN="not-what-they-agreed-upon")
            assert one.popen.wait(60) == 2
            assert one.said().startswith("error: http://127.0.0.1:")
            assert "wrong token: --token-file or TARRAFA_TOKEN must be the coordinator's" in one.said()
            assert "not-what-they-agreed-upon" not in one.said()
        finally:
            cluster.end()


@pytest.mark.long
def test_a_frontier_that_has_moved_is_found_when_the_coordinator_says_where(cluster):
    server, coordinator = cluster.serve(), cluster.coordinate()
    one = cluster.join("one", "--workers", "1")
    wait_for(lambda: is_running(cluster, "one"), one)
    cluster.submit(cluster.journey.write_collection())
    cluster.wait_until_visited(20, one)
    coordinator.kill()
    server.kill()
    wait_until_said("working without the coordinator", one)
    before, cluster.port = cluster.address, 0
    cluster.serve()
    assert cluster.address != before
    cluster.coordinate()
    wait_until_said(f"one works for {cluster.address}", one)
    cluster.wait_until_exhausted(one)
    assert set(cluster.kept("one")) == the_truth(cluster.journey).kept


@pytest.mark.long
def test_a_node_goes_on_without_a_process_that_no_restart_can_mend_and_tries_again(tmp_path, monkeypatch):
    monkeypatch.setattr(child_processes, "RESTART_PAUSE_S", 1.0)
    journey = a_journey(tmp_path, World(seed=3, hosts=4, pages=60))
    seen: list[tuple[str, str, str]] = []

    async def live() -> None:
        journey.data.create()
        lock = try_lock(journey.data.index / "lock")  # as if another process were writing the index
        assert lock is not None
        async with a_node(journey) as (supervisor, living):
            async for beat, state in beats_of(supervisor, living):
                index = next(one for one in beat.processes if one.role == "index")
                if not lock.closed and index.restarts and "index: " in str(beat.trouble):
                    seen.append((index.state, str(index.cause), str(beat.trouble)))
                    assert any(one.pulse is not None and one.pulse.pages for one in beat.processes), "others work"
                    lock.close()
                if lock.closed and index.state == "running" and not beat.trouble and state == "finished":
                    return

    with journey.web:
        asyncio.run(live())
    (told,) = seen
    assert told[0] == "dead"
    assert "another process is writing the index" in told[1]
    assert "another process is writing the index" in told[2]


# -- one search over all of them -------------------------------------------------------------------------------------


class Searched(CoordinatedCluster):
    """`tarrafa node` as people start it coordinates; its page is what they open."""

    lives: int = 0  # of the first

    def coordinate(self) -> Process:
        where = ("--data", self.folder / "first", "--port", str(self.console), "--listen", "127.0.0.1:0")
        more = ("--token-file", self.token_file, "--name", "first", "--workers", "1")
        process = self.start("first", "node", *where, *more)
        self.lives += 1
        wait_for(lambda: process.said().count("search page: ") == self.lives, process)
        return process

    def send(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, method=method)
        request.add_header("Authorization", f"Bearer {SECRET}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        return msgspec.json.decode(content) if content else None

    def crawl_to_its_end(self, name: str, web: ScriptedWeb, process: Process) -> None:
        table = {
            "name": name,
            "roots": [f"http://{name}.test/"],
            "politeness": {"delay": 0.01},
            "fetch": {"sitemaps": False, "feeds": False},
            "network": {"connect_to": {"*.test": f"127.0.0.1:{web.port}"}},
        }
        self.send("POST", "/collections", {"table": table, "start": True})
        wait_for(lambda: self.send("GET", f"/collections/{name}")["collection"]["state"] == "finished", process)

    def roles_at_work(self, name: str) -> set[str]:
        nodes = [one["node"] for one in self.send("GET", "/nodes")["nodes"]]
        return {process["role"] for one in nodes if one["name"] == name for process in one["beat"]["processes"]}

    def found(self, text: str) -> tuple[set[str], dict[str, str]]:
        """The pages that the first one's page finds, and who was asked, with what is wrong with him."""
        answer = msgspec.json.decode(self.get(f"/search.json?{urlencode({'q': text, 'n': 50})}"))
        return {hit["url"] for hit in answer["hits"]}, {one["name"]: one["trouble"] for one in answer["shards"]}

    def wait_until_found(self, text: str, pages: set[str], process: Process, **trouble: str) -> None:
        def is_so() -> bool:
            with contextlib.suppress(urllib.error.HTTPError):  # 503: nothing is indexed yet
                found, told = self.found(text)
                return found == pages and {name: why[:9] for name, why in told.items()} == trouble
            return False

        try:
            wait_for(is_so, process)
        except AssertionError as error:
            raise AssertionError(f"{self.found(text)}: {error}") from None


def pages_of(name: str) -> set[str]:
    return {f"http://{name}.test/", *(f"http://{name}.test/{number}" for number in range(5))}


def archived(root: Path) -> set[str]:
    return {entry.record.url for entry in follow(DataDirectory(root).archive, {}) if entry.record.outcome.kept}


def fish(url: str, _: int) -> ScriptedResponse | None:
    """Two sites of six pages, which speak of fish, and no two of them alike."""
    if url not in pages_of("perto") | pages_of("longe"):
        return None
    said = links(*map(str, range(5)))
    words = " ".join(f"{word}{url[-1]}" for word in ("peixe", "barco", "vento", url.split("/")[2]))
    return ScriptedResponse(said.body + f"<title>{words}</title><p>peixe {words}".encode(), headers=said.headers)


@pytest.mark.long
def test_what_another_node_fetched_is_found_on_the_page_of_the_one_that_coordinates(tmp_path):
    cluster = Searched(a_journey(tmp_path, World(seed=3, hosts=1, pages=5)))
    both = pages_of("perto") | pages_of("longe")
    with scripted_web(fish) as web:
        try:
            first = cluster.coordinate()
            cluster.crawl_to_its_end("perto", web, first)
            cluster.wait_until_found("peixe", pages_of("perto"), first)
            cluster.send("PUT", "/nodes/first/orders", {"workers": 0})
            wait_for(lambda: "worker" not in cluster.roles_at_work("first"), first)
            second = cluster.join("second", "--workers", "1")
            cluster.crawl_to_its_end("longe", web, first)
            cluster.wait_until_found("peixe", both, first, here="", second="")
            assert archived(tmp_path / "second") == pages_of("longe")
            assert archived(tmp_path / "first") == pages_of("perto")
            assert f"{len(both)} pages can be searched" in cluster.get("/").decode()

            second.kill()
            cluster.wait_until_found("peixe", pages_of("perto"), first, here="", second="no answer")
            shown = cluster.get("/?q=peixe&hl=en").decode()
            assert "Without the pages of second: no answer" in shown
            assert shown.count("<article>") == len(pages_of("perto"))

            second = cluster.join("second", "--workers", "1")
            cluster.wait_until_found("peixe", both, first, here="", second="")

            first.kill()
            first = cluster.coordinate()
            cluster.wait_until_found("peixe", both, first, here="", second="")

            cluster.send("PUT", "/nodes/second/orders", {"roles": ["worker", "follower"]})
            cluster.wait_until_found("peixe", pages_of("perto"), first)
            assert "Traceback" not in first.said() + second.said()
            assert SECRET not in first.said() + second.said()
        finally:
            cluster.end()
