"""Keeps the table of the known words of a language, which the kernels of text analysis read.

Promises: a table has a bounded size, and is emptied when it is full: a word costs Python's analysis once for each time
that the table is filled. The classes of characters are those of Python's Unicode database. Safe in threads.
"""

import threading
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tarrafa.index.text_analysis import analyze_token, frequent_terms, is_unspaced, token_entries
from tarrafa.index.word_kernels import (
    FIRST_RECORD,
    FREQUENT,
    FULL,
    HEADER,
    OTHER,
    SEVERAL,
    SPACE,
    SPECIAL,
    TOO_LONG,
    UNKNOWN,
    UNSPACED,
    WORD,
)
from tarrafa.parse.text_kernels import code_point_array, code_points
from tarrafa.runtime.compiled_kernels import CompiledFunction

WORDS_MAX = 1 << 17  # of one language's table
SLOTS = 2 * WORDS_MAX
ARENA_NUMBERS_MAX = 3 << 20  # of 32 bits: 12 MB for each language
STAMP_MAX = (1 << 32) - 1

Functions = Mapping[str, CompiledFunction]
Numbers = NDArray[np.uint32]


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
    return UNSPACED if is_unspaced(character) else WORD if character.isalnum() else OTHER


def _add_classes(characters: Numbers) -> None:
    for number in characters[_classes[characters] == 0].tolist():
        _classes[number] = character_class(chr(number))


_ascii_lower = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class _LastText(NamedTuple):
    text: str
    tokens_max: int
    sequence: Numbers


class WordTable:
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

    def terms(self, text: str, tokens_max: int, functions: Functions) -> tuple[str, str | None, int] | None:
        """The terms of a text, its pairs of frequent terms, and their number. No pairs: a word has several terms,
        and pairs are not found here. None: this text is not for the kernels.
        """
        with self._lock:
            sequence = self._sequence(text, tokens_max, functions)
            if sequence is None:
                return None
            self._last = _LastText(text, tokens_max, sequence)
            room = len(text) + 64
            while True:
                room *= 2
                written = np.empty(2 * room, np.uint8)
                at = written.ctypes.data
                size = functions["write_terms"](*self._input(sequence), at, room, at + room, room, self._results_at)
                if size != FULL:
                    break
            paired, count, several = self._results.tolist()
            terms = str(written.data[:size], "utf-8")
        return terms, None if several else str(written.data[room : room + paired], "utf-8"), count

    def entries(self, title: str, text: str, tokens_max: int, functions: Functions) -> str | None:
        """None: this text is not for the kernels."""
        with self._lock:
            first = self._sequence(title, len(title), functions)
            last = self._last  # forgotten when the table is emptied
            if first is not None and last is not None and (last.text, last.tokens_max) == (text, tokens_max):
                sequence: Numbers | None = np.concatenate((first, last.sequence))
            else:
                sequence = self._sequence(f"{title} {text}", tokens_max + len(title.split()), functions)
            if sequence is None:
                return None
            room = len(text) + 64
            while True:
                room *= 2
                written = np.empty(room, np.uint8)
                size = functions["write_entries"](*self._input(sequence), self._next_stamp(), written.ctypes.data, room)
                if size != FULL:
                    return str(written.data[:size], "utf-8")

    def _input(self, sequence: Numbers) -> tuple[int, int, int, int]:
        return sequence.ctypes.data, len(sequence), self._arena_at, self._arena_at

    def _next_stamp(self) -> int:
        self._stamp = self._stamp % STAMP_MAX + 1
        return self._stamp

    def _sequence(self, text: str, tokens_max: int, functions: Functions) -> Numbers | None:
        """The records of the words of a text, which are added to the table if need be."""
        points = code_points(text)
        if points is None:
            return None
        scan, length, classes_at = functions[f"scan_{points.bits}"], len(text), _classes.ctypes.data
        # Words and ends of tokens together are not more than characters; words of spaced scripts not more than half.
        words_max = length // 2 + 1 if points.bits == 8 else length + 1
        sequence, missing = np.empty(length + 2, np.uint32), np.empty(3 * (words_max + 1), np.uint32)
        written = sequence.ctypes.data, missing.ctypes.data, self._results_at
        is_cleared = False
        while True:
            items = scan(points.content, length, tokens_max, classes_at, *self._known, *written)
            if items == UNKNOWN:
                _add_classes(np.unique(code_point_array(points)))
            elif items == TOO_LONG:
                return None
            elif self._add_missing(text, missing[: 3 * int(self._results[0])].reshape(-1, 3), sequence, functions):
                return sequence[:items]
            elif is_cleared:  # more words than the table holds
                return None
            else:
                self._clear()
                is_cleared = True

    def _add_missing(self, text: str, missing: NDArray[Any], sequence: Numbers, functions: Functions) -> bool:
        """Add words, and put their records into the sequence. False: the table is full."""
        records: dict[str, int] = {}
        for place, start, end in missing.tolist():
            word = text[start:end]
            key = word.lower() if word.isascii() else word.translate(_ascii_lower)
            record = records.get(key, 0) or self._add(key, functions["add"])
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
def word_table(language: str) -> WordTable:
    """The table of a language of analysis: `pt`, `en`, or empty for all others."""
    return WordTable(language)
