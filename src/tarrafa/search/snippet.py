"""Chooses the snippet of a page and marks the query terms in it.

Promises: plain text out of the page's own text, white space evened out, at most SNIPPET_CHARS_MAX characters; it is
not HTML and holds no markers. `marked` cuts any text into pieces that are to be marked or not, for whoever prints it:
the printer escapes each piece. Pure. Knows nothing of HTML or of the index. (tantivy's own snippets find nothing on
stems.)
"""

import re
from functools import lru_cache

from tarrafa.index.text_analysis import analyzer_for, compose, fold, terms_of_language, word_spans

SNIPPET_CHARS_MAX = 240
BEFORE_CHARS = 40  # of the page, before the first wanted word
GAP = "…"
PLACES_MAX = 500  # of words that begin alike: a long page may hold a frequent word ten thousand times

MarkedPieces = list[tuple[str, bool]]
TermPlace = tuple[int, str]  # where a wanted word begins, and its term

_word_at, _words = re.compile(r"[^\W_]+").match, re.compile(r"[^\W_]+").finditer
_space = re.compile(r"\s").search
_NO_LETTERS_FROM, _NO_LETTERS_TO = 0x2000, 0x2BFF  # punctuation and symbols, with some letters among them
_ODD = "".join(letter for letter in map(chr, range(_NO_LETTERS_FROM, _NO_LETTERS_TO + 1)) if _word_at(letter))
_foreign = re.compile(f"[\u0100-\u1fff{_ODD}\u2c00-\U0010ffff]").search  # letters, and not Western ones


def make_snippet(text: str, wanted: frozenset[str], language: str, otherwise: frozenset[str] = frozenset()) -> str:
    """The stretch of the (composed) text with the most different wanted words in it, the earliest of equals; if there
    are none, with those that are wanted otherwise."""
    found = _places(text, wanted, language) or _places(text, otherwise, language)
    return _excerpt(text, _best_place(found))


def _places(text: str, wanted: frozenset[str], language: str) -> list[TermPlace]:
    """Where the wanted words stand. Few words of a Western text are analysed: those that begin as a wanted one may."""
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


def _western(text: str) -> bytes | None:
    """One byte for each character: the letter that it is folded to, or a space. None: there are other letters."""
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
    """How words of this language with these terms may begin, after a space; None, if that cannot be told by bytes."""
    starts = list[str]()
    for start in sorted(start for one in terms_of_language(wanted, language) for start in _starts(one)):
        if not starts or not start.startswith(starts[-1]):  # else it is found with the shorter one, which stands before
            starts.append(start)
    return [f" {start}".encode() for start in starts] if all(map(str.isascii, starts)) else None


def _starts(term: str) -> list[str]:
    """How words with this term may begin: as it does without its last letter, which may have come with a stem (`função`
    and `funções` are `funca`); but `uns` stands for `um`, and `dying` for `die`. Only two letters are sure where there
    may be one for two (`ß`), or one that is no byte."""
    start = term[:-1] if term.isascii() and "ss" not in term else ""
    first, second = term[:1], term[1:2]
    if len(start) > 2:
        return [start]
    return [term[:2], *(first + other for own, other in (("m", "n"), ("i", "y")) if own == second)]


def _folded() -> bytes:
    """For each Western character the letter or digit that its word is folded to at that place, or a space."""
    folded = [fold(chr(code)) if _word_at(chr(code)) else " " for code in range(256)]
    return bytes(ord(one[0]) if one and one[0].isascii() else 0xFF for one in folded)


_FOLDED = _folded()


def _best_place(found: list[TermPlace]) -> int:
    """Where the stretch begins that holds the most different wanted terms, then the most of them."""
    best, best_value, right = 0, (0, 0), 0
    inside: dict[str, int] = {}
    width = SNIPPET_CHARS_MAX - BEFORE_CHARS
    for left, (place, one) in enumerate(found):
        while right < len(found) and found[right][0] + len(found[right][1]) <= place + width:
            inside[found[right][1]] = inside.get(found[right][1], 0) + 1
            right += 1
        value = (len(inside), right - left)
        if value > best_value:
            best, best_value = place, value
        if right > left:
            inside[one] -= 1
            if not inside[one]:
                del inside[one]
    return best


def _excerpt(text: str, place: int) -> str:
    """What is around this place, cut between words where there are spaces."""
    start, end = max(0, place - BEFORE_CHARS), max(0, place - BEFORE_CHARS) + SNIPPET_CHARS_MAX
    if start and not text[start - 1].isspace():
        space = _space(text, start, place)
        start = space.end() if space else start
    words = " ".join(text[start:end].split())
    if end < len(text) and not text[end].isspace():
        words = words.rpartition(" ")[0] or words
    return f"{GAP + ' ' if text[:start].strip() else ''}{words}{' ' + GAP if text[end:].strip() else ''}"


def mark_terms(text: str, wanted: frozenset[str], language: str) -> MarkedPieces:
    """The text in pieces, each with whether it is a wanted word. Put together, they are the (composed) text."""
    text = compose(text)
    term, pieces, at = analyzer_for(language), [], 0
    for start, end in word_spans(text):
        if term(text[start:end]) in wanted:
            if start > at:
                pieces.append((text[at:start], False))
            pieces.append((text[start:end], True))
            at = end
    if at < len(text):
        pieces.append((text[at:], False))
    return pieces
