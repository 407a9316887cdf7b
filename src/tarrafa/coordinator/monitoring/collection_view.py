"""The detail view of one collection: numbers, runs, recent visits, and version history.

Its numbers, its runs, what the workers see of it just now, and who changed what of it. From what the coordinator has
at hand; one that is not there is `NotFound`.
"""

import asyncio

import msgspec

from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import draft
from tarrafa.coordinator.definitions.draft import FieldChange
from tarrafa.coordinator.monitoring.recent_visits import FailureSamples, SlowHost
from tarrafa.coordinator.monitoring.snapshot import CollectionSnapshot, NodeSnapshot, SystemSnapshot
from tarrafa.coordinator.store import CollectionRun
from tarrafa.errors import NotFound, Unreachable
from tarrafa.i18n import message
from tarrafa.runtime.heartbeat import VisitSample

VERSIONS_MAX = 200


class CollectionDetail(msgspec.Struct, frozen=True):
    """A collection, and what the workers see of it: the newest pages, failures with samples, hosts that let us wait."""

    collection: CollectionSnapshot
    newest: list[VisitSample]
    failures: list[FailureSamples]
    slowest: list[SlowHost]
    runs: list[CollectionRun]


class VersionChanges(msgspec.Struct, frozen=True):
    """What a collection was to be from a moment on, by what it changed. The first one changed nothing."""

    number: int
    at: float
    who: str
    changes: list[FieldChange]


def current_snapshot(coordinator: Coordinator) -> SystemSnapshot:
    """Everything, once anything is known."""
    if coordinator.overview.current is None:
        raise Unreachable("the frontier has not answered yet")
    return coordinator.monitor.snapshot()


def find_collection(picture: SystemSnapshot, name: str) -> CollectionSnapshot:
    for one in picture.collections:
        if one.name == name:
            return one
    raise NotFound(message("no collection is named {name!r}", name=name[:80]))


def find_node(picture: SystemSnapshot, name: str) -> NodeSnapshot:
    for one in picture.nodes:
        if one.node.name == name:
            return one
    raise NotFound(message("{name}: there is no node of that name", name=name[:80]))


def collection_detail(coordinator: Coordinator, one: CollectionSnapshot) -> CollectionDetail:
    recent_visits, name = coordinator.monitor.recent_visits, one.name
    return CollectionDetail(
        one,
        recent_visits.newest(name),
        recent_visits.failures(name),
        recent_visits.slowest(name, coordinator.clock.now()),
        coordinator.run_log.runs(name),
    )


async def version_changes(coordinator: Coordinator, name: str) -> list[VersionChanges]:
    """The newest first, each with what it changed; of very many the newest VERSIONS_MAX."""
    await coordinator.definitions.standing(name)
    kept = coordinator.store.versions(name, VERSIONS_MAX + 1)

    def told() -> list[VersionChanges]:
        read = coordinator.definitions.long_lists.reader()
        found, after = list[VersionChanges](), read(bytes(kept[0].config)) if kept else None
        for version, earlier in zip(kept[:VERSIONS_MAX], [*kept[1:], None], strict=False):
            before = None if earlier is None else read(bytes(earlier.config))
            changes = [] if before is None or after is None else draft.changed_fields(before, after)
            found.append(VersionChanges(version.number, version.at, version.who, changes))
            after = before
        return found

    return await asyncio.to_thread(told)
