"""The registry of nodes, under a clock of our own."""

import pytest
from msgspec.structs import replace

from tarrafa.coordinator.monitoring.snapshot import (
    ALERT_FOR_S,
    DEATH_SHOWN_FOR_S,
    NodeSnapshot,
    ProcessTotals,
    cluster_totals,
    node_snapshot,
    standstill_reason,
)
from tarrafa.coordinator.node.messages import NODE_SILENT_AFTER_S, LogLine, NodeOrders, ProcessState
from tarrafa.coordinator.node.node_registry import (
    FORGET_AFTER_S,
    LINES_MAX,
    NODES_MAX,
    SAVED_EVERY_S,
    NodeRegistry,
    held_hosts,
)
from tarrafa.coordinator.store import open_store
from tarrafa.crawl.worker.resource_limits import PAUSED_BY_ORDER
from tarrafa.errors import ConfigError, NameTaken
from tarrafa.frontier.messages import RegisteredWorker
from tarrafa.i18n import PORTUGUESE, Message, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import ProcessHeartbeat
from tests.coordinator.node.sample_messages import a_beat, a_joining


@pytest.fixture
def data(tmp_path):
    directory = DataDirectory(tmp_path / "d")
    directory.create()
    return directory


@pytest.fixture
def nodes(data):
    return NodeRegistry(open_store(data), own="here")


def test_a_node_is_silent_when_it_has_not_been_heard_for_a_while_and_back_with_its_next_beat(nodes):
    nodes.receive_heartbeat(a_beat(), 100.0)
    assert not nodes.states(100.0 + NODE_SILENT_AFTER_S)[0].is_silent
    (state,) = nodes.states(105.0)
    assert state.is_silent
    assert state.silent_s == 5.0
    nodes.receive_heartbeat(a_beat(), 200.0)
    assert not nodes.states(200.5)[0].is_silent


def test_a_node_hears_its_orders_with_its_next_beat_and_each_change_has_another_number(nodes):
    assert nodes.receive_heartbeat(a_beat(), 1.0) == NodeOrders()
    nodes.set_orders("one", NodeOrders(workers=1), 2.0)
    assert nodes.receive_heartbeat(a_beat(), 3.0) == NodeOrders(number=1, workers=1)
    nodes.set_orders("one", NodeOrders(number=77, paused=True), 4.0)
    assert nodes.receive_heartbeat(a_beat(), 5.0) == NodeOrders(number=2, paused=True)


def test_orders_and_nodes_outlive_the_coordinator(nodes, data):
    nodes.receive_heartbeat(a_beat(), 100.0)
    nodes.set_orders("one", NodeOrders(workers=3, cpu=0.5), 101.0)
    again = NodeRegistry(open_store(data))
    (state,) = again.states(130.0)
    assert (state.name, state.silent_s, state.is_silent) == ("one", 30.0, True)
    assert again.join(a_joining(), 131.0) == NodeOrders(number=1, workers=3, cpu=0.5)


def test_what_a_node_says_is_written_down_now_and_then_only(nodes, data):
    for second in range(int(SAVED_EVERY_S)):
        nodes.receive_heartbeat(a_beat(at=float(second)), 100.0 + second)
    assert NodeRegistry(open_store(data)).states(200.0)[0].silent_s == 100.0


def test_a_living_node_keeps_its_name(nodes):
    nodes.join(a_joining(process="p1"), 100.0)
    with pytest.raises(NameTaken, match="another node of that name is running; choose another with --name"):
        nodes.join(a_joining(process="p2"), 101.0)
    with pytest.raises(NameTaken):
        nodes.receive_heartbeat(a_beat(process="p2"), 101.0)
    nodes.receive_heartbeat(a_beat(process="p1"), 102.0)


def test_a_silent_nodes_name_goes_to_whoever_joins_and_the_old_one_is_refused_when_it_wakes(nodes):
    nodes.join(a_joining(process="p1"), 100.0)
    nodes.join(a_joining(process="p2"), 110.0)
    with pytest.raises(NameTaken):
        nodes.receive_heartbeat(a_beat(process="p1"), 111.0)


def test_the_latest_lines_of_a_node_are_remembered_and_no_more(nodes):
    for number in range(30):
        lines = tuple(LogLine(float(number), "w1", f"line {number}-{one}") for one in range(20))
        nodes.receive_heartbeat(a_beat(lines=lines), float(number))
    (state,) = nodes.states(30.0)
    assert len(state.lines) == LINES_MAX
    assert state.lines[-1].text == "line 29-19"
    assert state.beat.lines == ()


