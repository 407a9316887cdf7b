"""Chooses the snippet of a page and marks the query terms in it.

Promises: plain text of the page, white space normalized, one fragment or two, at most SNIPPET_CHARS_MAX characters and
the gaps; it is not HTML and holds no markers. It comes from the content of the page. Other lines are shown for words
that the content lacks, a menu or a list of links only for words that stand nowhere else, and then behind what the page
is about. `mark_terms` cuts any text into marked and unmarked pieces; the printer escapes each piece.
Pure. Knows nothing of HTML or of the index. (tantivy's own snippets find no stemmed terms.)
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

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

SNIPPET_CHARS_MAX = 240
BEFORE_CHARS = 40  # of the page, before the first wanted term
FRAGMENT_CHARS_MAX = 118  # of one of two fragments
FRAGMENT_BEFORE_CHARS = 25
LEAD_CHARS_MAX = 90  # of the sentence before the first wanted term, if all wanted terms still fit
SUFFIX_CHARS_MAX = 12  # by which a word is longer than its term
GAP = "…"
PLACES_MAX = 500  # of one prefix: a long page may hold a frequent word ten thousand times

SIGNS = ENGLISH + OTHER  # of languages, at the end of terms
MarkedPieces = list[tuple[str, bool]]
TermPlace = tuple[int, str]  # where a wanted word begins, and its term

_word_at, _words = WORD_PATTERN.match, WORD_PATTERN.finditer
_sentence_start = re.compile(r"(?:^|\n|[.!?:]\s|[。！？])(?=\S)").search
_space, _no_space = re.compile(r"\s").search, re.compile(r"\S").search
_NO_LETTERS_FROM, _NO_LETTERS_TO = 0x2000, 0x2BFF  # punctuation and symbols, with some letters among them
_ODD = "".join(letter for letter in map(chr, range(_NO_LETTERS_FROM, _NO_LETTERS_TO + 1)) if _word_at(letter))
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


def make_snippet(
    page: SnippetSource, wanted: frozenset[str], language: str, otherwise: frozenset[str] = frozenset()
) -> str:
    """The part of the page with the most different wanted terms, the earliest of equals; two shorter parts, if they
    hold more of them. Without any, the same with secondary terms, then the description, then the beginning.
    """
    content, other = page.text[: page.content_chars], page.text[page.content_chars : page.own_chars]
    for terms in filter(None, (wanted, otherwise)):
        parts = [(part, found) for part in (content, other) if part and (found := _places(part, terms, language))]
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
