"""Normalizes the lines of a text; and the kernels of page texts, compiled by numba: tidy lines, compute fingerprints,
find the main content.

A kernel takes a text as an array of code points: of 8 bits each if the text fits latin-1, of 16 if it fits the Basic
Multilingual Plane, else of 32. numba compiles these functions as they are. The definitions, which are also the Python
way, are `normalize_lines`, `parse.fingerprint` and `parse.main_content`; both ways give the same results.
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
VOTING_BYTES_MAX = (1 << 16) - 2  # of folded text, with a space before and behind it: some ten thousand words
UNKNOWN, FULL = -1, -2  # results of `fingerprint`: a character without an entry; too small a capacity
PLANES = 16  # binary digits of the largest number of voters
LOW_PLANES = 7
RESULTS = 2 + PLANES  # simhash, length without digits, and the votes

# Main content: see `parse.main_content`.
PROSE_CHARS_MIN = 80  # of a line outside a paragraph
PARAGRAPH_CHARS_MIN = 25
BLOCK_CHARS_MIN = 80  # a smaller block is not looked at
SHORT_LINE_WEIGHT = -10
LINK_WEIGHT_MAX = 100  # of one line
NAMED_SHARE_MIN = 0.6  # of the greatest weight: what a block that is named as content needs
ROOT_SHARE_MIN = 0.95  # the same of another block: the smallest such block is the root
PROSE_PAGE_CHARS_MIN = 500  # outside links: with less in the best run, other lines are content, too,
PROSE_PAGE_SHARE_MIN = 0.7  # unless the run has such a share of the page
SHORT_ROOT_SHARE_MIN = 0.8  # of their characters: the smallest such block is then the root
EXCLUDED_SHARE_MAX = 0.5  # of the prose: a part that has more is content, whatever its name
LISTED_LINKS_MIN = 4  # lines of a list that are links
LIST_GAP_CHARS_MAX = 25  # of one line between two links of a list, such as a date
SAMPLE_CHARS_MIN = 60  # of content outside code: less says too little about the page's language

LINK, HEADING, PARAGRAPH, CODE, TABLE, EXCLUDED, CODE_WORDS, BLOCK, NAMED_BLOCK = range(9)  # kinds of spans
# Rows of the array of `divide`: how many links longer than a line, headings, paragraphs, blocks of code, tables and
# excluded parts begin at a line, less those that end there; characters inside links and code words; the flags of a
# line; the weights of all lines before it; where the lines begin and end, before and after the text was normalized; its
# results; and the characters outside links before it.
LINKED, CODED, FLAGS, TOTALS, RAW_STARTS, RAW_ENDS, STARTS, ENDS = range(6, 14)
CONTENT_SPANS, LINK_LIST_SPANS, CODE_SPANS, SAMPLE_SPANS = range(14, 18)
CHARS, ROWS = 18, 19
IS_CODE, IS_EXCLUDED, IS_LINK, IS_CONTENT = 1, 2, 4, 8  # flags

LowPlanes = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]

KERNELS = {
    **{f"tidy_{bits}": Kernel("tidy", f"uint{bits}* int64 uint{bits}* int64") for bits in (8, 16, 32)},
    **{
        f"fingerprint_{bits}": Kernel(
            "fingerprint", f"uint{bits}* int64 int64* int64 uint64* uint8* uint8* int64 uint64* uint64* uint64*"
        )
        for bits in (8, 16, 32)
    },
    **{
        f"find_lines_{bits}": Kernel("find_lines", f"uint{bits}* int64 int64* int64* int64 int64")
        for bits in (8, 16, 32)
    },
    "divide": Kernel("divide", "int64* int64* uint8* int64 int64* int64"),
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


def fingerprint(
    text: list[int],
    length: int,
    spans: list[int],
    span_count: int,
    entries: list[np.uint64],
    long: list[int],
    letters: list[int],
    capacity: int,
    powers: list[np.uint64],
    words: list[np.uint64],
    results: list[np.uint64],
) -> int:
    """Fold a text; write its letters, and from `capacity` on those that are no digits; let the words of its spans vote.
    The number of letters, UNKNOWN or FULL. The spans become those of the folded text."""
    size = place = 0
    for edge in range(2 * span_count + 1):
        end = min(spans[edge], length) if edge < 2 * span_count else length
        size = fold(text, place, end, entries, long, letters, size, capacity)
        if size < 0:
            return size
        if edge < 2 * span_count:
            spans[edge] = size
        place = end
    count = hash_words(letters, spans, span_count, powers, words)
    results[0] = majority(count_votes(words, count, results), results)
    at = plain = 0
    for place in range(size):
        letter = letters[place]
        letters[at] = letter
        at += letter != 32
        letters[capacity + plain] = letter
        plain += letter > 57 or 32 < letter < 48
    results[1] = np.uint64(plain)
    return at


def fold(
    text: list[int],
    start: int,
    end: int,
    entries: list[np.uint64],
    long: list[int],
    folded: list[int],
    at: int,
    capacity: int,
) -> int:
    """Write what the table says of each character; the place behind it, UNKNOWN or FULL.

    The low byte of an entry is one more than the number of bytes; above it stand the bytes, or their place in `long`.
    """
    for place in range(start, end):
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
            first = int(np.int64(entry))
            for number in range(size):
                folded[at + number] = long[first + number]
        at += size
    return at


def hash_words(
    folded: list[int], spans: list[int], span_count: int, powers: list[np.uint64], words: list[np.uint64]
) -> int:
    """Write the hashes of the words of spans, each of which ends a word; their number. A processor cannot foresee where
    a word ends: so nothing branches there, and each letter writes the hash of its word so far."""
    count = voted = 0
    for span in range(span_count):
        size, word = 0, _NOTHING
        for place in range(spans[2 * span], min(spans[2 * span + 1], spans[2 * span] + VOTING_BYTES_MAX - voted)):
            letter = folded[place]
            is_end = letter == 32
            words[count] = word
            count += is_end and size > 0
            size = 0 if is_end else size + 1
            word = _NOTHING if is_end else word + np.uint64(letter) * powers[size]
        words[count] = word
        count += size > 0
        voted = min(VOTING_BYTES_MAX, voted + spans[2 * span + 1] - spans[2 * span] + 1)  # and a line break
    return count


def count_votes(words: list[np.uint64], count: int, results: list[np.uint64]) -> int:
    """Let each pair of words vote, or the only word; the number of voters."""
    low = (_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)
    for number in range(1, count):
        low = vote(words[number - 1] * _PAIR + words[number], low, results)
    if count == 1:
        low = vote(words[0], low, results)
    for plane in range(LOW_PLANES):
        results[2 + plane] = low[plane]
    return max(count - 1, 1) if count else 0


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


# -- main content ------------------------------------------------------------------------------------------------------


def find_lines(
    text: list[int], length: int, starts: list[int], ends: list[int], capacity: int, needs_words: int
) -> int:
    """Write where the lines begin and end that are not empty, or that have more than spaces; return their number."""
    count = line = 0
    is_filled = False
    for place in range(length):
        character = text[place]
        if character == 10:
            if is_filled and count < capacity:
                starts[count], ends[count] = line, place
                count += 1
            line, is_filled = place + 1, False
        elif not is_filled:
            is_filled = not needs_words or not is_space(character)
    if is_filled and count < capacity:
        starts[count], ends[count] = line, length
        count += 1
    return count


def divide(begins: list[int], ends: list[int], kinds: list[int], count: int, rows: list[int], size: int) -> int:
    """Divide a text of so many lines into its parts. The last two numbers of a row of results are not written, but the
    last one is how many numbers stand before."""
    width = size + 2
    place_spans(begins, ends, kinds, count, rows, size)
    weigh_lines(rows, size)
    exclude_lines(begins, ends, kinds, count, rows, size)
    first, end = root_lines(begins, ends, kinds, count, rows, size, ROOT_SHARE_MIN)
    first, end = best_run(rows, size, first, end)
    left_out = IS_EXCLUDED
    count_chars(rows, size)
    prose = rows[CHARS * width + end] - rows[CHARS * width + first]
    if prose < PROSE_PAGE_CHARS_MIN and prose < PROSE_PAGE_SHARE_MIN * rows[CHARS * width + size]:
        for line in range(size + 1):
            rows[TOTALS * width + line] = rows[CHARS * width + line]
        first, end = root_lines(begins, ends, kinds, count, rows, size, SHORT_ROOT_SHARE_MIN)
        left_out = IS_EXCLUDED | IS_LINK
    for line in range(first, end):
        if not rows[FLAGS * width + line] & left_out:
            rows[FLAGS * width + line] |= IS_CONTENT
    write_runs(rows, size, CONTENT_SPANS, IS_CONTENT, IS_CONTENT)
    write_runs(rows, size, CODE_SPANS, IS_CODE, IS_CODE)
    write_link_lists(rows, size)
    if write_runs(rows, size, SAMPLE_SPANS, IS_CONTENT | IS_CODE, IS_CONTENT) < SAMPLE_CHARS_MIN:
        write_runs(rows, size, SAMPLE_SPANS, IS_CODE | IS_EXCLUDED | IS_LINK, 0)
    return 0


def place_spans(begins: list[int], ends: list[int], kinds: list[int], count: int, rows: list[int], size: int) -> None:
    """Replace the places of each span by its first line and the line after it; -1: it does not count."""
    width = size + 2
    starts, line_ends, first = RAW_STARTS * width, RAW_ENDS * width, 0
    for number in range(count):
        begin, end, kind = begins[number], ends[number], kinds[number]
        begins[number] = -1
        if kind == BLOCK and end - begin < BLOCK_CHARS_MIN:
            continue
        if begin >= rows[line_ends + first] or (first and begin < rows[line_ends + first - 1]):
            first = line_after(rows, line_ends, 0, size, begin)
        after = first + 1
        if not rows[starts + first] < end <= rows[line_ends + first]:
            after = line_after(rows, starts, first, size, end - 1)
        if not first < after <= size:  # spaces between two lines, or behind the last one
            continue
        begins[number], ends[number] = first, after
        if kind == LINK and after == first + 1:
            rows[LINKED * width + first] += end - begin
        elif kind == CODE_WORDS:
            rows[CODED * width + first] += end - begin
        elif kind <= TABLE:
            rows[kind * width + first] += 1
            rows[kind * width + after] -= 1


def line_after(rows: list[int], starts: int, low: int, high: int, place: int) -> int:
    """The first line of these that begins behind a place."""
    while low < high:
        middle = (low + high) // 2
        if rows[starts + middle] > place:
            high = middle
        else:
            low = middle + 1
    return low


def weigh_lines(rows: list[int], size: int) -> None:
    """Write the flags of links and code, and the weight of each line, for now in the row of the totals."""
    width = size + 2
    links = headings = paragraphs = codes = tables = 0
    for line in range(size):
        links += rows[LINK * width + line]
        headings += rows[HEADING * width + line]
        paragraphs += rows[PARAGRAPH * width + line]
        codes += rows[CODE * width + line]
        tables += rows[TABLE * width + line]
        length = rows[ENDS * width + line] - rows[STARTS * width + line]
        linked = length if links else rows[LINKED * width + line]
        chars_min = 1 if codes else PARAGRAPH_CHARS_MIN if paragraphs else PROSE_CHARS_MIN
        flags = IS_CODE if codes or 2 * rows[CODED * width + line] > length else 0
        if headings:
            weight = 0
        elif 2 * linked > length:
            weight = SHORT_LINE_WEIGHT - min(length, LINK_WEIGHT_MAX)
            flags |= IS_LINK
        else:
            short_weight = 0 if tables else SHORT_LINE_WEIGHT  # a row of short cells
            weight = length - linked if length - linked >= chars_min else short_weight
        rows[LINKED * width + line] = linked
        rows[FLAGS * width + line] = flags
        rows[TOTALS * width + line] = weight


def exclude_lines(begins: list[int], ends: list[int], kinds: list[int], count: int, rows: list[int], size: int) -> None:
    """Write the flags of lines of parts that are named as no content, and the totals of the weights of the others."""
    width = size + 2
    prose, depths = CONTENT_SPANS * width, EXCLUDED * width  # the row of the results is still unused
    for line in range(size):
        rows[prose + line + 1] = rows[prose + line] + max(0, rows[TOTALS * width + line])
    for number in range(count):
        if kinds[number] == EXCLUDED and begins[number] >= 0:
            first, after = begins[number], ends[number]
            if rows[prose + after] - rows[prose + first] <= EXCLUDED_SHARE_MAX * rows[prose + size]:
                rows[depths + first] += 1
                rows[depths + after] -= 1
    depth = total = 0
    for line in range(size):
        depth += rows[depths + line]
        weight = rows[TOTALS * width + line]
        rows[TOTALS * width + line] = total
        if depth:
            rows[FLAGS * width + line] |= IS_EXCLUDED
        else:
            total += weight
    rows[TOTALS * width + size] = total


def count_chars(rows: list[int], size: int) -> None:
    """Write the totals of the characters outside links, of lines that are neither links nor excluded."""
    width = size + 2
    total = 0
    for line in range(size):
        rows[CHARS * width + line] = total
        if not rows[FLAGS * width + line] & (IS_EXCLUDED | IS_LINK):
            length = rows[ENDS * width + line] - rows[STARTS * width + line]
            total += max(0, length - rows[LINKED * width + line])
    rows[CHARS * width + size] = total


def root_lines(
    begins: list[int], ends: list[int], kinds: list[int], count: int, rows: list[int], size: int, block_share: float
) -> tuple[int, int]:
    """The smallest block that is named as content, or else the smallest of all, with nearly the greatest weight."""
    totals = TOTALS * (size + 2)
    best = rows[totals + size]
    for number in range(count):
        if kinds[number] >= BLOCK and begins[number] >= 0:
            best = max(best, rows[totals + ends[number]] - rows[totals + begins[number]])
    first, end = smallest_block(begins, ends, kinds, count, rows, size, NAMED_BLOCK, NAMED_SHARE_MIN * best)
    if end > size:
        first, end = smallest_block(begins, ends, kinds, count, rows, size, BLOCK, block_share * best)
    return (first, end) if end <= size else (0, size)


def smallest_block(
    begins: list[int],
    ends: list[int],
    kinds: list[int],
    count: int,
    rows: list[int],
    size: int,
    kind: int,
    weight_min: float,
) -> tuple[int, int]:
    """The smallest block of such a kind, or above, that weighs so much; if there is none, it ends behind the text."""
    totals = TOTALS * (size + 2)
    found, found_end = 0, size + 1
    for number in range(count):
        first, after = begins[number], ends[number]
        if kinds[number] >= kind and first >= 0:
            longer = (found_end - found) - (after - first)
            is_smaller = longer > 0 or (longer == 0 and first < found)
            if is_smaller and rows[totals + after] - rows[totals + first] >= weight_min:
                found, found_end = first, after
    return found, found_end


def best_run(rows: list[int], size: int, first: int, end: int) -> tuple[int, int]:
    """The run of lines between these two that weighs most."""
    totals = TOTALS * (size + 2)
    best, start, run_first, run_end = 0, first, first, first
    for line in range(first, end):
        if rows[totals + line] <= rows[totals + start]:
            start = line
        total = rows[totals + line + 1] - rows[totals + start]
        if total > best:
            best, run_first, run_end = total, start, line + 1
    return run_first, run_end


def write_runs(rows: list[int], size: int, row: int, mask: int, value: int) -> int:
    """Write where the runs of lines with such flags are; return the length of their text."""
    width = size + 2
    at, out, length, is_in_run = 0, row * width, 0, False
    for line in range(size + 1):
        matches = line < size and rows[FLAGS * width + line] & mask == value
        if matches != is_in_run:
            is_in_run = matches
            rows[out + at] = rows[STARTS * width + line] - (0 if matches else 1)
            at += 1
            if not matches:
                length += rows[out + at - 1] - rows[out + at - 2] + 1
    rows[out + size + 1] = at
    return length - 1


def write_link_lists(rows: list[int], size: int) -> None:
    """Write where the runs of links outside the content are; one short line may stand between two links."""
    width = size + 2
    at, line, out, flags, starts = 0, 0, LINK_LIST_SPANS * width, FLAGS * width, STARTS * width
    while line < size:
        first, links = line, 0
        while line < size and rows[flags + line] & (IS_LINK | IS_CONTENT) == IS_LINK:
            line, links = line + 1, links + 1
            if line + 1 < size and rows[flags + line] & (IS_LINK | IS_CONTENT) == 0:
                length = rows[ENDS * width + line] - rows[starts + line]
                is_next = rows[flags + line + 1] & (IS_LINK | IS_CONTENT) == IS_LINK
                line += is_next and length <= LIST_GAP_CHARS_MAX
        if links >= LISTED_LINKS_MIN:
            rows[out + at], rows[out + at + 1] = rows[starts + first], rows[starts + line] - 1
            at += 2
        line += links == 0
    rows[out + size + 1] = at
