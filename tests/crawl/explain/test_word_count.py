"""Words and how often they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.crawl.explain.page_and_site import TEXT_CHARS_MAX, WORD_CHARS_MAX, WordCount, count_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("A rede, a REDE e o mar", [("a", 2), ("rede", 2), ("e", 1), ("mar", 1), ("o", 1)]),
        ("função fun\u0063\u0327a\u0303o", [("função", 2)]),
        ("guarda-chuva 2026 _x_", [("2026", 1), ("chuva", 1), ("guarda", 1), ("x", 1)]),
        ("\x00\ud800", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_whatever_their_case(text, words):
    assert count_words(text, 100) == ([WordCount(*one) for one in words], len(words))


@given(st.text(), st.integers(-3, 20))
def test_counts_are_ordered_bounded_and_complete(text, limit):
    found, total = count_words(text, limit)
    whole, _ = count_words(text, 10**6)
    assert found == whole[: max(0, limit)]
    assert len(whole) == total
    assert [one.count for one in whole] == sorted((one.count for one in whole), reverse=True)


def test_a_text_without_end_has_an_end():
    found, total = count_words("x" * (2 * TEXT_CHARS_MAX), 5)
    assert (found, total) == ([WordCount("x" * WORD_CHARS_MAX, 1)], 1)
