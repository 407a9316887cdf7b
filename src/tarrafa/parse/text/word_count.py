"""Counts the words of a text, the most frequent first.

Promises: pure. A word is a run of letters and digits, without case, with accents. The most frequent words come first,
equal counts in alphabetical order. Result and time are bounded, however long the text.
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
    """The most frequent words, and the number of distinct words."""
    composed = unicodedata.normalize("NFC", text[:TEXT_CHARS_MAX]).lower()
    counted = Counter(word[:WORD_CHARS_MAX] for word in _words(composed))
    ordered = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    return [WordCount(*one) for one in ordered[: max(0, limit)]], len(counted)
