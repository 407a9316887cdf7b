"""What is to be crawled, and how?

One typed object per collection file. Promises: an unknown key, a wrong type or a value that cannot be meant is refused
with the file, the section, the key and what is allowed; what is accepted is complete, the same object whether it came
from TOML or back out of the frontier.
"""

import re
import tomllib
from collections.abc import Iterable
from fnmatch import translate
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from tarrafa.errors import ConfigError

ROOTS_MAX = 1_000_000
NUMBER_MAX = 10**12  # of anything: pages, seconds, bytes
TABLE_MAX, CYCLE_MAX = 100_000, 10_000  # sites: each is a row that one call may have to move
WEIGHT_MAX = 1e6  # scores stay far below the ranks of what is put off
PATTERNS_MAX = 1_000  # of one list
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
UNITS_S = {"ms": 0.001, "s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600, "hour": 3600, "hours": 3600, "day": 86400}
UNITS_S |= {"days": 86400, "d": 86400, "week": 604800, "weeks": 604800}
UNITS_B = {"b": 1, "kb": 1000, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
AGENT = re.compile(r"[A-Za-z0-9_-]+(/[!-~]+)?( \([ -~]*\))?")
MIME = re.compile(r"[\w.+-]+/(\*|[\w.+-]+)")
HOST = re.compile(r"\*|(\*\.)?[^\s/*?]+")
TARGET = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:]+\]):\d{1,5}")
COMMENT = re.compile(r"(?:^|\s)#")  # a fragment has no space before it
AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


class Seconds(float):
    """A duration: `"1.5s"`, `"10 min"`, `"7 days"`, or a plain number of seconds."""


class Size(int):
    """A number of bytes: `"200 KB"`, `"2 MiB"`, or a plain number."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Scope(_Section, frozen=True):
    """What belongs to the collection. `hosts` absent: exactly the roots' hosts."""

    hosts: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    types: tuple[str, ...] = ("text/html", "application/xhtml+xml", "text/plain")
    size_max: Size = Size(2_000_000)
    depth_max: int | None = None
    pages_max: int | None = None
    requests_max: int | None = None
    host_pages_max: int = 100_000
    site_hosts_max: int = 1_000
    copies_max: int = 10
    alike_max: int = 1_000
    languages: tuple[str, ...] = ()
    beyond: bool = True  # with languages: what kept pages link to outside `hosts` is looked at too
    keep: Literal["all", "structured"] = "all"
    vocabularies: tuple[str, ...] = ()  # with keep = "structured": one of these, by address or short name


class Politeness(_Section, frozen=True):
    """How gently. The pause after a response is the largest of delay, the host's Crawl-delay, factor x its duration."""

    delay: Seconds = Seconds(1)
    delay_factor: float = 5.0
    delay_max: Seconds = Seconds(300)
    backoff: Seconds = Seconds(60)
    per_ip: bool = True
    robots: Literal["obey", "ignore"] = "obey"
    user_agent: str = "Tarrafa"
    contact: str = ""
    email: str = ""


class Fetch(_Section, frozen=True):
    """Limits of a transfer, and how many hosts one worker visits at once."""

    time_max: Seconds = Seconds(600)
    connect_timeout: Seconds = Seconds(20)
    stall_timeout: Seconds = Seconds(60)
    hosts_at_once: int = 500
    redirects_max: int = 5
    retries: int = 2
    host_failures_max: int = 5
    bandwidth: Size | None = None
    host_bandwidth: Size | None = None
    sitemaps: bool = True
    feeds: bool = True


class Weights(_Section, frozen=True):
    """What a URL's looks are worth to the order of breadth: see frontier/order/score.py."""

    length: float = 1.0
    block: float = 10.0
    favour: float = 50.0
    penalty: float = 200.0


class Strategy(_Section, frozen=True):
    """In which order new URLs are visited. `table_max`, `cycle` and `weights` are those of breadth."""

    order: Literal["breadth", "backlinks", "fifo", "lifo", "random"] = "fifo"
    favour: tuple[str, ...] = ()
    penalise: tuple[str, ...] = ()
    table_max: int = 4_000
    cycle: int = 100
    weights: Weights = Weights()


class Revisit(_Section, frozen=True):
    """When to come back. Without the section: never. `rate` is revisits a day, None what politeness allows."""

    policy: Literal["index", "psp", "mp2", "m-wolf", "uniform", "proportional", "rateupdate", "never"] = "index"
    rate: float | None = None
    share: float = 0.5
    horizon: Seconds = Seconds(86_400)
    interval_min: Seconds = Seconds(600)
    grace: Seconds = Seconds(86_400)
    weigh: Literal["links", "rank", "equal"] = "links"


