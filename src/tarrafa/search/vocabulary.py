"""Vocabulary of an index in memory: looks words up by prefix and by edit distance.

Promises: at most WORDS_MAX words, the most frequent ones, in some 100 bytes each. They are read from the index in the
background, letter by letter: no search waits longer than its own limit, and none is delayed by more than the conversion
of one letter's words to Python (PER_LETTER_MAX, some 15 ms). They are read again at the first request after a commit,
but never more often than every RENEWAL_S_MIN, and never for more than one part in REST_TIMES of the time. So a word may
be missing or outdated here for some minutes; exact answers come from the index. Knows nothing of queries. Known
weakness: scripts beyond ALPHABETS (they write no spaces) are not covered.
"""

import atexit
import threading
import time
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from tarrafa.errors import DataError
from tarrafa.index.reader import IndexSnapshot
from tarrafa.index.text_analysis import entry_parts, fold

WORDS_MAX = 300_000
PER_LETTER_MAX = 40_000
RENEWAL_S_MIN = 60.0
REST_TIMES = 100
ALPHABETS = range(0x30, 0x1000)  # Latin, Greek, Cyrillic, Hebrew, Arabic, those of India
LETTERS = [letter for letter in map(chr, ALPHABETS) if letter.isalnum() and fold(letter) == letter]
LAST_CHARACTER = "\U0010ffff"  # sorts after every word with the prefix

Now = Callable[[], float]


class KnownWord(NamedTuple):
    """A word in its most frequent spelling, and the number of documents that hold it in any spelling."""

    word: str
    documents: int


@dataclass(frozen=True, slots=True)
class _WordsOfLength:
    """The folded words of one length, sorted."""

    folded: list[str]
    written: list[str]
    documents: NDArray[np.int32]
    letters: NDArray[np.uint32]  # the set of letters of each word, one bit per letter


class IndexVocabulary:
    """An immutable vocabulary."""

    def __init__(self, letters: Iterable[Iterable[tuple[str, int]]], words_max: int = WORDS_MAX) -> None:
        """From the entries of the index, letter by letter: folded and written words, each with its documents."""
        several = [_merged(entries) for entries in letters]
        least = _least(np.concatenate([np.zeros(1, np.int32), *(counts for _, _, counts in several)]), words_max)
        by_length: dict[int, tuple[list[str], list[str], list[int]]] = {}
        room = words_max
        for folded, written, counts in several:
            kept = np.flatnonzero(counts >= least)[:room].tolist()
            room -= len(kept)
            for place in kept:
                word = folded[place]
                columns = by_length.get(len(word))
                if columns is None:
                    columns = by_length[len(word)] = ([], [], [])
                columns[0].append(word)
                columns[1].append(written[place])
                columns[2].append(counts[place])
        self._by_length = {length: _words_of_length(*columns) for length, columns in by_length.items()}

    def __len__(self) -> int:
        return sum(len(words.folded) for words in self._by_length.values())

    @property
    def documents_max(self) -> int:
        """The document frequency of the most frequent word."""
        return max((int(words.documents.max()) for words in self._by_length.values()), default=0)

    def lookup(self, folded: str) -> KnownWord:
        """Look up a word by its folded form; an unknown word is in no document."""
        words = self._by_length.get(len(folded))
        if words is not None:
            place = bisect_left(words.folded, folded)
            if place < len(words.folded) and words.folded[place] == folded:
                return KnownWord(words.written[place], int(words.documents[place]))
        return KnownWord(folded, 0)

    def count_with_prefix(self, beginning: str) -> int:
        """The number of words with this prefix."""
        return sum(last - first for _, first, last in self._ranges(beginning))

    def with_prefix(self, beginning: str, limit: int) -> list[KnownWord]:
        """The most frequent words with this prefix."""
        found: list[tuple[int, str, str]] = []
        for words, first, last in self._ranges(beginning):
            counts = words.documents[first:last]
            places = np.argsort(-counts, kind="stable")[:limit] + first
            found += ((int(words.documents[place]), words.folded[place], words.written[place]) for place in places)
        found.sort(key=lambda one: (-one[0], one[1]))
        return [KnownWord(word, documents) for documents, _, word in found[:limit]]

    def similar(self, folded: str, distance_max: int) -> Iterator[tuple[str, KnownWord, int]]:
        """The words within this many changes (a letter inserted, deleted or replaced, or two adjacent letters
        exchanged), each folded, as written, and with the number of changes; the word itself is not included.

        A change adds or removes at most two different letters: that alone excludes most words.
        """
        bits = _letters(folded)
        for length in range(len(folded) - distance_max, len(folded) + distance_max + 1):
            words = self._by_length.get(length)
            if words is None:
                continue
            apart = np.bitwise_count(words.letters ^ bits)
            places = np.flatnonzero(apart <= 2 * distance_max)
            choices = [words.folded[place] for place in places]
            if not choices:
                continue
            rows = process.cdist([folded], choices, scorer=OSA.distance, score_cutoff=distance_max, dtype=np.uint8)
            for row in np.flatnonzero(rows[0] <= distance_max):
                place = places[row]
                known = KnownWord(words.written[place], int(words.documents[place]))
                yield choices[row], known, int(rows[0][row])

    def _ranges(self, beginning: str) -> Iterator[tuple[_WordsOfLength, int, int]]:
        for length, words in self._by_length.items():
            if length >= len(beginning):
                first = bisect_left(words.folded, beginning)
                last = bisect_left(words.folded, beginning + LAST_CHARACTER, first)
                if first < last:
                    yield words, first, last


