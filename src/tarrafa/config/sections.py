"""The sections and keys of a collection file, with their defaults; and how its host and URL patterns match.

`validation` holds the rules that the types alone cannot express.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from functools import cached_property
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from tarrafa.config.formats import ByteSize, LocalDateTime, Seconds, redact_url
from tarrafa.model import DATA_SYNTAXES, DataSyntax

Kept = TypeVar("Kept")


def compile_url_patterns(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """One expression for all patterns, with `*` and `?` as in file names; None if there are no patterns."""
    translated = "|".join(map(translate, patterns))
    return re.compile(translated) if translated else None


class HostMatcher:
    """Matches host patterns: `a.br` is that host, `*.br` everything below br, `a.br:8080` that port only."""

    def __init__(self, patterns: Iterable[str]) -> None:
        folded = [_ascii(pattern.lower()) for pattern in patterns]
        self._everything = "*" in folded
        self._exact = frozenset(pattern for pattern in folded if not pattern.startswith("*."))
        self._below = tuple(pattern[1:] for pattern in folded if pattern.startswith("*."))

    def matches(self, name: str, port: str) -> bool:
        """Whether a pattern matches; `port` is empty for the scheme's default."""
        with_port = f"{name}:{port}"
        if self._everything or name in self._exact or with_port in self._exact:
            return True
        return bool(self._below) and (name.endswith(self._below) or with_port.endswith(self._below))


class HostPatternTable(Generic[Kept]):
    """Values by host pattern. Of several matching patterns the most specific one counts: the host itself, then the
    nearest domain above it, each with its port before each without.
    """

    def __init__(self, table: Mapping[str, Kept]) -> None:
        self._table = {_ascii(pattern.lower()): kept for pattern, kept in table.items()}

    def best_match(self, name: str, port: str) -> Kept | None:
        return next(self.all_matches(name, port), None)

    def all_matches(self, name: str, port: str) -> Iterator[Kept]:
        """All values that match the host, the most specific first."""
        if not self._table:
            return
        for pattern in (name, *(f"*.{parent}" for parent in _parents(name))):
            for spelling in (f"{pattern}:{port}", pattern) if port else (pattern,):
                if spelling in self._table:
                    yield self._table[spelling]
        if "*" in self._table:
            yield self._table["*"]


def _parents(name: str) -> Iterator[str]:
    """The domains above a name, the nearest first."""
    while "." in name:
        name = name.partition(".")[2]
        yield name


def _ascii(pattern: str) -> str:
    """Host names as in URLs: `*.são.br` is `*.xn--so-sia.br`."""
    if pattern.isascii():
        return pattern
    try:
        return ".".join(label if label == "*" else label.encode("idna").decode() for label in pattern.split("."))
    except UnicodeError:
        return pattern


class _ConfigSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class ScopeConfig(_ConfigSection, frozen=True):
    """Which URLs belong to the collection. Without `hosts`: exactly the roots' hosts."""

    hosts: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()  # URL patterns: if there are any, only matching URLs and the roots are in scope
    exclude: tuple[str, ...] = ()
    types: tuple[str, ...] = ("text/html", "application/xhtml+xml", "text/plain")
    size_max: ByteSize = ByteSize(2_000_000)
    depth_max: int | None = None
    pages_max: int | None = None
    requests_max: int | None = None
    host_pages_max: int = 100_000
    site_hosts_max: int = 1_000
    copies_max: int = 10
    alike_max: int = 1_000
    languages: tuple[str, ...] = ()
    beyond: bool = True  # with languages: also fetch pages outside `hosts` that kept pages link to
    keep: Literal["all", "structured", "faithful"] = "all"  # faithful: with what its pages need to be shown
    syntaxes: tuple[DataSyntax, ...] = DATA_SYNTAXES  # with keep = "structured": data in one of these
    vocabularies: tuple[str, ...] = ()  # with keep = "structured": one of these, by IRI or short name
    open_graph: bool = False  # with keep = "structured": Open Graph alone is enough


class PolitenessConfig(_ConfigSection, frozen=True):
    """Delays. The pause after a response is the largest of delay, the host's Crawl-delay, factor x its duration."""

    delay: Seconds = Seconds(1)
    delays: dict[str, Seconds] = {}  # of some hosts, by patterns as in `hosts`; the most specific match counts
    delay_factor: float = 5.0
    delay_max: Seconds = Seconds(300)
    backoff: Seconds = Seconds(60)
    per_ip: bool = True
    robots: Literal["obey", "ignore"] = "obey"
    user_agent: str = "Tarrafa"
    contact: str = ""
    email: str = ""


