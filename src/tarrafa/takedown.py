"""Takedown log: which URLs, hosts and sites must not be fetched, found or shown, and who decided it.

    DATA/takedown.jsonl    one line per action, only ever appended to

Two more kinds of orders are in the same log. An order to *erase* removes the bytes of what is taken down from the
archive, after a waiting time (`crawl/compaction/erasure`); its line `erased` is the tombstone. A *legal hold* keeps all
bytes of a URL, host, site or collection: no retention rule and no order to erase removes them.
Promises: of each URL, host or site the last action in the log counts. An action is on the disk when `append_entries`
returns. An incomplete last line, left by a crash, was never confirmed to any caller: it is dropped, and that is
reported. A log that is damaged elsewhere is refused rather than half obeyed; a reader that has read a valid one before
keeps using that. `CurrentTakedowns` checks the file again at each call (one `stat`), in any number of threads;
`TakedownSet` is one immutable state of it.

Logs of several machines are merged as sets of lines: the times of the actions give their order, and an action is always
later than the one it replaces, whatever the machines' clocks say.
Knows nothing of search, frontiers or archives: they call this module. Where takedowns are obeyed:
`crawl/scope/scope_rules` (the status of waiting URLs, new links), `crawl/worker/host_session` (after the response),
`crawl/render/browser_requests`, `crawl/library_api`, `frontier/store/retries` (lifted takedowns),
`search/local_shard`, `graph/reader` (pages and links that are shown), `captures/reader`, `triples/entity_reader`,
`coordinator/watch` (changes, messages), and the followers of index and triples.
"""

import fcntl
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta
from xxhash import xxh3_128_hexdigest

from tarrafa.config.formats import COLLECTION_NAME
from tarrafa.errors import ConfigError, DataError, HeldByLaw, PageTakenDown, write_errors
from tarrafa.i18n import message
from tarrafa.model import UrlId
from tarrafa.parse.url import (
    LABELS_MAX,
    URL_LENGTH_MAX,
    UrlIdentity,
    canonical,
    domain_and_parents,
    host_name,
    is_ip_address,
    parse_domain,
    url_id,
)
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint, sync_directory

LOG_BYTES_MAX = 64 << 20  # some 300,000 actions
WHO_CHARS_MAX, REASON_CHARS_MAX = 200, 1_000
YEAR_MAX = 3_000  # later dates from another machine are refused: no action could ever follow them
HOSTS_CACHED_MAX = 50_000
_TICK = timedelta(microseconds=1)
# A collection may fold its URLs (`[identity]`): the page is the same in each spelling.
_SPELLINGS = [UrlIdentity(fold, strip) for fold in (False, True) for strip in (False, True)]

TargetKind = Literal["url", "host", "site", "collection"]  # collections: legal holds only
OrderKind = Literal["add", "hold", "erase"]
Action = Literal["add", "lift", "hold", "release", "erase", "cancel", "erased"]
# What begins an order, by the actions that begin or end it. `erased` ends none: each machine erases its own archive.
ORDERS: dict[Action, OrderKind] = {
    "add": "add", "lift": "add", "hold": "hold", "release": "hold", "erase": "erase", "cancel": "erase",
}  # fmt: skip
log = logging.getLogger(__name__)


class TakedownTarget(NamedTuple):
    """The target of an action: a canonical URL, a host name, a domain with everything below it, or a collection."""

    kind: TargetKind
    name: str

    def __str__(self) -> str:
        return self.name if self.kind == "url" else f"{self.kind}:{self.name}"


class TakedownEntry(msgspec.Struct, frozen=True):
    """One line of the log. `due`: of an order to erase, when its waiting time is over."""

    at: Annotated[datetime, Meta(tz=True)]
    action: Action
    kind: TargetKind
    name: Annotated[str, Meta(max_length=URL_LENGTH_MAX)]
    who: Annotated[str, Meta(max_length=WHO_CHARS_MAX)]
    reason: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] = ""
    due: Annotated[datetime, Meta(tz=True)] | msgspec.UnsetType = msgspec.UNSET

    @property
    def target(self) -> TakedownTarget:
        return TakedownTarget(self.kind, self.name)


