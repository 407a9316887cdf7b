"""What does one visit change in the index?

Promises: a page that was kept and may be shown becomes a document; one that the Web says is gone, moved, forbidden or
not for indexing loses it; the Web's weather (time-outs, 5xx, an unchanged 304) changes nothing. Every text is bounded.
Knows nothing of commits, cursors or visits' order.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from struct import Struct

import msgspec
import tantivy
from xxhash import xxh3_64_intdigest

from tarrafa.index import schema
from tarrafa.index.analysis import primary, terms
from tarrafa.model import Outcome, Page, Record, Status, UrlId, is_weather
from tarrafa.parse.url import host_name, url_id

TITLE_TIMES, HEADINGS_TIMES, ANCHORS_TIMES = 8, 3, 3
TITLE_WORDS_MAX = 40  # a title of a thousand words would be the best answer to everything
HEADINGS_MAX = 50
HEADING_WORDS_MAX = 30
ANCHORS_MAX = 12
ANCHOR_WORDS_MAX = 15
TEXT_WORDS_MAX = 50_000
SHOWN_CHARS_MAX = 60_000
LABELS_MAX = 12  # of a host's name, from the right
NEAR_WORDS_MIN = 100  # a shorter page has exact copies only: there, one word is a difference, or "room 101" is lost


class Change(Enum):
    """What a visit means for the index."""

    WRITE = 1
    DELETE = 2
    NOTHING = 3


def change(record: Record) -> Change:
    outcome, page = record.outcome, record.page
    if is_weather(outcome.status) or outcome.grace or outcome.status == Status.TAKEN_DOWN:  # see `withheld`
        return Change.NOTHING
    if outcome.kept and page is not None and not page.robots.noindex:
        return Change.WRITE
    return Change.DELETE


def key_of(collection: str, key: UrlId) -> str:
    return f"{collection}/{key.hex()}"


_halves = Struct(">qq")


def halves(key: UrlId) -> tuple[int, int]:
    high, low = _halves.unpack(key)
    return high, low


def whole(high: int, low: int) -> UrlId:
    return _halves.pack(high, low)


def document(record: Record, page: Page, anchors: Sequence[str]) -> tantivy.Document:
    """The document of a page that is to be found."""
    found = tantivy.Document()
    identity, host, language = url_id(record.url), host_name(record.url), primary(page.language)
    found.add_text(schema.KEY, key_of(record.collection, identity))
    found.add_text(schema.COLLECTION, record.collection)
    found.add_text(schema.HOST, host)
    found.add_text(schema.LANGUAGE, language)
    for name in domains(host):
        found.add_text(schema.SITE, name)
    high, low = halves(identity)
    found.add_integer(schema.ID_HIGH, high)
    found.add_integer(schema.ID_LOW, low)
    found.add_integer(schema.URL_LENGTH, len(record.url))
    title = terms(page.title, page.language, TITLE_WORDS_MAX)
    _add_fingerprints(found, page, title)
    _add_terms(found, page, title, anchors)
    found.add_bytes(schema.SHOWN, msgspec.msgpack.encode(_shown(record, page, language)))
    return found


def _add_fingerprints(found: tantivy.Document, page: Page, title: str) -> None:
    """What copies are recognised by. Half a content id will do: that any two of a thousand million pages share it by
    chance has odds of 1 to 40, and would show only where both answer the same question."""
    found.add_integer(schema.HEADLINE, signed(xxh3_64_intdigest(title.encode())))
    if page.content_id:
        found.add_integer(schema.CONTENT, half(page.content_id))
        if page.simhash and len(page.text.split(None, NEAR_WORDS_MIN)) >= NEAR_WORDS_MIN:
            found.add_integer(schema.SIMHASH, signed(page.simhash))


def half(content_id: str) -> int:
    """The first 64 bits of a content id, as the index holds them."""
    return signed(int(content_id[:16], 16))


def signed(bits: int) -> int:
    """64 bits as tantivy takes them: of unsigned fields it deletes nothing by term."""
    return bits - (1 << 64) if bits >> 63 else bits


def _add_terms(found: tantivy.Document, page: Page, title: str, anchors: Sequence[str]) -> None:
    """Each text is a value of its own, repeated for its weight: tantivy leaves a gap between two values, so that a
    phrase never matches across them and still matches inside each."""
    language = page.language
    if title:
        found.add_text(schema.TITLE, title)
    weighted: Iterable[tuple[str, int]] = (
        (title, TITLE_TIMES),
        *((terms(text, language, HEADING_WORDS_MAX), HEADINGS_TIMES) for text in page.headings[:HEADINGS_MAX]),
        *((terms(text, language, ANCHOR_WORDS_MAX), ANCHORS_TIMES) for text in anchors[:ANCHORS_MAX]),
        (terms(page.text, language, TEXT_WORDS_MAX), 1),
    )
    for text, times in weighted:
        for _ in range(times if text else 0):
            found.add_text(schema.ALL, text)


def _shown(record: Record, page: Page, language: str) -> schema.Shown:
    updated = _updated(record.outcome).strftime("%Y-%m-%dT%H:%M:%SZ")
    title, text = " ".join(page.title.split())[:300], page.text[:SHOWN_CHARS_MAX]
    return schema.Shown(record.url, title, text, language, updated, record.collection)


def _updated(outcome: Outcome) -> datetime:
    """When the page was last changed, as its server says; when we saw it, if it says nothing or the impossible."""
    seen = datetime.fromtimestamp(outcome.at, UTC)
    if outcome.last_modified:
        try:
            said = parsedate_to_datetime(outcome.last_modified)
            said = said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)
        except (ValueError, OverflowError):
            return seen
        if said.year >= 1990 and said <= seen:
            return said
    return seen


def domains(host: str) -> list[str]:
    """The host's name and every domain above it: www.ufmg.br, ufmg.br, br. An address stands for itself."""
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host]
    labels = host.rstrip(".").split(".")
    return [".".join(labels[start:]) for start in range(max(0, len(labels) - LABELS_MAX), len(labels))]
