"""Messages of the frontier API: the structs that its calls take and return, and the constants that both ends share.

Everything here crosses a wire. The calls themselves are in api.py.
"""

import msgspec

from tarrafa.frontier.transfer.host_export import (
    FrontierCursor,
)
from tarrafa.i18n import Message
from tarrafa.model import HostId, Outcome, UrlId, UrlRole, Visit
from tarrafa.revisit.policy import PageHistory
from tarrafa.takedown import TakedownEntry

LEASE_S = 30.0  # a worker that does not renew for so long has lost its hosts
REQUEST_MARGIN = 1 / 6  # it sends no request in the last part of its lease
VISITS_PER_LEASE = 8
RANK_STEP, RANK_MAX = 1.25, 1e12
ENTRIES_PER_RESPONSE = 1_000  # of what was taken down or deleted
FIRST_HOST: HostId = -(1 << 63)  # where a walk through all hosts begins


class DiscoveredUrl(msgspec.Struct, frozen=True, array_like=True):
    """A URL that somebody points to. `host_key` is scheme://host:port; `redirects` counts hops since a real link.

    With a `status` it is only to be known: its looks say that it must not be visited.
    """

    host: HostId
    id: UrlId
    url: str
    host_key: str
    depth: int
    redirects: int = 0
    role: int = UrlRole.PAGE
    status: int = 0
    announced: float = 0.0  # when its author says that it last changed: from a sitemap or feed
    parent: bytes = b""  # see `Visit`


class UrlWeight(msgspec.Struct, frozen=True, array_like=True):
    """What the link graph knows of a URL, in absolute values. `depth` -1: nothing new about its depth."""

    host: HostId
    id: UrlId
    in_links: int
    depth: int = -1
    host_key: str = ""  # as in `Offer`: where several servers share the URLs, it says whose this one is
    rank: float = 0.0  # N times PageRank, with the mean 1; 0: nothing is known of it


def is_significant_rank_change(rank: float, known: float) -> bool:
    """Whether a rank is worth telling and writing down. A small change is not; who has none yet has the mean, 1."""
    known = known if known > 0.0 else 1.0
    return 0.0 < rank < RANK_MAX and not 1 / RANK_STEP <= rank / known <= RANK_STEP


class CachedRobots(msgspec.Struct, frozen=True, array_like=True):
    """A host's robots.txt as last seen: the answer's status, its text's digest, and until when it holds."""

    status: int
    digest: bytes
    expires: float
    text: bytes = b""  # in reports only; `robots_text` gives it for a lease


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """A host for this worker alone, until its lease ends: what to fetch there and from when on."""

    host: HostId
    host_key: str
    collection: int
    revision: int  # of the collection's configuration: a worker that knows an older one asks for it
    next_at: float
    ended_at: float  # of the last answer
    delay_s: float  # as last known
    failures: int
    robots: CachedRobots | None
    visits: list[Visit]
    memory: bytes = b""  # what the last walk wished to remember of the host
    run: int = 1  # of the collection, to which the visits belong


class HostLoan(msgspec.Struct, frozen=True, array_like=True):
    """A host asked for by name, for one errand. Not `granted`: ask again at `free_at`. It is given back by `finish`."""

    granted: bool
    free_at: float
    ended_at: float = 0.0
    delay_s: float = 0.0
    failures: int = 0
    robots: CachedRobots | None = None  # also when it is not granted


class VisitReport(msgspec.Struct, frozen=True, array_like=True):
    """A visit that is over, its record durable and its links delivered."""

    id: UrlId
    number: int
    outcome: Outcome


class HostReport(msgspec.Struct, frozen=True, array_like=True):
    """What happened on one leased host since the last report. `keep` False hands the host back."""

    host: HostId
    collection: int
    reports: list[VisitReport]
    next_at: float
    ended_at: float
    delay_s: float
    keep: bool
    wanted: int = VISITS_PER_LEASE
    failures: int = 0  # in a row, at the host
    robots: CachedRobots | None = None
    memory: bytes | None = None  # None: as it was
    trouble: str = ""  # what stands in the way, in words; empty: nothing does
    run: int = 0  # as its lease says; when the next run has begun, the host goes back. 0: whichever it is


