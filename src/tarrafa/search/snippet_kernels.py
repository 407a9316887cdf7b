"""Kernels of snippets, compiled by numba, for all hits of a search at once: find the words with certain beginnings, and
choose the fragments to show.

A text has one byte for each character: its code in Latin-1, or a question mark for a sign beyond it. `tables` has four
numbers for each byte, one table after the other: its folded letter; whether it ends a word; and one bit for each
beginning that has this letter first, or second (more than eight beginnings share bits). `choose` reads code points of
16 bits, too, all below U+2C00. numba compiles these functions as they are; `snippet` has the Python way.
Known weakness: compiled, they have no bounds checks. Before each write stands a comparison with the capacity that the
caller gave. Tests run them with bounds checks, too.
"""

from tarrafa.runtime.compiled_kernels import Kernel

FOLDED, ENDS, FIRST, SECOND = 0, 256, 512, 768  # where each table begins
FULL = -1  # result: too small a capacity
TERMS_MAX = 62  # that are told apart: one bit for each
RESULTS = 7  # of a page: how many fragments; of two fragments, where each begins and ends, and flags
BEFORE, AFTER = 1, 2  # flags of a fragment: text stands before it, or after it

SNIPPET_CHARS_MAX = 240
BEFORE_CHARS = 40  # of the page, before the first wanted term
FRAGMENT_CHARS_MAX = 118  # of one of two fragments
FRAGMENT_BEFORE_CHARS = 25
LEAD_CHARS_MAX = 90  # of the sentence before the first wanted term, if all wanted terms still fit
SUFFIX_CHARS_MAX = 12  # by which a word is longer than its term

_NEW_LINE, _EXCLAMATION_MARK, _FULL_STOP, _COLON, _QUESTION_MARK = 10, 33, 46, 58, 63
_ALL_TERMS = (1 << TERMS_MAX) - 1
_FAR = 1 << 62

_FIND = "uint8* int64* int64 uint8* uint8* int64* int64 int64 int64* int64* int64"
_CHOOSE = "uint{}* int64* int64* int64 int64* int64* int64* int64* int64*"
KERNELS = {
    "find_words": Kernel("find_words", _FIND),
    **{f"choose_{bits}": Kernel("choose", _CHOOSE.format(bits)) for bits in (8, 16)},
}


def find_words(
    text: list[int],
    bounds: list[int],
    parts: int,
    tables: list[int],
    beginnings: list[int],
    beginning_ends: list[int],
    count: int,
    places_max: int,
    likely: list[int],
    found: list[int],
    capacity: int,
) -> int:
    """Write where each word with one of `count` beginnings starts and ends, and before that how many of them stand up
    to the end of each part of the text; return how many they are, or FULL. Of those with one beginning in one part, the
    first `places_max` count. `bounds`: where the parts start, and after the last one; before each stands a byte that
    ends a word, and after the last one two. `likely` and `found` have the capacity.
    """
    candidates = likely_places(text, bounds[parts], tables, likely, capacity)
    first = count + parts  # in `found`: first, how many more words of a part with each beginning count
    if candidates == FULL or first + 2 * candidates > capacity:
        return FULL
    words = part = 0
    for number in range(count):
        found[number] = places_max
    for candidate in range(candidates):
        place = likely[candidate] + 0
        while place >= bounds[part + 1]:
            found[count + part] = words
            part += 1
            for number in range(count):
                found[number] = places_max
        number = beginning_at(text, place, tables, beginnings, beginning_ends, count)
        if number < count and found[number] > 0:
            found[number] -= 1
            end = place
            while tables[ENDS + text[end]] == 0:
                end += 1
            found[first + 2 * words], found[first + 2 * words + 1] = place, end
            words += 1
    while part < parts:
        found[count + part] = words
        part += 1
    return words


def likely_places(text: list[int], end: int, tables: list[int], likely: list[int], capacity: int) -> int:
    """Write where words start whose first two letters some beginning has; return their number, or FULL. No branch
    depends on a letter: each place is written, and the next one above it where it is no such start.
    """
    candidates = 0
    for place in range(1, end):
        if candidates >= capacity:
            return FULL
        likely[candidates] = place
        starts = tables[FIRST + text[place]] & tables[SECOND + text[place + 1]]
        candidates += (tables[ENDS + text[place - 1]] != 0) & (starts != 0)
    return candidates