class Network(_Section, frozen=True):
    """How names become addresses."""

    connect_to: dict[str, str] = {}
    allow_private: bool = False
    tls: Literal["strict", "accept"] = "strict"
    ca_file: str | None = None
    suffixes: tuple[str, ...] = ()


class Identity(_Section, frozen=True):
    """Which URLs are the same page; fixed when the collection is created."""

    fold_case: bool = False
    strip_slash: bool = False


class Collection(_Section, frozen=True, dict=True):
    """A collection as its file describes it, defaults filled in."""

    name: str
    roots: tuple[str, ...] = ()
    roots_file: str | None = None
    scope: Scope = Scope()
    politeness: Politeness = Politeness()
    fetch: Fetch = Fetch()
    strategy: Strategy = Strategy()
    revisit: Revisit = Revisit(policy="never")
    network: Network = Network()
    identity: Identity = Identity()

    @cached_property
    def host_matcher(self) -> "HostMatcher":
        assert self.scope.hosts is not None, "crawl/collection.py fills the roots' hosts in"
        return HostMatcher(self.scope.hosts)

    @cached_property
    def excluded(self) -> re.Pattern[str] | None:
        patterns = [translate(pattern) for pattern in self.scope.exclude]
        return re.compile("|".join(patterns)) if patterns else None

    @cached_property
    def types(self) -> frozenset[str]:
        return frozenset(kind.lower() for kind in self.scope.types)

    @property
    def looks_beyond(self) -> bool:
        """Pages outside its hosts that kept pages link to are fetched, to be kept if their language is wanted."""
        return self.scope.beyond and bool(self.scope.languages)

    @property
    def keeps_fresh(self) -> bool:
        return self.revisit.policy != "never"

    @property
    def exchanges(self) -> bool:
        """Full, it gives up its least important pages for more important ones."""
        return self.keeps_fresh and self.scope.pages_max is not None

    def wants_type(self, kind: str) -> bool:
        return kind in self.types or f"{kind.partition('/')[0]}/*" in self.types

    def connect_target(self, name: str) -> str | None:
        """The `address:port` that this host is reached at, or None: wherever its name leads."""
        for pattern, target in self.network.connect_to.items():
            if HostMatcher([pattern]).matches(name, ""):
                return target
        return None


class HostMatcher:
    """Host patterns: `a.br` is that host, `*.br` everything below br at any depth, `a.br:8080` that port only."""

    def __init__(self, patterns: Iterable[str]) -> None:
        folded = [_ascii(pattern.lower()) for pattern in patterns]
        self._everything = "*" in folded
        self._exact = frozenset(pattern for pattern in folded if not pattern.startswith("*."))
        self._below = tuple(pattern[1:] for pattern in folded if pattern.startswith("*."))

    def matches(self, name: str, port: str) -> bool:
        """`port` is empty for the scheme's own."""
        with_port = f"{name}:{port}"
        if self._everything or name in self._exact or with_port in self._exact:
            return True
        return bool(self._below) and (name.endswith(self._below) or with_port.endswith(self._below))


def _ascii(pattern: str) -> str:
    """Names as URLs have them: `*.são.br` is `*.xn--so-sia.br`."""
    if pattern.isascii():
        return pattern
    try:
        return ".".join(label if label == "*" else label.encode("idna").decode() for label in pattern.split("."))
    except UnicodeError:
        return pattern


def duration(text: str) -> float:
    """Seconds in `"10 min"`; ValueError says what is allowed."""
    match = AMOUNT.fullmatch(text)
    unit = UNITS_S.get(match[2].lower() or "s") if match else None
    if match is None or unit is None:
        raise ValueError(f"not a duration: {text!r} (write for example 500ms, 1.5s, 10 min, 24h, 7 days)")
    return float(match[1]) * unit


def size(text: str) -> int:
    """Bytes in `"200 KB"`; ValueError says what is allowed."""
    match = AMOUNT.fullmatch(text)
    unit = UNITS_B.get(match[2].lower() or "b") if match else None
    if match is None or unit is None:
        raise ValueError(f"not a size: {text!r} (write for example 200 KB, 2 MB, 1 GiB)")
    return int(float(match[1]) * unit)