def test_a_node_is_forgotten_by_hand_and_after_a_day_only(nodes, data):
    nodes.receive_heartbeat(a_beat(), 100.0)
    with pytest.raises(ConfigError, match="less than a day ago"):
        nodes.forget("one", 100.0 + FORGET_AFTER_S - 1)
    nodes.forget("one", 100.0 + FORGET_AFTER_S)
    assert nodes.states(0.0) == []
    assert NodeRegistry(open_store(data)).states(0.0) == []
    with pytest.raises(ConfigError, match="no node of that name"):
        nodes.forget("one", 1e9)


def a_dead_worker(died: float) -> ProcessState:
    return ProcessState("one-1", "worker", 7, "running", died + 1.0, 1, died, "killed by signal 9 (SIGKILL)")


@pytest.mark.parametrize("ahead_s", [180.0, -180.0])
def test_a_clock_that_is_wrong_is_told_and_its_times_are_shown_by_ours(nodes, ahead_s):
    for second in range(5):
        now = 10_000.0 + second
        said = now + ahead_s - (4.0 if second == 3 else 0.2)  # that one was long on its way
        lines, processes = (LogLine(said, "w1", "a line"),), (a_dead_worker(said - 3.0),)
        beat = replace(a_beat(at=said, lines=lines), started=said - 100.0, processes=processes)
        nodes.receive_heartbeat(beat, now)
    (state,) = nodes.states(10_004.5)
    assert state.clock_ahead_s == pytest.approx(ahead_s, abs=0.3)
    assert (state.silent_s, state.is_silent) == (0.5, False)
    assert state.beat.started == pytest.approx(9_904.0, abs=0.3)
    assert state.beat.processes[0].died == pytest.approx(10_001.0, abs=0.3)
    assert [line.at for line in state.lines] == pytest.approx([10_000, 10_001, 10_002, 9_999, 10_004], abs=0.3)
    pictured = node_snapshot(state, 10_004.5).processes[0]
    assert pictured.is_red
    assert pictured.died_s == pytest.approx(3.5, abs=0.3)
    assert node_snapshot(state, 10_001.0 + ALERT_FOR_S + 1).processes[0].is_red is False
    assert node_snapshot(state, 10_001.0 + DEATH_SHOWN_FOR_S + 1).processes[0].died_s is None


def test_a_clock_that_was_set_right_is_right_with_the_next_process(nodes):
    nodes.join(a_joining(), 9_999.0)
    nodes.receive_heartbeat(a_beat(at=9_000.0), 10_000.0)
    assert nodes.states(10_000.0)[0].clock_ahead_s == -1_000.0
    nodes.receive_heartbeat(a_beat(at=10_009.9, process="p2"), 10_010.0)
    assert nodes.states(10_010.0)[0].clock_ahead_s == 0.0


def test_a_beat_that_came_late_is_no_wrong_clock(nodes):
    for now in (10_000.0, 10_001.0, 10_020.0):
        nodes.receive_heartbeat(a_beat(at=min(now, 10_002.0)), now)
    (state,) = nodes.states(10_020.0)
    assert (state.clock_ahead_s, state.beat.at) == (0.0, 10_002.0)


def test_there_are_only_so_many_nodes(nodes):
    for number in range(NODES_MAX):
        nodes.receive_heartbeat(a_beat(f"n{number}"), 1.0)
    with pytest.raises(NameTaken, match="forget nodes that no longer exist"):
        nodes.receive_heartbeat(a_beat("one-too-many"), 1.0)


def test_the_coordinators_own_node_comes_first(nodes):
    for name in ("b", "here", "a"):
        nodes.receive_heartbeat(a_beat(name), 1.0)
    assert [(one.name, one.own) for one in nodes.states(1.0)] == [("here", True), ("a", False), ("b", False)]


WORKERS = [
    RegisteredWorker("one-1", 1, 20, 6.0),
    RegisteredWorker("one-2", 2, 17, 10.0),
    RegisteredWorker("one-b-1", 3, 5, 30.0),
    RegisteredWorker("w1", 4, 3, 8.0),
    RegisteredWorker("idle-1", 5, 0, 9.0),
]