def parse_target(text: str, *, is_hold: bool = False) -> TakedownTarget:
    """Parse a typed target: `https://a.br/page`, `host:www.a.br` or `site:a.br`; of a legal hold also
    `collection:NAME`."""
    kind, colon, name = text.strip().partition(":")
    if is_hold and kind == "collection" and COLLECTION_NAME.fullmatch(name):
        return TakedownTarget("collection", name)
    if colon and kind.lower() in ("host", "site"):
        found = parse_domain(name)
        if found is None:
            raise ConfigError(
                message("{text!r}: {kind}: needs a name such as {kind}:ufmg.br", text=text[:200], kind=kind)
            )
        if kind.lower() == "host":
            return TakedownTarget("host", found)
        labels = found.count(".") + 1
        if not is_ip_address(found) and not 1 < labels <= LABELS_MAX:
            if labels == 1:
                wrong = message("{name} is a whole top-level domain", name=found[:80])
            else:
                wrong = message("{name} has more than {limit} labels", name=found[:80], limit=LABELS_MAX)
            raise ConfigError(message("{text!r}: {wrong}; host:NAME takes one host down", text=text[:200], wrong=wrong))
        return TakedownTarget("site", found)
    url = canonical(text.strip())
    if url is None:
        raise ConfigError(
            message(
                "{text!r}: write an http(s) URL, host:NAME, or site:NAME (with everything below it)", text=text[:200]
            )
        )
    return TakedownTarget("url", url)


# -- one state ---------------------------------------------------------------------------------------------------------


class TakedownSet:
    """The takedowns at one time. URLs passed in must be canonical."""

    __slots__ = ("_digest", "_judged", "hosts", "sites", "targets", "urls")

    def __init__(self, targets: Iterable[TakedownTarget] = ()) -> None:
        self.targets = frozenset(targets)
        named = [name for kind, name in self.targets if kind == "url"]
        self.urls: frozenset[UrlId] = frozenset(url_id(one.fold(name)) for name in named for one in _SPELLINGS)
        self.hosts = frozenset(name for kind, name in self.targets if kind == "host")
        self.sites = frozenset(name for kind, name in self.targets if kind == "site")
        self._judged: dict[str, bool] = {}
        self._digest = b""

    @property
    def digest(self) -> bytes:
        """A digest that identifies this state."""
        if not self._digest:
            lines = "\n".join(sorted(map(str, self.targets)))
            self._digest = xxh3_128_hexdigest(lines.encode()).encode()
        return self._digest

    def __bool__(self) -> bool:
        return bool(self.targets)

    def covers(self, url: str) -> bool:
        """Whether a canonical URL is taken down, by itself, with its host, or with its site."""
        if not self.targets:
            return False
        return self.covers_host(host_name(url)) or (bool(self.urls) and url_id(url) in self.urls)

    def covers_host(self, name: str) -> bool:
        """Whether everything on a host is taken down."""
        if not (self.hosts or self.sites):
            return False
        known = self._judged.get(name)
        if known is None:
            if len(self._judged) >= HOSTS_CACHED_MAX:
                self._judged.clear()
            known = name.rstrip(".") in self.hosts or not self.sites.isdisjoint(domain_and_parents(name))
            self._judged[name] = known
        return known


NO_TAKEDOWNS = TakedownSet()


def in_force(entries: Iterable[TakedownEntry], order: OrderKind = "add") -> dict[TakedownTarget, TakedownEntry]:
    """The last action on each target that is taken down (held, to be erased), the earliest first."""
    last: dict[TakedownTarget, TakedownEntry] = {}
    for entry in sorted((one for one in entries if ORDERS.get(one.action) == order), key=_rank):
        last.pop(entry.target, None)
        last[entry.target] = entry
    return {target: entry for target, entry in last.items() if entry.action == order}