def decode_amount(kind: type, value: Any) -> Any:
    """The two types of ours that stand in a file as a number or as text."""
    example, read = (
        ("a duration such as 1.5s or 10 min", duration) if kind is Seconds else ("a size such as 200 KB", size)
    )
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected {example}")
    amount = read(value) if isinstance(value, str) else value
    if not abs(amount) <= NUMBER_MAX:  # nor is it inf or nan
        raise ValueError(f"expected {example}, got {amount:g}")
    return kind(amount)


def read(path: Path) -> tuple[Collection, list[tuple[str, str]]]:
    """Read a collection file: the collection as written, and each root with the place where it stands.

    Roots are not yet URLs: what a URL is, is not known here (`crawl/collection.py` goes on).
    """
    try:
        table = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    collection = convert(table, str(path))
    roots = [(root, f"{path}: roots[{number}]") for number, root in enumerate(collection.roots)]
    if collection.roots_file is not None:
        listed = path.parent / collection.roots_file
        try:
            lines = read_text(listed).splitlines()
        except ConfigError as error:
            raise ConfigError(f"{path}: roots_file: {error}") from None
        for number, line in enumerate(lines, 1):
            root = COMMENT.split(line, maxsplit=1)[0].strip()
            if root:
                roots.append((root, f"{listed}:{number}"))
    if not roots:
        raise ConfigError(f"{path}: roots: at least one URL or host name is needed (or roots_file)")
    if len(roots) > ROOTS_MAX:
        raise ConfigError(f"{path}: roots: {len(roots):,} are more than the {ROOTS_MAX:,} allowed")
    return collection, roots


def read_text(path: Path) -> str:
    """What stands in a file of the user's."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


SECTIONS_TO_COME = {"schedule": "schedules"}
PATH = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")


def convert(table: dict[str, Any], where: str) -> Collection:
    """A table as TOML or JSON gives it, as a valid collection; `where` stands in front of every complaint."""
    for section, what in SECTIONS_TO_COME.items():
        if section in table:
            raise ConfigError(f"{where}: [{section}]: {what} are not built yet; leave the section out")
    try:
        collection = msgspec.convert(table, Collection, dec_hook=decode_amount)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_explain(str(error))}") from None
    for check, message in _complaints(collection):
        if check:
            raise ConfigError(f"{where}: {message}")
    return collection


def _explain(message: str) -> str:
    """msgspec's sentence, with section and key in front as they stand in the file."""
    match = PATH.match(message)
    assert match is not None
    what, steps = match["what"], [step for step in (match["path"] or "").split(".") if step]
    unknown = UNKNOWN.match(what)
    if unknown:
        allowed = ", ".join(field.name for field in msgspec.structs.fields(_holder(steps)))
        section = f"[{steps[0]}] {''.join(f'{step}: ' for step in steps[1:])}" if steps else ""
        return f"{section}unknown key {unknown['key']!r} (allowed: {allowed})"
    name = f"[{steps[0]}] {'.'.join(steps[1:])}" if len(steps) > 1 else "".join(steps)
    what = what[0].lower() + what[1:].replace("`", "").replace(" | null", "")
    what = what.replace("expected int", "expected a whole number").replace("expected array", "expected a list")
    what = what.replace("object missing required field name", "name is missing")
    allowed = _choices(steps) if "enum value" in what else ""
    return f"{name}: {what}{allowed}" if name else what


def _holder(steps: list[str]) -> Any:
    """The type of what stands there."""
    holder: Any = Collection
    for step in steps:
        holder = next(field.type for field in msgspec.structs.fields(holder) if field.name == step)
    return holder


def _choices(steps: list[str]) -> str:
    """The values that a key may have, where they are few and fixed."""
    return f" (allowed: {', '.join(get_args(_holder(steps)))})"


