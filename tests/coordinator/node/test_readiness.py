"""When a node is ready for requests, and what it says when it is not."""

import pytest
from msgspec.structs import replace

from tarrafa.archive.segment_log.log_mirror import log_path
from tarrafa.archive.segment_log.log_status import LogStatus, write_log_status
from tarrafa.clock import Clock
from tarrafa.coordinator.node.messages import LogState, NodeHeartbeat
from tarrafa.coordinator.node.process_health import NodeHealth
from tarrafa.coordinator.node.readiness import reasons_not_ready
from tarrafa.runtime.data_dir import DataDirectory
from tests.coordinator.node.sample_messages import a_beat

beat = a_beat


def in_state(state: str) -> NodeHeartbeat:
    found = beat()
    return replace(found, processes=(replace(found.processes[0], state=state),))


@pytest.mark.parametrize(
    ("last", "reasons"),
    [
        (None, ["starting"]),
        (beat(), []),
        (beat(is_draining=True), ["draining"]),
        (in_state("dead"), ["one-1: dead"]),
        (in_state("silent"), ["one-1: silent"]),
        (in_state("leaving"), []),
        (beat(log=LogState(5, 30.0)), []),
        (beat(log=LogState(500, 90.0)), ["the log: 500 segments, 90 s behind"]),
        (beat(log=LogState(500, 90.0, store_trouble="away")), []),
        (beat(log=LogState(500, 90.0, database_trouble="away")), []),
    ],
)
def test_a_node_says_why_it_is_not_ready(last, reasons):
    now = Clock.real().now()
    assert reasons_not_ready(last and replace(last, at=now)) == reasons
    if last is not None:
        assert "no heartbeat" in reasons_not_ready(replace(last, at=now - 60))


def test_the_heartbeat_of_a_node_tells_how_far_its_mirror_is(tmp_path):
    data = DataDirectory(tmp_path)
    data.create()
    health, now = NodeHealth(data, "one", "one-"), Clock.real().now()
    assert health.make_heartbeat([]).log is None
    write_log_status(data, LogStatus(now, 7, 2.5, store_trouble="away"))
    assert health.make_heartbeat([]).log is None, "of a log that this node does not mirror any more"
    log_path(data).touch()
    assert health.make_heartbeat([]).log == LogState(7, 2.5, store_trouble="away")
    write_log_status(data, LogStatus(now - 100, 7, 2.5))
    log = health.make_heartbeat([]).log
    assert log is not None and 102 < log.behind_s < 130, "a mirror that says nothing stands still"
    assert health.last is not None and health.last.log is not None
