"""Kernels of text analysis, compiled by numba: cut a text into words, look them up in a table, write their terms.

The table is an arena of 32-bit numbers with one record for each word, and slots that name the records by the hash of
the word (open addressing: the next free slot is taken). A record is a header, the word's code points with ASCII letters
in lower case, and its term and vocabulary entry in UTF-8. `scan` makes a *sequence* of a text: the records of its
words, with END_OF_TOKEN between tokens, and a list of the words that are in no record. numba compiles these functions
as they are; `word_table` keeps the table, `text_analysis` has the Python way.
Known weakness: compiled, they have no bounds checks. Before each write stands a comparison with the capacity that the
caller gave, or no more is written than was read. Tests run them with bounds checks, too.
"""

from tarrafa.runtime.compiled_kernels import Kernel

# Classes of characters; 0: unknown. A token with a special one is one word; each two adjacent unspaced ones are a word.
SPACE, WORD, OTHER, SPECIAL, UNSPACED = 1, 2, 4, 8, 16
END_OF_TOKEN = 1  # in a sequence; no record begins there
FIRST_RECORD = 2
HASH, KEY_LENGTH, TERM_BYTES, ENTRY_BYTES, FLAGS, STAMP, HEADER = range(7)  # of a record
FREQUENT, SEVERAL = 1, 2  # flags: the term is frequent; there are several terms
KEY_LENGTH_MAX = 255  # characters
UNKNOWN, TOO_LONG, FULL = -1, -2, -3  # results: a character without a class; too long a word; too small a capacity

_SCAN = "uint{}* int64 int64 uint8* uint32* int64 uint32* uint32* uint32* int64*"
KERNELS = {
    **{f"scan_{bits}": Kernel("scan", _SCAN.format(bits)) for bits in (8, 16, 32)},
    "add": Kernel("add", "uint32* int64 uint8* int64 int64 int64 uint32* int64 uint32* uint8* int64"),
    "write_terms": Kernel("write_terms", "uint32* int64 uint32* uint8* uint8* int64 uint8* int64 int64*"),
    "write_entries": Kernel("write_entries", "uint32* int64 uint32* uint8* int64 uint8* int64"),
}

_SPACE, _NUMBER_SIGN, _PLUS, _PAIR_BOUND, _FILLER = 32, 35, 43, 95, 124


def lower(character: int) -> int:
    return character + 32 if 65 <= character <= 90 else character + 0


def hash_word(text: list[int], start: int, end: int) -> int:
    """FNV-1a over code points, 32 bits."""
    found = 2166136261
    for place in range(start, end):
        found = (found ^ lower(text[place])) * 16777619 & 0xFFFFFFFF
    return found


def find(text: list[int], start: int, end: int, slots: list[int], mask: int, arena: list[int]) -> int:
    """The record of a word; 0: none."""
    number = hash_word(text, start, end)
    slot = number & mask
    while slots[slot] != 0:
        record = slots[slot] + 0
        if arena[record + HASH] == number and arena[record + KEY_LENGTH] == end - start:
            place = start
            while place < end and arena[record + HEADER + place - start] == lower(text[place]):
                place += 1
            if place == end:
                return record
        slot = (slot + 1) & mask
    return 0


def next_word(text: list[int], start: int, end: int, classes: list[int]) -> tuple[int, int]:
    """Start and end of the first word in a part of the text; twice the end: none."""
    while start < end and classes[text[start]] != WORD:
        start += 1
    stop = start
    while stop < end and classes[text[stop]] == WORD:
        stop += 1
    return start, stop + signs_after(text, start, stop, end, classes)


def next_of_both(text: list[int], start: int, end: int, classes: list[int]) -> tuple[int, int, int]:
    """The same where there are unspaced letters, too; and where to go on: the next two begin with the second of two."""
    while start < end and classes[text[start]] & (WORD | UNSPACED) == 0:
        start += 1
    if start == end or classes[text[start]] == WORD:
        start, stop = next_word(text, start, end, classes)
        return start, stop, stop
    stop = start + 1
    if stop < end and classes[text[stop]] == UNSPACED:
        stop += 1
    goes_on = stop - start == 2 and stop < end and classes[text[stop]] == UNSPACED
    return start, stop, stop - 1 if goes_on else stop


def signs_after(text: list[int], start: int, stop: int, end: int, classes: list[int]) -> int:
    """How many signs after a word belong to it: those of C++ and C#."""
    if stop in (start, end):
        return 0
    sign, signs = text[stop] + 0, 0
    if sign == _PLUS and stop + 1 < end and text[stop + 1] == _PLUS:
        signs = 2
    elif sign == _NUMBER_SIGN and stop == start + 1:
        signs = 1
    after = stop + signs
    if signs and after < end and (classes[text[after]] == WORD or text[after] == sign):
        return 0
    return signs


