"""Fuzzing: whatever a server sends, the code that reads it says something, soon, and raises nothing.

A minute for each target, or TARRAFA_FUZZ_S seconds. The seed is printed; TARRAFA_SEED repeats a run, input for input.
What fails is written to a file, whose name is in the message.
"""

import faulthandler
import gzip
import mmap
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from tarrafa.archive.foreign_archive_reader import ArchiveSource, Damage, ForeignRecord, RecordReader
from tarrafa.fetch import content_encoding, http_message, robots
from tarrafa.model import Listing, Page
from tarrafa.parse.documents.document import UnreadableDocument
from tarrafa.parse.page import parse
from tarrafa.parse.sitemaps_feeds import parse_sitemap_or_feed
from tarrafa.parse.url import URL_LENGTH_MAX, UrlIdentity, canonical, host_id, host_key, split, url_id
from tests.archive.test_foreign_archive_reader import FORMS, TOKENS, some_records
from tests.fuzz import seed_inputs
from tests.fuzz.mutator import INPUT_BYTES_MAX, Mutator

pytestmark = pytest.mark.long

FUZZ_S = float(os.environ.get("TARRAFA_FUZZ_S", "60"))
SEED = os.environ.get("TARRAFA_SEED") or str(random.SystemRandom().randrange(10**9))
INPUT_CPU_S_MAX = 2.0
HANG_CPU_S = 20.0  # then it is stopped
STUCK_S = 120.0  # then it could not be stopped, for it is not in Python: the process ends, with a traceback

URL = "http://h.test/dir/page.html"
NOW = 1_700_000_000.0
BODY_BYTES_MAX = 100_000
AGENT = "tarrafa"
TYPES = ["text/html", "text/html", "", "text/plain", "application/xhtml+xml"]
LABELS = ["", "", "", *(f"; charset={name}" for name in ("utf-8", "windows-1252", "utf-16", "iso-2022-jp", "gbk"))]
BASES = ["http://h.test/a/b/c.html?q", "https://x.test/", "http://u:p@h.test:8080/d/", "about:blank", "file:///a", "%"]


def scale(number: int) -> int:
    """So that a hundred links and a hundred and one are no news."""
    return number.bit_length()


def read_answer(data: bytes, rng: random.Random) -> Hashable:
    block, _, body = data.partition(b"\r\n\r\n")
    head = http_message.parse_head(block)
    if head is None:
        return None
    wait_s = http_message.retry_after_s(head, NOW)
    assert wait_s >= 0
    kind: list[Hashable] = [head.code // 100, scale(len(head.fields)), head.content_type != "", wait_s > 0]
    for prefix in (False, True):
        try:
            decoded = content_encoding.decode_body(head, body, BODY_BYTES_MAX, prefix=prefix)
            assert len(decoded) <= BODY_BYTES_MAX
            kind.append(scale(len(decoded)))
        except (content_encoding.UndecodableBody, content_encoding.DecodedBodyTooLarge) as error:
            kind.append(f"{type(error).__name__} {str(error)[:8]}")
    return tuple(kind)


def read_page(data: bytes, rng: random.Random) -> Hashable:
    try:
        page = parse(data, URL, rng.choice(TYPES) + rng.choice(LABELS), "googlebot: noindex")
    except UnreadableDocument as error:  # without a type it may be taken for a PDF
        return error.reason
    assert msgspec.json.decode(msgspec.json.encode(page), type=Page) == page
    return (
        scale(len(page.links)), scale(len(page.headings)), scale(len(page.text)) // 3, page.charset, page.robots,
        page.vocabularies[:2], bool(page.refresh), scale(len(page.alternates)), len(page.feeds), bool(page.canonical),
    )  # fmt: skip


def read_robots(data: bytes, rng: random.Random) -> Hashable:
    rules = robots.parse(data)
    verdicts = []
    long = f"http://h.test/{'a/b*c' * rng.choice((1, 1, 1, 300))}"
    for url in (URL, "http://h.test/", "http://h.test/a/b/c?d=*&e=%C3%A7", long):
        for agent in (AGENT, "googlebot/2.1"):
            verdict = rules.deciding_line(agent, url)
            assert rules.allows(agent, url) or verdict is not None
            verdicts.append(verdict is not None)
    delay = rules.crawl_delay(AGENT)
    assert delay is None or 0 <= delay < float("inf")
    assert all(isinstance(sitemap, str) for sitemap in rules.sitemaps)
    return tuple(verdicts), delay is None, scale(len(rules.sitemaps))


def read_list(data: bytes, rng: random.Random) -> Hashable:
    chance = rng.random()
    if chance < 0.1:
        data = gzip.compress(data, 1, mtime=0)
        if chance < 0.05:
            broken = bytearray(data)
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
            data = bytes(broken)
    found = parse_sitemap_or_feed(data, URL, "text/xml" + rng.choice(LABELS))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Listing) == found
    assert all(canonical(entry.url) == entry.url for entry in found.entries + found.sitemaps)
    dated = sum(entry.changed > 0 for entry in found.entries)
    return found.kind, found.cut, scale(len(found.entries)), scale(len(found.sitemaps)), scale(dated)


