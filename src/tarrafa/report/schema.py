"""The schema of a report: the structs of its JSON snapshot.

`CollectionReport` is the snapshot: all data of the other formats, and enough to compare a later report with. Times are
seconds since 1970 in UTC, shares go from 0 to 1. A newer format is refused by an older reader; new fields have
defaults, so that an older snapshot can still be compared with.
"""

import msgspec

from tarrafa.coordinator.node.messages import Machine

REPORT_FORMAT = 1


class ReportStruct(msgspec.Struct, frozen=True):
    """A part of the report."""


class NamedCount(ReportStruct, frozen=True):
    """One row of a table: a name, a count, and its share of all. `servers`: the number of servers, where it applies."""

    name: str
    count: int
    share: float
    servers: int = 0


class ResponseStatusCount(ReportStruct, frozen=True):
    status: int
    count: int
    share: float


class Bin(ReportStruct, frozen=True, array_like=True):
    """The number of values that are at least `low` and less than `high`."""

    low: float
    high: float
    count: int


class Distribution(ReportStruct, frozen=True):
    """The summary of many numbers."""

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
    """A machine that took part. `busy`: the mean use of its processor over the period, if it was sampled."""

    name: str
    machine: Machine
    busy: float | None = None
    busy_most: float | None = None


class CrawlPause(ReportStruct, frozen=True, array_like=True):
    since: float
    until: float


class CrawlSummary(ReportStruct, frozen=True):
    """Duration and result of the crawl. Rates are over the active time."""

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
    bytes: int = 0  # of bodies, as received, compressed or not
    mean_bytes: float = 0.0  # of a document
    documents_per_s: float = 0.0
    kbit_per_s: float = 0.0
    first_12_h: float = 0.0  # the share of documents that were first found by then


class UrlCounts(ReportStruct, frozen=True):
    """From the discovery of a URL to its entry in the search index. None: unknown here."""

    mentioned: int | None = None  # in the link graph, in scope or not
    discovered: int | None = None  # known to the frontier
    accessed: int = 0
    kept: int = 0
    indexed: int | None = None
    pending: int | None = None  # or being visited
    failed: int | None = None
    excluded: int | None = None
    too_deep: int | None = None
    passed_over: int | None = None
    dropped: int | None = None  # answered or refused, and not kept
    aside: int | None = None  # pending when an earlier run ended, and not found since
    # Why kept documents are not indexed: kept + no_longer_kept = indexed + noindex + taken_down + waiting.
    noindex: int | None = None  # the page says so
    taken_down: int | None = None  # since it was fetched
    waiting: int | None = None  # the index has not read them yet
    no_longer_kept: int | None = None  # in the index, and not among the documents kept
    cut: int = 0  # of those kept: with more structured data than is kept of one page
    cut_text: int = 0  # of those kept: with more text


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
    documents: dict[str, int] = {}  # of each server, for comparisons; the largest, where there are too many


class SoftwareUse(ReportStruct, frozen=True):
    """By server: its last response with such a header. `silent`: servers that never sent one."""

    told: int = 0
    silent: int = 0
    products: list[NamedCount] = []
    versions: list[NamedCount] = []


class RobotsUse(ReportStruct, frozen=True):
    """Of the visited servers: how many have a robots.txt, and its rules for our user agent."""

    asked: int = 0  # whose robots.txt was requested
    present: int = 0
    absent: int = 0  # 404 and similar
    unreachable: int = 0
    with_rules: int = 0  # that disallow something
    closed: int = 0  # that disallow everything
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
    """`share`: of the links to visited URLs."""

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
    whole: bool = True  # False: there were more than the maximum that is read