ContentEncoding = Literal["gzip", "deflate", "br", "zstd"]


class FetchConfig(_ConfigSection, frozen=True):
    """Limits of a transfer, and how many hosts one worker visits at once."""

    time_max: Seconds = Seconds(600)
    connect_timeout: Seconds = Seconds(20)
    stall_timeout: Seconds = Seconds(60)
    hosts_at_once: int = 500
    redirects_max: int = 5
    retries: int = 2
    host_failures_max: int = 6
    bandwidth: ByteSize | None = None
    host_bandwidth: ByteSize | None = None
    encodings: tuple[ContentEncoding, ...] = ("gzip", "deflate", "br")  # without zstd: decision 0296
    sitemaps: bool = True
    feeds: bool = True


class RequisitesConfig(_ConfigSection, frozen=True):
    """With keep = "faithful": what the images, styles, scripts, fonts and frames of the kept pages may cost."""

    page_max: int = 500  # of one page, or of one style or frame
    size_max: ByteSize = ByteSize(20_000_000)  # of one; so a page has page_max times as many bytes at the most
    steps_max: int = 5  # from a page: frames, imports and redirects
    robots: Literal["obey", "ignore"] = "obey"
    again: Seconds = Seconds(86_400)  # when a page has changed, those fetched longer ago are fetched again


class RenderConfig(_ConfigSection, frozen=True):
    """Pages that scripts make: whether a browser renders them (crawl/render)."""

    when: Literal["never", "auto", "always"] = "never"
    hosts: tuple[str, ...] | None = None  # patterns; without them: all hosts of the collection
    time_max: Seconds = Seconds(60)  # of one page, with its waits for delays
    pages_at_once: int = 1  # of one worker


class UrlScoreWeights(_ConfigSection, frozen=True):
    """The weights of URL features in the order of breadth: see frontier/ordering.py."""

    length: float = 1.0
    block: float = 10.0
    favour: float = 50.0
    penalty: float = 200.0


class StrategyConfig(_ConfigSection, frozen=True):
    """The order in which new URLs are visited. `table_max`, `cycle` and `weights` belong to breadth."""

    order: Literal["breadth", "backlinks", "fifo", "lifo", "random"] = "fifo"
    favour: tuple[str, ...] = ()
    penalise: tuple[str, ...] = ()
    table_max: int = 4_000
    cycle: int = 100
    weights: UrlScoreWeights = UrlScoreWeights()


class RevisitConfig(_ConfigSection, frozen=True):
    """When pages are revisited; without the section never. `rate`: revisits per day, None: as politeness allows."""

    policy: Literal["index", "psp", "mp2", "m-wolf", "uniform", "proportional", "rateupdate", "never"] = "index"
    rate: float | None = None
    share: float = 0.5
    horizon: Seconds = Seconds(86_400)
    interval_min: Seconds = Seconds(600)
    grace: Seconds = Seconds(86_400)
    weigh: Literal["links", "rank", "equal"] = "links"
    change: Literal["text", "content"] = "text"


class ArchiveConfig(_ConfigSection, frozen=True):
    """Which archived versions of a page `tarrafa compact` keeps: see crawl/compaction/retention_rule.py."""

    retention: str = "all"  # "last 10", "one per month"


class ScheduleConfig(_ConfigSection, frozen=True):
    """When the collection runs: from `start` on, until `deadline`, repeatedly (coordinator/schedule)."""

    start: LocalDateTime | None = None
    deadline: LocalDateTime | None = None
    every: str = ""  # "daily", "7 days", "6 hours", or as in cron: "0 3 * * 1"
    timezone: str = "UTC"


class NotifyConfig(_ConfigSection, frozen=True):
    """Who is notified: a webhook, e-mail addresses. `stalled`: no visit for this long while it runs."""

    webhook: str = ""
    email: tuple[str, ...] = ()
    events: tuple[Literal["started", "finished", "failed", "stalled"], ...] = ("finished", "failed", "stalled")
    stalled: Seconds = Seconds(3_600)


class NetworkConfig(_ConfigSection, frozen=True):
    """DNS, proxy and address settings."""

    connect_to: dict[str, str] = {}
    allow_private: bool = False
    tls: Literal["strict", "accept"] = "strict"
    ca_file: str | None = None
    suffixes: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()  # name servers instead of the system's, with their port if it is not 53
    proxy: str = ""  # for all requests except those of `connect_to`; the proxy resolves the names


