"""The frontier API: the `Frontier` Protocol, the only list of the frontier's calls and their manual.

Its bodies, all held to one contract suite: `store/sqlite_frontier.py` (one file), `postgres/postgres_frontier.py` (one
or more databases) and `rpc/frontier_client.py` (a socket; its stubs and the codec are derived from this list). The
structs that the calls exchange are in `messages.py`.
"""

from collections.abc import Sequence
from typing import Protocol

from tarrafa.frontier.messages import (
    ClockReading,
    CollectionRow,
    DeletedCollection,
    DiscoveredUrl,
    FrontierCollectionState,
    FrontierOverview,
    HostCounts,
    HostLoan,
    HostReport,
    Lease,
    NextVisits,
    PlannedVisit,
    RetryBatch,
    RevisitPage,
    RevisitShelf,
    TakedownBatch,
    UrlLookup,
    UrlStatusFacts,
    UrlWeight,
    WorkerRegistration,
)
from tarrafa.frontier.transfer.host_export import (
    CollectionExport,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostExport,
)
from tarrafa.i18n import Message
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.process import ProcessId
from tarrafa.takedown import TakedownEntry


class Frontier(Protocol):
    """The URL server."""

    async def open_collection(
        self, config: bytes, roots: Sequence[DiscoveredUrl] = (), start: bool = True
    ) -> CollectionRow:
        """Create the collection, or take up its newer configuration, with (some of) its roots; it runs from now on.

        What had failed gets another chance. Together with the roots, so that nobody finds it running and empty. Not to
        `start`: a new one is `ready`, and one that is there stays in the state that it is in, with its reason.
        """

    async def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
        """More of the roots of a collection that was opened: its configuration, which may be large, crosses once."""

    async def begin_run(self, name: str, reason: Message | str) -> CollectionRow:
        """The next run of a collection that does not run: it runs from now on, from its roots. Whatever else is known
        waits when somebody leads there again. What is kept stays so until this run knows better."""

    async def sweep(self, name: str, limit: int) -> bool:
        """The run has looked everywhere: look through so many more of the URLs that are known, roughly, for pages that
        it has not found, which are handed out to be dismissed. False: that were all of them."""

    async def delete_collection(self, name: str, limit: int) -> bool:
        """Delete so many rows, roughly, of a collection that does not run; True: there is more. Its name is free when
        there is not. With a limit of 0 nothing is deleted yet, but it can only be deleted from now on."""

    async def record_deletion(self, name: str) -> bool:
        """A collection that can only be deleted is no more as of this moment: whoever asks for `deletions` hears of it.
        Repeating it changes nothing. False: something of it is still out, or a part of the frontier is away."""

    async def deletions(self, after: int) -> list[DeletedCollection]:
        """Which collections were deleted, the last one of each name, in the order in which that was noted, after a
        number (0: from the beginning). Whoever archives for a collection asks before its first record, and notes them
        down: so what belonged to its namesake can be told from what is its own."""

    async def retry_host(self, host: HostId, host_key: str) -> None:
        """A host may be visited again as soon as politeness allows: its failures are forgotten, and what of it had
        failed, in all collections, waits again."""

    async def urls_by_status(self, name: str, status: int) -> UrlStatusFacts:
        """What ended with one status: how much, since when, where, with samples. Costs a look at many rows."""

    async def retry_by_status(self, name: str, status: int, after: FrontierCursor, limit: int) -> RetryBatch:
        """So many of those URLs, roughly, wait again, and their hosts may be visited as soon as politeness allows. What
        waits already, or is kept fresh, has its own time; what is kept, or was refused for what it is, is left alone
        (`can_be_retried`). Repeating it is harmless."""

    async def host_counts(self, name: str) -> HostCounts:
        """How the hosts of a collection stand; as of some seconds ago."""

    async def collections(self) -> list[CollectionRow]:
        """All of them, with their configurations, which may be large: who asks often asks for `standings`, and then
        for the `collection` that is another one by now."""

    async def collection(self, name: str) -> CollectionRow | None:
        """One of them; None: there is none of that name."""

    async def collection_states(self) -> list[FrontierCollectionState]:
        """Whether what one knows of the collections still holds, without their configurations."""

    async def set_state(self, name: str, state: str, reason: Message | str) -> None:
        """Set a collection to running, paused, stopped or finished; or to ready or waiting, which is as stopped."""

    async def discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        """Make URLs known, or lower their depth. Counts nothing: repeating it is harmless."""

    async def join(self, name: str, process: ProcessId) -> WorkerRegistration:
        """Take part under a name that no living worker has."""

    async def release_process(self, process: ProcessId) -> None:
        """A worker's process is dead, says somebody who can prove it: its hosts go back at once."""

    async def time(self) -> ClockReading:
        """What time it is here: two machines share no clock."""

    async def renew(self, worker: int, note: str) -> float:
        """Prolong all leases of a worker; for how many seconds, from the question on.

        `note` is what the worker has to say about itself, for people.
        """

    async def leave(self, worker: int) -> None:
        """Hand everything back."""

    async def lease(self, worker: int, hosts: int) -> list[Lease]:
        """Up to so many hosts that may be visited now, each with its first visits."""

    async def held_leases(self, worker: int) -> list[Lease]:
        """What a worker has in hand, for one that has forgotten. A host without visits (a loan) goes back."""

    async def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        """Take one host for an errand (a robots.txt that lives elsewhere), or learn what is known of it already."""

    async def robots_text(self, digest: bytes) -> bytes:
        """A robots.txt that some host has had; empty if none had."""

    async def claim_address(self, worker: int, host: HostId, address: str) -> float:
        """Take an IP address for a leased host: 0 if it is ours, else from when on to try again."""

    async def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        """Take reports over many hosts at once; per host, what to fetch next."""

    async def update_weights(self, collection: str, weights: list[UrlWeight]) -> None:
        """Take absolute in-link counts, ranks, and depths that fell, from the link graph."""

    async def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        """Everything known of a URL, in every collection."""

    async def overview(self) -> FrontierOverview: ...

    async def collections_to_plan(self) -> list[int]:
        """The collections whose revisits wait for a new price or plan."""

    async def revisit_pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[RevisitPage]:
        """The pages that are kept fresh, in order, after (host, url)."""

    async def revisit_shelves(self, collection: int, host: HostId, limit: int) -> list[RevisitShelf]:
        """The classes of pages of (about) so many hosts after that one; whole hosts only."""

    async def set_price(self, collection: int, price: float) -> None:
        """What a visit must be worth from now on. Hosts learn of it by `stir`, or when their time comes."""

    async def recompute_due(self, collection: int, host: HostId, limit: int) -> HostId | None:
        """Let so many hosts after that one look again when they are due; the last one, None when there are no more."""

    async def add_planned_visits(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        """Put visits on the shelf of a plan to come; `number` is greater than that of any plan before."""

    async def activate_plan(self, collection: int, number: int, end: float) -> None:
        """The plan is complete and holds from now on, to its end."""

    async def drop_old_plans(self, collection: int, limit: int) -> int:
        """Take away (some of) what is left of former plans; how many visits that were."""

    async def export_catalogue(self) -> ExportCatalogue:
        """The collections as another frontier would take them in, and the list that sites were found by."""

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        """Hosts in the order of their ids, with up to so many URLs in all."""

    async def import_collection(self, image: CollectionExport) -> CollectionRow:
        """Make room for a collection from elsewhere; it is `importing` until `control` says that it is whole.

        One that is there already is refused, unless it waits for the rest of the same import (by its `reason`).
        """

    async def import_hosts(self, images: list[HostExport]) -> None:
        """Take hosts in, the parts of each in their order. What is there already stays: repeating it is harmless."""

    async def import_deletions(self, moments: dict[str, float]) -> None:
        """What was deleted in another frontier, and when; but for what is here, and was then. Repeating is harmless."""

    async def forget_host(self, host: HostId) -> None:
        """A host that nobody holds is known elsewhere from now on: take away everything that hangs below it."""

    async def record_takedowns(self, entries: list[TakedownEntry]) -> None:
        """Take actions into the log that everybody hears of who works here; what is known already changes nothing."""

    async def takedowns(self, after: int) -> TakedownBatch:
        """What was taken down and lifted, in the order in which the frontier heard of it, after a place that it named
        (0: from the beginning)."""
