"""Messages of the frontier API: the structs that its calls take and return, and the constants that both ends share.

Everything here crosses a wire. The calls themselves are in `api.py`.
"""

import math

import msgspec

from tarrafa.frontier.export_import.export_records import (
    FrontierCursor,
)
from tarrafa.i18n import Message, joined, message
from tarrafa.model import REQUISITE_CAUSE, HostId, Outcome, UrlId, UrlRole, Visit, unkept_cause_name
from tarrafa.revisit.policy import PageHistory
from tarrafa.takedown import TakedownEntry

LEASE_S = 30.0  # a worker that does not renew for so long loses its hosts
REQUEST_MARGIN = 1 / 6  # of a lease: no request is sent in its last sixth
VISITS_OF_NEW_LEASE = 8  # the session asks for more by its pace, until its turn is over (`host_session`)
RANK_STEP, RANK_MAX = 1.25, 1e12
ENTRIES_PER_RESPONSE = 1_000  # of takedowns or deletions
GRAPH, INDEX = "graph", "index"  # projections whose parts nodes own
FIRST_HOST: HostId = -(1 << 63)  # the cursor before all hosts


class DiscoveredUrl(msgspec.Struct, frozen=True, array_like=True):
    """A URL that a link points to. `host_key` is scheme://host:port; `redirects` counts hops since a real link.

    With a `status` it is only made known: its shape says that it must not be visited.
    """

    host: HostId
    id: UrlId
    url: str
    host_key: str
    depth: int
    redirects: int = 0
    role: int = UrlRole.PAGE
    status: int = 0
    announced: float = 0.0  # time of its last change according to a sitemap or feed
    parent: bytes = b""  # see `Visit`
    is_linked: bool = False  # by a kept page: the link graph will count at least one in-link


class UrlWeight(msgspec.Struct, frozen=True, array_like=True):
    """What the link graph knows about a URL, in absolute values. `depth` -1: no news about its depth."""

    host: HostId
    id: UrlId
    in_links: int
    depth: int = -1
    host_key: str = ""  # as in `DiscoveredUrl`: where several servers share the URLs, it decides whose this one is
    rank: float = 0.0  # N times PageRank, with the mean 1; 0: unknown


def is_significant_rank_change(rank: float, known: float) -> bool:
    """Whether a change of rank is worth sending and storing. A URL without a rank has the mean, 1."""
    low, high = similar_ranks(rank)
    return not low <= (known if known > 0.0 else 1.0) <= high


def similar_ranks(rank: float) -> tuple[float, float]:
    """The range of the ranks from which a change to this one is not worth sending and storing."""
    return (rank / RANK_STEP, rank * RANK_STEP) if 0.0 < rank < RANK_MAX else (0.0, math.inf)


class RobotsCopy(msgspec.Struct, frozen=True, array_like=True):
    """A host's robots.txt as last fetched: the status of the response, the digest of its text, and until when it
    holds."""

    status: int
    digest: bytes
    expires: float
    text: bytes = b""  # in reports only; for a lease, `robots_text` returns it


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """A host for one worker alone, until its lease ends: its visits, and the time from which they may be made."""

    host: HostId
    host_key: str
    collection: int
    revision: int  # of the collection's configuration: a worker with an older one asks for it
    next_at: float
    ended_at: float  # end of the last response
    delay_s: float  # as last known
    failures: int
    robots_copy: RobotsCopy | None
    visits: list[Visit]
    memory: bytes = b""  # host memory that the last session reported
    run: int = 1  # of the collection, to which the visits belong


class OwnedPart(msgspec.Struct, frozen=True, array_like=True):
    """A part of a projection that a node owns; its messages carry the epoch, so that an old owner is recognised.
    `replica`: which of the owners of the part it is."""

    number: int
    epoch: int
    replica: int = 1


class OwnedParts(msgspec.Struct, frozen=True):
    """What a node owns of a projection from now on, for so many seconds from the sending of its request. `surplus`:
    which of these to give back, as soon as it has stopped to serve them."""

    parts: list[OwnedPart]
    surplus: list[int]
    lease_s: float