def beginning_at(
    text: list[int], place: int, tables: list[int], beginnings: list[int], beginning_ends: list[int], count: int
) -> int:
    """The number of the beginning of the word that starts here; `count`: it has none of them."""
    start = 0
    for number in range(count):
        end, at = beginning_ends[number] + 0, place
        while start < end and tables[FOLDED + text[at]] == beginnings[start]:
            start += 1
            at += 1
        if start == end:
            return number
        start = end
    return count


# -- fragments ---------------------------------------------------------------------------------------------------------
# The definitions are in `snippet`: `_fragments`, `_best_window` and `_excerpt`. A window is where it begins and ends in
# the text, and the bits of its terms.


def choose(
    text: list[int],
    bounds: list[int],
    page_ends: list[int],
    pages: int,
    words: list[int],
    word_ends: list[int],
    terms: list[int],
    lengths: list[int],
    results: list[int],
) -> int:
    """Write the RESULTS of each page, and return how many pages have fragments. `page_ends`: how many parts there are
    up to the last one of each page; `words`: where each word starts and ends; `word_ends`: how many there are up to the
    end of each part; `terms`: the number of each word's term, below 0 if it is not wanted; `lengths`: of the terms.
    `words`, `word_ends` and `terms` are overwritten. Above its results, `results` has room for TERMS_MAX numbers and
    one for each word.
    """
    word = kept = 0
    for part in range(page_ends[pages - 1]):
        while word < word_ends[part]:
            if terms[word] >= 0:
                words[kept], terms[kept] = words[2 * word] + 0, terms[word] + 0
                kept += 1
            word += 1
        word_ends[part] = kept
    part = first_word = filled = 0
    for page in range(pages):
        last_part = page_ends[page] - 1
        written = RESULTS * page
        results[written] = 0
        if word_ends[last_part] > first_word:
            while word_ends[part] == first_word:
                part += 1
            write_fragments(
                text,
                bounds,
                part,
                last_part,
                words,
                first_word,
                word_ends,
                terms,
                lengths,
                results,
                written,
                RESULTS * pages,
            )
            filled += 1
        part, first_word = last_part + 1, word_ends[last_part] + 0
    return filled


def write_fragments(
    text: list[int],
    bounds: list[int],
    part: int,
    last_part: int,
    words: list[int],
    first_word: int,
    word_ends: list[int],
    terms: list[int],
    lengths: list[int],
    results: list[int],
    written: int,
    scratch: int,
) -> None:
    """One fragment of the first part with wanted words; or two, of any parts, if they hold more of the terms."""
    all_words, part_words = word_ends[last_part] + 0, word_ends[part] + 0
    long, short = SNIPPET_CHARS_MAX - BEFORE_CHARS, FRAGMENT_CHARS_MAX - FRAGMENT_BEFORE_CHARS
    count = select(words, first_word, part_words, terms, _ALL_TERMS, 0, _FAR, _FAR, results, scratch)
    whole = best_window(words, terms, lengths, count, long, results, scratch)
    missing = 0
    for word in range(first_word, all_words):
        missing |= 1 << terms[word]
    missing &= ~whole[2]
    if missing:
        count = select(words, first_word, part_words, terms, _ALL_TERMS, whole[0], whole[1], _FAR, results, scratch)
        first = best_window(words, terms, lengths, count, short, results, scratch)
        missing |= whole[2] & ~first[2]
        most = 1 if bits(missing) == 1 else _FAR
        second, second_part, start = (0, 0, 0), part, first_word
        for other in range(part, last_part + 1):
            count = select(words, start, word_ends[other], terms, missing, 0, _FAR, most, results, scratch)
            window = best_window(words, terms, lengths, count, short, results, scratch)
            if bits(window[2]) > bits(second[2]):
                second, second_part = window, other
            start = word_ends[other] + 0
        if bits(first[2] | second[2]) > bits(whole[2]):
            is_second_first = second_part == part and second[0] < first[0]
            one, two = (written + 4, written + 1) if is_second_first else (written + 1, written + 4)
            results[written] = 2
            excerpt(text, bounds, part, first, FRAGMENT_CHARS_MAX, FRAGMENT_BEFORE_CHARS, results, one)
            excerpt(text, bounds, second_part, second, FRAGMENT_CHARS_MAX, FRAGMENT_BEFORE_CHARS, results, two)
            return
    results[written] = 1
    excerpt(text, bounds, part, whole, SNIPPET_CHARS_MAX, BEFORE_CHARS, results, written + 1)


def bits(number: int) -> int:
    """How many bits are set."""
    count = 0
    while number:
        number &= number - 1
        count += 1
    return count


