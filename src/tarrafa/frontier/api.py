"""The frontier API: the `Frontier` Protocol, the only list of the frontier's calls and their manual.

Three classes implement it, and all pass one contract suite: `store/sqlite_frontier.py` (one file),
`postgres/postgres_frontier.py` (one or more databases) and `rpc/frontier_client.py` (a socket; its stubs and the codec
are derived from this list). The structs that the calls exchange are in `messages.py`.
"""

from collections.abc import Sequence
from typing import Protocol

from tarrafa.frontier.export_import.export_records import (
    CollectionExport,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostExport,
)
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
    OwnedPart,
    OwnedParts,
    PlannedVisit,
    RegistrationTerms,
    RetryBatch,
    RevisitPage,
    RevisitShelf,
    TakedownBatch,
    UrlLookup,
    UrlStatusFacts,
    UrlWeight,
)
from tarrafa.i18n import Message
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.process_identity import ProcessId
from tarrafa.takedown import TakedownEntry


class Frontier(Protocol):
    """The URL frontier."""

    async def open_collection(
        self, config: bytes, roots: Sequence[DiscoveredUrl] = (), start: bool = True
    ) -> CollectionRow:
        """Create the collection, or apply its newer configuration, with (some of) its roots; it runs from now on.

        URLs that had failed are tried again. The roots come with the call, so that the collection is never running and
        empty. Without `start`, a new collection is `ready`, and an existing one keeps its state and its reason.
        """

    async def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
        """Add more roots to an open collection: its configuration, which may be large, is sent only once."""

    async def begin_run(self, name: str, reason: Message | str) -> CollectionRow:
        """Begin the next run of a collection that does not run: it runs from now on, from its roots. Every other known
        URL is pending again when a link leads to it. Kept pages stay kept until this run knows better."""

    async def sweep(self, name: str, limit: int) -> bool:
        """Sweep a run that has looked everywhere: check about `limit` more known URLs for pages that the run has not
        found again, and hand those out to be dismissed. False: all are checked."""

    async def delete_collection(self, name: str, limit: int) -> bool:
        """Delete about `limit` rows of a collection that does not run; True: there are more. Its name is free when
        there are none. With a limit of 0 nothing is deleted yet, but from now on the collection can only be deleted."""

    async def record_deletion(self, name: str) -> bool:
        """Note that a collection that can only be deleted is deleted as of now: `deletions` returns it. Repeating it
        changes nothing. False: a visit of it is still handed out, or a part of the frontier is unreachable."""

    async def deletions(self, after: int) -> list[DeletedCollection]:
        """The deleted collections, the last one of each name, in the order of their notes, after a number (0: from the
        beginning). A process that archives for a collection asks before its first record and records them: so the
        records of a namesake can be told from its own."""

    async def retry_host(self, host: HostId, host_key: str) -> None:
        """Let a host be visited again as soon as its delay allows: its failures are forgotten, and its failed URLs, in
        all collections, are pending again."""

    async def urls_by_status(self, name: str, status: int) -> UrlStatusFacts:
        """The URLs that ended with one status: how many, since when, on which hosts, with samples. Reads many rows."""

    async def retry_by_status(self, name: str, status: int, after: FrontierCursor, limit: int) -> RetryBatch:
        """Make about `limit` of those URLs pending again; their hosts may be visited as soon as their delay allows.
        URLs that are pending or kept fresh keep their own time; kept pages and permanent refusals are left alone
        (`can_be_retried`). Repeating it is harmless."""

    async def host_counts(self, name: str) -> HostCounts:
        """Counts of a collection's hosts by state; some seconds old."""

    async def collections(self) -> list[CollectionRow]:
        """All collections, with their configurations, which may be large: a frequent caller uses `collection_states`,
        and then `collection` for those that have changed."""

    async def collection(self, name: str) -> CollectionRow | None:
        """One collection; None: there is none of that name."""

    async def collection_states(self) -> list[FrontierCollectionState]:
        """State and revision of every collection, without the configurations: shows whether a copy is still current."""

    async def set_state(self, name: str, state: str, reason: Message | str) -> None:
        """Set a collection to running, paused, stopped or finished; or to ready or waiting, which act like stopped."""

    async def discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        """Make URLs known, or lower their depth. Counts nothing: repeating it is harmless."""

    async def join(self, name: str, process: ProcessId) -> RegistrationTerms:
        """Register a worker under a name that no living worker has."""

    async def release_process(self, process: ProcessId) -> None:
        """Take back the hosts of a worker at once: the caller can prove that its process is dead."""

    async def time(self) -> ClockReading:
        """The frontier's time: two machines share no clock."""

    async def renew(self, worker: int, note: Message | str) -> float:
        """Renew all leases of a worker; returns for how many seconds, from the sending of the request on.

        `note` is the worker's notice for people.
        """

    async def leave(self, worker: int) -> None:
        """End the registration of a worker, and take back all its hosts."""

    async def lease(self, worker: int, hosts: int) -> list[Lease]:
        """Lease up to `hosts` hosts that may be visited now, each with its first visits."""

    async def held_leases(self, worker: int) -> list[Lease]:
        """The leases of a worker, for a process that has lost them. A host without visits (a loan) goes back."""

    async def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        """Borrow one host for a single request (a robots.txt that a redirect points to), or get the copy that is known
        already."""

    async def robots_text(self, digest: bytes) -> bytes:
        """The text of a robots.txt by its digest; empty if it is unknown."""

    async def claim_address(self, worker: int, host: HostId, address: str) -> float:
        """Claim an IP address for a leased host: 0 if it is ours, else the time from which to try again."""

    async def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        """Take reports on many hosts at once; returns the next visits of each host."""

    async def update_weights(self, collection: str, weights: list[UrlWeight], epoch: int = 0) -> bool:
        """Take absolute in-link counts, ranks, and smaller depths from the link graph. False: refused, because this is
        not the epoch of the graph's present owner. 0: the caller claims nothing; refused while the graph has an
        owner."""

    async def claim_parts(
        self, node: str, projection: str, parts: int, held: list[OwnedPart], at_hand: list[int], replicas: int
    ) -> OwnedParts:
        """Renew the leases of a node on the parts of a projection (`graph`, `index`), and claim more, up to its share.
        So many nodes, the `replicas`, own each part.

        `held` are the parts that the node owns, as far as it knows: what it leaves out it gives back. `at_hand` are
        those that it would rather have than others. With 0 `parts` in all it gives everything back, and takes part no
        more."""

    async def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        """Everything known about a URL, in every collection."""

    async def overview(self) -> FrontierOverview: ...

    async def collections_to_plan(self) -> list[int]:
        """The collections whose revisits need a new price or plan."""

    async def revisit_pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[RevisitPage]:
        """The pages that are kept fresh, in order, after (host, url)."""

    async def revisit_shelves(self, collection: int, host: HostId, limit: int) -> list[RevisitShelf]:
        """The classes of pages of (about) `limit` hosts after this one; whole hosts only."""

    async def set_price(self, collection: int, price: float) -> None:
        """Set the value that a visit must have from now on. Hosts apply it by `recompute_due`, or when they are next
        due."""

    async def recompute_due(self, collection: int, host: HostId, limit: int) -> HostId | None:
        """Recompute when hosts are due, for `limit` hosts after this one; returns the last one, None when there are no
        more."""

    async def add_planned_visits(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        """Add visits to a plan that is not active yet; `number` is greater than that of any earlier plan."""

    async def activate_plan(self, collection: int, number: int, end: float) -> None:
        """Activate a complete plan: it holds from now on, until its end."""

    async def drop_old_plans(self, collection: int, limit: int) -> int:
        """Remove (some of the) remains of former plans; returns the number of visits removed."""

    async def export_catalogue(self) -> ExportCatalogue:
        """The collections as another frontier imports them, and the public suffix list that defines the sites."""

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        """Export hosts in the order of their ids, with up to `limit` URLs in all."""

    async def import_collection(self, image: CollectionExport) -> CollectionRow:
        """Create a collection from another frontier; it is `importing` until `set_state` says that it is complete.

        An existing collection is refused, unless it waits for the rest of the same import (by its `reason`).
        """

    async def import_hosts(self, images: list[HostExport]) -> None:
        """Import hosts, the parts of each in their order. Existing rows stay: repeating it is harmless."""

    async def import_deletions(self, moments: dict[str, float]) -> None:
        """Import the deletions of another frontier, with their times; not of collections that exist here and existed
        then. Repeating it is harmless."""

    async def forget_host(self, host: HostId) -> None:
        """Remove everything of a host that no worker holds. Its URLs are new if they are found again."""

    async def record_takedowns(self, entries: list[TakedownEntry]) -> None:
        """Add takedowns to the log that all workers of this frontier read; known entries change nothing."""

    async def takedowns(self, after: int) -> TakedownBatch:
        """The entries of the takedown log, in the order of their arrival, after a position that an earlier call
        returned (0: from the beginning)."""
