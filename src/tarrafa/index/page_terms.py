"""Terms, pairs of frequent terms and vocabulary of a page's text, by compiled kernels where there are any.

Promises: the results are those of `text_analysis` and `frequent_words`, which are the Python way, too; only the order
of vocabulary entries may differ. The table of known words of a language has a bounded size, and is emptied when it is
full: a word costs Python's analysis once for each time that the table is filled. Short texts take the Python way, which
is done before a kernel is called. Knows nothing of tantivy.
"""

import threading
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tarrafa.index.frequent_words import frequent_pairs, frequent_terms
from tarrafa.index.text_analysis import (
    analyze,
    analyze_token,
    language_of_analysis,
    token_entries,
    vocabulary_entries,
)
from tarrafa.index.word_kernels import (
    FIRST_RECORD,
    FREQUENT,
    FULL,
    HEADER,
    KERNELS,
    OTHER,
    SEVERAL,
    SPACE,
    SPECIAL,
    TOO_LONG,
    UNKNOWN,
    WORD,
)
from tarrafa.parse.text_layout import code_point_array, code_points
from tarrafa.runtime.compiled_kernels import CompiledFunction, CompiledKernels

COMPILED_CHARS_MIN = 400  # a shorter text takes the Python way
WORDS_MAX = 1 << 17  # of one language's table
SLOTS = 2 * WORDS_MAX
ARENA_NUMBERS_MAX = 3 << 20  # of 32 bits: 12 MB for each language
STAMP_MAX = (1 << 32) - 1

kernels = CompiledKernels("tarrafa.index.word_kernels", KERNELS)
Compiled = Mapping[str, CompiledFunction]
Numbers = NDArray[np.uint32]


class PageTerms(NamedTuple):
    """The terms of a text and its pairs of frequent terms, both joined by spaces, and the number of terms."""

    terms: str
    pairs: str
    terms_count: int


def page_terms(text: str, language: str, tokens_max: int) -> PageTerms:
    compiled = kernels.get() if len(text) >= COMPILED_CHARS_MIN else None
    if compiled is not None and (found := _table(language_of_analysis(language)).terms(text, tokens_max, compiled)):
        return found
    return _page_terms(analyze(text, language, tokens_max))


def _page_terms(joined: str) -> PageTerms:
    terms = joined.split()
    return PageTerms(joined, " ".join(frequent_pairs(terms)), len(terms))


def page_vocabulary(title: str, text: str, language: str, tokens_max: int) -> str:
    """The different words of a title and of so many tokens of a text as vocabulary entries, joined by spaces. After
    `page_terms` of the same text it is cheap.
    """
    compiled = kernels.get() if len(text) >= COMPILED_CHARS_MIN else None
    if compiled is not None:
        found = _table(language_of_analysis(language)).entries(title, text, tokens_max, compiled)
        if found is not None:
            return found
    return vocabulary_entries(f"{title} {text}", tokens_max + len(title.split()))


# The class of each character that has occurred; what is not needed takes no memory.
_classes: NDArray[np.uint8] = np.zeros(0x110000, np.uint8)


def character_class(character: str) -> int:
    """A special character may change when it is composed, or change its neighbour: marks, parts of Hangul syllables,
    and letters that have another composed form. A token without special characters is composed already.
    """
    if character.isspace():
        return SPACE
    is_part = unicodedata.category(character).startswith("M") or "\u1100" <= character <= "\u11ff"
    if is_part or unicodedata.normalize("NFC", character) != character:
        return SPECIAL
    return WORD if character.isalnum() else OTHER


def _add_classes(characters: Numbers) -> None:
    for number in characters[_classes[characters] == 0].tolist():
        _classes[number] = character_class(chr(number))


_ascii_lower = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class _LastText(NamedTuple):
    text: str
    tokens_max: int
    sequence: Numbers


