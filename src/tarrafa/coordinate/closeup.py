"""What is there to see of one collection?

Its numbers, its runs, what the workers see of it just now, and who changed what of it. From what the coordinator has
at hand; one that is not there is `NoSuchThing`.
"""

import asyncio

import msgspec

from tarrafa.coordinate import drafts
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.coordinate.drafts import Change
from tarrafa.coordinate.ledger import Run
from tarrafa.coordinate.picture import CollectionPicture, NodePicture, Picture
from tarrafa.coordinate.sightings import FailureSamples, Slow
from tarrafa.errors import NoSuchThing, Unreachable
from tarrafa.pulse import Seen

VERSIONS_MAX = 200


class Closeup(msgspec.Struct, frozen=True):
    """A collection, and what the workers see of it: the newest pages, failures with samples, hosts that let us wait."""

    collection: CollectionPicture
    newest: list[Seen]
    failures: list[FailureSamples]
    slowest: list[Slow]
    runs: list[Run]


class VersionTold(msgspec.Struct, frozen=True):
    """What a collection was to be from a moment on, by what it changed. The first one changed nothing."""

    number: int
    at: float
    who: str
    changes: list[Change]


def picture(coordinator: Coordinator) -> Picture:
    """Everything, once anything is known."""
    if coordinator.overview is None:
        raise Unreachable("the frontier has not answered yet")
    return coordinator.picture()


def collection_of(picture: Picture, name: str) -> CollectionPicture:
    for one in picture.collections:
        if one.name == name:
            return one
    raise NoSuchThing(f"no collection is named {name[:80]!r}")


def node_of(picture: Picture, name: str) -> NodePicture:
    for one in picture.nodes:
        if one.node.name == name:
            return one
    raise NoSuchThing(f"{name[:80]}: there is no node of that name")


def closeup(coordinator: Coordinator, one: CollectionPicture) -> Closeup:
    sightings, name = coordinator.sightings, one.name
    return Closeup(
        one,
        sightings.newest(name),
        sightings.failures(name),
        sightings.slowest(name, coordinator.now()),
        coordinator.runs(name),
    )


async def versions(coordinator: Coordinator, name: str) -> list[VersionTold]:
    """The newest first, each with what it changed; of very many the newest VERSIONS_MAX."""
    await coordinator.definitions.standing(name)
    kept = coordinator.ledger.versions(name, VERSIONS_MAX + 1)

    def told() -> list[VersionTold]:
        read = coordinator.definitions.shelf.reader()
        found, after = list[VersionTold](), read(bytes(kept[0].config)) if kept else None
        for version, earlier in zip(kept[:VERSIONS_MAX], [*kept[1:], None], strict=False):
            before = None if earlier is None else read(bytes(earlier.config))
            changes = [] if before is None or after is None else drafts.differences(before, after)
            found.append(VersionTold(version.number, version.at, version.who, changes))
            after = before
        return found

    return await asyncio.to_thread(told)
