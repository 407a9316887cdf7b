"""Computes content ids (exact duplicates) and simhashes (near duplicates) of texts.

Promises: `content_id` depends on the words of a text only, not on its markup, accents, case, punctuation or spacing;
texts that share most of their word pairs have simhashes that differ in few bits. Both are the same on every machine.
Knows nothing of HTML or URLs.
"""

import re
import sys
import unicodedata
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from tarrafa.model import Page
from tarrafa.parse.text_kernels import (
    ENTRY_BYTES_MAX,
    FOLDED_BYTES_MAX,
    RESULTS,
    UNKNOWN,
    VOTING_BYTES_MAX,
    CodePoints,
    code_point_array,
    code_points,
    kernels,
)
from tarrafa.runtime.compiled_kernels import CompiledFunction

FOLDED_LENGTH_MAX = 1 << 20  # characters; a longer text is compared by its beginning
CONTENT_CHARS_MIN = 600  # some 100 words: a shorter content of a page is not compared by itself
LONG_BYTES_MAX = 1 << 17  # of all characters that become more than seven bytes, such as most of Hangul

Spans = Sequence[tuple[int, int]]

_DIGITS_AND_SPACE = b"0123456789 "

_not_word = re.compile(r"[^\w\s]|_")
_white = re.compile(r"\s")
_mark = re.compile("[\u0300-\u036f\u0483-\u0487\u0591-\u05c2\u064b-\u065f\u1ab0-\u1aff\u20d0-\u20f0]+")
# Common characters of Latin texts beyond latin-1: dashes, curly quotes, ellipses, bullets, the euro sign. No white
# space.
_typography = re.compile("[\u200b-\u2027\u2030-\u205e\u2060-\u2064\u20ac]+")


class Fingerprints(NamedTuple):
    """`wording`: the hash of a text's letters, digits aside; pages of a calendar have the same."""

    content_id: str
    simhash: int
    wording: int


def page_fingerprints(title: str, text: str, content_spans: Spans) -> Fingerprints:
    """The fingerprints of a page: pages are the same by all of their text, and similar by their content, if it is long
    enough."""
    whole, start = f"{title}\n{text}", len(title) + 1
    content_chars = sum(after - first + 1 for first, after in content_spans) - 1  # with a line break between two spans
    if content_chars < CONTENT_CHARS_MIN:
        return compute_fingerprints(whole)
    return _compute(whole, ((0, len(title)), *((start + first, start + after) for first, after in content_spans)))


def compared_id(page: Page, change: str) -> str:
    """The id by which a page has changed or not: of its text, or with `change` = "content" of its main content, if that
    is long enough. The content as the page itself shows it, whatever was learned of the host: the same bytes give the
    same id."""
    if change == "text" or len(page.content) < CONTENT_CHARS_MIN:
        return page.content_id
    return compute_fingerprints(f"{page.title}\n{page.content}", has_simhash=False).content_id


def compute_fingerprints(text: str, *, has_simhash: bool = True) -> Fingerprints:
    """The fingerprints of a text. Without a simhash, that is 0."""
    return _compute(text, ((0, len(text)),) if has_simhash else ())


def _compute(text: str, voting: Spans) -> Fingerprints:
    """The fingerprints of a text, by compiled kernels if there are any; its simhash is that of the text of spans, one
    in each line."""
    text = text[:FOLDED_LENGTH_MAX]
    compiled = kernels.get()
    points = code_points(text) if compiled else None
    if compiled is None or points is None:
        return _fingerprints_of(fold(text), fold("\n".join(text[start:end] for start, end in voting)))
    return _compute_compiled(points, len(text), voting, compiled)


def _fingerprints_of(folded: bytes, voting: bytes) -> Fingerprints:
    """The definition, and the Python way."""
    wording = xxh3_64_intdigest(folded.translate(None, _DIGITS_AND_SPACE))
    return Fingerprints(content_id(folded), simhash(voting), wording)


def _compute_compiled(
    points: CodePoints, length: int, voting: Spans, compiled: Mapping[str, CompiledFunction]
) -> Fingerprints:
    table, compute, capacity = _fold_table(), compiled[f"fingerprint_{points.bits}"], 2 * length + FOLDED_BYTES_MAX
    while True:
        spans = array("q", chain.from_iterable(voting))  # the kernel changes them
        letters, results = np.empty(2 * capacity, np.uint8), array("Q", bytes(8 * RESULTS))
        count = compute(
            points.content,
            length,
            spans.buffer_info()[0],
            len(voting),
            *table.addresses,
            letters.ctypes.data,
            capacity,
            *_SCRATCH,
            results.buffer_info()[0],
        )
        if count >= 0:
            content = xxh3_128_hexdigest(letters.data[:count]) if count else ""
            plain = letters.data[capacity : capacity + results[1]]
            return Fingerprints(content, results[0], xxh3_64_intdigest(plain))
        if count == UNKNOWN:
            present = np.unique(code_point_array(points))
            table.add(present[table.entries[present] == 0].tolist())
        else:
            capacity = FOLDED_BYTES_MAX * (length + 1)


class _FoldTable:
    """`_fold_any` for single characters, for the kernel: a text is folded as its characters are. Entries are made when
    a text needs them; what is not needed takes no memory.
    """

    def __init__(self) -> None:
        self.entries = np.zeros(sys.maxunicode + 1, np.uint64)
        self.long = np.zeros(LONG_BYTES_MAX, np.uint8)
        self.addresses = self.entries.ctypes.data, self.long.ctypes.data
        self._long_at = 0

    def add(self, characters: Iterable[int]) -> None:
        for number in characters:
            word = _fold_any(chr(number))
            assert len(word) <= FOLDED_BYTES_MAX
            content = int.from_bytes(word, "little") if len(word) <= ENTRY_BYTES_MAX else self._add_long(word)
            self.entries[number] = content << 8 | len(word) + 1

    def _add_long(self, word: bytes) -> int:
        place, self._long_at = self._long_at, self._long_at + len(word)
        self.long[place : self._long_at] = np.frombuffer(word, np.uint8)
        return place