def select(
    words: list[int],
    first: int,
    end: int,
    terms: list[int],
    wanted: int,
    lowest: int,
    limit: int,
    most: int,
    results: list[int],
    scratch: int,
) -> int:
    """Write the numbers of the words with some of these terms that start in a stretch of the text; their number."""
    count = 0
    for word in range(first, end):
        if wanted >> terms[word] & 1 and lowest <= words[word] < limit and count < most:
            results[scratch + TERMS_MAX + count] = word
            count += 1
    return count


def best_window(
    words: list[int], terms: list[int], lengths: list[int], count: int, after: int, results: list[int], scratch: int
) -> tuple[int, int, int]:
    """The window with the most different terms among the selected words, then with the most words."""
    if count == 0:
        return 0, 0, 0
    selected = scratch + TERMS_MAX
    last = results[selected + count - 1] + 0
    first, until = 0, count
    if count > 1 and words[last] + lengths[terms[last]] > words[results[selected]] + after:
        for at in range(count):
            results[scratch + terms[results[selected + at]]] = 0
        first = until = right = different = most = 0
        for left in range(count):
            word = results[selected + left] + 0
            while right < count:
                other = results[selected + right] + 0
                if words[other] + lengths[terms[other]] > words[word] + after:
                    break
                different += results[scratch + terms[other]] == 0
                results[scratch + terms[other]] += 1
                right += 1
            value = different * count + right - left
            if value > most:
                first, until, most = left, right, value
            if right == count:
                break
            if right > left:
                results[scratch + terms[word]] -= 1
                different -= results[scratch + terms[word]] == 0
    found = 0
    for at in range(first, until):
        found |= 1 << terms[results[selected + at]]
    last = results[selected + until - 1] + 0
    return words[results[selected + first]] + 0, words[last] + lengths[terms[last]], found


def excerpt(
    text: list[int],
    bounds: list[int],
    part: int,
    window: tuple[int, int, int],
    chars: int,
    before: int,
    results: list[int],
    written: int,
) -> None:
    """Write where the fragment around a window begins and ends, and its flags."""
    begin, limit, place = bounds[part] + 0, bounds[part + 1] - 1, window[0]
    lead = min(LEAD_CHARS_MAX, chars - SUFFIX_CHARS_MAX - (window[1] - place))
    start = max(begin, min(place - before, limit - chars))
    start = sentence_start(text, begin, max(begin, min(place - lead, limit - chars)), place, start)
    end = min(start + chars, limit)
    flags = 0
    if start > begin and not is_space(text[start - 1]):
        at = start
        while at < place and not is_space(text[at]):
            at += 1
        if at < place:
            start = at + 1
    for at in range(begin, start):
        if not is_space(text[at]):
            flags = BEFORE
            break
    for at in range(end, limit):
        if not is_space(text[at]):
            flags |= AFTER
            break
    results[written], results[written + 2] = start, flags
    results[written + 1] = before_last_word(text, start, end) if end < limit and not is_space(text[end]) else end


def sentence_start(text: list[int], begin: int, lowest: int, place: int, otherwise: int) -> int:
    """Where the first sentence starts that starts from `lowest` on, up to a place."""
    if lowest == begin and not is_space(text[begin]):
        return begin
    for at in range(lowest, place):
        if text[at] == _NEW_LINE and not is_space(text[at + 1]):
            return at + 1
        if at + 1 < place and is_end(text[at]) and is_space(text[at + 1]) and not is_space(text[at + 2]):
            return at + 2
    return otherwise


def is_end(character: int) -> bool:
    """Whether a sentence ends with this sign and a space."""
    return character in (_EXCLAMATION_MARK, _FULL_STOP, _COLON, _QUESTION_MARK)


def before_last_word(text: list[int], start: int, end: int) -> int:
    """The end of a stretch of text without its last word, unless that is the only one."""
    while end > start and is_space(text[end - 1]):
        end -= 1
    at = end
    while at > start and not is_space(text[at - 1]):
        at -= 1
    while at > start and is_space(text[at - 1]):
        at -= 1
    return at if at > start else end


def is_space(character: int) -> bool:
    """What `str.isspace` says, below U+3000."""
    if character <= 32:
        return character == 32 or 9 <= character <= 13 or character >= 28
    if character < 0x1680:
        return character in (0x85, 0xA0)
    if character < 0x2000:
        return character == 0x1680
    return character <= 0x200A or character in (0x2028, 0x2029, 0x202F, 0x205F)
