"""The schema of a report: the structs of its JSON snapshot.

`Report` is the snapshot: everything that the other forms show, and enough to compare a later one with. Moments are
seconds since 1970 in UTC, shares go from 0 to 1. A newer format is refused by an older reader; new fields have
defaults, so that an older snapshot can still be compared with.
"""

import msgspec

from tarrafa.coordinator.node.messages import Machine

REPORT_FORMAT = 1


class ReportStruct(msgspec.Struct, frozen=True):
    """A part of the report."""


class NamedCount(ReportStruct, frozen=True):
    """One row of a table: a name, how many, and which part of all. `servers`: on how many of them, where that tells."""

    name: str
    count: int
    share: float
    servers: int = 0


class ResponseStatusCount(ReportStruct, frozen=True):
    status: int
    count: int
    share: float


class Bin(ReportStruct, frozen=True, array_like=True):
    """How many values are at least `low` and less than `high`."""

    low: float
    high: float
    count: int


class Distribution(ReportStruct, frozen=True):
    """Many numbers in few."""

    count: int = 0
    mean: float = 0.0
    least: float = 0.0
    p10: float = 0.0
    median: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    most: float = 0.0
    bins: list[Bin] = []


class MachineUsage(ReportStruct, frozen=True):
    """A machine that took part. `busy`: its processor's mean use over the period, where somebody noted it."""

    name: str
    machine: Machine
    busy: float | None = None
    busy_most: float | None = None


class CrawlPause(ReportStruct, frozen=True, array_like=True):
    since: float
    until: float


class CrawlSummary(ReportStruct, frozen=True):
    """How long it took and what came of it. Rates are over the active time."""

    first: float = 0.0
    last: float = 0.0
    duration_s: float = 0.0
    active_s: float = 0.0
    pauses: int = 0
    pauses_longest: list[CrawlPause] = []
    visits: int = 0  # records, those without a request included
    requests: int = 0
    documents: int = 0  # URLs that are kept
    pages_fetched: int = 0  # kept visits: with revisits, more than documents
    bytes: int = 0  # of bodies, as they came over the wire
    mean_bytes: float = 0.0  # of a document
    documents_per_s: float = 0.0
    kbit_per_s: float = 0.0
    first_12_h: float = 0.0  # the share of documents that were first met by then


class UrlCounts(ReportStruct, frozen=True):
    """From the discovery of a URL to its entry in the search index. None: nobody here can tell."""

    mentioned: int | None = None  # in the link graph, in scope or not
    discovered: int | None = None  # known to the frontier
    accessed: int = 0
    kept: int = 0
    indexed: int | None = None
    pending: int | None = None
    failed: int | None = None
    excluded: int | None = None
    too_deep: int | None = None
    passed_over: int | None = None


class ServerDocuments(ReportStruct, frozen=True):
    host: str
    documents: int
    share: float
    bytes: int


class ServerSummary(ReportStruct, frozen=True):
    """`holding_80`: the share of servers, the largest first, that hold 80 % of the documents."""

    visited: int = 0
    with_documents: int = 0
    sites: int = 0
    most: list[ServerDocuments] = []
    holding_80: float = 0.0
    holding_80_servers: int = 0
    documents: dict[str, int] = {}  # of each, to compare with; the largest, where there are too many


class SoftwareUse(ReportStruct, frozen=True):
    """By server: what the last answer with such a header said. `silent`: servers that never said."""

    told: int = 0
    silent: int = 0
    products: list[NamedCount] = []
    versions: list[NamedCount] = []


class RobotsUse(ReportStruct, frozen=True):
    """Of the servers that were visited: who has a robots.txt, and what it asks of us."""

    asked: int = 0  # whose robots.txt was asked for
    present: int = 0
    absent: int = 0  # a plain no: 404 and the like
    unreachable: int = 0
    with_rules: int = 0  # that forbid us something
    closed: int = 0  # that forbid us everything
    with_delay: int = 0
    delay_s_mean: float = 0.0
    delay_s_most: float = 0.0
    with_sitemaps: int = 0
    urls_excluded: int = 0


class DeadLink(ReportStruct, frozen=True):
    url: str
    links: int
    status: int = 0


class DeadLinks(ReportStruct, frozen=True):
    """`share`: of the links that lead to a URL that was visited."""

    urls: int
    links: int
    share: float
    most_wanted: list[DeadLink] = []
    pages_worst: list[DeadLink] = []


class RedirectSummary(ReportStruct, frozen=True):
    """A chain begins at a URL that no other redirects to; `chains` counts them by length."""

    urls: int = 0
    codes: list[ResponseStatusCount] = []
    chains: list[Bin] = []
    ends: list[NamedCount] = []  # where chains end: document, other, not visited, loop
    loops: int = 0
    loop_urls: int = 0
    exceeded: int = 0
    whole: bool = True  # False: there were more than are looked at