@cache
def _fold_table() -> _FoldTable:
    table = _FoldTable()
    table.add(range(0x180))
    return table


def fold(text: str) -> bytes:
    """The words of a text without accents, case and punctuation, and the spaces between them.

    A text that fits latin-1, typography aside (nearly all Portuguese and English), is folded by one table look-up per
    byte: 40 times faster than through the Unicode database and with the same result.
    """
    text = text[:FOLDED_LENGTH_MAX]
    try:
        latin = text.encode("latin-1")
    except UnicodeEncodeError:
        try:
            latin = _typography.sub("", text).encode("latin-1")
        except UnicodeEncodeError:
            return _fold_any(text)
    folded = latin.translate(_LATIN, _LATIN_DELETED)
    if not folded.isascii():
        for byte, word in _LATIN_LONG:
            folded = folded.replace(byte, word)
    return folded


def _fold_any(text: str) -> bytes:
    """The definition: compatibility decomposition, no marks, case folded, only letters and digits kept."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return _white.sub(" ", _not_word.sub("", _mark.sub("", plain))).encode("utf-8", "replace")


def _latin_tables() -> tuple[bytes, bytes, tuple[tuple[bytes, bytes], ...]]:
    """`_fold_any` for each character of latin-1: a table, the characters that vanish, and those that become more than a
    byte.

    The last ones go through a placeholder byte above 0xD0, which occurs in none of the words that they become.
    """
    table, deleted = bytearray(256), bytearray()
    longer: list[tuple[bytes, bytes]] = []
    for number in range(256):
        word = _fold_any(chr(number))
        if len(word) == 1:
            table[number] = word[0]
        elif word:
            table[number] = 0xD0 + len(longer)
            longer.append((bytes([table[number]]), word))
        else:
            deleted.append(number)
    return bytes(table), bytes(deleted), tuple(longer)


_LATIN, _LATIN_DELETED, _LATIN_LONG = _latin_tables()


def content_id(folded: bytes) -> str:
    """32 hex digits that change when the words change; empty for a text without words, which equals no other text.

    Spaces do not count: where one line ends and the next begins is markup.
    """
    letters = folded.translate(None, b" ")
    digest: str = xxh3_128_hexdigest(letters) if letters else ""
    return digest


# Simhash (Charikar 2002; Manku et al. 2007 for the Web): each pair of adjacent words votes, with the 64 bits of its
# hash, for or against each bit of the fingerprint. Hashing 600 pairs one by one would cost more than parsing the page,
# so all words are hashed at once: with K odd, prefix sums of byte[i] * K^i modulo 2^64 give the polynomial hash of any
# stretch as (sum at its end - sum at its start) * K^-start, and half of murmur3's finaliser spreads it over the bits.
# Known weakness: texts of a few words have few voters, so small changes flip many bits; and anyone who wants two texts
# to collide can construct them.
_K: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1
_PAIR = np.uint64(0xD6E8FEB86659FD93)
_FINAL, _SHIFT = np.uint64(0xFF51AFD7ED558CCD), np.uint64(33)
_SPACE: Final = ord(" ")


def _powers(factor: int) -> npt.NDArray[np.uint64]:
    powers = np.full(VOTING_BYTES_MAX + 2, factor & _MASK, dtype=np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


_POWERS, _INVERSES = _powers(_K), _powers(pow(_K, -1, 1 << 64))
_WORDS = np.empty(VOTING_BYTES_MAX // 2 + 2, np.uint64)  # hashes, during a call of the kernel, which keeps the GIL
_SCRATCH = _POWERS.ctypes.data, _WORDS.ctypes.data


def simhash(folded: bytes) -> int:
    """64 bits, most of which are equal for similar texts; 0 for a text without words."""
    hashes = _pair_hashes(folded[:VOTING_BYTES_MAX])
    voters = len(hashes)
    if not voters:
        return 0
    bits = np.unpackbits(hashes.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    # One byte for each bit of each voter; eight of them are added at a time, in blocks that cannot overflow a byte. (A
    # matrix product takes as long, but would start the threads of BLAS in every worker.)
    blocks = np.add.reduceat(bits.view(np.uint64).reshape(voters, 8), np.arange(0, voters, 255), axis=0)
    votes = blocks.view(np.uint8).reshape(-1, 64).sum(axis=0, dtype=np.uint32)
    return int.from_bytes(np.packbits(votes * 2 > voters, bitorder="little").tobytes(), "little")


def _pair_hashes(folded: bytes) -> npt.NDArray[np.uint64]:
    """The hash of each pair of adjacent words, or of the only word."""
    text = np.frombuffer(b" " + folded + b" ", dtype=np.uint8)
    is_space = text == _SPACE
    edges = (is_space[1:] != is_space[:-1]).nonzero()[0]  # in turn the space before a word and its last letter
    sums = (text * _POWERS[: len(text)]).cumsum()[edges]
    words: npt.NDArray[np.uint64] = (sums[1::2] - sums[0::2]) * _INVERSES[edges[0::2]]
    hashes = words[:-1] * _PAIR + words[1:] if len(words) > 1 else words
    hashes ^= hashes >> _SHIFT
    hashes *= _FINAL
    hashes ^= hashes >> _SHIFT
    return hashes
