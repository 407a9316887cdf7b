"""Normalizes the lines of a text; and the kernels of page texts, compiled by numba: tidy lines, fold a text, count the
votes of a simhash.

`tidy` and `fold` take a text as an array of code points: of 8 bits each if the text fits latin-1, of 16 if it fits the
Basic Multilingual Plane, else of 32. numba compiles these functions as they are. The definitions, which are also the
Python way, are `normalize_lines` and `parse.fingerprint`; both ways give the same text.
Known weakness: compiled, they have no bounds checks. Before each write stands a comparison with the capacity that the
caller gave, or no more is written than was read. Tests run them with bounds checks, too.
Knows nothing of HTML.
"""

import re
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tarrafa.runtime.compiled_kernels import CompiledKernels, Kernel

TEXT_LENGTH_MAX = 500_000

FOLDED_BYTES_MAX = 33  # of one character: U+FDFA
ENTRY_BYTES_MAX = 7  # that an entry of the table holds; of longer words it holds the place
UNKNOWN, FULL = -1, -2  # results of `fold`: a character without an entry; too small a capacity
PLANES = 16  # binary digits of the largest number of voters
LOW_PLANES = 7
RESULTS = 2 + PLANES  # simhash, length without digits, and the votes

LowPlanes = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]

KERNELS = {
    **{f"tidy_{bits}": Kernel("tidy", f"uint{bits}* int64 uint{bits}* int64") for bits in (8, 16, 32)},
    **{f"fold_{bits}": Kernel("fold", f"uint{bits}* int64 uint64* uint8* uint8* int64") for bits in (8, 16, 32)},
    "count_votes": Kernel("count_votes", "uint8* int64 int64 uint64* uint8* uint8* uint64*"),
}

_PAIR, _FINAL = np.uint64(0xD6E8FEB86659FD93), np.uint64(0xFF51AFD7ED558CCD)
_NOTHING, _ONE, _BYTE, _8, _33 = np.uint64(0), np.uint64(1), np.uint64(255), np.uint64(8), np.uint64(33)

_spaces = re.compile(r"[^\S\n]+")

kernels = CompiledKernels("tarrafa.parse.text_kernels", KERNELS)


class CodePoints(NamedTuple):
    """The characters of a text as numbers of 8, 16 or 32 bits."""

    content: bytes
    bits: int


_CODECS = {8: "latin-1", 16: "utf-16-le", 32: "utf-32-le"}


def code_points(text: str) -> CodePoints | None:
    """The code points of a text; None if it has surrogates, which no codec takes.

    Python holds a text with as many bits as its widest character needs, and encodes it with as many by copying memory;
    the size of the object only says what to try first.
    """
    length, size = len(text), sys.getsizeof(text)
    try:
        if size < 2 * length:
            return CodePoints(text.encode("latin-1"), 8)
    except UnicodeEncodeError:
        pass
    try:
        if size < 4 * length and len(content := text.encode("utf-16-le")) == 2 * length:
            return CodePoints(content, 16)
        return CodePoints(text.encode("utf-32-le"), 32)
    except UnicodeEncodeError:
        return None


def code_point_array(points: CodePoints) -> npt.NDArray[Any]:
    return np.frombuffer(points.content, f"<u{points.bits // 8}")


