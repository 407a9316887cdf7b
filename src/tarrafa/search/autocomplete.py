"""Autocomplete: words that complete the last word of a partly typed query.

Promises: what is suggested begins as was typed, but for accents, and finds something: together with all words before,
if there are any. Accents need not be typed; where they are, words with the same ones stand first. Whatever cannot be
gone on with (a condition, a star, what is to be left out, a space at the end) is left as it is.
Knows nothing of hits.

The index itself tells the words that begin so, with how many of the pages in question hold them: exact, and as new as
the last commit. It reads all of them for that (2 us each), so short beginnings of large vocabularies are looked up in
memory (`vocabulary`), and only the most frequent words are asked of the index.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from tantivy import Occur
from tantivy import Query as TantivyQuery

from tarrafa.index import schema
from tarrafa.index.reader import IndexSnapshot
from tarrafa.index.text_analysis import WORD_BOUND, WORD_CHARS_MAX, compose, fold, written_form
from tarrafa.search.query_parser import QUERY_CHARS_MAX, scoring_spans
from tarrafa.search.vocabulary import IndexVocabulary

READ_MAX = 2_000  # words that begin so and are read from the index
COMMON_SHARE = 0.5
CANDIDATE_TIMES = 3  # times the limit: words of which some may not go with those before
ENTRY_TIMES = 4  # times the limit: entries of which some are the same word

_last_word = re.compile(r"[^\W_]+\Z").search


class PartialText(NamedTuple):
    """A text up to its last word, and what is there of that one. `is_plain`: it stands by itself, so that what goes
    with the words before is found by all of them together."""

    before: str
    typed: str
    is_plain: bool


def partial_text(text: str) -> PartialText | None:
    """None: it cannot be gone on with."""
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
    """The words that begin so, with how many documents hold them, of those `among` which they are looked for."""
    folded = fold(beginning)
    if not folded:
        return []
    if vocabulary is None or vocabulary.count_with_prefix(folded) <= READ_MAX:
        entries = snapshot.vocabulary_entries(folded, ENTRY_TIMES * limit, among)
        known: Iterable[tuple[str, int]] = ((written_form(entry), documents) for entry, documents in entries)
        found = merge_completions(beginning, [known], CANDIDATE_TIMES * limit)
        return _common_words_last(found, vocabulary, snapshot.written)[:limit]
    frequent = _common_words_last(vocabulary.with_prefix(folded, CANDIDATE_TIMES * limit), vocabulary, snapshot.written)
    if among is None:
        return merge_completions(beginning, [frequent], limit)
    counted = ((word, _together(snapshot, word, among)) for word, _ in frequent)
    return merge_completions(beginning, [islice((one for one in counted if one[1]), limit)], limit)


def _common_words_last(
    found: Sequence[tuple[str, int]], vocabulary: IndexVocabulary | None, documents: int
) -> list[tuple[str, int]]:
    """Words that stand in more than half of all documents tell nothing, and go last."""
    if vocabulary is None:
        return list(found)
    common = {word for word, _ in found if vocabulary.lookup(fold(word)).documents > COMMON_SHARE * documents}
    return sorted(found, key=lambda one: one[0] in common)


def _together(snapshot: IndexSnapshot, word: str, among: TantivyQuery) -> int:
    """How many documents hold the word, in either writing."""
    folded = fold(word)
    held = TantivyQuery.term_set_query(schema.SCHEMA, schema.WORDS, list({folded, folded + WORD_BOUND + word}))
    return snapshot.top_matches(TantivyQuery.boolean_query([(Occur.Must, among), (Occur.Must, held)]), 1).total


def merge_completions(
    beginning: str, answers: Iterable[Iterable[tuple[str, int]]], limit: int
) -> list[tuple[str, int]]:
    """One for all writings of a word, the one that is written most; those with the accents that were typed first, then
    the most frequent."""
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
    """The text with its last word whole: as typed, as far as it was, or in the vocabulary's own writing."""
    typed = beginning.typed
    return beginning.before + (typed + word[len(typed) :] if word.startswith(typed.lower()) else word)
