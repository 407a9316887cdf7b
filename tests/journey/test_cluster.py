"""One frontier, several machines: over TCP with a token, whatever is killed, stopped or wrong about the time."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.warc_reader import visit_lengths
from tarrafa.clock import CLOCK_VARIABLE, Clock
from tarrafa.frontier.address import TcpServer, child_environment
from tarrafa.index.follower import behind
from tarrafa.model import Status
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token
from tarrafa.takedown import CurrentTakedowns
from tarrafa.testweb.oracle import ExpectedRequests, expected_requests
from tarrafa.testweb.world.hosts import World
from tests.index.test_index_follower import contents
from tests.journey.cluster import SECRET, Cluster, command_lines, is_over, wait_for, wait_until_said
from tests.journey.crawl_journey import TYPES, a_journey, assert_polite, pids_of, tarrafa

LEASE_S = 3.0
HASTE = '[fetch]\ntime_max = "2s"\n'  # hosts of a silent worker rest for so long


@pytest.fixture
def cluster(tmp_path):
    """A Web of 24 hosts and no process yet; leases are short."""
    journey = a_journey(tmp_path, World(seed=21, hosts=24, pages=600, crawl_delay_s=0.1, crawl_delay_share=0.2))
    journey.sections = HASTE
    made = Cluster(journey, {"TARRAFA_LEASE_S": str(LEASE_S)})
    with journey.web:
        try:
            yield made
        finally:
            made.end()


def the_truth(cluster: Cluster) -> ExpectedRequests:
    return expected_requests(cluster.journey.world, [cluster.journey.world.root(1)], types=TYPES, sitemaps=True)


def assert_exact(cluster: Cluster, *names: str) -> None:
    """Together the nodes have what is there, no visit twice, and were polite."""
    truth = the_truth(cluster)
    assert set(cluster.kept(*names)) == truth.kept
    asked = {entry.url for entry in cluster.journey.requests()}
    assert asked <= truth.requests
    numbers = Counter((record.url, record.visit) for record in cluster.records(*names))
    assert max(numbers.values()) == 1, "a visit's number is never used twice"
    assert_polite(cluster.journey)


def test_a_crawl_for_a_frontier_elsewhere_ends_when_its_collection_does_and_no_secret_shows(tmp_path):
    journey = a_journey(tmp_path, World(seed=3, hosts=4, pages=30))
    cluster = Cluster(journey)
    with journey.web:
        try:
            server = cluster.serve()
            crawl = cluster.crawl("two", journey.write_collection())
            cluster.wait_until_visited(10, crawl)
            assert b"rpc.frontier_server" in command_lines(server)
            assert SECRET.encode() not in command_lines(server) + command_lines(crawl)
            wait_for(lambda: crawl.popen.poll() is not None, crawl)
            assert crawl.popen.returncode == 0, crawl.said()
            assert "finished (everything in reach was visited)" in crawl.said()
            assert_exact(cluster, "two")
            assert cluster.overview().nodes == [], "everything is handed back"
        finally:
            cluster.end()


@pytest.mark.long
def test_two_machines_crawl_for_one_frontier(cluster):
    cluster.serve()
    node = cluster.node("one")
    wait_for(lambda: cluster.overview().nodes, node)
    crawl = cluster.crawl("two", cluster.journey.write_collection())
    wait_for(lambda: crawl.popen.poll() is not None, crawl)
    assert crawl.popen.returncode == 0, crawl.said()
    assert_exact(cluster, "one", "two")
    assert cluster.kept("one"), "both worked"
    where = ("--frontier", cluster.address, "--token-file", cluster.token_file)
    told = json.loads(tarrafa("status", *where, "--json").stdout)
    assert told["collections"][0]["state"] == "finished"
    assert [one["name"] for one in told["nodes"]] == ["one-1"], "who crawled to the end has left"
    assert "links delivered before" in told["nodes"][0]["note"]
    assert node.stop() == 130
    assert cluster.overview().nodes == [], "everything is handed back"
    assert "last status 200" in tarrafa("explain", cluster.journey.world.root(1), *where).stdout


@pytest.mark.long
def test_whatever_is_killed_nothing_is_lost_and_everybody_goes_on(cluster):
    server = cluster.serve()
    one, two = cluster.node("one", "--workers", "2"), cluster.node("two")
    cluster.submit(cluster.journey.write_collection())
    goal = len(the_truth(cluster).kept)

    cluster.wait_until_visited(goal // 8, one)
    (victim,) = pids_of(one.pid, "--name one-1")
    os.kill(victim, signal.SIGKILL)  # one worker

    cluster.wait_until_visited(goal * 2 // 8, one)
    (owner,) = pids_of(server.pid, "rpc.frontier_server")
    os.kill(owner, signal.SIGKILL)  # the process that has the file: its supervisor starts it again

    cluster.wait_until_visited(goal * 3 // 8, one)
    two.kill()  # a whole machine; it comes back under its name
    two = cluster.node("two")

    cluster.wait_until_visited(goal * 4 // 8, one)
    server.kill()  # the frontier server, and it stays away for a while
    for node in (one, two):
        wait_until_said("waiting for the frontier: tcp://", node)
    server = cluster.serve()
    for node in (one, two):
        wait_until_said("the frontier answers; going on", node)

    cluster.wait_until_visited(goal * 5 // 8, one)
    three = cluster.node("three")  # joins late
    cluster.wait_until_exhausted(three)
    assert_exact(cluster, "one", "two", "three")
    for node in (one, two, three):
        assert node.stop() == 130, node.said()
        assert "Traceback" not in node.said()
    wait_for(lambda: cluster.status().state == "finished", server)  # the server's supervisor sees to it


@pytest.mark.long
def test_a_worker_that_was_stopped_for_longer_than_its_lease_sends_and_writes_nothing_more(cluster):
    cluster.serve()
    node = cluster.node("one")
    cluster.submit(cluster.journey.write_collection())
    cluster.wait_until_visited(60, node)
    (worker,) = pids_of(node.pid, "worker.worker")
    assert cluster.overview().nodes[0].hosts > 0, "it holds hosts that it would go on with"
    node.signal(signal.SIGSTOP)  # its supervisor too: nobody is to start another one
    wait_for(lambda: not cluster.overview().nodes, node)
    archive = DataDirectory(cluster.folder / "one").archive
    asked, written = len(cluster.journey.requests()), visit_lengths(archive)
    visits = cluster.status().visits

    os.kill(worker, signal.SIGCONT)
    wait_for(lambda: is_over(worker), node)
    assert len(cluster.journey.requests()) == asked, "no request left"
    assert visit_lengths(archive) == written, "nothing was written that anybody reads"
    assert cluster.status().visits == visits

    node.signal(signal.SIGCONT)
    wait_for(lambda: "it is started again" in node.said(), node)
    cluster.wait_until_exhausted(node)
    assert_exact(cluster, "one")


@pytest.mark.long
@pytest.mark.parametrize("hour", [3600.0, -3600.0])
def test_a_worker_whose_clock_is_an_hour_off_neither_hammers_nor_waits(cluster, hour):
    """A bare worker process, as a supervisor starts it, but with another time."""
    cluster.serve()
    data = DataDirectory(cluster.folder / "one")
    data.create()
    right = Clock.real()
    wrong = Clock(right.epoch + hour, right.anchor)
    address = TcpServer("127.0.0.1", cluster.port, Token(SECRET.encode()))
    command = [sys.executable, "-m", "tarrafa.crawl.worker.worker", "--name", "one-1", "--data", str(data.root)]
    with subprocess.Popen(
        [*command, "--parent", str(os.getpid())], env=os.environ | child_environment(address, wrong)
    ) as worker:
        try:
            cluster.submit(cluster.journey.write_collection())
            wait_for(lambda: cluster.status().visits > 0 and not cluster.status().pending, cluster.processes[0])
            wait_for(lambda: not cluster.status().handed_out, cluster.processes[0])
            (node,) = cluster.overview().nodes
        finally:
            worker.terminate()
    assert_exact(cluster, "one")
    way = "ahead of" if hour > 0 else "behind"
    assert f"this machine's clock is 3,600 s {way} the frontier's" in str(node.note)
    for record in cluster.records("one"):
        assert right.epoch <= record.outcome.at <= right.now(), "dated by the frontier's clock"


@pytest.mark.long
def test_nodes_whose_clocks_are_off_crawl_politely_together_and_are_told(cluster):
    cluster.serve()
    right = Clock.real()
    clocks = {"one": Clock(right.epoch + 3600, right.anchor), "two": Clock(right.epoch - 3600, right.anchor)}
    nodes = [cluster.node(name, **{CLOCK_VARIABLE: clock.to_environment()}) for name, clock in clocks.items()]
    cluster.submit(cluster.journey.write_collection())
    cluster.wait_until_visited(1, nodes[0])
    cluster.wait_until_exhausted(nodes[0])
    assert_exact(cluster, "one", "two")
    assert all(cluster.kept(name) for name in clocks), "both worked"
    for node, way in zip(nodes, ("ahead of", "behind"), strict=True):
        assert f"this machine's clock is 3,600 s {way} the frontier's, which counts; set it right" in node.said()


@pytest.mark.long
def test_a_server_whose_clock_was_set_back_goes_on_from_where_it_was(cluster):
    server = cluster.serve()
    node = cluster.node("one")
    cluster.submit(cluster.journey.write_collection())
    cluster.wait_until_visited(100, node)
    server.kill()
    right = Clock.real()
    server = cluster.serve(**{CLOCK_VARIABLE: Clock(right.epoch - 3600, right.anchor).to_environment()})
    wait_for(lambda: "it was set back since the frontier was last open" in server.said(), server)
    assert "s behind the frontier's, which counts; set it right" in server.said()
    cluster.wait_until_exhausted(node)
    assert_exact(cluster, "one")


@pytest.mark.long
def test_what_cannot_be_mended_ends_a_node_with_one_line(cluster):
    server = cluster.serve()
    one = cluster.node("one")
    wait_for(lambda: cluster.overview().nodes, one)
    (cluster.folder / "twin").mkdir()
    twin = cluster.start(
        "twin", "worker", "--frontier", cluster.address, "--token-file", cluster.token_file, "--name", "one",
        "--workers", "1", "--data", cluster.folder / "twin",
    )  # fmt: skip
    assert twin.popen.wait(60) == 2
    assert twin.said().splitlines()[-1].startswith("error: a worker named 'one-1' is at work already (process ")
    server.kill()
    cluster.token_file.write_text("another token, as long as the first\n")
    cluster.serve()
    assert one.popen.wait(60) == 2, "a node is told, and does not wait for a server that will not have it"
    assert "wrong token" in one.said().splitlines()[-1]


@pytest.mark.long
def test_what_is_taken_down_anywhere_is_asked_for_nowhere_a_few_seconds_later(cluster):
    cluster.journey.delay_s = 0.3
    cluster.serve()
    one, two = cluster.node("one"), cluster.node("two")
    cluster.submit(cluster.journey.write_collection())
    cluster.wait_until_visited(100, one)
    left = the_truth(cluster).kept - {entry.url for entry in cluster.journey.requests()}
    host = Counter(url.split("/")[2] for url in left).most_common(1)[0][0]
    done = tarrafa("takedown", "add", f"site:{host}", "--reason", "a letter", "--data", cluster.folder / "one")
    assert done.returncode == 0, done.stderr
    folders = [CurrentTakedowns(DataDirectory(cluster.folder / name)) for name in ("server", "one", "two")]
    wait_for(lambda: all(one.covers(f"http://{host}/") for one in folders), two)
    two.kill()
    asked = len(cluster.journey.requests())
    two = cluster.node("two")
    cluster.wait_until_exhausted(two)
    late = [entry.url for entry in cluster.journey.requests()[asked:] if entry.host == host]
    assert len(late) <= 2, "what was on its way"
    refused = {record.url for record in cluster.records("one", "two") if record.outcome.status == Status.TAKEN_DOWN}
    assert refused
    assert {url.split("/")[2] for url in refused} == {host}


@pytest.mark.long
def test_a_collection_that_is_deleted_is_gone_on_every_machine_and_on_one_that_was_away(cluster):
    cluster.serve()
    nodes = {name: cluster.node(name) for name in ("one", "two")}
    where = ("--frontier", cluster.address, "--token-file", cluster.token_file)

    def shown(name: str) -> set[str]:
        return {page.url for page in contents(DataDirectory(cluster.folder / name))}

    def everything() -> set[str]:
        return shown("one") | shown("two")

    def is_followed() -> bool:
        return not any(behind(DataDirectory(cluster.folder / name)) for name in nodes)

    cluster.submit(cluster.journey.write_collection())
    cluster.wait_until_exhausted(nodes["one"])
    wait_for(is_followed, nodes["one"])
    before = everything()
    assert all(shown(name) for name in nodes), "both worked"
    nodes["two"].kill()
    assert tarrafa("stop", "journey", *where).returncode == 0
    done = tarrafa("delete", "journey", "--yes", *where, "--data", cluster.folder / "nowhere")
    assert (done.returncode, "journey: deleted" in done.stdout) == (0, True), done.stderr
    wait_for(lambda: not shown("one"), nodes["one"])
    wait_for(lambda: ArchiveDeletions(DataDirectory(cluster.folder / "server").archive).latest(), nodes["one"])
    assert shown("two"), "it is away"
    cluster.submit(cluster.journey.write_collection())  # another one, of its name
    nodes["two"] = cluster.node("two")
    cluster.wait_until_exhausted(nodes["two"])
    for name, node in nodes.items():
        deletions = ArchiveDeletions(DataDirectory(cluster.folder / name).archive)
        wait_for(deletions.latest, node)
        wait_for(is_followed, node)
        new = {record.url for record in cluster.records(name) if not deletions.covers(record)}
        wait_for(lambda name=name, new=new: shown(name) <= new, node)  # type: ignore[misc]
    assert everything() == before
