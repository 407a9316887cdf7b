"""Adds, lists and removes watches, for the command line, the console and the REST API.

Promises: what is watched, and every address, is checked before anything is stored; the pages that match a query at that
moment are no news. Only admins call this: a webhook may have a private address, as those of collections. Blocks on the
disk: do not call it in an event loop.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from tarrafa.archive.warc_reader import Cursor, visit_lengths
from tarrafa.captures import follower as captures
from tarrafa.config.formats import EMAIL, is_http_url, parse_duration, redact_url
from tarrafa.coordinator.definitions.toml_writer import format_duration
from tarrafa.coordinator.notify.notice_outbox import NoticeOutbox, UndeliveredNotice
from tarrafa.coordinator.watch.watch_queries import WatchedQueries, check_query
from tarrafa.coordinator.watch.watch_store import MATCHES_MAX, Watch, WatchKind, WatchSettings, WatchStore
from tarrafa.errors import ConfigError, QueryError
from tarrafa.i18n import Message, message
from tarrafa.index import follower as index
from tarrafa.index import shards
from tarrafa.parse.url import canonical, is_ip_address, parse_domain
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.query_parser import QUERY_CHARS_MAX

EMAILS_MAX = 10
WEBHOOK_CHARS_MAX = 2_000
PERIOD_S_MIN, PERIOD_S_MAX = 0.0, 31 * 86_400.0
DEFAULT_PERIODS: Mapping[WatchKind, str] = {"page": "0 s", "site": "1 h", "query": "1 h"}
PeriodText = Annotated[str, Meta(max_length=40)]


class WatchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to watch, and who is told. `what`: a URL, the name of a site or host, or a search. `period`: a duration;
    changes within it are one message; empty: at once for a page, one hour for a site or query."""

    kind: WatchKind
    what: Annotated[str, Meta(max_length=QUERY_CHARS_MAX)]
    collection: Annotated[str, Meta(max_length=100)] = ""
    period: PeriodText = ""
    email: Annotated[tuple[Annotated[str, Meta(max_length=320)], ...], Meta(max_length=EMAILS_MAX)] = ()
    webhook: Annotated[str, Meta(max_length=WEBHOOK_CHARS_MAX)] = ""


class ListedWatch(msgspec.Struct, frozen=True):
    """A watch as it is listed. `feed`: the path of its Atom feed, with its secret; `.rss` is the same in RSS."""

    number: int
    kind: WatchKind
    what: str
    collection: str
    period: str
    email: tuple[str, ...]
    webhook: str  # without its path, which may be a secret
    creator: str
    created: float
    feed: str
    messages: int
    last_at: float | None
    trouble: list[Message | str]


class WatchFeedPaths(NamedTuple):
    atom: str
    rss: str


def feed_paths(token: str) -> WatchFeedPaths:
    return WatchFeedPaths(f"/watch/{token}.atom", f"/watch/{token}.rss")


def add_watch(data: DataDirectory, request: WatchRequest, now: Callable[[], float], creator: str = "") -> Watch:
    """Its time and the pages that match are taken while no pass can end: nothing falls between it and a pass."""
    settings, queries = _checked(request, creator), WatchedQueries(data)
    with WatchStore(data).writing() as tables:
        if not tables.watches():  # nobody has followed the archive: begin here
            tables.save_cursor(readable_lengths(data))
        matches = queries.matching(settings, MATCHES_MAX + 1) if settings.kind == "query" else set[bytes]()
        if len(matches) >= MATCHES_MAX:
            sentence = message("more than {most} pages match: make the search narrower", most=MATCHES_MAX)
            raise ConfigError(sentence)
        return tables.add(settings, now(), matches)


def remove_watch(data: DataDirectory, number: int) -> Watch:
    with WatchStore(data).writing() as tables:
        return tables.remove(number)


def list_watches(data: DataDirectory) -> list[ListedWatch]:
    store, found = WatchStore(data), list[ListedWatch]()
    with store.reading() as tables:
        if tables is None:
            return found
        watches, counts = tables.watches(), tables.count_messages()
    outbox = NoticeOutbox(data.coordinator)
    for one in watches:
        settings, (count, last) = one.settings, counts.get(one.number, (0, None))
        shown = (settings.email, redact_url(settings.webhook), settings.creator)
        period, feed = format_duration(settings.period_s), feed_paths(one.token).atom
        trouble = _troubles(one, outbox.undelivered(notice_subject(one.number)))
        found.append(
            ListedWatch(
                one.number, settings.kind, settings.what, settings.collection, period, *shown, one.created, feed,
                count, last, trouble,
            )
        )  # fmt: skip
    return found


def notice_subject(number: int) -> str:
    """How the outbox names the notices of a watch."""
    return f"watch {number}"


def readable_lengths(data: DataDirectory) -> Cursor:
    """How far the archive can be read: up to where the index of captures and the text index have read it."""
    parts = shards.parts(data) if shards.exists(data) else []
    cursors = [captures.cursor(data), *map(index.cursor, parts)]
    lengths = visit_lengths(data.archive)
    return {file: min(length, *(one.get(file, 0) for one in cursors)) for file, length in lengths.items()}


def _troubles(watch: Watch, undelivered: Iterable[UndeliveredNotice]) -> list[Message | str]:
    found: list[Message | str] = []
    if watch.is_full:
        sentence = message("{most} pages match: further ones are not reported; make it narrower", most=MATCHES_MAX)
        found.append(sentence)
    return [*found, *(one.trouble for one in undelivered)]


def _checked(request: WatchRequest, creator: str) -> WatchSettings:
    try:
        msgspec.convert(msgspec.to_builtins(request), WatchRequest)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from None
    for address in request.email:
        if not EMAIL.fullmatch(address):
            raise ConfigError(message("{address!r}: no e-mail address", address=address[:100]))
    if request.webhook and not is_http_url(request.webhook):
        raise ConfigError(message("the webhook must be an http or https address"))
    try:
        period_s = parse_duration(request.period.strip() or DEFAULT_PERIODS[request.kind])
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if not PERIOD_S_MIN <= period_s <= PERIOD_S_MAX:
        raise ConfigError(message("the period must be 0 s to 31 days"))
    what = _checked_what(request.kind, request.what.strip())
    return WatchSettings(
        request.kind, what, request.collection.strip(), period_s, request.email, request.webhook, creator
    )


def _checked_what(kind: WatchKind, what: str) -> str:
    if kind == "page":
        found = canonical(what)
        if found is None:
            raise ConfigError(message("{what!r}: not an http(s) URL", what=what[:200]))
        return found
    if kind == "site":
        name = parse_domain(what.removeprefix("site:").removeprefix("host:"))
        if name is None or not ("." in name or is_ip_address(name)):
            raise ConfigError(message("{what!r}: not the name of a site or host, such as ufmg.br", what=what[:200]))
        return name
    if not what:
        raise ConfigError(message("a query must be watched: write at least one word"))
    try:
        check_query(what)
    except QueryError as error:
        raise ConfigError(error.message) from None
    return what