class _WordTable:
    """The known words of one language."""

    def __init__(self, language: str) -> None:
        self._language, self._lock = language, threading.Lock()
        self._slots, self._arena = np.zeros(SLOTS, np.uint32), np.zeros(ARENA_NUMBERS_MAX, np.uint32)
        self._arena_at = self._arena.ctypes.data
        self._known = self._slots.ctypes.data, SLOTS - 1, self._arena_at
        self._results = np.zeros(3, np.int64)
        self._results_at = self._results.ctypes.data
        self._stamp = 0
        self._clear()

    def _clear(self) -> None:
        self._slots.fill(0)
        self._end, self.words = FIRST_RECORD, 0
        self._last: _LastText | None = None

    @property
    def bytes_used(self) -> int:
        return 4 * self._end

    def terms(self, text: str, tokens_max: int, compiled: Compiled) -> PageTerms | None:
        """None: this text is not for the kernels."""
        with self._lock:
            sequence = self._sequence(text, tokens_max, compiled)
            if sequence is None:
                return None
            self._last = _LastText(text, tokens_max, sequence)
            room = len(text) + 64
            while True:
                room *= 2
                written = np.empty(2 * room, np.uint8)
                at = written.ctypes.data
                size = compiled["write_terms"](*self._input(sequence), at, room, at + room, room, self._results_at)
                if size != FULL:
                    break
            paired, count, several = self._results.tolist()
            terms = str(written.data[:size], "utf-8")
        if several:
            return _page_terms(terms)
        return PageTerms(terms, str(written.data[room : room + paired], "utf-8"), count)

    def entries(self, title: str, text: str, tokens_max: int, compiled: Compiled) -> str | None:
        """None: this text is not for the kernels."""
        with self._lock:
            first = self._sequence(title, len(title), compiled)
            last = self._last  # forgotten when the table is emptied
            if first is not None and last is not None and (last.text, last.tokens_max) == (text, tokens_max):
                sequence: Numbers | None = np.concatenate((first, last.sequence))
            else:
                sequence = self._sequence(f"{title} {text}", tokens_max + len(title.split()), compiled)
            if sequence is None:
                return None
            room = len(text) + 64
            while True:
                room *= 2
                written = np.empty(room, np.uint8)
                size = compiled["write_entries"](*self._input(sequence), self._next_stamp(), written.ctypes.data, room)
                if size != FULL:
                    return str(written.data[:size], "utf-8")

    def _input(self, sequence: Numbers) -> tuple[int, int, int, int]:
        return sequence.ctypes.data, len(sequence), self._arena_at, self._arena_at

    def _next_stamp(self) -> int:
        self._stamp = self._stamp % STAMP_MAX + 1
        return self._stamp

    def _sequence(self, text: str, tokens_max: int, compiled: Compiled) -> Numbers | None:
        """The records of the words of a text, which are added to the table if need be."""
        points = code_points(text)
        if points is None:
            return None
        scan, length, classes_at = compiled[f"scan_{points.bits}"], len(text), _classes.ctypes.data
        # Words and ends of tokens together are not more than characters; words not more than half of them.
        sequence, missing = np.empty(length + 2, np.uint32), np.empty(3 * (length // 2 + 2), np.uint32)
        written = sequence.ctypes.data, missing.ctypes.data, self._results_at
        is_cleared = False
        while True:
            items = scan(points.content, length, tokens_max, classes_at, *self._known, *written)
            if items == UNKNOWN:
                _add_classes(np.unique(code_point_array(points)))
            elif items == TOO_LONG:
                return None
            elif self._add_missing(text, missing[: 3 * int(self._results[0])].reshape(-1, 3), sequence, compiled):
                return sequence[:items]
            elif is_cleared:  # more words than the table holds
                return None
            else:
                self._clear()
                is_cleared = True

    def _add_missing(self, text: str, missing: NDArray[Any], sequence: Numbers, compiled: Compiled) -> bool:
        """Add words, and put their records into the sequence. False: the table is full."""
        records: dict[str, int] = {}
        for place, start, end in missing.tolist():
            word = text[start:end]
            key = word.lower() if word.isascii() else word.translate(_ascii_lower)
            record = records.get(key, 0) or self._add(key, compiled["add"])
            if not record:
                return False
            records[key] = sequence[place] = record
        return True

    def _add(self, word: str, add: CompiledFunction) -> int:
        """Add a word; its record. 0: the table is full."""
        terms, entries = analyze_token(word, self._language), token_entries(word)
        flags = FREQUENT if terms in frequent_terms() else SEVERAL if " " in terms else 0
        term, entry = terms.encode(), entries.encode()
        record, size = self._end, HEADER + len(word) + (len(term) + len(entry) + 3) // 4
        if record + size > ARENA_NUMBERS_MAX or self.words == WORDS_MAX:
            return 0
        self.words += 1
        key = word.encode("utf-32-le")
        self._end = add(
            key, len(word), term + entry, len(term), len(entry), flags, *self._known, self._arena_at, record
        )
        return record


@cache
def _table(language: str) -> _WordTable:
    return _WordTable(language)