class RequisiteSummary(ReportStruct, frozen=True):
    """How complete the copy of a faithful collection is: the URLs that its pages need to be shown. known = archived +
    redirects + gone + unvisited + the sum of `lacking`."""

    known: int = 0
    archived: int = 0
    bytes: int = 0  # of those archived, as received
    redirects: int = 0
    gone: int = 0  # 404 or 410: their sites do not have them
    unvisited: int = 0  # wait for their visit, or were left out by a limit, an exclusion or a takedown
    requests: int = 0
    pages: int = 0  # that need something
    complete: int = 0  # of these pages: everything that they need, and their sites have, is archived
    lacking: list[ResponseStatusCount] = []
    lacking_hosts: list[NamedCount] = []
    whole: bool = True  # False: there were more needs than are read


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
    """A number of sites, in the order of their first visit, and their pages that pass or fail the breadth rule."""

    number: int
    sites: int
    pages: int
    passed: int
    failed: int


class StoragePart(ReportStruct, frozen=True):
    """The use of disk space; `kind`: data, index or other."""

    name: str
    kind: str
    bytes: int


class MachineStorage(ReportStruct, frozen=True):
    """The use of disk space on one of several machines."""

    name: str  # of its node; empty: the machine that built the report
    parts: list[StoragePart]


class MissingNode(ReportStruct, frozen=True):
    """A node whose part is not counted. `why`: away, broken, refused, trouble, unasked, version; see layout.py."""

    name: str
    why: str


class SearchTime(ReportStruct, frozen=True):
    """Of one kind of search: their number, and their times: cold, warm, and from the result cache (None in reports that
    were made before it was measured, and where the index changed at every search).
    """

    kind: str
    questions: int
    first_s_median: float
    first_s_most: float
    again_s_median: float
    again_s_most: float
    cached_s_median: float | None = None
    cached_s_most: float | None = None


class CalibrationPoint(ReportStruct, frozen=True):
    """Revisits of pages that were believed to change `per_day` to ten times as often: the share that should have found
    a change, and the share that did.
    """

    per_day: float
    visits: int
    expected: float
    found: float


class FreshnessSummary(ReportStruct, frozen=True):
    """Of the pages that are kept fresh. `changes`: pages by changes a day; `fresh`: the number of copies that are
    probably up to date.
    """

    pages: int
    visits: int
    visits_changed: int
    fresh: float
    changes_per_day: Distribution
    calibration: list[CalibrationPoint] = []


class LinkDegrees(ReportStruct, frozen=True):
    """The number of pages by number of links: (links, pages)."""

    incoming: list[tuple[int, int]] = []
    outgoing: list[tuple[int, int]] = []


class FigureDifference(ReportStruct, frozen=True):
    """A figure in both reports."""

    name: str
    before: float
    now: float


class ListDifference(ReportStruct, frozen=True):
    """The rows of a table that appeared, vanished, and moved most."""

    name: str
    appeared: list[FigureDifference]
    vanished: list[FigureDifference]
    moved: list[FigureDifference]
    appeared_total: int = 0
    vanished_total: int = 0


class ReportComparison(ReportStruct, frozen=True):
    """The comparison of an earlier report of the collection with this one."""

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
    run: int | None = None  # the only run that is counted
    state: str = ""
    reason: str = ""
    order: str = ""
    machines: list[MachineUsage] = []
    work: CrawlSummary = CrawlSummary()
    links: UrlCounts = UrlCounts()
    responses: list[ResponseStatusCount] = []
    unvisited: list[ResponseStatusCount] = []  # URLs refused without a visit
    reserved_uses: list[NamedCount] = []  # documents whose publishers reserve a use, or name terms ("licence")
    not_kept: list[NamedCount] = []  # settled URLs by cause: dropped + failed + excluded; `unkept_cause` has the names
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
    requisites: RequisiteSummary | None = None  # of a collection with keep = "faithful"
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
    notes: list[str] = []  # what is missing, by the name of a sentence
    comparison: ReportComparison | None = None
    storage_by_machine: list[MachineStorage] = []  # where several nodes are counted
    missing: list[MissingNode] = []  # nodes that are not counted
    visits_elsewhere: int = 0  # known to the frontier, and in no archive that was read
