"""Terms, pairs of frequent terms and vocabulary of a page's text, by compiled kernels where there are any.

Promises: the results are those of `text_analysis` and `frequent_words`, which are the Python way, too; only the order
of vocabulary entries may differ. Short texts take the Python way, which is done before a kernel is called. numpy is
loaded with the first text that is for the kernels (`word_table`). Knows nothing of tantivy.
"""

from functools import lru_cache
from typing import NamedTuple

from tarrafa.index.frequent_words import frequent_pairs
from tarrafa.index.text_analysis import analyze, language_of_analysis, vocabulary_entries
from tarrafa.index.word_kernels import KERNELS
from tarrafa.runtime.compiled_kernels import CompiledKernels

COMPILED_CHARS_MIN = 400  # a shorter text takes the Python way
SHORT_TEXTS_MAX = 8_192  # of these remembered with their terms: some 5 MB

kernels = CompiledKernels("tarrafa.index.word_kernels", KERNELS)


class PageTerms(NamedTuple):
    """The terms of a text and its pairs of frequent terms, both joined by spaces, and the number of terms."""

    terms: str
    pairs: str
    terms_count: int


def page_terms(text: str, language: str, tokens_max: int) -> PageTerms:
    functions = kernels.get() if len(text) >= COMPILED_CHARS_MIN else None
    if functions is not None:
        from tarrafa.index.word_table import word_table

        found = word_table(language_of_analysis(language)).terms(text, tokens_max, functions)
        if found is not None:
            terms, pairs, count = found
            return PageTerms(terms, pairs, count) if pairs is not None else pair_terms(terms)
    if len(text) < COMPILED_CHARS_MIN:
        return _short_terms(text, language, tokens_max)
    return pair_terms(analyze(text, language, tokens_max))


@lru_cache(maxsize=SHORT_TEXTS_MAX)
def _short_terms(text: str, language: str, tokens_max: int) -> PageTerms:
    """Anchors and headings come again and again."""
    return pair_terms(analyze(text, language, tokens_max))


def pair_terms(joined: str) -> PageTerms:
    """The Python way: pairs of terms that are joined by spaces."""
    terms = joined.split()
    return PageTerms(joined, " ".join(frequent_pairs(terms)), len(terms))


def page_vocabulary(title: str, text: str, language: str, tokens_max: int) -> str:
    """The different words of a title and of so many tokens of a text as vocabulary entries, joined by spaces. After
    `page_terms` of the same text it is cheap.
    """
    functions = kernels.get() if len(text) >= COMPILED_CHARS_MIN else None
    if functions is not None:
        from tarrafa.index.word_table import word_table

        found = word_table(language_of_analysis(language)).entries(title, text, tokens_max, functions)
        if found is not None:
            return found
    return vocabulary_entries(f"{title} {text}", tokens_max + len(title.split()))
