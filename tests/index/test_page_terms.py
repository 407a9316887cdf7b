"""Terms, pairs and vocabulary of a text are the same in every way, and the table of words stays within its bounds."""

import ctypes
import random
import sys
import unicodedata
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tarrafa.index import text_analysis, word_kernels, word_table
from tarrafa.index.text_analysis import (
    PageTerms,
    analyze,
    kernels,
    language_of_analysis,
    page_terms,
    page_vocabulary,
    pair_terms,
    vocabulary_entries,
    words,
)
from tarrafa.index.word_kernels import KEY_LENGTH_MAX, SPACE, SPECIAL, UNSPACED, WORD
from tarrafa.index.word_table import character_class
from tests.kernel_ways import COMPILED, with_bounds_checks

CHECKED = "with bounds checks"
NUMBER_TYPES: dict[int, type[np.generic]] = {8: np.uint8, 16: np.uint16, 32: np.uint32}
TOKENS_MAX = 50_000
TEXTS = [
    "",
    "   \n",
    "A rede de pesca é de todos os que a lançam — e não é de ninguém; guarda-chuva, a_b, c++ e AÇÃO, Ação, ação.",
    "The nets of the library are in the house of the people, it is said; it is not, and that is that.",
    unicodedata.normalize("NFD", "Educação e informações não são de todos os cidadãos: guarda-chuvá, já-é"),
    "日本語のテキスト、한국어 텍스트 ㌀ ㍿ \u1112\u1161\u11ab",
    "Linux入門:C++言語とC#の本。a日b 茶 绿茶,𠮷野家 ｶﾀｶﾅ が\u3099か\u3099き 語++ 日#本# 々〆ヶ月 サーバー" + "漢" * 300,
    "😀 família 👨‍👩‍👧 fim 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "ﷺ ﷽ السلام عليكم هِندِي हिन्दी தமிழ் ไทย",
    "ǅ İstanbul ΑΣ Σίσυφος ſtraße ŉ ½ ² \u212b \u2126 \u2000fim\u2003",
    "x" * 63 + " " + "X" * 64 + " " + "é" * 65 + " " + "y" * KEY_LENGTH_MAX + " curta",
    "y" * (KEY_LENGTH_MAX + 1) + " é mais longa",
    "palavra." * 500,
    "C++ C# c+++ C## a++b C#b i++. (C++) é++ ab# \u0301C#",
    "\ud800 sozinho \udfff",
]
# Words that repeat, in several spellings, and whatever joins or splits them.
any_text = st.one_of(
    st.text(st.characters(codec=None)),
    st.lists(
        st.one_of(
            st.sampled_from(["de", "a", "O", "que", "the", "of", "Ação", "AÇÃO", "-", "_", ".", "\u0301", "\u1161"]),
            st.text(max_size=5),
        )
    ).map(" ".join),
    st.text(st.sampled_from("aAáÁ \u0301\u0345-\n_1ﷺ\u1100\u1161+#")),
    st.text(st.sampled_from("aé 日本語カー。+#\u3099𠮷")),
)
languages = st.sampled_from(["pt", "pt-BR", "en", "de", ""])


def array_at(address: int, count: int, kind: type[np.generic]) -> NDArray[Any]:
    size = np.dtype(kind).itemsize * count
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), kind)


def functions_with_bounds_checks(checked: ModuleType) -> dict[str, Callable[..., int]]:
    """The kernels for arrays as functions for addresses, with the sizes that their caller has allocated."""

    def known(slots: int, mask: int, arena: int) -> tuple[NDArray[Any], int, NDArray[Any]]:
        return array_at(slots, mask + 1, np.uint32), mask, array_at(arena, word_table.ARENA_NUMBERS_MAX, np.uint32)

    def scan(kind: type[np.generic]) -> Callable[..., int]:
        def run(content, length, tokens_max, classes, slots, mask, arena, sequence, missing, results):
            words_max = length // 2 + 2 if kind is np.uint8 else length + 2
            return checked.scan(
                np.frombuffer(content, kind), length, tokens_max, array_at(classes, 0x110000, np.uint8),
                *known(slots, mask, arena), array_at(sequence, length + 2, np.uint32),
                array_at(missing, 3 * words_max, np.uint32), array_at(results, 3, np.int64),
            )  # fmt: skip

        return run

    def add(word, length, content, term, entry, flags, slots, mask, arena, arena_bytes, record):
        tables = known(slots, mask, arena)
        key, text = np.frombuffer(word, np.uint32), np.frombuffer(content, np.uint8)
        return checked.add(key, length, text, term, entry, flags, *tables, tables[2].view(np.uint8), record)

    def sequence_and_arena(
        sequence: int, length: int, arena: int
    ) -> tuple[NDArray[Any], int, NDArray[Any], NDArray[Any]]:
        numbers = array_at(arena, word_table.ARENA_NUMBERS_MAX, np.uint32)
        return array_at(sequence, length, np.uint32), length, numbers, numbers.view(np.uint8)

    def write_terms(sequence, length, arena, arena_bytes, terms, terms_max, pairs, pairs_max, results):
        written = array_at(terms, terms_max, np.uint8), terms_max, array_at(pairs, pairs_max, np.uint8), pairs_max
        return checked.write_terms(
            *sequence_and_arena(sequence, length, arena), *written, array_at(results, 3, np.int64)
        )

    def write_entries(sequence, length, arena, arena_bytes, stamp, entries, entries_max):
        written = array_at(entries, entries_max, np.uint8)
        return checked.write_entries(*sequence_and_arena(sequence, length, arena), stamp, written, entries_max)

    scans = {f"scan_{bits}": scan(kind) for bits, kind in NUMBER_TYPES.items()}
    return {**scans, "add": add, "write_terms": write_terms, "write_entries": write_entries}


