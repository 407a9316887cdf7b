"""Fingerprints: the same words, or nearly the same words."""

import random
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tarrafa.parse import fingerprint
from tarrafa.parse.fingerprint import content_id, fold, simhash

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