class LegalHolds:
    """The legal holds at one time."""

    def __init__(self, entries: Iterable[TakedownEntry]) -> None:
        self.targets = tuple(in_force(entries, "hold"))
        self.collections = frozenset(one.name for one in self.targets if one.kind == "collection")
        self._pages = TakedownSet(one for one in self.targets if one.kind != "collection")

    def covers(self, url: str, collection: str) -> bool:
        """Whether the bytes of a canonical URL in a collection must stay."""
        return collection in self.collections or self._pages.covers(url)

    def overlapping(self, target: TakedownTarget) -> TakedownTarget | None:
        """A hold that covers a target, or a part of it."""
        pages = (one for one in self.targets if one.kind != "collection")
        return next((one for one in pages if _contains(one, target) or _contains(target, one)), None)


def _contains(outer: TakedownTarget, inner: TakedownTarget) -> bool:
    """Whether all that one target covers is covered by another one."""
    if inner.kind == "site":
        return outer.kind == "site" and outer.name in domain_and_parents(inner.name)
    covering = TakedownSet([outer])
    return covering.covers(inner.name) if inner.kind == "url" else covering.covers_host(inner.name)


def _rank(entry: TakedownEntry) -> tuple[datetime, bytes]:
    return entry.at, _encode(entry)


# -- the log -----------------------------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TakedownEntry).decode


def takedown_log_path(data: DataDirectory) -> Path:
    return data.root / "takedown.jsonl"


def read_entries(data: DataDirectory) -> list[TakedownEntry]:
    """The whole log, as written."""
    return read_entries_from(data, 0)[0]


def read_entries_from(data: DataDirectory, offset: int, limit: int | None = None) -> tuple[list[TakedownEntry], int]:
    """The actions from an offset of the log on, at most `limit`, and the offset after them. An offset that no longer
    exists means the beginning.
    """
    path = takedown_log_path(data)
    try:
        with path.open("rb") as file:
            if offset > os.fstat(file.fileno()).st_size:
                offset = 0
            file.seek(offset)
            content = file.read(LOG_BYTES_MAX + 1)
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise DataError(message("{path}: cannot be read ({error})", path=path, error=error.strerror or error)) from None
    found, whole = _parse_lines(path, content, limit)
    return found, offset + whole