@pytest.fixture(scope="module")
def checked() -> dict[str, Callable[..., int]]:
    return functions_with_bounds_checks(with_bounds_checks(word_kernels.__name__))


@pytest.fixture(params=[COMPILED, CHECKED])
def kernel_way(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, checked: dict[str, Callable[..., int]]
) -> Iterator[None]:
    """Even short texts go through the kernels, with empty tables at first."""
    kernels.require()
    monkeypatch.setattr(text_analysis, "COMPILED_CHARS_MIN", 0)
    if request.param == CHECKED:
        monkeypatch.setattr(kernels, "get", lambda: checked)
    word_table.word_table.cache_clear()
    yield
    word_table.word_table.cache_clear()


def by_definition(text: str, language: str, tokens_max: int = TOKENS_MAX) -> PageTerms:
    return pair_terms(analyze(text, language, tokens_max))


def vocabulary_by_definition(title: str, text: str, tokens_max: int = TOKENS_MAX) -> set[str]:
    tokens = [*title.split(), *text.split()[:tokens_max]]
    return set(vocabulary_entries(" ".join(tokens)).split())


def assert_same(title: str, text: str, language: str, tokens_max: int = TOKENS_MAX) -> None:
    assert page_terms(text, language, tokens_max) == by_definition(text, language, tokens_max)
    expected = vocabulary_by_definition(title, text, tokens_max)
    assert set(page_vocabulary(title, text, language, tokens_max).split()) == expected
    other = vocabulary_by_definition("", title, tokens_max)
    assert set(page_vocabulary("", title, language, tokens_max).split()) == other, "not the text analysed last"


@pytest.mark.parametrize("language", ["pt", "en", "ja"])
@pytest.mark.parametrize("text", [*TEXTS, " ".join(TEXTS[:-3])], ids=lambda text: ascii(text[:12]))
def test_every_script_has_the_terms_of_the_definition(kernel_way, text, language):
    assert_same("Título: a rede de pesca", text, language)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_text, any_text, languages, st.one_of(st.just(TOKENS_MAX), st.integers(0, 8)))
def test_any_text_has_the_terms_of_the_definition(kernel_way, title, text, language, tokens_max):
    assert_same(title, text, language, tokens_max)


@pytest.mark.parametrize("seed", range(3))
def test_long_texts_of_many_words_have_the_terms_of_the_definition(kernel_way, seed):
    rng = random.Random(seed)
    letters = "abcdeéãçüÁÉ" + "ж日ア" * (seed > 0) + "😀" * (seed > 1)
    made = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(3_000)]
    for _ in range(3):
        assert_same("um", " ".join(rng.choices([*made, "de", "a", "que", "--", "o."], k=4_000)), "pt")


def test_a_short_text_takes_the_python_way(monkeypatch):
    monkeypatch.setattr(kernels, "get", lambda: pytest.fail("no kernel is worth its call"))
    assert page_terms("a rede de pesca", "pt", 10).terms_count == 4


@pytest.mark.parametrize(("name", "most"), [("WORDS_MAX", 100), ("ARENA_NUMBERS_MAX", 2_000)])
def test_a_full_table_is_emptied_and_a_text_of_more_words_takes_the_python_way(kernel_way, monkeypatch, name, most):
    monkeypatch.setattr(word_table, name, most)
    for start in range(0, 1_000, 50):
        assert_same("outro título", " ".join(f"palavra{number}" for number in range(start, start + 60)), "pt")
        table = word_table.word_table("pt")
        assert table.words <= 100 and table.bytes_used <= 4 * word_table.ARENA_NUMBERS_MAX
    assert_same("", " ".join(f"palavra{number}" for number in range(300)), "pt")


def test_a_composed_token_has_no_special_character():
    """What the kernel rests on: in tokens without special characters composition changes nothing, because nothing in
    them is composed, is part of a composition, or changes places.
    """
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        apart = unicodedata.decomposition(character)
        if apart and not apart.startswith("<"):
            for part in apart.split()[1:]:
                assert character_class(chr(int(part, 16))) == SPECIAL, hex(number)
        if unicodedata.combining(character):
            assert character_class(character) == SPECIAL, hex(number)
    for part in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)):  # of Hangul syllables
        assert character_class(chr(part)) == SPECIAL


@given(st.characters(codec=None))
def test_spaces_and_words_are_those_of_python(character):
    kind = character_class(character)
    assert (kind == SPACE) == character.isspace()
    if kind != SPECIAL:
        assert (kind in (WORD, UNSPACED)) == (words(character) == [character])


@pytest.mark.parametrize(("language", "read_as"), [("pt-BR", "pt"), ("EN_us", "en"), ("fr", ""), ("", "")])
def test_other_languages_share_a_table(language, read_as):
    assert language_of_analysis(language) == read_as