class NextVisits(msgspec.Struct, frozen=True, array_like=True):
    """What comes next on a host that was reported on. Not `held`: it is no longer the worker's."""

    held: bool
    visits: list[Visit]


class WorkerRegistration(msgspec.Struct, frozen=True):
    """What a worker is told when it joins: its number, and for how long it holds what it leases, from the moment on at
    which it asked: two machines share no clock, but each knows when it put its question."""

    worker: int
    lease_s: float


class ClockReading(msgspec.Struct, frozen=True):
    """What the frontier's clock shows, and how fast it runs. Every moment that it tells or is told is on that clock."""

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
    run: int = 1  # which of its runs is the last one that was begun


class FrontierCollectionState(msgspec.Struct, frozen=True, array_like=True):
    """How a collection stands, in a few bytes, for those who ask every second."""

    id: int
    state: str
    revision: int
    name: str = ""


class CollectionStatus(msgspec.Struct, frozen=True):
    """A collection in numbers, none of them counted by scanning."""

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
    visits: int = 0  # handed out and back, also where nothing was asked for in the end: excluded, out of scope by now
    requests: int = 0
    bytes: int = 0  # of documents received
    pages_max: int | None = None
    requests_max: int | None = None
    statuses: dict[str, int] = {}  # of visits, and of URLs refused without one: their sum is not below `visits`
    types: dict[str, int] = {}
    keeps_fresh: bool = False
    revisits: int = 0  # visits to pages that were kept before
    changes: int = 0  # of those, how many found another text
    passed_over: int = 0  # known and not pending: the walk through their site is over (order = "breadth")
    table: int = 0  # sites that wait in the table of breadth
    sites_chosen: int = 0  # and those that were chosen from it
    run: int = 1
    started: float = 0.0  # when that run was
    created: float = 0.0
    revision: int = 1
    earlier: int = 0  # of those `fetched`: an earlier run kept them, and this one has not seen them (yet)
    requests_before: int = 0  # made by earlier runs
    aside: int = 0  # known and not pending: they waited when an earlier run ended, and this one has not met them
    to_sweep: bool = False  # before it is over, what it has not found is to be taken out
    sweeping: bool = False  # which is being done


class WorkerLeaseStatus(msgspec.Struct, frozen=True):
    """A worker that is alive, as the frontier sees it."""

    name: str
    pid: int
    hosts: int
    deadline_s: float
    note: str = ""  # what it has to say about itself


class PastVisit(msgspec.Struct, frozen=True, array_like=True):
    """One line of a URL's history. `changed` None: there was nothing to compare it with."""

    number: int
    at: float
    status: int
    length: int
    changed: bool | None
    worker: str = ""  # who made it


class PageFreshness(msgspec.Struct, frozen=True):
    """What the frontier believes of a page that it keeps fresh, and when it is due for that reason."""

    history: PageHistory
    due: float | None  # None: nothing makes it worth a visit as things stand
    gone: int
    shelf: int
    price: float
    dates_believed: bool
    announcements_believed: bool


class RevisitPage(msgspec.Struct, frozen=True, array_like=True):
    """A page that is kept fresh, as a planner or a simulator needs it."""

    host: HostId
    id: UrlId
    delay_s: float  # of its host
    dates_believed: bool
    history: PageHistory


class RevisitShelf(msgspec.Struct, frozen=True, array_like=True):
    """How many pages of a host stand in one class of the index policy."""

    host: HostId
    delay_s: float
    shelf: int
    pages: int


class PlannedVisit(msgspec.Struct, frozen=True, array_like=True):
    host: HostId
    id: UrlId
    at: float