def scan(
    text: list[int],
    length: int,
    tokens_max: int,
    classes: list[int],
    slots: list[int],
    mask: int,
    arena: list[int],
    sequence: list[int],
    missing: list[int],
    results: list[int],
) -> int:
    """Write the sequence of a text and return its length. `missing` receives three numbers for each word without a
    record: its place in the sequence, its start and its end; results[0] their number.
    """
    at = place = tokens = misses = 0
    while True:
        while place < length and classes[text[place]] == SPACE:
            place += 1
        start, seen = place, 0
        while place < length and classes[text[place]] != SPACE:
            if classes[text[place]] == 0:
                return UNKNOWN
            seen |= classes[text[place]]
            place += 1
        if place == start or tokens == tokens_max:
            break
        if tokens > 0:
            sequence[at] = END_OF_TOKEN
            at += 1
        tokens += 1
        end = place
        while start < end:
            if seen & UNSPACED and not seen & SPECIAL:
                start, stop, after = next_of_both(text, start, end, classes)
            else:
                start, stop = (start, end) if seen & SPECIAL else next_word(text, start, end, classes)
                after = stop
            if stop - start > KEY_LENGTH_MAX:
                return TOO_LONG
            if stop > start:
                record = find(text, start, stop, slots, mask, arena)
                if record == 0:
                    missing[3 * misses] = at
                    missing[3 * misses + 1] = start
                    missing[3 * misses + 2] = stop
                    misses += 1
                sequence[at] = record
                at += 1
            start = after
    results[0] = misses
    return at


def add(
    word: list[int],
    length: int,
    content: list[int],
    term_bytes: int,
    entry_bytes: int,
    flags: int,
    slots: list[int],
    mask: int,
    arena: list[int],
    arena_bytes: list[int],
    record: int,
) -> int:
    """Write the record of a word that has none; `content` is its term, then its entry. Return the end of the record.
    The caller has left room for it, and free slots.
    """
    number = hash_word(word, 0, length)
    slot = number & mask
    while slots[slot] != 0:
        slot = (slot + 1) & mask
    slots[slot] = record
    arena[record + HASH] = number
    arena[record + KEY_LENGTH] = length
    arena[record + TERM_BYTES] = term_bytes
    arena[record + ENTRY_BYTES] = entry_bytes
    arena[record + FLAGS] = flags
    arena[record + STAMP] = 0
    at = record + HEADER
    for place in range(length):
        arena[at + place] = lower(word[place])
    at += length
    for place in range(term_bytes + entry_bytes):
        arena_bytes[4 * at + place] = content[place]
    return at + (term_bytes + entry_bytes + 3) // 4


def copy(source: list[int], start: int, length: int, target: list[int], at: int) -> int:
    for place in range(length):
        target[at + place] = source[start + place]
    return at + length


def write_terms(
    sequence: list[int],
    length: int,
    arena: list[int],
    arena_bytes: list[int],
    terms: list[int],
    terms_max: int,
    pairs: list[int],
    pairs_max: int,
    results: list[int],
) -> int:
    """Write the terms of a sequence, joined by spaces, and the pairs of adjacent frequent terms with a filler between
    two runs of them. results: bytes of pairs, number of terms, whether a word has several. Return the bytes of terms.
    """
    at = paired = count = several = previous = 0
    is_inner = goes_on = False  # the token has a term already; the last two terms are a pair
    for item in range(length):
        record = sequence[item] + 0
        size = arena[record + TERM_BYTES] + 0 if record != END_OF_TOKEN else 0
        if at + size + 2 > terms_max:
            return FULL
        if record == END_OF_TOKEN or (is_inner and size):
            terms[at] = _SPACE
            at += 1
        is_inner = record != END_OF_TOKEN and (is_inner or size > 0)
        if size == 0:
            continue
        start = 4 * (record + HEADER + arena[record + KEY_LENGTH])
        at = copy(arena_bytes, start, size, terms, at)
        count += 1
        several |= arena[record + FLAGS] & SEVERAL
        if previous and arena[record + FLAGS] & FREQUENT and arena[previous + FLAGS] & FREQUENT:
            before = arena[previous + TERM_BYTES] + 0
            if paired + before + size + 4 > pairs_max:
                return FULL
            if paired:
                pairs[paired] = _SPACE
                paired += 1
            paired = copy(arena_bytes, 4 * (previous + HEADER + arena[previous + KEY_LENGTH]), before, pairs, paired)
            pairs[paired] = _PAIR_BOUND
            paired = copy(arena_bytes, start, size, pairs, paired + 1)
            goes_on = True
        elif goes_on:
            if paired + 4 > pairs_max:
                return FULL
            pairs[paired] = _SPACE
            pairs[paired + 1] = _FILLER
            paired += 2
            goes_on = False
        previous = record
    results[0] = paired
    results[1] = count
    results[2] = several
    return at


def write_entries(
    sequence: list[int],
    length: int,
    arena: list[int],
    arena_bytes: list[int],
    stamp: int,
    entries: list[int],
    entries_max: int,
) -> int:
    """Write the vocabulary entry of each record once, joined by spaces, and return the number of bytes. `stamp`: a
    number that was never used with this arena.
    """
    at = 0
    for item in range(length):
        record = sequence[item] + 0
        if record == END_OF_TOKEN or arena[record + STAMP] == stamp:
            continue
        arena[record + STAMP] = stamp
        size = arena[record + ENTRY_BYTES] + 0
        if at + size + 1 > entries_max:
            return FULL
        if size:
            if at:
                entries[at] = _SPACE
                at += 1
            start = 4 * (record + HEADER + arena[record + KEY_LENGTH]) + arena[record + TERM_BYTES]
            at = copy(arena_bytes, start, size, entries, at)
    return at