@pytest.mark.parametrize(
    ("named", "fate"),
    [("one-", (37, 110.0)), ("one-b-", (5, 130.0)), ("w", (3, 108.0)), ("idle-", (0, 0.0)), ("", (0, 0.0))],
)
def test_whose_hosts_are_held_and_until_when(named, fate):
    assert held_hosts(WORKERS, named, 100.0) == fate


def test_the_fate_of_a_silent_nodes_hosts_is_told_also_when_the_frontier_has_given_it_up(nodes):
    nodes.receive_heartbeat(a_beat(), 96.0)
    (state,) = nodes.states(100.0, WORKERS, fetch_s_max=60.0)
    assert (state.is_silent, state.hosts_held, state.held_until, state.free_from) == (True, 37, 110.0, 170.0)
    (state,) = nodes.states(120.0, [], fetch_s_max=60.0)
    assert (state.hosts_held, state.free_from) == (37, 170.0)
    nodes.receive_heartbeat(a_beat(), 121.0)
    assert nodes.states(121.0, [])[0].hosts_held == 0


def test_of_a_silent_node_nothing_is_summed_up_and_its_hosts_are_free_when_nobody_holds_them(nodes):
    nodes.receive_heartbeat(a_beat("here"), 99.0)
    busy = replace(a_beat().processes[0], pages_per_s=1.0, pulse=ProcessHeartbeat("one-1", 7, hosts=12))
    nodes.receive_heartbeat(replace(a_beat(), processes=(busy,)), 96.0)

    def shown(now: float, workers: list[RegisteredWorker] | None = None) -> list[NodeSnapshot]:
        return [node_snapshot(state, now) for state in nodes.states(now, workers or [], fetch_s_max=60.0)]

    one = shown(97.0)[1]
    assert (one.sums.hosts, one.sums.pages_per_s, one.hosts_free) == (12, 1.0, False)
    home, one = shown(100.0, WORKERS)
    assert (one.sums, one.hosts_free, home.sums.processes) == (ProcessTotals(), False, 1)
    assert shown(169.0)[1].hosts_free is False
    assert shown(170.0)[1].hosts_free is True
    assert (cluster_totals([one]).alive, cluster_totals([one]).sums) == (0, ProcessTotals())


def test_hosts_that_were_freed_before_their_node_fell_silent_are_free_whether_or_not_somebody_looked(nodes):
    nodes.receive_heartbeat(a_beat(), 96.0)
    nodes.states(97.0, WORKERS, fetch_s_max=60.0)
    nodes.record_held_hosts(98.0, [])
    (state,) = nodes.states(100.0, [], fetch_s_max=60.0)
    assert (state.is_silent, state.hosts_held) == (True, 0)
    assert node_snapshot(state, 100.0).hosts_free


FULL = message("paused: the disk is nearly full ({free} MB left, {needed} MB needed)", free="59", needed="64")
FULL_TOLD = (
    "no worker works for it: paused: the disk is nearly full (59 MB left, 64 MB needed)",
    "nenhum trabalhador trabalha para ela: pausado: o disco está quase cheio (restam 59 MB, são precisos 64 MB)",
)


@pytest.mark.parametrize(
    ("troubles", "workers", "told"),
    [
        ({"here": ""}, ["here-1"], None),
        ({"here": FULL}, ["here-1"], FULL_TOLD),
        ({"here": FULL}, [], FULL_TOLD),
        ({"here": FULL, "one": ""}, ["here-1", "one-1"], None),
        ({"here": PAUSED_BY_ORDER, "one": PAUSED_BY_ORDER}, ["here-1", "one-1"],
         ("no worker works for it: paused by order", "nenhum trabalhador trabalha para ela: pausado por ordem")),
        ({"here": FULL}, ["here-1", "crawler.ana"], None),
        ({"here": "index: exit status 1"}, ["here-1"], None),
    ],
)  # fmt: skip
def test_where_all_who_crawl_are_paused_nobody_works(nodes, troubles, workers, told):
    for name, trouble in troubles.items():
        nodes.receive_heartbeat(a_beat(name, trouble=trouble, is_paused=isinstance(trouble, Message)), 100.0)
    pictures = [node_snapshot(state, 100.0) for state in nodes.states(100.0)]
    reason = standstill_reason(pictures, [RegisteredWorker(name, 1, 0, 5.0) for name in workers])
    assert (None if reason is None else (str(reason), PORTUGUESE.render(reason))) == told
