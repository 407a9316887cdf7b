"""Lines and spaces of a text, in both ways."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.parse import text_kernels
from tarrafa.parse.text_kernels import TEXT_LENGTH_MAX, code_point_array, code_points, kernels, normalize_lines
from tests.kernel_ways import COMPILED, PYTHON, WAYS, in_the_way, with_bounds_checks

SPACES = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))


def normalize(way: str, text: str) -> tuple[str, bool]:
    with in_the_way(way, kernels):
        return normalize_lines(text)


@pytest.fixture(scope="module")
def checked():
    return with_bounds_checks(text_kernels.__name__)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \n\t\n", ""),
        ("  a  b \n\n\n c\td ", "a b\nc d"),
        ("a\xa0b", "a b"),
        ("a\xa0 b→", "a b→"),
        ("a\u2003b", "a\u2003b"),
        ("a\u2003b  c", "a b c"),
        ("trailing  \n  x", "trailing\nx"),
        ("😀  x\n", "😀 x"),
        ("\ud800  x\n", "\ud800 x"),
        ("x" * TEXT_LENGTH_MAX + "y", "x" * TEXT_LENGTH_MAX),
        ("x" * TEXT_LENGTH_MAX + "\n" * (TEXT_LENGTH_MAX + 1), "x" * TEXT_LENGTH_MAX),
        ("x " * TEXT_LENGTH_MAX, ("x " * (TEXT_LENGTH_MAX // 2)).rstrip()),
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_lines_are_stripped_and_spaces_collapsed(way, text, expected):
    assert normalize(way, text) == (expected, len(text) > TEXT_LENGTH_MAX)


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.text(st.characters(codec=None)),
        st.text(st.sampled_from(SPACES + "ab\n\n  \t"), max_size=60),
        st.text(st.sampled_from("ab \n\t\xa0\x85\x1c\x1f\x0b"), max_size=60),
        st.text(st.sampled_from("ab \n😀"), max_size=60),
    )
)
def test_both_ways_give_the_same_text(checked, text):
    expected = normalize(PYTHON, text)
    assert normalize(COMPILED, text) == expected
    if points := code_points(text):
        array = code_point_array(points)
        tidied = np.empty(len(array), array.dtype)
        length = checked.tidy(array, len(array), tidied, TEXT_LENGTH_MAX)
        assert ("".join(map(chr, tidied[:length])), False) == expected


def test_the_kernel_knows_the_white_space_of_python(checked):
    assert [number for number in range(sys.maxunicode + 1) if text_kernels.is_space(number)] == list(map(ord, SPACES))


@given(st.text(st.characters(codec=None)))
def test_code_points_are_those_of_the_text_or_none_for_surrogates(text):
    points = text_kernels.code_points(text)
    if points is None:
        assert any("\ud800" <= character <= "\udfff" for character in text)
    else:
        assert code_point_array(points).tolist() == list(map(ord, text))
