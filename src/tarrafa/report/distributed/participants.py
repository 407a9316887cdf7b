"""The nodes that took part in a crawl, how busy they were, and which are asked for a report part.

Promises: with complete samples of the time of the collection's runs, only nodes that were active in that time are
named, each with its load of that time. Where samples are incomplete, every known node is asked: a node too many is
better than missing visits without a notice.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tarrafa.coordinator.monitoring.utilization import CpuUsage, UsageDuringRuns
from tarrafa.coordinator.node.messages import Machine
from tarrafa.report.schema import MachineUsage


class ReportNode(NamedTuple):
    """A node as the coordinator knows it. `address`: where its part is requested; empty: it does not answer."""

    name: str
    machine: Machine | None  # None: reported by another version
    address: str = ""
    is_own: bool = False


class Participants(NamedTuple):
    machines: list[MachineUsage]
    others: list[tuple[str, str]]  # nodes to ask, and their addresses


def find_participants(nodes: Iterable[ReportNode], meanwhile: UsageDuringRuns | None) -> Participants:
    heard = meanwhile.nodes if meanwhile is not None else dict[str, CpuUsage]()
    is_sure = meanwhile is not None and meanwhile.whole
    machines, others = list[MachineUsage](), list[tuple[str, str]]()
    for node in nodes:
        used = heard.get(node.name)
        if node.machine is not None and (used is not None or not heard):
            mean, most = (used.mean, used.most) if used is not None else (None, None)
            machines.append(MachineUsage(node.name, node.machine, mean, most or None))
        if not node.is_own and (node.address or used is not None or not is_sure):
            others.append((node.name, node.address))
    return Participants(machines, others)