def read_url(data: bytes, rng: random.Random) -> Hashable:
    text = data.decode("utf-8", rng.choice(("replace", "surrogateescape")))  # the latter: halves of characters
    found = canonical(text, rng.choice([None, *BASES]))
    if found is None:
        return None
    assert found.isascii() and len(found) <= URL_LENGTH_MAX and "#" not in found
    assert canonical(found) == found == canonical(found, "https://elsewhere.test/x")
    folded = UrlIdentity(fold_case=True, strip_slash=True).fold(found)
    assert UrlIdentity(fold_case=True, strip_slash=True).canonicalize(folded) == folded
    parts = split(found)
    assert parts.target.startswith("/") and len(url_id(found)) == 16
    assert -(1 << 63) <= host_id(host_key(found)) < 1 << 63
    return parts.scheme, parts.port, scale(len(parts.target)), scale(parts.target.count("%")), parts.host[-4:]


def read_archive(data: bytes, rng: random.Random) -> Hashable:
    """Somebody's WARC or ARC file; what was found at an address is there again."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        reader = RecordReader(ArchiveSource(Path(file.name), "fuzzed"), rng.choice((0, 100, BODY_BYTES_MAX)))
        items = list(reader.records())
        records = [one for one in items if isinstance(one, ForeignRecord)]
        for one in rng.sample(records, min(len(records), 5)):
            assert reader.read_at(one.offset, one.skip) == one
        reader.close()
    reasons = frozenset(one.reason.partition(" (")[0][:20] for one in items if isinstance(one, Damage))
    return scale(len(records)), reasons, frozenset(one.kind[:8] for one in records[:4])


@dataclass(frozen=True)
class Target:
    seeds: list[bytes]
    tokens: list[bytes]
    read: Callable[[bytes, random.Random], Hashable]


TARGETS = {
    "HTTP answers": Target(seed_inputs.ANSWERS, seed_inputs.ANSWER_TOKENS, read_answer),
    "HTML": Target(seed_inputs.PAGES, seed_inputs.PAGE_TOKENS, read_page),
    "robots.txt": Target(seed_inputs.ROBOTS, seed_inputs.ROBOTS_TOKENS, read_robots),
    "sitemaps and feeds": Target(seed_inputs.LISTINGS, seed_inputs.LISTING_TOKENS, read_list),
    "WARC and ARC files": Target([form(some_records(3)) for form in FORMS.values()], TOKENS, read_archive),
    "URLs": Target(seed_inputs.URLS, seed_inputs.URL_TOKENS, read_url),
}


@pytest.mark.parametrize("name", TARGETS)
def test_any_input_is_read_soon_and_raises_nothing(name, tmp_path):
    target = TARGETS[name]
    print(f"\n{name}: TARRAFA_SEED={SEED}, inputs in {tmp_path}")
    mutator = Mutator(target.seeds, target.tokens, f"{SEED} {name}")
    number, slowest_s, slowest = 0, 0.0, 0
    ends = time.monotonic() + FUZZ_S
    with Watched(tmp_path) as watched:
        for sample in target.seeds:
            mutator.learn(sample, watched.read(target, sample, mutator.rng)[1])
        while time.monotonic() < ends:
            data = mutator.next()
            elapsed_s, kind = watched.read(target, data, mutator.rng)
            mutator.learn(data, kind)
            number += 1
            if elapsed_s > slowest_s:
                slowest_s, slowest = elapsed_s, len(data)
    print(
        f"{name}: {number} inputs, {number / FUZZ_S:.0f}/s, {len(mutator.pool)} kinds, "
        f"slowest {slowest_s * 1e3:.0f} ms of CPU for {slowest} bytes"
    )
    assert number > 0


class Watched:
    """Runs one input after the other. Whichever it is that fails, hangs or kills the process, `input` holds it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "input"
        self._path.write_bytes(bytes(INPUT_BYTES_MAX))

    def __enter__(self) -> "Watched":
        with self._path.open("r+b") as file:
            self._current = mmap.mmap(file.fileno(), INPUT_BYTES_MAX)
        self._size = 0
        self._before = signal.signal(signal.SIGVTALRM, _hang)
        faulthandler.dump_traceback_later(FUZZ_S + STUCK_S, exit=True, file=2)
        return self

    def __exit__(self, *_: object) -> None:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self._before)
        self._current.close()
        os.truncate(self._path, self._size)

    def read(self, target: Target, data: bytes, rng: random.Random) -> tuple[float, Hashable]:
        """The CPU time that an input took, and what kind of thing came out."""
        self._current[: len(data)] = data
        self._size = len(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, HANG_CPU_S)
        begun = time.process_time()
        try:
            kind = target.read(data, rng)
            elapsed_s = time.process_time() - begun
            assert elapsed_s < INPUT_CPU_S_MAX, f"{elapsed_s:.1f} s of CPU"
        except (Exception, Hang) as error:
            said = f"TARRAFA_SEED={SEED}, {len(data)} bytes in {self._path}: {data[:200]!r}"
            raise AssertionError(f"{said}: {type(error).__name__}: {error}") from error
        return elapsed_s, kind


class Hang(BaseException):
    """No code under test catches this."""


def _hang(signal_number: int, frame: object) -> None:
    raise Hang(f"more than {HANG_CPU_S} s of CPU")