def _merged(entries: Iterable[tuple[str, int]]) -> tuple[list[str], list[str], NDArray[np.int32]]:
    """The folded words, sorted, with the most frequent spelling and the document frequency in any spelling."""
    most: dict[str, tuple[int, str]] = {}
    together: dict[str, int] = {}
    for entry, documents in entries:
        folded, word = entry_parts(entry)
        if folded not in together:
            most[folded], together[folded] = (documents, word), documents
        else:
            most[folded] = max(most[folded], (documents, word))
            together[folded] += documents
    order = sorted(together)
    return order, [most[folded][1] for folded in order], np.array([together[folded] for folded in order], np.int32)


def _least(documents: NDArray[np.int32], most: int) -> int:
    """The document frequency that a word needs to be among the most frequent ones."""
    return int(np.partition(documents, -most)[-most]) if len(documents) > most else 0


def _words_of_length(folded: list[str], words: list[str], counts: list[int]) -> _WordsOfLength:
    """The sets of letters of all words at once: a bit per letter, by the last five bits of its code."""
    codes = np.array(folded).view(np.uint32).reshape(len(folded), -1)
    letters = np.bitwise_or.reduce(np.uint32(1) << (codes & np.uint32(31)), axis=1)
    return _WordsOfLength(folded, words, np.array(counts, np.int32), letters)


def _letters(word: str) -> int:
    bits = 0
    for letter in word:
        bits |= 1 << (ord(letter) & 31)
    return bits


class VocabularyCache:
    """Holds the newest vocabulary, and starts the reading of the next one."""

    def __init__(self, words_max: int = WORDS_MAX, now: Now = time.monotonic) -> None:
        self._words_max, self._now = words_max, now
        self._newest: IndexVocabulary | None = None
        self._of: IndexSnapshot | None = None  # the snapshot that it was read from
        self._not_before = float("-inf")
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._reader: threading.Thread | None = None

    def newest(self, snapshot: IndexSnapshot, patience_s: float) -> IndexVocabulary | None:
        """A vocabulary of this commit or an earlier one; None, if none is ready in time."""
        with self._lock:
            is_reading = self._reader is not None and self._reader.is_alive()
            if not is_reading and snapshot is not self._of and self._now() >= self._not_before:
                self._reader = threading.Thread(target=self._read, args=(snapshot,), name="reads words", daemon=True)
                _READERS.add(self._reader)
                self._reader.start()
        if self._newest is None:
            self._ready.wait(patience_s)
        return self._newest

    def _read(self, snapshot: IndexSnapshot) -> None:
        started = self._now()
        try:
            vocabulary = IndexVocabulary(read_words(snapshot), self._words_max)
        except DataError:  # the index is being rebuilt: retry later
            vocabulary = self._newest or IndexVocabulary(())
        took_s = self._now() - started
        self._newest, self._of = vocabulary, snapshot
        self._not_before = self._now() + max(RENEWAL_S_MIN, REST_TIMES * took_s)
        self._ready.set()


def read_words(snapshot: IndexSnapshot) -> Iterator[list[tuple[str, int]]]:
    """The entries of the index, letter by letter: tantivy releases Python's lock while it reads, the conversion does
    not.
    """
    for letter in LETTERS:
        if _ENDING.is_set():
            return
        yield snapshot.vocabulary_entries(letter, PER_LETTER_MAX)


_READERS: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()
_ENDING = threading.Event()


@atexit.register
def _end() -> None:
    """A thread that returns from tantivy while Python shuts down would crash the process."""
    _ENDING.set()
    for reader in list(_READERS):
        reader.join()