class HostLoan(msgspec.Struct, frozen=True, array_like=True):
    """A host borrowed by name, for one request. If not `granted`: ask again at `free_at`. `finish` returns it."""

    granted: bool
    free_at: float
    ended_at: float = 0.0
    delay_s: float = 0.0
    failures: int = 0
    robots_copy: RobotsCopy | None = None  # also if it is not granted


class VisitReport(msgspec.Struct, frozen=True, array_like=True):
    """A visit that is over: its record is durable and its links are delivered."""

    id: UrlId
    number: int
    outcome: Outcome


class HostReport(msgspec.Struct, frozen=True, array_like=True):
    """What happened on one leased host since the last report. `keep` False returns the host."""

    host: HostId
    collection: int
    reports: list[VisitReport]
    next_at: float
    ended_at: float
    delay_s: float
    keep: bool
    wanted: int = VISITS_OF_NEW_LEASE
    failures: int = 0  # in a row, at the host
    robots_copy: RobotsCopy | None = None
    memory: bytes | None = None  # None: unchanged
    trouble: Message | str = ""  # why the host fails; empty: it does not
    run: int = 0  # as in its lease; when the next run has begun, the host goes back. 0: any run


class NextVisits(msgspec.Struct, frozen=True, array_like=True):
    """The next visits of a reported host. If not `is_leased`, the host is no longer the worker's."""

    is_leased: bool
    visits: list[Visit]


class RegistrationTerms(msgspec.Struct, frozen=True):
    """Terms of a worker that joins: its number, and how long it holds its leases, counted from the sending of its
    request: two machines share no clock, but each knows when it sent its request."""

    worker: int
    lease_s: float


class ClockReading(msgspec.Struct, frozen=True):
    """Time and speed of the frontier's clock. Every time that crosses the API is on that clock."""

    now: float
    scale: float = 1.0


class CollectionRow(msgspec.Struct, frozen=True):
    """A collection as the frontier keeps it: `config` is the JSON of `config.Collection`."""

    id: int
    name: str
    state: str
    reason: Message | str
    config: bytes
    revision: int = 1
    run: int = 1  # the number of the run begun last


class FrontierCollectionState(msgspec.Struct, frozen=True, array_like=True):
    """State of a collection in a few bytes, for callers that ask every second."""

    id: int
    state: str
    revision: int
    name: str = ""