def normalize_lines(text: str) -> tuple[str, bool]:
    """One line for each block, no empty lines, one space between words; and whether more is left out."""
    compiled = kernels.get()
    points = code_points(text[: 2 * TEXT_LENGTH_MAX]) if compiled else None
    if compiled is None or points is None:
        return _normalize_lines(text)
    tidied = np.empty(len(points.content) or 1, np.uint8)
    length = len(points.content) * 8 // points.bits
    kept = compiled[f"tidy_{points.bits}"](points.content, length, tidied.ctypes.data, TEXT_LENGTH_MAX)
    is_cut = kept < 0 or len(text) > 2 * TEXT_LENGTH_MAX
    kept = ~kept if kept < 0 else kept
    return str(tidied.data[: kept * points.bits // 8], _CODECS[points.bits]), is_cut


def _normalize_lines(text: str) -> tuple[str, bool]:
    """The definition, and the Python way."""
    is_cut = len(text) > 2 * TEXT_LENGTH_MAX
    text = text[: 2 * TEXT_LENGTH_MAX].replace("\xa0", " ")
    text = "\n".join(filter(None, map(str.strip, text.split("\n"))))
    if "  " in text or "\t" in text:
        text = _spaces.sub(" ", text)
    return text[:TEXT_LENGTH_MAX].rstrip(), is_cut or len(text) > TEXT_LENGTH_MAX


# -- kernels ----------------------------------------------------------------------------------------------------------


def is_space(character: int) -> bool:
    """What `str.isspace` says."""
    if character <= 32:
        return character == 32 or 9 <= character <= 13 or character >= 28
    if character < 0x1680:
        return character in (0x85, 0xA0)
    if character < 0x2000:
        return character == 0x1680
    if character <= 0x205F:
        return character <= 0x200A or character in (0x2028, 0x2029, 0x202F, 0x205F)
    return character == 0x3000


def tidy(text: list[int], length: int, tidied: list[int], length_max: int) -> int:
    """Write the tidied text, which is never longer, and return its length, or -1 minus it if it is cut."""
    at = line = end = 0  # in `tidied`: the next place, the start of the line, the end of its last word
    is_wide = has_wide = False  # spaces that make one of themselves: since the last word; in the text
    for place in range(length):
        character = text[place]
        if not is_space(character):
            if at != end:
                has_wide = has_wide or is_wide
                is_wide = False
            tidied[at] = character
            at += 1
            end = at
        elif character == 10:
            at = end
            if end > line:
                tidied[at] = 10
                at += 1
            line = end = at
            is_wide = False
        elif at > line:
            if character == 0xA0:
                character = 32
            is_wide = is_wide or character == 9 or (character == 32 and at > end and tidied[at - 1] == 32)
            tidied[at] = character
            at += 1
    if has_wide:
        end = collapse_spaces(tidied, end)
    is_cut = end > length_max
    end = min(end, length_max)
    while end > 0 and is_space(tidied[end - 1]):
        end -= 1
    return -1 - end if is_cut else end


def collapse_spaces(tidied: list[int], length: int) -> int:
    """Write one space for each run of white space in a line; the new length."""
    at, is_in_run = 0, False
    for place in range(length):
        character = tidied[place]
        if character != 10 and is_space(character):
            if not is_in_run:
                tidied[at] = 32
                at += 1
            is_in_run = True
        else:
            tidied[at] = character
            at += 1
            is_in_run = False
    return at


def fold(
    text: list[int], length: int, entries: list[np.uint64], long: list[int], folded: list[int], capacity: int
) -> int:
    """Write what the table says of each character; the number of bytes, UNKNOWN or FULL.

    The low byte of an entry is one more than the number of bytes; above it stand the bytes, or their place in `long`.
    """
    at = 0
    for place in range(length):
        if at + FOLDED_BYTES_MAX > capacity:
            return FULL
        entry = entries[text[place]]
        size = int(np.int64(entry & _BYTE)) - 1
        entry >>= _8
        if size <= 1:
            if size < 0:
                return UNKNOWN
            folded[at] = int(entry & _BYTE)
        elif size <= ENTRY_BYTES_MAX:
            for number in range(size):
                folded[at + number] = int(entry & _BYTE)
                entry >>= _8
        else:
            start = int(np.int64(entry))
            for number in range(size):
                folded[at + number] = long[start + number]
        at += size
    return at


def count_votes(
    folded: list[int],
    length: int,
    length_voting: int,
    powers: list[np.uint64],
    letters: list[int],
    without_digits: list[int],
    results: list[np.uint64],
) -> int:
    """Write the letters of a folded text with and without digits, and its simhash; return the number of letters."""
    at = plain = words = size = 0
    word = previous = _NOTHING
    low = (_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)
    for place in range(length):
        letter = folded[place]
        if letter == 32:
            if size:
                words, previous, low = end_word(words, previous, word, low, results)
                size, word = 0, _NOTHING
            continue
        letters[at] = letter
        at += 1
        without_digits[plain] = letter
        plain += letter < 48 or letter > 57
        if place < length_voting:
            size += 1
            word += np.uint64(letter) * powers[size]
        elif size:
            words, previous, low = end_word(words, previous, word, low, results)
            size, word = 0, _NOTHING
    if size:
        words, previous, low = end_word(words, previous, word, low, results)
    if words == 1:
        low = vote(previous, low, results)
    for plane in range(LOW_PLANES):
        results[2 + plane] = low[plane]
    results[0] = majority(max(words - 1, 1) if words else 0, results)
    results[1] = np.uint64(plain)
    return at


def end_word(
    words: int, previous: np.uint64, word: np.uint64, low: LowPlanes, results: list[np.uint64]
) -> tuple[int, np.uint64, LowPlanes]:
    """Let a word vote, with the one before it; the number of words, the last word, and the votes."""
    if words:
        low = vote(previous * _PAIR + word, low, results)
    return words + 1, word, low


def vote(number: np.uint64, low: LowPlanes, results: list[np.uint64]) -> LowPlanes:
    """Add one to the counter of each bit that is set. Plane by plane of binary digits: all 64 counters at once.

    Nearly every vote is carried through the low planes, one in four beyond: `low` stays in registers.
    """
    number ^= number >> _33
    number *= _FINAL
    number ^= number >> _33
    a, b, c, d, e, f, g = low
    a, number = a ^ number, a & number
    b, number = b ^ number, b & number
    c, number = c ^ number, c & number
    d, number = d ^ number, d & number
    e, number = e ^ number, e & number
    f, number = f ^ number, f & number
    g, number = g ^ number, g & number
    plane = 2 + LOW_PLANES
    while number:
        results[plane], number = results[plane] ^ number, results[plane] & number
        plane += 1
    return a, b, c, d, e, f, g


def majority(voters: int, results: list[np.uint64]) -> np.uint64:
    """The bits for which more than half have voted."""
    found = _NOTHING
    for bit in range(64):
        votes = 0
        for plane in range(PLANES):
            votes += int(np.int64((results[2 + plane] >> np.uint64(bit)) & _ONE)) << plane
        if votes * 2 > voters:
            found |= _ONE << np.uint64(bit)
    return found
