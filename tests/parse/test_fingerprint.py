"""Fingerprints: the same words, or nearly the same words."""

import random
import sys
import unicodedata
from itertools import chain, pairwise
from types import ModuleType

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from tarrafa.parse import fingerprint, text_kernels
from tarrafa.parse.fingerprint import (
    FOLDED_LENGTH_MAX,
    Fingerprints,
    Spans,
    compute_fingerprints,
    content_id,
    fold,
    page_fingerprints,
    simhash,
)
from tarrafa.parse.text_kernels import (
    ENTRY_BYTES_MAX,
    FOLDED_BYTES_MAX,
    FULL,
    RESULTS,
    VOTING_BYTES_MAX,
    code_point_array,
    code_points,
    kernels,
)
from tests.kernel_ways import COMPILED, PYTHON, WAYS, in_the_way, with_bounds_checks

WORDS = [f"palavra{number}" for number in range(2_000)]


def hamming_distance(one: int, other: int) -> int:
    return (one ^ other).bit_count()


def a_text(seed: int, length: int = 600) -> list[str]:
    return random.Random(seed).choices(WORDS, k=length)


def simhash_of(words: list[str]) -> int:
    return simhash(fold(" ".join(words)))


@pytest.mark.parametrize(
    "same",
    [
        "acao e reacao 2 x 1",
        "AÇÃO  E\n\nREAÇÃO 2 X 1",
        "“Ação” — e reação… (2 x 1)",
        unicodedata.normalize("NFD", "ação e reação 2 x 1"),
        "Ação e rea\u00adção:\xa02 x\u20091",
        "ａção e reação 2 x 1",
    ],
)
def test_content_id_ignores_accents_case_punctuation_and_spacing(same):
    assert content_id(fold(same)) == content_id(fold("Ação e reação: 2 x 1!"))


def test_content_id_changes_when_a_word_does():
    assert content_id(fold("dez reais")) != content_id(fold("dois reais"))
    assert len(content_id(fold("dez"))) == 32


@pytest.mark.parametrize("nothing", ["", "  \n", "…!?", "\u200b"])
def test_a_text_without_words_is_like_no_other(nothing):
    assert content_id(fold(nothing)) == "" and simhash(fold(nothing)) == 0


@settings(deadline=None)
@given(
    st.text(
        st.one_of(st.characters(max_codepoint=0x17F), st.sampled_from("–—“”‘’…•€\u200b\u2009\u2028\u202f\u3000™½ßæ"))
    )
)
@example("".join(map(chr, range(256))))
def test_the_latin_short_cut_folds_like_the_unicode_database(text):
    assert fold(text) == fingerprint._fold_any(text)


@settings(deadline=None)
@given(st.text(st.characters(codec=None)))
def test_any_text_has_fingerprints(text):
    folded = fold(text)
    assert len(content_id(folded)) in (0, 32)
    assert 0 <= simhash(folded) < 1 << 64


def test_fingerprints_are_stable_for_ever():
    """They are compared with those of earlier visits: a change here makes every page look changed."""
    folded = fold("O rato roeu a roupa do rei de Roma")
    assert content_id(folded) == "4736428787ddd2717f2fedb771d2c8d8"
    assert simhash(folded) == 7041379540935282672


@pytest.mark.parametrize("seed", range(5))
def test_nearly_the_same_text_differs_in_few_bits_and_another_in_many(seed):
    words = a_text(seed)
    changed = words.copy()
    for place in random.Random(seed).sample(range(len(words)), 3):
        changed[place] = "outra"
    assert hamming_distance(simhash_of(words), simhash_of(changed)) <= 6
    assert hamming_distance(simhash_of(words), simhash_of(a_text(seed + 100))) >= 16


def test_simhash_ignores_spacing_and_reads_a_long_text_up_to_its_limit():
    words = a_text(1)
    assert simhash(fold("  ".join(words))) == simhash_of(words)
    assert simhash(b"ab " * 1_000_000) == simhash(b"ab " * 900_000)


def test_simhash_is_what_its_definition_says():
    """Word by word, in plain integers."""
    mask, words = (1 << 64) - 1, [b"um", b"dois", b"tres", b"um", b"dois"]
    powers = [pow(fingerprint._K, place + 1, 1 << 64) for place in range(8)]
    hashes = [sum(byte * power for byte, power in zip(word, powers, strict=False)) & mask for word in words]
    votes = [0] * 64
    for one, other in pairwise(hashes):
        pair = (one * int(fingerprint._PAIR) + other) & mask
        pair ^= pair >> 33
        pair = pair * int(fingerprint._FINAL) & mask
        pair ^= pair >> 33
        for bit in range(64):
            votes[bit] += 1 if pair >> bit & 1 else -1
    assert simhash(b" ".join(words)) == sum(1 << bit for bit in range(64) if votes[bit] > 0)


# -- the compiled way --------------------------------------------------------------------------------------------------

ANY_CHARACTER = st.characters(codec=None)
SCRIPTS = [
    "Ação, reação — “2 × 1” → ½ ﬁm",
    unicodedata.normalize("NFD", "Ação e reação no Ελλάδα"),
    "الله ﷺ ﷽ صلى",
    "日本語のテキスト ㌀ 한국어 텍스트",
    "😀 família 👨‍👩‍👧 fim",
    "ᾳ\u0345\u0301 ǅ İstanbul ẞ ŉ",
    "\ud800 sozinho \udfff",
    "x" * 300 + " y",
    "123 45 6",
    "sozinha",
]