class SiteFacts(msgspec.Struct, frozen=True):
    """Where a URL's site stands in a collection whose order is breadth: see frontier/ordering/breadth_rules.py."""

    name: str
    stage: str  # unheard, heard, listed, chosen, over
    mentions: int
    best: str  # the URL to begin with, or the one that the walk asks for now
    walked: int  # pages
    links: int  # to other sites, on the last of them
    vain: int  # visits that brought no page
    table: int  # how many sites stand in the table now


class UrlFacts(msgspec.Struct, frozen=True):
    """All that the frontier knows of a URL in one collection."""

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
    place: int | None = None  # how many of its host's waiting URLs go before it; None if it does not wait
    history: list[PastVisit] = []
    freshness: PageFreshness | None = None
    site: SiteFacts | None = None
    rank: float = 0.0  # as in `Weight`, as last told


class HostCollectionCounts(msgspec.Struct, frozen=True):
    """What one collection has of a host."""

    collection: str
    waiting: int  # URLs
    visited: int  # visits made


class HostFacts(msgspec.Struct, frozen=True):
    """All that the frontier knows of a host."""

    key: str
    site: str
    next_at: float
    ended_at: float
    delay_s: float
    failures: int
    worker: str | None  # who has it now
    robots_status: int | None
    robots_expires: float | None
    robots: bytes
    waiting: int  # URLs, over all collections
    visited: int  # visits made, over all collections
    trouble: str = ""  # what went wrong last, if it has not gone well since
    met_by: list[HostCollectionCounts] = []


class UrlLookup(msgspec.Struct, frozen=True):
    """The answer to `look_up`. No host: nobody ever pointed there."""

    host: HostFacts | None
    urls: list[UrlFacts]


class TakedownBatch(msgspec.Struct, frozen=True):
    """Part of what was taken down or lifted; `end` is where to go on. Empty: there is no more for now."""

    entries: list[TakedownEntry]
    end: int


class DeletedCollection(msgspec.Struct, frozen=True, array_like=True):
    """A collection that is no more, as of a moment; `number` is where to go on."""

    number: int
    collection: str
    at: float


class FrontierOverview(msgspec.Struct, frozen=True):
    """The answer to `status`. Not `whole`: a part of the frontier did not answer, and is not counted."""

    collections: list[CollectionStatus]
    nodes: list[WorkerLeaseStatus]
    notes: list[str] = []  # what people should know of the frontier itself
    whole: bool = True


class HostCounts(msgspec.Struct, frozen=True):
    """How the hosts of a collection stand. `counted` False: there are more of them than anybody counts."""

    active: int = 0  # with a worker
    waiting: int = 0  # have work, and their time has come or comes by politeness
    backed_off: int = 0  # have work, and rest because they failed or asked for it
    idle: int = 0  # have no work now
    counted: bool = True


class HostUrlCount(msgspec.Struct, frozen=True):
    """A host, and how many of its URLs ended alike; how it stands now."""

    key: str
    urls: int
    failures: int
    next_at: float
    trouble: str


class UrlSample(msgspec.Struct, frozen=True):
    """A URL, how it stands, and its last visits, the newest first."""

    url: str
    state: str
    at: float
    history: list[PastVisit]


class UrlStatusFacts(msgspec.Struct, frozen=True):
    """The URLs of a collection whose last visit, in its last run, ended alike. Not `whole`: there are more URLs than
    anybody looks at, and these numbers are those of the first `looked`, host by host; hosts stand in no order that says
    anything about them, so that others are not much different."""

    status: int
    looked: int
    whole: bool
    urls: int = 0
    hosts: int = 0
    waiting: int = 0  # they are tried again, or are out
    failed: int = 0  # given up
    first: float | None = None  # the longest ago that one of them ended so
    last: float | None = None
    lately: tuple[int, int, int] = (0, 0, 0)  # in the last hour, day and week
    most: list[HostUrlCount] = []
    samples: list[UrlSample] = []


class RetryBatch(msgspec.Struct, frozen=True):
    """How many URLs wait again, and where to go on; None: there are no more."""

    urls: int
    end: FrontierCursor | None