class IdentityConfig(_ConfigSection, frozen=True):
    """Which URLs are the same page; fixed when the collection is created."""

    fold_case: bool = False
    strip_slash: bool = False


class Collection(_ConfigSection, frozen=True, dict=True):
    """A collection as its file describes it, defaults filled in."""

    name: str
    roots: tuple[str, ...] = ()
    roots_file: str | None = None
    scope: ScopeConfig = ScopeConfig()
    politeness: PolitenessConfig = PolitenessConfig()
    fetch: FetchConfig = FetchConfig()
    requisites: RequisitesConfig = RequisitesConfig()
    render: RenderConfig = RenderConfig()
    strategy: StrategyConfig = StrategyConfig()
    revisit: RevisitConfig = RevisitConfig(policy="never")
    archive: ArchiveConfig = ArchiveConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    notify: NotifyConfig = NotifyConfig()
    network: NetworkConfig = NetworkConfig()
    identity: IdentityConfig = IdentityConfig()

    @cached_property
    def host_matcher(self) -> HostMatcher:
        assert self.scope.hosts is not None, "crawl/scope/collection_loader.py fills the roots' hosts in"
        return HostMatcher(self.scope.hosts)

    @cached_property
    def root_set(self) -> frozenset[str]:
        """The roots as a set, for fast lookups: there may be a million."""
        return frozenset(self.roots)

    @cached_property
    def included(self) -> re.Pattern[str] | None:
        return compile_url_patterns(self.scope.include)

    @cached_property
    def excluded(self) -> re.Pattern[str] | None:
        return compile_url_patterns(self.scope.exclude)

    @cached_property
    def types(self) -> frozenset[str]:
        return frozenset(kind.lower() for kind in self.scope.types)

    @property
    def explores_outside_hosts(self) -> bool:
        """Whether pages outside its hosts that kept pages link to are fetched, and kept if their language is wanted."""
        return self.scope.beyond and bool(self.scope.languages)

    @property
    def is_faithful(self) -> bool:
        """Whether the requisites of its pages are fetched."""
        return self.scope.keep == "faithful"

    @property
    def keeps_fresh(self) -> bool:
        return self.revisit.policy != "never"

    @property
    def replaces_pages(self) -> bool:
        """Whether a full collection replaces its least important pages by more important ones."""
        return self.keeps_fresh and self.scope.pages_max is not None

    @cached_property
    def _rendered_hosts(self) -> HostMatcher:
        return HostMatcher(("*",) if self.render.hosts is None else self.render.hosts)

    def renders(self, name: str, port: str) -> bool:
        """Whether pages of this host may be rendered; `port` is empty for the scheme's default."""
        return self.render.when != "never" and self._rendered_hosts.matches(name, port)

    def wants_type(self, kind: str) -> bool:
        return kind in self.types or f"{kind.partition('/')[0]}/*" in self.types

    @cached_property
    def _delays(self) -> HostPatternTable[tuple[float, str]]:
        return HostPatternTable({pattern: (float(pause), pattern) for pattern, pause in self.politeness.delays.items()})

    def delay_for(self, name: str, port: str) -> float:
        """The configured delay of a host; `port` is empty for the scheme's default. It may be shorter than the delay of
        other hosts: the operator may have permission.
        """
        found = self._delays.best_match(name, port)
        return float(self.politeness.delay) if found is None else found[0]

    def delay_rule(self, name: str, port: str) -> str:
        """The line of the configuration that sets this delay."""
        found = self._delays.best_match(name, port)
        return "[politeness] delay" if found is None else f"[politeness] delays: {found[1]!r}"

    def connect_target(self, name: str) -> str | None:
        """The `address:port` to which this host's connections go; None: resolve its name."""
        for pattern, target in self.network.connect_to.items():
            if HostMatcher([pattern]).matches(name, ""):
                return target
        return None


def redact_collection(collection: Collection) -> Collection:
    """The collection for readers who may not change it: the webhook, which often holds a token, is shortened."""
    return _with_webhook(collection, redact_url(collection.notify.webhook))


def redact_for_archive(collection: Collection) -> Collection:
    """The collection for the archive, which may be passed on to others: without the webhook."""
    return _with_webhook(collection, "")


def _with_webhook(collection: Collection, webhook: str) -> Collection:
    if collection.notify.webhook == webhook:
        return collection
    return replace(collection, notify=replace(collection.notify, webhook=webhook))