class CollectionStatus(msgspec.Struct, frozen=True):
    """Counts of a collection, none of them made by scanning. Every known URL is in one place: known = fetched + pending
    + handed_out + dropped + failed + excluded + too_deep + passed_over + aside - again.
    """

    name: str
    state: str
    reason: Message | str
    known: int
    fetched: int
    pending: int
    failed: int
    hosts: int
    pages_per_s: float
    handed_out: int = 0
    dropped: int = 0
    excluded: int = 0
    too_deep: int = 0
    visits: int = 0  # handed out and returned, also without a request: excluded, or out of scope by now
    requests: int = 0
    bytes: int = 0  # of documents received
    pages_max: int | None = None
    requests_max: int | None = None
    statuses: dict[str, int] = {}  # of visits, and of URLs refused without one
    refused: dict[str, int] = {}  # of `statuses`: without a visit. The sum of the others is `visits`
    types: dict[str, int] = {}
    # Settled URLs that are not kept, by cause (`unkept_cause`): the sum is dropped + failed + excluded.
    unkept: dict[str, int] = {}
    keeps_fresh: bool = False
    revisits: int = 0  # visits to pages that were kept before
    changes: int = 0  # of those, with another text
    passed_over: int = 0  # known and not pending: the session with their site is over (order = "breadth")
    table: int = 0  # sites that wait in the site table of breadth
    sites_chosen: int = 0  # sites chosen from it
    run: int = 1
    started: float = 0.0  # start of that run
    created: float = 0.0
    revision: int = 1
    earlier: int = 0  # of those `fetched`: kept by an earlier run, and not seen by this one (yet)
    requests_before: int = 0  # made by earlier runs
    visits_before: int = 0  # made by earlier runs
    ended: float = 0.0  # when it last stopped running; 0: unknown
    aside: int = 0  # known, not pending: they were pending when an earlier run ended; this one has not found them
    again: int = 0  # in the queue, to be visited again, and meanwhile still kept: counted there and in `fetched`
    to_sweep: bool = False  # before it finishes, pages that it has not found are to be removed
    sweeping: bool = False  # they are being removed
    # Of revisits, by the power of ten of the changes a day: how many ("3:visits"), how many found a change
    # ("3:changed"), and the sum of the believed probabilities of that, in thousandths ("3:expected").
    calibration: dict[str, int] = {}
    requisites: int = 0  # of those `known`: what pages need to be shown (keep = "faithful")
    requisites_queue: int = 0  # of these, those that wait for their visit, or are being visited

    @property
    def kept_by_run(self) -> int:
        """Pages that this run has kept."""
        return self.fetched - self.earlier

    @property
    def queue(self) -> int:
        """URLs that wait for their visit, or are being visited."""
        return self.pending + self.handed_out

    @property
    def requisites_archived(self) -> int:
        return self.unkept.get(REQUISITE_CAUSE, 0)

    def requisites_text(self) -> Message | str:
        """How many requisites are archived, for people; empty: no page needs any."""
        if not self.requisites:
            return ""
        return message(
            "requisites of pages: {archived:,} of {known:,} archived, {queue:,} in the queue",
            archived=self.requisites_archived,
            known=self.requisites,
            queue=self.requisites_queue,
        )

    def unkept_by_cause(self) -> list[tuple[str, int]]:
        """Causes for which settled URLs are not kept, the most frequent first; `unkept_cause_name` names them."""
        return sorted(self.unkept.items(), key=lambda cause: (-cause[1], cause[0]))

    def why_not_kept(self) -> Message | str:
        """The causes with their counts, for people; empty: all settled URLs are kept."""
        return joined(
            [message("{cause}: {count:,}", cause=unkept_cause_name(cause), count=count)
             for cause, count in self.unkept_by_cause()],
            ", ",
        )  # fmt: skip


class RegisteredWorker(msgspec.Struct, frozen=True):
    """A living worker, as the frontier sees it."""

    name: str
    pid: int
    hosts: int
    deadline_s: float
    note: Message | str = ""  # its notice for people


class PastVisit(msgspec.Struct, frozen=True, array_like=True):
    """One entry of a URL's history. `changed` is None if there is no earlier text to compare with."""

    number: int
    at: float
    status: int
    length: int
    changed: bool | None
    worker: str = ""  # that made it


class PageFreshness(msgspec.Struct, frozen=True):
    """The frontier's estimate for a page that it keeps fresh, and the time of the revisit that follows from it."""

    history: PageHistory
    due: float | None  # None: no revisit is worth its price at present
    gone: int
    shelf: int
    price: float
    dates_believed: bool
    announcements_believed: bool


class RevisitPage(msgspec.Struct, frozen=True, array_like=True):
    """A page that is kept fresh, as the planner and the simulator need it."""

    host: HostId
    id: UrlId
    delay_s: float  # of its host
    dates_believed: bool
    history: PageHistory


class RevisitShelf(msgspec.Struct, frozen=True, array_like=True):
    """Number of pages of a host in one class of the index policy."""

    host: HostId
    delay_s: float
    shelf: int
    pages: int


class PlannedVisit(msgspec.Struct, frozen=True, array_like=True):
    host: HostId
    id: UrlId
    at: float


class SiteFacts(msgspec.Struct, frozen=True):
    """State of a URL's site in a collection whose order is breadth: see frontier/ordering.py."""

    name: str
    stage: str  # unheard, heard, listed, chosen, over
    mentions: int
    best: str  # the URL to begin with, or the one that the site session requests now
    walked: int  # pages visited
    links: int  # to other sites, on the last of them
    vain: int  # visits without a page
    table: int  # number of sites in the table now


