"""Counts the words of a text, the most frequent first.

Promises: pure; runs of letters and digits, case aside, accents kept; the most frequent first, equals by the alphabet.
However long the text, the answer and the time are bounded.
Knows nothing of languages.
"""

import re
import unicodedata
from collections import Counter

import msgspec

TEXT_CHARS_MAX = 1_000_000
WORD_CHARS_MAX = 64

_words = re.compile(r"[^\W_]+").findall


class WordCount(msgspec.Struct, frozen=True):
    word: str
    count: int


def count_words(text: str, limit: int) -> tuple[list[WordCount], int]:
    """The most frequent words, and how many different ones there are."""
    composed = unicodedata.normalize("NFC", text[:TEXT_CHARS_MAX]).lower()
    counted = Counter(word[:WORD_CHARS_MAX] for word in _words(composed))
    ordered = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    return [WordCount(*one) for one in ordered[: max(0, limit)]], len(counted)
