"""Chooses the snippet of a page and marks the query terms in it.

Promises: plain text of the page, white space normalized, one fragment or two, at most SNIPPET_CHARS_MAX characters and
the gaps; it is not HTML and holds no markers. It comes from the content of the page. Other lines are shown for words
that the content lacks, a menu or a list of links only for words that stand nowhere else, and then behind what the page
is about. `mark_terms` cuts any text into marked and unmarked pieces; the printer escapes each piece.
Two ways with the same result: compiled kernels make the snippets of all hits at once (`snippet_kernels`);
`make_snippet`, the definition, makes one.
Pure. Knows nothing of HTML or of the index. (tantivy's own snippets find no stemmed terms.)
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tarrafa.index.text_analysis import (
    ENGLISH,
    OTHER,
    WORD_PATTERN,
    analyzer_for,
    compose,
    fold,
    has_unspaced,
    is_function_word,
    is_unspaced,
    readings,
    terms_of_language,
    word_spans,
)
from tarrafa.runtime.compiled_kernels import CompiledKernels
from tarrafa.search.snippet_kernels import (
    AFTER,
    BEFORE,
    BEFORE_CHARS,
    FRAGMENT_BEFORE_CHARS,
    FRAGMENT_CHARS_MAX,
    KERNELS,
    LEAD_CHARS_MAX,
    RESULTS,
    SNIPPET_CHARS_MAX,
    SUFFIX_CHARS_MAX,
    TERMS_MAX,
)

GAP = "…"
PLACES_MAX = 500  # of one prefix: a long page may hold a frequent word ten thousand times

FOUND_MAX = 400  # numbers that the kernel writes for each part of a page; with more, the Python way is taken
NUMBER_BYTES = 8

SIGNS = ENGLISH + OTHER  # of languages, at the end of terms
kernels = CompiledKernels("tarrafa.search.snippet_kernels", KERNELS)
MarkedPieces = list[tuple[str, bool]]
TermPlace = tuple[int, str]  # where a wanted word begins, and its term

_word_at, _words = WORD_PATTERN.match, WORD_PATTERN.finditer
_sentence_start = re.compile(r"(?:^|\n|[.!?:]\s|[。！？])(?=\S)").search
_space, _no_space = re.compile(r"\s").search, re.compile(r"\S").search
_NO_LETTERS_FROM, _NO_LETTERS_TO = 0x2000, 0x2BFF  # punctuation and symbols, with some letters among them
_ODD = "".join(letter for letter in map(chr, range(_NO_LETTERS_FROM, _NO_LETTERS_TO + 1)) if _word_at(letter))
_IS_SIGN = np.zeros(1 << 16, np.bool_)
_IS_SIGN[_NO_LETTERS_FROM : _NO_LETTERS_TO + 1] = True
_IS_SIGN[list(map(ord, _ODD))] = False
_foreign = re.compile(f"[\u0100-\u1fff{_ODD}\u2c00-\U0010ffff]").search  # letters that are not Western


class SnippetSource(NamedTuple):
    """The (composed) text of a page: its content, then its other lines, then what it shares with other pages or only
    lists. `description`: what the page says of itself.
    """

    text: str
    content_chars: int
    own_chars: int
    description: str = ""

    @classmethod
    def of_content(cls, text: str) -> "SnippetSource":
        return cls(text, len(text), len(text))

    @property
    def own_parts(self) -> list[str]:
        """The content and the other lines, as far as there are any."""
        several = self.text[: self.content_chars], self.text[self.content_chars : self.own_chars]
        return [part for part in several if part]


def make_snippets(
    pages: Sequence[tuple[SnippetSource, str]], wanted: frozenset[str], otherwise: frozenset[str] = frozenset()
) -> list[str]:
    """The snippets of several pages, each with its language."""
    made: dict[int, str] = {}
    for language in {language for _, language in pages} if wanted else ():
        made |= _made_at_once({at: page for at, (page, own) in enumerate(pages) if own == language}, wanted, language)
    return [made.get(at) or make_snippet(*page, wanted, otherwise) for at, page in enumerate(pages)]


def make_snippet(
    page: SnippetSource, language: str, wanted: frozenset[str], otherwise: frozenset[str] = frozenset()
) -> str:
    """The part of the page with the most different wanted terms, the earliest of equals; two shorter parts, if they
    hold more of them. Without any, the same with secondary terms, then the description, then the beginning.
    """
    for terms in filter(None, (wanted, otherwise)):
        parts = [(part, found) for part in page.own_parts if (found := _places(part, terms, language))]
        if parts:
            return _fragments(parts)
        template = page.text[page.own_chars :]
        if template and (found := _places(template, terms, language)):
            line = _excerpt(template, _best_window(found, _SHORT), _SHORT)
            return _joined(_beginning(page, _SHORT), line) if page.own_chars else line
    return _beginning(page, _WHOLE)


def _beginning(page: SnippetSource, width: "_Width") -> str:
    """What the page says of itself, else the beginning of its content."""
    return _excerpt(page.description or page.text[: page.content_chars] or page.text, _NOTHING, width)


class _Width(NamedTuple):
    chars: int
    before: int  # of these, before the first wanted term


class _Window(NamedTuple):
    """A part of a text that begins with a wanted term and ends with one, and the terms in it."""

    start: int
    end: int
    terms: frozenset[str]


_NOTHING = _Window(0, 0, frozenset())
_WHOLE, _SHORT = _Width(SNIPPET_CHARS_MAX, BEFORE_CHARS), _Width(FRAGMENT_CHARS_MAX, FRAGMENT_BEFORE_CHARS)
_FoundPart = tuple[str, list[TermPlace]]  # of the page, with the places of the wanted terms in it


def _fragments(parts: list[_FoundPart]) -> str:
    """One fragment of the first part; or two, of any parts, if they hold more of the wanted terms."""
    text, found = parts[0]
    whole = _best_window(found, _WHOLE)
    missing = {term for _, places in parts for _, term in places}.difference(whole.terms)
    if not missing:
        return _excerpt(text, whole, _WHOLE)
    first = _best_window([place for place in found if whole.start <= place[0] < whole.end], _SHORT)
    missing |= whole.terms - first.terms
    second_text, second = text, _NOTHING
    for other, places in parts:
        lacking = [place for place in places if place[1] in missing]
        window = _best_window(lacking if len(missing) > 1 else lacking[:1], _SHORT)
        if len(window.terms) > len(second.terms):
            second_text, second = other, window
    if len(first.terms | second.terms) <= len(whole.terms):
        return _excerpt(text, whole, _WHOLE)
    several = [(text, first), (second_text, second)]
    if second_text is text and second.start < first.start:
        several.reverse()
    return _joined(*(_excerpt(one, window, _SHORT) for one, window in several))


def _joined(first: str, second: str) -> str:
    return f"{first.removesuffix(f' {GAP}')} {GAP} {second.removeprefix(f'{GAP} ')}"


def _places(text: str, wanted: frozenset[str], language: str) -> list[TermPlace]:
    """The positions of the wanted terms. Only the words of a Western text with the prefix of a wanted term are
    analysed, and terms of a script without spaces are looked for as they are.
    """
    if unspaced := _unspaced_terms(wanted, language):
        others = frozenset(term for term in wanted if term.rstrip(SIGNS) not in unspaced)
        return sorted([*_unspaced_places(text, unspaced), *(_places(text, others, language) if others else ())])
    starts = _starts_of(wanted, language)
    plain = _western(text) if starts else None
    if starts is None or (starts and plain is None):
        return _by_every_word(text, wanted, language)
    found, term, find = list[TermPlace](), analyzer_for(language), (b" %b " % (plain or b"")).find
    for start in starts:
        at, most = find(start), PLACES_MAX
        while at >= 0 and most:
            end = find(b" ", at + 1)  # the text begins one byte later here
            one = term(text[at : end - 1])
            if one in wanted:
                found.append((at, one))
            at, most = find(start, end), most - 1
    return sorted(found)


@lru_cache(100)
def _unspaced_terms(wanted: frozenset[str], language: str) -> frozenset[str]:
    """The terms of scripts without spaces, without signs."""
    return frozenset(filter(is_unspaced, terms_of_language(wanted, language)))


def _unspaced_places(text: str, terms: Iterable[str]) -> Iterator[TermPlace]:
    for term in terms:
        at, most = text.find(term), PLACES_MAX
        while at >= 0 and most:
            yield at, term
            at, most = text.find(term, at + 1), most - 1


def _western(text: str) -> bytes | None:
    """The text in one byte per character: the folded letter, or a space. None: there are other letters."""
    try:
        return text.encode("latin-1").translate(_FOLDED)
    except UnicodeEncodeError:
        return None if _foreign(text) else text.encode("latin-1", "replace").translate(_FOLDED)


# -- all hits at once --------------------------------------------------------------------------------------------------


class _Sought(NamedTuple):
    """What the kernels look for: `tables` of letters, the beginnings, where each of them ends, how many they are; and
    the wanted terms with their numbers, and their lengths.
    """

    tables: bytes
    beginnings: bytes
    ends: bytes
    beginnings_count: int
    numbers: dict[str, int]
    lengths: bytes


class _WesternTexts(NamedTuple):
    """The own parts of each page; all in a row; the same with a byte for each character; the same as code points, of 16
    bits if these bytes do not tell them apart.
    """

    parts_of: dict[int, list[str]]
    content: str
    text: bytes
    points: bytes


def _made_at_once(pages: dict[int, SnippetSource], wanted: frozenset[str], language: str) -> dict[int, str]:
    """The snippets of Western pages of one language whose own parts hold a wanted term."""
    compiled = kernels.get()
    sought = _sought(wanted, language) if compiled is not None else None
    if compiled is None or sought is None:
        return {}
    parts_of, content, text, points = _western_texts(pages)
    parts = [part for several in parts_of.values() for part in several]
    bounds = array("q", accumulate([len(part) + 1 for part in parts], initial=1)).tobytes()
    page_ends = array("q", accumulate(map(len, parts_of.values()))).tobytes()
    tables, beginnings, ends, count, numbers, lengths = sought
    most = FOUND_MAX * len(parts)
    buffer = np.empty(2 * most, np.int64)
    results = buffer.ctypes.data
    found, head = results + NUMBER_BYTES * most, count + len(parts)
    words = compiled["find_words"](
        text, bounds, len(parts), tables, beginnings, ends, count, PLACES_MAX, results, found, most
    )
    if words <= 0:
        return {}
    term, places = analyzer_for(language), iter(buffer[most + head : most + head + 2 * words].tolist())
    terms = array("q", [numbers.get(term(content[start:end]), -1) for start, end in zip(places, places, strict=True)])
    word_ends, starts = found + NUMBER_BYTES * count, found + NUMBER_BYTES * head
    choose = compiled["choose_8" if text is points else "choose_16"]
    choose(points, bounds, page_ends, len(parts_of), starts, word_ends, terms.buffer_info()[0], lengths, results)
    rows, made = iter(buffer[: RESULTS * len(parts_of)].tolist()), dict[int, str]()
    for at, *row in zip(parts_of, *[rows] * RESULTS, strict=True):
        fragments, first, second = row[0], row[1:4], row[4:]
        if fragments:
            line = _fragment(content, *first)
            made[at] = line if fragments == 1 else _joined(line, _fragment(content, *second))
    return made


def _western_texts(pages: dict[int, SnippetSource]) -> _WesternTexts:
    parts_of = {at: parts for at, page in pages.items() if (parts := page.own_parts)}
    content = _in_a_row(parts_of)
    with suppress(UnicodeEncodeError):
        text = content.encode("latin-1")
        return _WesternTexts(parts_of, content, text, text)
    if not _are_signs(content):
        parts_of = {at: parts for at, parts in parts_of.items() if not any(map(_foreign, parts))}
        content = _in_a_row(parts_of)
    return _WesternTexts(parts_of, content, content.encode("latin-1", "replace"), content.encode("utf-16-le"))


def _are_signs(text: str) -> bool:
    """Whether all characters beyond Latin-1 are punctuation and symbols: half the time of `_foreign`."""
    points = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)
    return bool(_IS_SIGN[points[points > 0xFF]].all())


def _in_a_row(parts_of: dict[int, list[str]]) -> str:
    """All parts, with the spaces between and around them that the kernels need."""
    return f" {' '.join([part for parts in parts_of.values() for part in parts])}  "


def _fragment(text: str, start: int, end: int, flags: int) -> str:
    words = " ".join(text[start:end].split())
    return f"{GAP + ' ' if flags & BEFORE else ''}{words}{' ' + GAP if flags & AFTER else ''}"


@lru_cache(100)
def _sought(wanted: frozenset[str], language: str) -> _Sought | None:
    """None: bytes cannot decide whether a word is wanted, or none is."""
    starts = _starts_of(wanted, language)
    if not starts or len(wanted) > TERMS_MAX or _unspaced_terms(wanted, language):
        return None
    beginnings, first, second = [start[1:] for start in starts], bytearray(256), bytearray(256)
    for number, start in enumerate(beginnings):
        first[start[0]] |= 1 << number % 8
        for letter in start[1:2] or range(256):
            second[letter] |= 1 << number % 8
    ends, lengths = array("q", accumulate(map(len, beginnings))), array("q", map(len, wanted))
    numbers = {term: number for number, term in enumerate(wanted)}
    tables = b"".join((_FOLDED, _ENDS, _FOLDED.translate(first), _FOLDED.translate(second)))
    return _Sought(tables, b"".join(beginnings), ends.tobytes(), len(beginnings), numbers, lengths.tobytes())


# -- one text ----------------------------------------------------------------------------------------------------------


def _by_every_word(text: str, wanted: frozenset[str], language: str) -> list[TermPlace]:
    term = analyzer_for(language)
    words = ((word.start(), term(word[0])) for word in _words(text))
    return [place for place in words if place[1] in wanted]


@lru_cache(100)
def _starts_of(wanted: frozenset[str], language: str) -> list[bytes] | None:
    """The prefixes, after a space, of words of this language with these terms; None, if bytes cannot decide that: they
    have no signs (`c++`), and no letters beyond ASCII.
    """
    starts = list[str]()
    for start in sorted(start for one in terms_of_language(wanted, language) for start in _starts(one)):
        if not starts or not start.startswith(starts[-1]):  # else it is found with the shorter one before it
            starts.append(start)
    decide = all(start.isascii() and start.isalnum() for start in starts)
    return [f" {start}".encode() for start in starts] if decide else None


@lru_cache(10_000)
def _starts(term: str) -> list[str]:
    """The prefixes of words with this term: the term without its last letter, which stemming may have added (`função`
    and `funções` are `funca`); but `uns` stands for `um`, and `dying` for `die`. Only two letters are certain where one
    character may fold to two (`ß`), or to one that is no byte.
    """
    start = term[:-1] if term.isascii() and "ss" not in term else ""
    first, second = term[:1], term[1:2]
    if len(start) > 2:
        return [start]
    return [term[:2], *(first + other for own, other in (("m", "n"), ("i", "y")) if own == second)]


def _folded() -> bytes:
    """For each Western character its folded letter or digit, or a space."""
    folded = [fold(chr(code)) if _word_at(chr(code)) else " " for code in range(256)]
    return bytes(ord(one[0]) if one and one[0].isascii() else 0xFF for one in folded)


_FOLDED = _folded()
_ENDS = bytes(letter == ord(" ") for letter in _FOLDED)


def _best_window(found: list[TermPlace], width: _Width) -> _Window:
    """The part with the most different wanted terms, then with the most of them."""
    if not found:
        return _NOTHING
    after, count = width.chars - width.before, len(found)
    last, term = found[-1]
    if count == 1 or last + len(term) <= found[0][0] + after:
        return _Window(found[0][0], last + len(term), frozenset([one for _, one in found]))
    ends = [place + len(one) for place, one in found]
    first = until = most = right = different = 0
    inside = dict.fromkeys([one for _, one in found], 0)
    for left, (place, one) in enumerate(found):
        limit = place + after
        while right < count and ends[right] <= limit:
            term = found[right][1]
            if not inside[term]:
                different += 1
            inside[term] += 1
            right += 1
        value = different * count + right - left
        if value > most:
            first, until, most = left, right, value
        if right == count:
            break  # what follows holds less
        if right > left:
            inside[one] -= 1
            if not inside[one]:
                different -= 1
    return _Window(found[first][0], ends[until - 1], frozenset([one for _, one in found[first:until]]))


def _excerpt(text: str, window: _Window, width: _Width) -> str:
    """The text around a window, from the beginning of its sentence if that is near, cut between words where there are
    spaces.
    """
    place = window.start
    lead = min(LEAD_CHARS_MAX, width.chars - SUFFIX_CHARS_MAX - (window.end - place))
    start = max(0, min(place - width.before, len(text) - width.chars))
    if sentence := _sentence_start(text, max(0, min(place - lead, len(text) - width.chars)), place + 1):
        start = sentence.end()
    end = start + width.chars
    if start and not text[start - 1].isspace():
        space = _space(text, start, place)
        start = space.end() if space and not has_unspaced(text[start : space.start()]) else start
    words = " ".join(text[start:end].split())
    if end < len(text) and not text[end].isspace():
        whole, _, cut = words.rpartition(" ")
        words = words if has_unspaced(cut) else whole or words
    before = start and _no_space(text, 0, start)
    return f"{GAP + ' ' if before else ''}{words}{' ' + GAP if _no_space(text, end) else ''}"


def marked_terms(texts: list[str]) -> frozenset[str]:
    """The terms that are marked for these words and phrases: without function words, unless there are no others."""
    return terms_of_texts([text for text in texts if not is_function_word(text)] or texts)


def terms_of_texts(texts: Iterable[str]) -> frozenset[str]:
    """All terms of words and phrases, in any language."""
    return frozenset(term for text in texts for reading in readings(text) for term in reading)


def mark_terms(text: str, wanted: frozenset[str], language: str) -> MarkedPieces:
    """The text in pieces, each with whether it is a wanted word. Joined, they are the (composed) text."""
    text = compose(text)
    term, pieces, at = analyzer_for(language), MarkedPieces(), 0
    spans = [(start, end) for start, end in word_spans(text) if term(text[start:end]) in wanted]
    if unspaced := _unspaced_terms(wanted, language):
        spans = _joined_runs(text, [*spans, *((at, at + len(one)) for at, one in _unspaced_places(text, unspaced))])
    for start, end in spans:
        if start > at:
            pieces.append((text[at:start], False))
        pieces.append((text[start:end], True))
        at = end
    if at < len(text):
        pieces.append((text[at:], False))
    return pieces


def _joined_runs(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order; those of unspaced letters that overlap or adjoin are one."""
    found = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if found and start <= found[-1][1] and is_unspaced(text[found[-1][1] - 1]) and is_unspaced(text[start]):
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