class UrlFacts(msgspec.Struct, frozen=True):
    """Everything that the frontier knows about a URL in one collection."""

    collection: str
    url: str
    state: str
    role: str
    depth: int
    redirects: int
    in_links: int
    status: int | None
    type: str | None
    discovered: float
    fetched: float | None
    attempts: int
    announced: float | None
    content_id: str | None
    place: int | None = None  # number of pending URLs of its host before it; None if it is not pending
    history: list[PastVisit] = []
    freshness: PageFreshness | None = None
    site: SiteFacts | None = None
    rank: float = 0.0  # as in `UrlWeight`, as last received
    waits_for_place: bool = False  # it is pending, its collection is full, and it is not chosen (page_replacement.py)


class HostCollectionCounts(msgspec.Struct, frozen=True):
    """Counts of one collection on a host."""

    collection: str
    waiting: int  # URLs
    visited: int  # visits made


class HostFacts(msgspec.Struct, frozen=True):
    """Everything that the frontier knows about a host."""

    key: str
    site: str
    next_at: float
    ended_at: float
    delay_s: float
    failures: int
    worker: str | None  # that holds it now
    robots_status: int | None
    robots_expires: float | None
    robots: bytes
    waiting: int  # URLs, over all collections
    visited: int  # visits made, over all collections
    trouble: Message | str = ""  # the last failure, if no success has followed
    met_by: list[HostCollectionCounts] = []


class UrlLookup(msgspec.Struct, frozen=True):
    """Result of `look_up`. No host: no link ever led there."""

    host: HostFacts | None
    urls: list[UrlFacts]


class TakedownBatch(msgspec.Struct, frozen=True):
    """Part of the takedown log; `end` is the position to continue from. Empty: there is no more for now."""

    entries: list[TakedownEntry]
    end: int


class DeletedCollection(msgspec.Struct, frozen=True, array_like=True):
    """A deleted collection and the time of its deletion; `number` is the position to continue from."""

    number: int
    collection: str
    at: float


class FrontierOverview(msgspec.Struct, frozen=True):
    """Result of `overview`. If not `whole`, a part of the frontier did not answer, and is not counted."""

    collections: list[CollectionStatus]
    nodes: list[RegisteredWorker]
    notes: list[Message | str] = []  # notices about the frontier itself, for people
    whole: bool = True


class HostCounts(msgspec.Struct, frozen=True):
    """Hosts of a collection by state. `counted` False: there are too many hosts to count."""

    active: int = 0  # leased to a worker
    waiting: int = 0  # with pending URLs, due now or after their delay
    backed_off: int = 0  # with pending URLs, but in back-off after a failure or a Retry-After
    idle: int = 0  # without pending URLs
    counted: bool = True


class HostUrlCount(msgspec.Struct, frozen=True):
    """A host, the number of its URLs with this status, and the state of the host."""

    key: str
    urls: int
    failures: int
    next_at: float
    trouble: Message | str


class UrlSample(msgspec.Struct, frozen=True):
    """A URL, its state, and its last visits, the newest first."""

    url: str
    state: str
    at: float
    history: list[PastVisit]


class UrlStatusFacts(msgspec.Struct, frozen=True):
    """The URLs of a collection whose last visit, in its last run, ended with one status. If not `whole`, there are too
    many URLs to read, and the numbers are those of the first `looked`, host by host; the order of hosts is arbitrary,
    so that the rest is not much different."""

    status: int
    looked: int
    whole: bool
    urls: int = 0
    hosts: int = 0
    waiting: int = 0  # pending again, or handed out
    failed: int = 0  # given up
    first: float | None = None  # the earliest of these ends
    last: float | None = None
    lately: tuple[int, int, int] = (0, 0, 0)  # in the last hour, day and week
    most: list[HostUrlCount] = []
    samples: list[UrlSample] = []


class RetryBatch(msgspec.Struct, frozen=True):
    """Number of URLs that are pending again, and where to continue; None: there are no more."""

    urls: int
    end: FrontierCursor | None