class Collector(ReportStruct, frozen=True):
    name: str
    requests: int
    documents: int
    first: float
    last: float


class Timeline(ReportStruct, frozen=True):
    """Sums up to the end of each step; `bytes` and `requests` are those of the step."""

    start: float = 0.0
    step_s: float = 0.0
    documents: list[int] = []
    sites: list[int] = []
    requests: list[int] = []
    bytes: list[int] = []


class BreadthCycle(ReportStruct, frozen=True):
    """So many sites, in the order in which they were entered, and their pages that pass or fail the breadth rule."""

    number: int
    sites: int
    pages: int
    passed: int
    failed: int


class StoragePart(ReportStruct, frozen=True):
    """What takes room on the disk; `kind`: data, index or other."""

    name: str
    kind: str
    bytes: int


class MachineStorage(ReportStruct, frozen=True):
    """What takes room on one of several machines."""

    name: str  # of its node; empty: the one that the report was made on
    parts: list[StoragePart]


class MissingNode(ReportStruct, frozen=True):
    """A node whose portion is not counted. `why`: away, broken, refused, trouble, unasked, version; see the texts."""

    name: str
    why: str


class SearchTime(ReportStruct, frozen=True):
    """Of one kind of question: how many were asked, and how long they took, the first time and again."""

    kind: str
    questions: int
    first_s_median: float
    first_s_most: float
    again_s_median: float
    again_s_most: float


class FreshnessSummary(ReportStruct, frozen=True):
    """Of the pages that are kept fresh. `changes`: pages by changes a day; `fresh`: how many copies are probably what
    the page says now."""

    pages: int
    visits: int
    visits_changed: int
    fresh: float
    changes_per_day: Distribution


class LinkDegrees(ReportStruct, frozen=True):
    """How many pages have so many links: (links, pages)."""

    incoming: list[tuple[int, int]] = []
    outgoing: list[tuple[int, int]] = []


class FigureDifference(ReportStruct, frozen=True):
    """A figure then and now."""

    name: str
    before: float
    now: float


class ListDifference(ReportStruct, frozen=True):
    """What appeared in a table, what vanished from it, and what moved most."""

    name: str
    appeared: list[FigureDifference]
    vanished: list[FigureDifference]
    moved: list[FigureDifference]
    appeared_total: int = 0
    vanished_total: int = 0


class ReportComparison(ReportStruct, frozen=True):
    """An earlier report of the collection against this one."""

    made_at: float
    first: float
    last: float
    figures: list[FigureDifference]
    lists: list[ListDifference]


class CollectionReport(msgspec.Struct, frozen=True):
    """The snapshot of a collection."""

    format: int
    collection: str
    made_at: float
    version: str
    since: float | None = None
    until: float | None = None
    run: int | None = None  # the only one that is counted
    state: str = ""
    reason: str = ""
    order: str = ""
    machines: list[MachineUsage] = []
    work: CrawlSummary = CrawlSummary()
    links: UrlCounts = UrlCounts()
    responses: list[ResponseStatusCount] = []
    unvisited: list[ResponseStatusCount] = []  # URLs that were refused by their looks: no visit was made
    types: list[NamedCount] = []
    types_distinct: int = 0
    servers: ServerSummary = ServerSummary()
    sizes: Distribution = Distribution()
    depths: list[NamedCount] = []
    languages: list[NamedCount] = []
    domains: list[NamedCount] = []
    charsets: list[NamedCount] = []
    software: SoftwareUse = SoftwareUse()
    robots: RobotsUse = RobotsUse()
    dead: DeadLinks | None = None
    redirects: RedirectSummary = RedirectSummary()
    collectors: list[Collector] = []
    timeline: Timeline = Timeline()
    waits: Distribution = Distribution()
    answers: Distribution = Distribution()
    internal_links: Distribution = Distribution()
    outgoing_links: Distribution = Distribution()
    degrees: LinkDegrees = LinkDegrees()
    cycles: list[BreadthCycle] = []
    storage: list[StoragePart] = []
    shared_with: int = 0  # other collections in the same data directory
    search: list[SearchTime] = []
    freshness: FreshnessSummary | None = None
    statements: int | None = None
    notes: list[str] = []  # what is missing, by the name of the sentence that says so
    comparison: ReportComparison | None = None
    storage_by_machine: list[MachineStorage] = []  # where several nodes are counted
    missing: list[MissingNode] = []  # nodes that are not
    visits_elsewhere: int = 0  # that the frontier knows of, and no archive that was read
