"""Last known state and revision of each collection, checked before each request leaves.

How the collections stood when somebody last asked, told by a thread or by the loop and looked at before each request
leaves. What was heard before a walk began says nothing about it: it may have been leased because things changed.
"""

from collections.abc import Mapping

from tarrafa.frontier.messages import FrontierCollectionState


class CollectionStates:
    """Written by one thread, read by another; what is read together is replaced at once."""

    def __init__(self) -> None:
        self._heard: tuple[float, dict[int, FrontierCollectionState]] = (0.0, {})

    def update(self, standings: list[FrontierCollectionState], asked_at: float) -> None:
        self._heard = (asked_at, {one.id: one for one in standings})

    def is_suspended(self, collection: int, since: float) -> bool:
        """It is paused, stopped, or not there any more."""
        heard_at, standings = self._heard
        standing = standings.get(collection)
        return heard_at > since and (standing is None or standing.state != "running")

    def has_newer_revision(self, collection: int, revision: int) -> bool:
        """It is configured otherwise by now."""
        standing = self._heard[1].get(collection)
        return standing is not None and standing.revision > revision

    def any_revision_differs(self, known: Mapping[int, int]) -> bool:
        """Whether one of those that are known has another revision."""
        return any(known.get(number, one.revision) != one.revision for number, one in self._heard[1].items())