def fingerprints(way: str, text: str) -> Fingerprints:
    with in_the_way(way, kernels):
        return compute_fingerprints(text)


def fingerprints_with_bounds_checks(checked: ModuleType, text: str, voting: Spans) -> Fingerprints:
    points = code_points(text[:FOLDED_LENGTH_MAX])
    assert points is not None
    characters = code_point_array(points)
    table, results = fingerprint._fold_table(), np.zeros(RESULTS, np.uint64)
    table.add({*characters.tolist()})
    for capacity in (2 * len(characters) + FOLDED_BYTES_MAX, FOLDED_BYTES_MAX * (len(characters) + 1)):
        letters, spans = np.empty(2 * capacity, np.uint8), np.array([*chain.from_iterable(voting)], np.int64)
        tables, scratch = (table.entries, table.long), (fingerprint._POWERS, fingerprint._WORDS)
        count = checked.fingerprint(
            characters, len(characters), spans, len(voting), *tables, letters, capacity, *scratch, results
        )
        if count != FULL:
            break
    content = xxh3_128_hexdigest(letters[:count].tobytes()) if count else ""
    plain = letters[capacity : capacity + int(results[1])].tobytes()
    return Fingerprints(content, int(results[0]), xxh3_64_intdigest(plain))


def definition(text: str, voting: Spans) -> Fingerprints:
    words = "\n".join(text[start:end] for start, end in voting)
    return fingerprint._fingerprints_of(fingerprint._fold_any(text), fingerprint._fold_any(words))


def whole(text: str) -> Spans:
    return [(0, len(text))]


@st.composite
def texts_with_spans(draw: st.DrawFn) -> tuple[str, Spans]:
    text = draw(st.one_of(st.text(), st.text("\ufdfa\u3300 a1\n", max_size=40)))
    edges = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return text, list(zip(edges[::2], edges[1::2], strict=False))


@pytest.fixture(scope="module")
def checked():
    return with_bounds_checks(text_kernels.__name__)


def test_a_text_is_folded_as_its_characters_are():
    """What the kernel's table rests on. Marks that change places are dropped; U+0345 becomes a letter, but no letter
    changes places.
    """
    marks = [chr(number) for number in range(sys.maxunicode + 1) if unicodedata.combining(chr(number))]
    assert [mark for mark in marks if fingerprint._fold_any(mark)] == ["\u0345"]


def test_the_table_has_room_for_every_character():
    words = [fingerprint._fold_any(chr(number)) for number in range(sys.maxunicode + 1)]
    assert max(map(len, words)) == FOLDED_BYTES_MAX
    assert sum(len(word) for word in words if len(word) > ENTRY_BYTES_MAX) <= fingerprint.LONG_BYTES_MAX


@pytest.mark.parametrize("text", ["", *SCRIPTS, " ".join(SCRIPTS) * 50], ids=lambda text: ascii(text[:12]))
def test_compiled_fingerprints_are_those_of_the_definition(checked, text):
    assert fingerprints(COMPILED, text) == fingerprints(PYTHON, text)
    if code_points(text) is not None:
        assert fingerprints_with_bounds_checks(checked, text, whole(text)) == fingerprints(PYTHON, text)


@pytest.mark.parametrize("way", WAYS)
def test_every_character_of_unicode_has_the_fold_of_its_definition(way):
    for start in range(0, sys.maxunicode + 1, 0x8000):
        text = " ".join(map(chr, range(start, start + 0x8000)))
        assert fingerprints(way, text) == definition(text, whole(text))


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(ANY_CHARACTER), st.text("\ufdfa\u3300 a1", max_size=40)))
def test_compiled_fingerprints_of_any_text_are_those_of_the_definition(text):
    assert fingerprints(COMPILED, text) == definition(text, whole(text))


@settings(deadline=None, max_examples=300)
@given(texts_with_spans())
def test_the_kernel_stays_within_its_arrays_and_only_spans_vote(checked, text_with_spans):
    assert fingerprints_with_bounds_checks(checked, *text_with_spans) == definition(*text_with_spans)


@pytest.mark.parametrize("span", [1, 7, 4_000])
def test_the_words_of_a_page_vote_by_its_content_up_to_the_limit(checked, span):
    text = "a bc " * VOTING_BYTES_MAX
    spans = [(start, start + span) for start in range(0, 100_000, span + 3)]
    expected = definition(f"t\n{text}", [(0, 1), *((start + 2, end + 2) for start, end in spans)])
    for way in WAYS:
        with in_the_way(way, kernels):
            assert page_fingerprints("t", text, spans) == expected
    assert fingerprints_with_bounds_checks(checked, text, spans) == definition(text, spans)


@pytest.mark.parametrize("length", [VOTING_BYTES_MAX - 1, VOTING_BYTES_MAX, VOTING_BYTES_MAX + 1, 100_000])
@pytest.mark.parametrize("unit", ["a", "ab ", "é1 ", "\ufdfa"])
def test_a_huge_text_is_compared_by_its_beginning_in_both_ways(unit, length):
    text = (unit * length)[:length]
    assert fingerprints(COMPILED, text) == fingerprints(PYTHON, text)


def test_a_text_beyond_the_limit_has_the_fingerprints_of_its_beginning():
    text = "ab " * FOLDED_LENGTH_MAX
    assert fingerprints(COMPILED, text) == fingerprints(PYTHON, text) == fingerprints(PYTHON, text[:FOLDED_LENGTH_MAX])
