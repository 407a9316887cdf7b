"""Query expansion by pseudo-relevance feedback (Bo1), and the words that describe a similar page.

Pseudo-relevance feedback: the first few pages of a result are taken as relevant, and the words that distinguish them
from others are added to the request, each with a small share of the weight of a typed word (`SearchRequest.extras`).
This finds pages about the same subject that never use the typed words. The words of one page alone form the request
"pages similar to this one".

Promises: a typed word, or a word that no other page holds, is never added. Shards report the words and the number of
pages that hold each; weights are computed with the counts of all shards together, so that one shard or many add the
same words. Pure.

The weight of a word is Bo1 of divergence from randomness (Amati 2003), r log2((1 + p) / p) + log2(1 + p), with the
number r of pages that hold the word (a little more, if they hold it often) and the share p of all documents that do:
rare words that several of the pages share come first, and words that stand everywhere last, in any language and without
a list of stop words.

Measured (docs/decisions, 0154): three pages, ten words and a tenth change the order of the existing hits by next to
nothing; ten pages and a share of 0.3 cost a sixth of the MRR of known-item searches. Of the pages that the authors of
LibreOffice's help linked with a page, half are among the ten that are found to be similar.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from math import log, log2

from tarrafa.index import schema
from tarrafa.index.text_analysis import WORD_CHARS_MAX, analyzer_for, compose, is_unspaced, readings, words
from tarrafa.search.global_bm25 import TermStatistics, document_frequency
from tarrafa.search.request import ExpansionTerm

FEEDBACK_PAGES = 3
EXPANSION_WORDS = 10
EXPANSION_SHARE = 0.1  # of the weight of a typed word, for the best term
RELATED_WORDS = 25
WORDS_PER_SHARD = 60  # words that each shard reports
TOKENS_MAX = 2_000  # of each page
CHARS_MIN = 3
TERM_FREQUENCY_WEIGHT = 0.3  # weight of the logarithm of the term frequency; for one page alone it counts in full

TermEvidence = list[tuple[str, float]]


def feedback_terms(
    pages: Sequence[schema.StoredDocument], counting: TermStatistics, limit: int, often: float = TERM_FREQUENCY_WEIGHT
) -> TermEvidence:
    """The words that distinguish these pages from others, best first, each in its most frequent spelling and with the
    number of pages that hold it.
    """
    forms: dict[str, Counter[str]] = {}
    evidence: Counter[str] = Counter()
    for page in pages:
        for term, writings in _words_of(page).items():
            evidence[term] += 1 + often * log(writings.total())  # type: ignore[assignment]  # a sum of floats
            forms.setdefault(term, Counter()).update(writings)
    documents = max(1, counting.written)
    weighed = [
        (bo1_weight(held, counting.frequency(schema.ALL, term), documents), term) for term, held in evidence.items()
    ]
    best = sorted(weighed, key=lambda one: (-one[0], one[1]))[:limit]
    return [(min(forms[term], key=lambda word: (-forms[term][word], word)), float(evidence[term])) for _, term in best]


def _words_of(page: schema.StoredDocument) -> dict[str, Counter[str]]:
    """The terms of a page, each with its spellings and their counts."""
    term, found = analyzer_for(page.language), dict[str, Counter[str]]()
    tokens = Counter(compose(f"{page.title} {page.text}").lower().split()[:TOKENS_MAX])
    for token, times in tokens.items():
        for word in words(token):
            is_long = CHARS_MIN <= len(word) <= WORD_CHARS_MAX or bool(is_unspaced(word))
            if is_long and not word.isdigit():
                found.setdefault(term(word), Counter())[word] += times
    return found


def bo1_weight(held: float, documents_with: int, documents: int) -> float:
    """The weight of a word, from the number of feedback pages and of all documents that hold it."""
    share = max(documents_with, 1) / documents
    return held * log2((1 + share) / share) + log2(1 + share)


def merge_evidence(answers: Sequence[TermEvidence], limit: int) -> TermEvidence:
    """Merge the evidence of the parts of one shard in turn: the best of each first."""
    if len(answers) == 1:
        return answers[0]
    found: dict[str, float] = {}
    for several in zip_longest(*answers):
        for one in filter(None, several):
            found[one[0]] = found.get(one[0], 0.0) + one[1]
    return list(found.items())[:limit]


def sum_evidence(answers: Iterable[TermEvidence], own: frozenset[str]) -> dict[str, float]:
    """The evidence of all shards, without typed words; one entry for all spellings of a word."""
    found: dict[str, tuple[str, float]] = {}
    for answer in answers:
        for word, held in answer:
            terms = [term for reading in readings(word) for term in reading]
            if terms and own.isdisjoint(terms):
                first, sum_so_far = found.get(terms[0], (word, 0.0))
                found[terms[0]] = (first, sum_so_far + held)
    return dict(found.values())


def choose_terms(
    evidence: dict[str, float], counting: TermStatistics, limit: int, share: float
) -> tuple[ExpansionTerm, ...]:
    """The words to add, best first; words that only the feedback pages hold find nothing new."""
    leading = [(word, held, document_frequency(word, counting)) for word, held in evidence.items()]
    documents = max(1, counting.written)
    weighed = [(bo1_weight(held, count, documents), word) for word, held, count in leading if count > held]
    best = sorted(weighed, key=lambda one: (-one[0], one[1]))[:limit]
    return tuple(ExpansionTerm(word, share * one / best[0][0]) for one, word in best)
