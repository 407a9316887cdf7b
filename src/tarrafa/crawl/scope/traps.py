"""Detects crawler traps: endless URLs by their shape, and repeated content by what a host has served.

Two kinds of evidence, both cheap. By shape (`trap_reason`): a path that repeats itself or is far too deep, a query with
dozens of parameters. By experience (`TrapMemory`): many URLs of one host gave exactly the same text (a soft 404, a
session id in the URL), or texts that differ in nothing but numbers (a calendar), and then only such texts for a while:
from then on URLs of that pattern are not requested any more.

Promises: the memory of a host is bounded, and small hosts need none. Pure: no clock, no disk.
Known weakness: pages of random words that link to more of them look like any other page; only the caps per host and
site end those.
"""

import re
from itertools import groupby

import msgspec
from xxhash import xxh3_64_intdigest

from tarrafa.config.sections import ScopeConfig
from tarrafa.i18n import Message, message
from tarrafa.model import Page, Status, Visit
from tarrafa.parse.url import split

SEGMENTS_MAX = 25
PARAMETERS_MAX = 20
REPEATS_MAX = 2  # of a stretch of the path right after itself; more is a trap
PERIOD_MAX = 5  # segments in such a stretch
STALE_RUN_MAX = 20  # pages of a pattern in a row without a new text, and more than ever had one: the pattern is barren
PROBE_ONE_IN = 50
ENTRIES_MAX = 256  # of each kind in a host's memory
PAGES_REMEMBERED_MIN = 16  # a host with fewer is forgotten
DEFAULTS = ScopeConfig()

_number = re.compile(r"\d+")
_token = re.compile(r"(?=[^/&=;]*\d)[0-9A-Za-z_-]{12,}")  # a session id or a hash: long, with digits in it


def trap_reason(url: str) -> Message | None:
    """Why a canonical URL looks like one of infinitely many; None if it does not."""
    slashes = url.count("/") - 2
    if slashes > SEGMENTS_MAX and url.partition("?")[0].count("/") - 2 > SEGMENTS_MAX:
        return message("more than {most} path segments", most=SEGMENTS_MAX)
    if url.count("&") >= PARAMETERS_MAX and url.partition("?")[2].count("&") >= PARAMETERS_MAX:
        return message("more than {most} parameters", most=PARAMETERS_MAX)
    if slashes > REPEATS_MAX and (stretch := _repeated(split(url).target.partition("?")[0].split("/")[1:])):
        return message("/{stretch} is repeated more than {most} times", stretch=stretch, most=REPEATS_MAX)
    return None


def _repeated(segments: list[str]) -> str:
    """The stretch of path segments that occurs more than REPEATS_MAX times in a row."""
    if len(segments) - len(set(segments)) < REPEATS_MAX:  # the usual case: a repeated segment is there three times
        return ""
    for period in range(1, min(PERIOD_MAX, len(segments) // (REPEATS_MAX + 1)) + 1):
        same = (one == other and one != "" for one, other in zip(segments, segments[period:], strict=False))
        start = 0
        for equal, run in groupby(same):
            length = sum(1 for _ in run)
            if equal and length >= REPEATS_MAX * period:
                return "/".join(segments[start : start + period])
            start += length
    return ""


def url_template_id(url: str) -> int:
    """Id of the template that a URL is made by: numbers, tokens and values are ignored."""
    path, _, query = split(url).target.partition("?")
    keys = sorted({part.partition("=")[0] for part in query.split("&")}) if query else []
    text = _number.sub("0", _token.sub("0", path)) + "?" + "&".join(keys)
    return xxh3_64_intdigest(text.encode()) >> 1


class TrapMemoryState(msgspec.Struct, array_like=True):
    """A trap memory as it is stored."""

    pages: int = 0
    texts: dict[int, int] = {}
    alike: dict[int, int] = {}
    good: dict[int, int] = {}  # pages of a pattern with a new text
    runs: dict[int, int] = {}  # pages without one, since the last page with one
    barren: set[int] = set()


_decoder = msgspec.msgpack.Decoder(TrapMemoryState)


class TrapMemory:
    """Repeated texts of one host. Each collection has its own memory, which begins anew when its limits change."""

    def __init__(self, content: bytes = b"", scope: ScopeConfig = DEFAULTS, collection: int = 0) -> None:
        self._collection = collection
        self.set_limits(scope)
        try:
            self._kept = _decoder.decode(content) if content else TrapMemoryState()
        except msgspec.MsgspecError:  # written by another version
            self._kept = TrapMemoryState()
        self._saved = self._worth()

    def set_limits(self, scope: ScopeConfig) -> None:
        self._scope = scope
        self._salt = f"{self._collection} {scope.copies_max} {scope.alike_max} "

    def _key(self, *parts: object) -> int:
        return xxh3_64_intdigest((self._salt + " ".join(map(str, parts))).encode()) >> 1

    def check_page(self, page: Page, visit: Visit) -> int:
        """Count a page; returns 0, or COPY if too many pages of its host have the same text."""
        kept = self._kept
        if visit.content_id is not None or not page.content_id:
            return 0  # seen before; or without words, like many pages of pictures
        kept.pages += 1
        shape = self._key(url_template_id(visit.url))
        stale = _count(kept.texts, self._key(page.content_id)) > self._scope.copies_max
        stale = _count(kept.alike, self._key(shape, page.wording)) > self._scope.alike_max or stale
        if not stale:
            _count(kept.good, shape)
            kept.runs.pop(shape, None)
            kept.barren.discard(shape)
            return 0
        run = _count(kept.runs, shape)
        if run >= max(STALE_RUN_MAX, kept.good.get(shape, 0)) and len(kept.barren) < ENTRIES_MAX:
            kept.barren.add(shape)
        return Status.COPY

    def is_barren(self, url: str) -> bool:
        """Whether pages of this pattern had no new text for long. One in PROBE_ONE_IN is requested all the same."""
        if not self._kept.barren or self._key(url_template_id(url)) not in self._kept.barren:
            return False
        return self._key(url) % PROBE_ONE_IN != 0

    @property
    def pages(self) -> int:
        """Pages whose texts were compared."""
        return self._kept.pages

    def _worth(self) -> int:
        return self._kept.pages if self._kept.pages >= PAGES_REMEMBERED_MIN else 0

    def encode_if_changed(self) -> bytes | None:
        """The memory to store, if it changed since the last call and is worth storing."""
        kept, worth = self._kept, self._worth()
        if worth == self._saved:
            return None
        self._saved = worth
        for counts in (kept.texts, kept.alike, kept.good, kept.runs):
            _forget(counts, ENTRIES_MAX)
        return msgspec.msgpack.encode(kept)


def _count(counts: dict[int, int], key: int) -> int:
    counts[key] = count = counts.get(key, 0) + 1
    if len(counts) > 4 * ENTRIES_MAX:
        _forget(counts, 2 * ENTRIES_MAX)
    return count


def _forget(counts: dict[int, int], most: int) -> None:
    """Keep the most frequent entries; of equals, the newest."""
    if len(counts) > most:
        newest = list(counts.items())[::-1]
        kept = sorted(newest, key=lambda item: -item[1])[:most]
        counts.clear()
        counts.update(reversed(kept))
