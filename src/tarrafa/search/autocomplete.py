"""Autocomplete: words that complete the last word of a partly typed query.

Promises: a suggestion begins with the typed letters, except for accents, and finds at least one page together with all
words before it. Accents need not be typed; if they are, words with the same accents come first. A text that cannot be
completed (it ends with a filter, a star, an excluded word or a space) gets no suggestions. Knows nothing of hits.

The index lists the words with a prefix and the number of matching pages that hold each: exact, and as new as the last
commit. It reads all of these words (2 us each), so short prefixes of large vocabularies are looked up in memory
(`vocabulary`), and the index is asked for the most frequent words only. Words that directly follow the word before,
in the best SAMPLED_PAGES pages with it, come before all others (`following_words`): after *woody a* that is *allen*,
and not the most frequent word with an a. The best completion of a first word is also suggested with the word that
follows it in at least FOLLOWING_SHARE of these pages. A script without spaces has no words to complete: the typed
letters are completed by those that follow them in these pages (`continuations`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from tantivy import Occur
from tantivy import Query as TantivyQuery

from tarrafa.index import schema
from tarrafa.index.reader import IndexSnapshot
from tarrafa.index.text_analysis import (
    UNSPACED,
    WORD_CHARS_MAX,
    all_entries,
    compose,
    entry_parts,
    fold,
    is_function_word,
)
from tarrafa.search.query_parser import QUERY_CHARS_MAX, scoring_spans
from tarrafa.search.vocabulary import IndexVocabulary

SAMPLED_PAGES = 30  # pages in which the words after a word are looked for
SAMPLED_CHARS_MAX = 8_000  # of each page
TITLE_TIMES = 3  # a word that follows in the title counts so often
FOLLOWING_WEIGHT = 1 << 20  # before every word that does not follow, however many documents hold that
CONTINUATION_CHARS_MAX = 6
FOLLOWING_SHARE, FOLLOWING_PAGES_MIN = 0.3, 2  # of the sampled pages, to be suggested without a letter typed
READ_MAX = 2_000  # words with the prefix that are read from the index
COMMON_SHARE = 0.5
CANDIDATE_TIMES = 3  # times the limit: some candidates may not occur together with the words before
ENTRY_TIMES = 4  # times the limit: some entries are the same word

_last_word = re.compile(r"[^\W_]+\Z").search


class PartialText(NamedTuple):
    """A query text up to its last word, and the typed part of that word. `is_plain`: the last word has no sign,
    quotation mark or field, so it can be searched together with all words before it.
    """

    before: str
    typed: str
    is_plain: bool


def partial_text(text: str) -> PartialText | None:
    """Split a query text before its last word. None: the text cannot be completed."""
    text = compose(text)
    match = _last_word(text) if len(text) <= QUERY_CHARS_MAX else None
    if match is None or len(match[0]) > WORD_CHARS_MAX:
        return None
    last = next((one for one in reversed(scoring_spans(text)) if one.end == len(text)), None)
    if last is None:
        return None
    is_plain = not last.quoted and not last.name and last.start == match.start()
    return PartialText(text[: match.start()], match[0], is_plain)


def completions(
    snapshot: IndexSnapshot, vocabulary: IndexVocabulary | None, beginning: str, among: TantivyQuery | None, limit: int
) -> list[tuple[str, int]]:
    """The words with this prefix, with the number of documents that hold each, counted among the documents that match
    `among`.
    """
    folded = fold(beginning)
    if not folded:
        return []
    if vocabulary is None or vocabulary.count_with_prefix(folded) <= READ_MAX:
        entries = snapshot.vocabulary_entries(folded, ENTRY_TIMES * limit, among)
        known: Iterable[tuple[str, int]] = ((entry_parts(entry)[1], documents) for entry, documents in entries)
        found = merge_completions(beginning, [known], CANDIDATE_TIMES * limit)
        return _common_words_last(found, vocabulary, snapshot.written)[:limit]
    frequent = _common_words_last(vocabulary.with_prefix(folded, CANDIDATE_TIMES * limit), vocabulary, snapshot.written)
    if among is None:
        return merge_completions(beginning, [frequent], limit)
    counted = ((word, _together(snapshot, word, among)) for word, _ in frequent)
    return merge_completions(beginning, [islice((one for one in counted if one[1]), limit)], limit)


def following_words(pages: Sequence[schema.StoredDocument], before: str, beginning: str) -> list[tuple[str, int]]:
    """The words with this prefix that directly follow the last word of a text in these pages, weighed by pages. A
    function word before them is taken together with the word before it. Without a prefix, only words that follow in
    many of the pages.
    """
    pattern = _following_pattern(before, beginning)
    if pattern is None or not pages:
        return []
    held = Counter[str]()
    for page in pages:
        in_title = set(pattern.findall(page.title.lower()))
        in_text = set(pattern.findall(page.text[:SAMPLED_CHARS_MAX].lower()))
        for word in in_title | in_text:
            held[word] += TITLE_TIMES if word in in_title else 1
    least = 1 if beginning else max(FOLLOWING_PAGES_MIN, FOLLOWING_SHARE * len(pages))
    kept = {word: times for word, times in held.items() if times >= least and not is_function_word(word)}
    return [(word, FOLLOWING_WEIGHT * times) for word, times in kept.items() if len(word) <= WORD_CHARS_MAX]


def continuations(pages: Sequence[schema.StoredDocument], beginning: str) -> list[tuple[str, int]]:
    """How letters of a script without spaces go on in these pages, weighed by pages: the longest of those that the same
    pages have, up to a border between kanji or katakana and hiragana.
    """
    letters, held = f"(?=[{UNSPACED}])", Counter[str]()
    same_kind = f"(?:(?:{letters}[ぁ-ゖ])+|(?:{letters}[^ぁ-ゖ])+)"
    find = re.compile(f"{re.escape(beginning.lower())}({same_kind})").findall
    for page in pages:
        for text, times in ((page.title, TITLE_TIMES), (page.text[:SAMPLED_CHARS_MAX], 1)):
            several = {one[:end] for one in find(text.lower()) for end in range(1, CONTINUATION_CHARS_MAX + 1)}
            held.update({beginning + one: times for one in several})
    shorter = {one[:-1] for one, times in held.items() if held[one[:-1]] == times}
    return [(word, times) for word, times in held.items() if word not in shorter]


def _following_pattern(before: str, beginning: str) -> re.Pattern[str] | None:
    """Finds the words with a prefix after the last words of a text, in lower case and whatever the accents."""
    last = _last_words(compose(before))
    if last is None or not last[2]:
        return None
    several = [last[1], last[2]] if last[1] and is_function_word(last[2]) else [last[2]]
    if not last[1] and is_function_word(last[2]):
        return None
    parts = [*map(_in_any_spelling, several), f"({_in_any_spelling(beginning)}[^\\W_]{'*' if beginning else '+'})"]
    return re.compile(r"\b" + r"\s+".join(parts) + r"\b")


_last_words = re.compile(r"(?:(?<![^\s])([^\W_]+)\s+)?(?<![^\s])([^\W_]+)\s+\Z").search
_SPELLED = {some[0]: f"[{some}]" for some in ("aáàâãä", "cç", "eéèêë", "iíìîï", "nñ", "oóòôõö", "uúùûü")}


def _in_any_spelling(word: str) -> str:
    return "".join(_SPELLED.get(fold(letter), re.escape(letter)) for letter in word.lower())


def _common_words_last(
    found: Sequence[tuple[str, int]], vocabulary: IndexVocabulary | None, documents: int
) -> list[tuple[str, int]]:
    """Put words that stand in more than half of all documents last: they say nothing about a page."""
    if vocabulary is None:
        return list(found)
    common = {word for word, _ in found if vocabulary.lookup(fold(word)).documents > COMMON_SHARE * documents}
    return sorted(found, key=lambda one: one[0] in common)


def _together(snapshot: IndexSnapshot, word: str, among: TantivyQuery) -> int:
    """The number of documents that hold the word, in either spelling."""
    folded = fold(word)
    entries = [*all_entries(folded, folded), *all_entries(folded, word)]
    held = TantivyQuery.term_set_query(schema.SCHEMA, schema.WORDS, list(set(entries)))
    return snapshot.top_matches(TantivyQuery.boolean_query([(Occur.Must, among), (Occur.Must, held)]), 1).total


def merge_completions(
    beginning: str, answers: Iterable[Iterable[tuple[str, int]]], limit: int
) -> list[tuple[str, int]]:
    """Merge the spellings of each word into its most frequent one. Words with the typed accents come first, then the
    most frequent ones.
    """
    most: dict[str, tuple[int, str]] = {}
    together: dict[str, int] = {}
    for answer in answers:
        for word, documents in answer:
            if documents:
                folded = fold(word)
                most[folded] = max(most.get(folded, (0, "")), (documents, word))
                together[folded] = together.get(folded, 0) + documents
    small = beginning.lower()
    found = [(most[folded][1], documents) for folded, documents in together.items()]
    found.sort(key=lambda one: (not one[0].startswith(small) and not small.isascii(), -one[1], one[0]))
    return found[:limit]


def completed_text(beginning: PartialText, word: str) -> str:
    """The text with its last word completed: the typed letters stay as typed, or the vocabulary's spelling is used."""
    typed = beginning.typed
    return beginning.before + (typed + word[len(typed) :] if word.startswith(typed.lower()) else word)
