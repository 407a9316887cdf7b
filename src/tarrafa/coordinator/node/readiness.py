"""Readiness of a node: whether programs should send it requests, and if not, why.

Not ready: a node that starts or is drained, one whose processes are dead or silent, and one whose mirror is far behind
the log although store and database answer. A store or database that is away makes no node unready: all would be, and
what they know can still be searched.
"""

from tarrafa.clock import Clock
from tarrafa.coordinator.node.messages import NodeHeartbeat

LOG_BEHIND_S_MAX = 60.0
BEAT_AGE_S_MAX = 10.0  # the event loop makes one a second
NOT_READY_STATES = ("starting", "dead", "silent")


def reasons_not_ready(beat: NodeHeartbeat | None) -> list[str]:
    """Why a node is not ready, by its last heartbeat, for machines and their operators; empty: it is."""
    if beat is None:
        return ["starting"]
    found = ["draining"] if beat.is_draining else []
    if Clock.real().now() - beat.at > BEAT_AGE_S_MAX:
        found.append("no heartbeat")
    found += [f"{one.name}: {one.state}" for one in beat.processes if one.state in NOT_READY_STATES]
    log = beat.log
    if log is not None and log.behind_s > LOG_BEHIND_S_MAX and not (log.store_trouble or log.database_trouble):
        found.append(f"the log: {log.behind} segments, {log.behind_s:.0f} s behind")
    return found