def _complaints(collection: Collection) -> list[tuple[bool, str]]:
    """What the types alone cannot say. The first true one is told."""
    scope, politeness, fetch = collection.scope, collection.politeness, collection.fetch
    revisit, strategy = collection.revisit, collection.strategy

    def least(section: str, key: str, value: float | None, low: float, high: float = NUMBER_MAX) -> tuple[bool, str]:
        if value is None or low <= value <= high:
            return False, ""
        allowed = f"{low:g} or more" if value < low else f"{high:g} at most"
        return True, f"[{section}] {key} must be {allowed}, got {value:g}"

    return [
        (not NAME.fullmatch(collection.name), f"name: {collection.name!r} may hold a-z, 0-9, '.', '_' and '-' only"),
        least("scope", "depth_max", scope.depth_max, 0),
        least("scope", "pages_max", scope.pages_max, 1),
        least("scope", "requests_max", scope.requests_max, 1),
        least("scope", "size_max", scope.size_max, 1),
        least("scope", "host_pages_max", scope.host_pages_max, 1),
        least("scope", "site_hosts_max", scope.site_hosts_max, 1),
        least("scope", "copies_max", scope.copies_max, 1),
        least("scope", "alike_max", scope.alike_max, 1),
        (not scope.types, "[scope] types must name at least one MIME type, such as text/html"),
        *[(not MIME.fullmatch(kind), f"[scope] types: {kind!r} is no MIME type such as text/html")
          for kind in scope.types],
        *[(not HOST.fullmatch(pattern), f"[scope] hosts: {pattern!r} is no pattern such as www.a.br, *.br, a.br:8080")
          for pattern in scope.hosts or ()],
        (bool(scope.vocabularies) and scope.keep == "all",
         '[scope] vocabularies are those of keep = "structured": add it, or leave them out'),
        least("politeness", "delay", politeness.delay, 0),
        least("politeness", "delay_max", politeness.delay_max, politeness.delay),
        least("politeness", "backoff", politeness.backoff, 0),
        least("politeness", "delay_factor", politeness.delay_factor, 0),
        (not AGENT.fullmatch(politeness.user_agent),
         f"[politeness] user_agent: {politeness.user_agent!r} must begin with one word that robots.txt can name, "
         "such as Tarrafa, Tarrafa/1.0 or Tarrafa/1.0 (text)"),
        (not politeness.contact.isprintable(), "[politeness] contact must be one line of printable text"),
        (not politeness.email.isprintable() or " " in politeness.email,
         "[politeness] email must be one address, such as crawl@example.br"),
        (min(fetch.bandwidth or NUMBER_MAX, fetch.host_bandwidth or NUMBER_MAX) * fetch.time_max < scope.size_max,
         "[fetch] bandwidth and host_bandwidth must let a document of size_max pass within time_max"),
        least("fetch", "bandwidth", fetch.bandwidth, 1000),
        least("fetch", "host_bandwidth", fetch.host_bandwidth, 1000),
        least("fetch", "time_max", fetch.time_max, 0.1),
        least("fetch", "connect_timeout", fetch.connect_timeout, 0.1),
        least("fetch", "stall_timeout", fetch.stall_timeout, 1),
        least("fetch", "hosts_at_once", fetch.hosts_at_once, 1),
        least("fetch", "redirects_max", fetch.redirects_max, 0),
        least("fetch", "retries", fetch.retries, 0),
        least("fetch", "host_failures_max", fetch.host_failures_max, 0),
        *[(not HOST.fullmatch(pattern),
           f"[strategy] favour: {pattern!r} is no pattern such as www.a.br, *.br, a.br:8080")
          for pattern in strategy.favour],
        *[(not pattern.strip(), f"[strategy] penalise: {pattern!r} is no pattern such as */login*")
          for pattern in strategy.penalise],
        *[(len(patterns) > PATTERNS_MAX,
           f"[strategy] {key}: {len(patterns):,} patterns are more than the {PATTERNS_MAX:,} allowed")
          for key, patterns in (("favour", strategy.favour), ("penalise", strategy.penalise))],
        least("strategy", "table_max", strategy.table_max, 1, TABLE_MAX),
        least("strategy", "cycle", strategy.cycle, 1, CYCLE_MAX),
        *[least("strategy", f"weights.{name}", weight, 0, WEIGHT_MAX)
          for name, weight in msgspec.structs.asdict(strategy.weights).items()],
        least("revisit", "rate", revisit.rate, 1e-6),
        (not 0 < revisit.share <= 1, f"[revisit] share must be more than 0 and at most 1, got {revisit.share:g}"),
        least("revisit", "horizon", revisit.horizon, 60),
        least("revisit", "interval_min", revisit.interval_min, 0),
        least("revisit", "grace", revisit.grace, 0),
        *[(not _is_target(target),
           f"[network] connect_to: {target!r} is no address:port such as 127.0.0.1:8090")
          for target in collection.network.connect_to.values()],
    ]  # fmt: skip


def _is_target(text: str) -> bool:
    """`127.0.0.1:8090` or `[::1]:8090`."""
    address, _, port = text.rpartition(":")
    try:
        ip_address(address.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return TARGET.fullmatch(text) is not None and 0 < int(port) < 65536


def encode(collection: Collection) -> bytes:
    """As the frontier keeps it."""
    return msgspec.json.encode(collection, enc_hook=lambda kept: int(kept) if isinstance(kept, Size) else float(kept))


def decode(content: bytes) -> Collection:
    return convert(msgspec.json.decode(content), "stored collection")