def _parse_lines(path: Path, content: bytes, limit: int | None = None) -> tuple[list[TakedownEntry], int]:
    """The complete lines, and their length in bytes."""
    if len(content) > LOG_BYTES_MAX:
        raise DataError(message("{path}: larger than the {limit} MB allowed", path=path, limit=LOG_BYTES_MAX >> 20))
    found: list[TakedownEntry] = []
    at = 0
    while (end := content.find(b"\n", at)) >= 0 and (limit is None or len(found) < limit):
        try:
            found.append(_decode(content[at:end]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(
                message(
                    "{path}: the line at byte {at} cannot be read ({error}); correct it or remove the whole line",
                    path=path,
                    at=at,
                    error=error,
                )
            ) from None
        at = end + 1
    if end < 0 and at < len(content):
        log.warning("%s: the last line is incomplete (%d bytes); it is ignored", path, len(content) - at)
    return found, at


def append_entries(data: DataDirectory, news: Sequence[TakedownEntry]) -> list[TakedownEntry]:
    """Append the entries that are not in the log yet, durably. Returns those that were new."""
    with _locked_log(data) as (file, path):
        return _append(file, path, news)


@contextmanager
def _locked_log(data: DataDirectory) -> Iterator[tuple[IO[bytes], Path]]:
    """The log, open for one writer at a time."""
    path = takedown_log_path(data)
    with write_errors(path), path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file, path


def _append(file: IO[bytes], path: Path, news: Sequence[TakedownEntry]) -> list[TakedownEntry]:
    file.seek(0)
    content = file.read(LOG_BYTES_MAX + 1)
    known, whole = _parse_lines(path, content)
    there = set(known)
    fresh = [entry for entry in dict.fromkeys(news) if entry not in there and entry.at.year <= YEAR_MAX]
    lines = b"".join(_encode(entry) + b"\n" for entry in fresh)
    if whole + len(lines) > LOG_BYTES_MAX:
        raise DataError(
            message("{path}: is full ({limit} MB); nothing was written", path=path, limit=LOG_BYTES_MAX >> 20)
        )
    if whole < len(content):
        file.truncate(whole)  # this line was never confirmed to any caller
    if fresh:
        file.write(lines)
        file.flush()
    os.fsync(file.fileno())
    if not content:
        sync_directory(path.parent)
    return fresh


def record_action(
    data: DataDirectory,
    action: Action,
    target: TakedownTarget,
    who: str,
    reason: str,
    now: float,
    *,
    wait_s: float | None = None,
) -> TakedownEntry | None:
    """Take down, or lift; hold or erase, or end that; None if that is already so. The entry is in the log, durably,
    when this returns. An order to erase is refused under a legal hold; `wait_s`: its waiting time.
    """
    if len(reason) > REASON_CHARS_MAX:
        raise ConfigError(
            message(
                "the reason is too long: {count} characters, at most {most} are kept",
                count=len(reason),
                most=REASON_CHARS_MAX,
            )
        )
    with _locked_log(data) as (file, path):
        file.seek(0)
        known, _ = _parse_lines(path, file.read(LOG_BYTES_MAX + 1))
        order = ORDERS.get(action)
        if order is not None and (target in in_force(known, order)) == (action == order):
            return None
        if action in ("erase", "erased") and (hold := LegalHolds(known).overlapping(target)) is not None:
            raise HeldByLaw(
                message("{target}: {hold} is under a legal hold; nothing is erased", target=str(target), hold=str(hold))
            )
        after_last = [entry.at + _TICK for entry in known if entry.target == target]
        at = max([datetime.fromtimestamp(now, UTC), *after_last])
        due = msgspec.UNSET if wait_s is None else at + timedelta(seconds=wait_s)
        entry = TakedownEntry(at, action, target.kind, target.name, who[:WHO_CHARS_MAX], reason, due)
        _append(file, path, [entry])
        return entry


# -- the current state -------------------------------------------------------------------------------------------------


class CurrentTakedowns:
    """The current takedowns of a data directory. A caller with thousands of checks a second calls `now` once in a
    while.
    """

    def __init__(self, data: DataDirectory) -> None:
        self._data, self._path = data, takedown_log_path(data)
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._orders: TakedownSet | None = None
        self._error: DataError | None = None

    def now(self) -> TakedownSet:
        """The takedowns in force now; the same object for as long as nothing changes."""
        orders, seen = self._orders, file_fingerprint(self._path)
        if orders is not None and seen == self._seen:
            return orders
        with self._lock:
            if seen != self._seen:
                self._read(seen)
            if self._orders is None:
                assert self._error is not None
                raise self._error
            return self._orders

    def covers(self, url: str) -> bool:
        """Whether a canonical URL is taken down now."""
        return self.now().covers(url)

    def raise_if_taken_down(self, url: str) -> None:
        """Raise `PageTakenDown` if the URL is taken down, in whatever spelling."""
        plain = canonical(url)
        if plain is not None and self.now().covers(plain):
            raise PageTakenDown(message("{url}: was taken down", url=url[:200]))

    def _read(self, seen: tuple[int, ...]) -> None:
        try:
            self._orders, self._error = TakedownSet(in_force(read_entries(self._data))) if seen else NO_TAKEDOWNS, None
        except DataError as error:
            log.error("%s%s", error, "; the former takedowns are used" if self._orders is not None else "")
            self._error = error
        self._seen = seen
