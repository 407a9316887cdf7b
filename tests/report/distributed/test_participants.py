"""A report names the machines that were there, and no others."""

from tarrafa.coordinator.monitoring.utilization import CpuUsage, UsageDuringRuns
from tarrafa.coordinator.node.messages import Machine
from tarrafa.report.distributed.part_requests import ReportNode, find_participants

MACHINE = Machine(2, 3000.0, 0.9, 1.0, 1 << 30, 1 << 29, 1 << 40, 1 << 39)
HOME = ReportNode("home", MACHINE, is_own=True)
NODES = [
    HOME,
    ReportNode("gone", MACHINE),
    ReportNode("away", MACHINE),
    ReportNode("there", MACHINE, "http://10.0.0.2:8000"),
]


def test_a_node_that_died_before_the_collection_began_is_neither_listed_nor_missed():
    heard = {"home": CpuUsage(1.0, 4, 0.5), "away": CpuUsage(2.0, 4, 0.75), "there": CpuUsage(0.0, 4)}
    found = find_participants(NODES, UsageDuringRuns(heard, whole=True))
    assert [(one.name, one.busy, one.busy_most) for one in found.machines] == [
        ("home", 0.25, 0.5), ("away", 0.5, 0.75), ("there", 0.0, None),
    ]  # fmt: skip
    assert found.others == [("away", ""), ("there", "http://10.0.0.2:8000")], (
        "who was there and does not answer is named"
    )


def test_where_not_all_of_the_time_was_noted_everybody_is_asked():
    found = find_participants(NODES, UsageDuringRuns({"home": CpuUsage(1.0, 4, 0.5)}, whole=False))
    assert [one.name for one in found.machines] == ["home"]
    assert [name for name, _ in found.others] == ["gone", "away", "there"]
    nothing = find_participants(NODES, None)
    assert [(one.name, one.busy) for one in nothing.machines] == [(node.name, None) for node in NODES]
    assert len(nothing.others) == 3
