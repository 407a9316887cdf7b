"""The lines of a page that show why it was found."""

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.index.text_analysis import analyzer_for, compose, readings, word_spans
from tarrafa.search import snippet_kernels
from tarrafa.search.snippet import SnippetSource, kernels, make_snippets, mark_terms, terms_of_texts
from tarrafa.search.snippet import _places as places
from tarrafa.search.snippet import make_snippet as make_snippet_of
from tarrafa.search.snippet_kernels import SNIPPET_CHARS_MAX
from tarrafa.testweb.world.lexicon import lexicon
from tests.kernel_ways import COMPILED, PYTHON, in_the_way, with_bounds_checks

WANTED = frozenset(["red", "mar"])


def make_snippet(text: str, wanted: frozenset[str], language: str, otherwise: frozenset[str] = frozenset()) -> str:
    """Of a text that is all content."""
    return make_snippet_of(SnippetSource.of_content(text), language, wanted, otherwise)


LANGUAGES = ["pt", "en", ""]
ODD = [
    "uns",
    "dying",
    "lying",
    "tying",
    "skies",
    "pães",
    "ações",
    "lençóis",
    "ÂNGELO",
    "naïve",
    "Straße",
    "Łódź",
    "Şişli",
    "İstanbul",
    "Ālborg",
    "ﬁm",
    "Москва",
    "Ελλάδα",
    "北京",
    "não",
    "óculos",
    "Ørsted",
    "Þór",
    "2º",
    "xⁿ",
    "①",
    "ª",
    "x",
    "1984",
    "d",
]


def test_the_stretch_with_the_most_different_words_is_shown():
    text = "rede " * 5 + "x " * 200 + "uma rede lançada ao mar alto " + "y " * 200
    found = make_snippet(text, WANTED, "pt")
    assert "uma rede lançada ao mar alto" in found
    assert found.startswith("… x")
    assert found.endswith("y …")


def test_without_any_word_it_is_the_beginning():
    assert make_snippet("Começa  aqui\n e termina.", WANTED, "pt") == "Começa aqui e termina."
    assert make_snippet("", WANTED, "pt") == ""
    assert make_snippet("Começa aqui.", frozenset(), "pt") == "Começa aqui."


def test_what_is_wanted_otherwise_is_shown_where_nothing_else_is():
    text = "x " * 300 + "uma canoa"
    assert make_snippet(text, WANTED, "pt", terms_of_texts(["canoas"])).endswith("uma canoa")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_is_found_wherever_it_stands(language):
    nouns = [form for noun in lexicon("pt", 1).nouns[:2_000] for form in (noun.singular, noun.plural)]
    for word in [*nouns, *ODD]:
        text = compose(f"{'nada aqui; ' * 40}veja («{word.capitalize()}») {'nem ali, ' * 40}")
        assert f"«{compose(word.capitalize())}»" in make_snippet(text, terms_of_texts([word]), language), word


def by_looking_at_every_word(text: str, wanted: frozenset[str], language: str) -> list[tuple[int, str]]:
    found = [(start, analyzer_for(language)(text[start:end])) for start, end in word_spans(text)]
    return [place for place in found if place[1] in wanted]


LETTERS = "abdeimnorsuyãáçéêíóúñöàÃÉ1290ªº"  # without fractions, which are several letters in one (known weakness)
NOUNS = [form for noun in lexicon("pt", 1).nouns[:300] for form in (noun.singular, noun.plural)]
WORDS = st.sampled_from([*ODD, "rede", "REDES", "Mar", "mares", "um", "die", *NOUNS]) | st.text(LETTERS, max_size=9)
GAPS = st.sampled_from([" ", "\n", ", ", "-", "_", "“", "’", "—", "."])


@given(st.lists(st.tuples(WORDS, GAPS), max_size=30), st.lists(WORDS, max_size=4), st.sampled_from(LANGUAGES))
def test_looking_at_beginnings_finds_what_looking_at_every_word_finds(said, words, language):
    text = compose("".join(word + gap for word, gap in said))
    wanted = terms_of_texts(words)
    assert places(text, wanted, language) == by_looking_at_every_word(text, wanted, language)


@given(st.text(), st.sampled_from(LANGUAGES))
def test_snippets_are_bounded_and_pieces_make_up_the_text(text, language):
    found = make_snippet(text, WANTED, language)
    assert len(found) <= SNIPPET_CHARS_MAX + 4
    assert "\n" not in found
    assert "".join(piece for piece, _ in mark_terms(found, WANTED, language)) == compose(found)


def test_a_word_that_fills_a_page_costs_no_more_than_its_first_places():
    assert readings("de")
    assert make_snippet("de " * 20_000, terms_of_texts(["de"]), "pt").startswith("de de de")


def test_two_fragments_cover_the_words_that_one_does_not():
    text = "Uma rede cai. " + "x " * 200 + "O mar fecha."
    found = make_snippet(text, WANTED, "pt")
    assert found.startswith("Uma rede cai. x x")
    assert found.endswith("x x O mar fecha.")
    assert " … " in found
    assert len(found) <= SNIPPET_CHARS_MAX + 4
    turned = make_snippet("O mar. " + "x " * 200 + "Uma rede, outra rede.", WANTED, "pt")
    assert turned.index("mar") < turned.index("rede"), "in the order of the page"


def test_one_fragment_is_enough_where_two_hold_no_more():
    text = "rede e mar " + "x " * 200 + "rede e mar"
    assert make_snippet(text, WANTED, "pt") == "rede e mar " + "x " * 114 + "x …"


def parted(content: str, other: str = "", template: str = "", description: str = "") -> SnippetSource:
    own = f"{content}\n{other}" if other else content
    return SnippetSource(f"{own}\n{template}", len(content), len(own), description)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (parted("Uma rede.", "Rede no mar."), "Uma rede. … Rede no mar."),
        (parted("Uma rede.", "", "Rede no mar"), "Uma rede."),
        (parted("Uma canoa.", "Um mar.", "Rede"), "Um mar."),
        (parted("Uma canoa.", "Legenda", "Rede no mar"), "Uma canoa. … Rede no mar"),
        (parted("Uma canoa.", "", "Rede no mar", "Um porto."), "Um porto. … Rede no mar"),
        (parted("Uma canoa.", "", "Menu", "Um porto."), "Um porto."),
        (parted("Uma canoa.", "Legenda", "Menu"), "Uma canoa."),
        (parted("", "", "Menu da rede"), "Menu da rede"),
        (parted("", "", "Menu"), "Menu"),
    ],
)
def test_a_menu_is_shown_only_for_words_that_stand_nowhere_else(page, expected):
    assert make_snippet_of(page, "pt", WANTED) == expected


# -- all hits at once: the kernels -------------------------------------------------------------------------------------


def array_at(address: int, length: int) -> Any:
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)), (length,))


def numbers(content: bytes) -> Any:
    return np.frombuffer(content, np.int64)


@pytest.fixture(scope="module")
def checked():
    """The kernels with bounds checks, called as the compiled ones are."""
    module = with_bounds_checks(snippet_kernels.__name__)

    def find_words(text, bounds, parts, tables, beginnings, ends, count, places_max, likely, found, capacity):
        texts = (np.frombuffer(one, np.uint8) for one in (tables, beginnings))
        arrays = (array_at(address, capacity) for address in (likely, found))
        text = np.frombuffer(text, np.uint8)
        return module.find_words(
            text, numbers(bounds), parts, *texts, numbers(ends), count, places_max, *arrays, capacity
        )

    def choose(kind: str, text: bytes, bounds: bytes, page_ends: bytes, pages: int, *given: Any) -> Any:
        words, word_ends, terms, lengths, results = given
        parts = int(numbers(page_ends)[-1])
        several = array_at(word_ends, parts)
        count = int(several[-1])
        room = snippet_kernels.RESULTS * pages + snippet_kernels.TERMS_MAX + count
        arrays = array_at(words, 2 * count), several, array_at(terms, count), numbers(lengths)
        points = np.frombuffer(text, kind)
        return module.choose(points, numbers(bounds), numbers(page_ends), pages, *arrays, array_at(results, room))

    return {
        "find_words": find_words,
        "choose_8": lambda *given: choose("<u1", *given),
        "choose_16": lambda *given: choose("<u2", *given),
    }


def in_all_ways(checked: Any, pages: Any, wanted: frozenset[str], otherwise: frozenset[str] = frozenset()) -> list[str]:
    """The snippets, which are the same in all ways."""
    with in_the_way(PYTHON, kernels):
        expected = make_snippets(pages, wanted, otherwise)
    with in_the_way(COMPILED, kernels):
        assert make_snippets(pages, wanted, otherwise) == expected
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "get", lambda: checked)
            assert make_snippets(pages, wanted, otherwise) == expected
    return expected


FILLINGS = st.sampled_from(
    ["x " * 30, "x" * 150, "Uma casa. ", "Não? ", "\n", " \xa0 ", "\u2003", "“", "1:2 ", "rede, mar "]
)
TEXTS = st.lists(st.one_of(st.tuples(WORDS, GAPS).map("".join), FILLINGS), max_size=30).map("".join).map(compose)
PAGES = st.lists(
    st.tuples(
        st.builds(parted, TEXTS, TEXTS, st.just("Menu da rede"), st.just("Um porto.")), st.sampled_from(LANGUAGES)
    ),
    max_size=5,
)


@settings(deadline=None, max_examples=300)
@given(PAGES, st.lists(WORDS, min_size=1, max_size=4))
def test_all_ways_make_the_same_snippets(checked, pages, words):
    in_all_ways(checked, pages, terms_of_texts([*words, "redes", "mar"]), terms_of_texts(["porto"]))


def test_all_ways_make_the_same_snippets_of_long_pages(checked):
    words = ["rede", "mares", "canoa", "porto", "de"]
    texts = [
        " ".join(words[(number * step) % len(words)] + " x" * (number % 40) for number in range(150))
        for step in (1, 2, 3, 7)
    ]
    pages = [(parted(text, text[::-1]), "pt") for text in texts]
    in_all_ways(checked, pages, terms_of_texts(words[:4]))
    in_all_ways(checked, [*pages, (parted("de " * 5_000), "pt")], terms_of_texts(words))


def test_a_page_with_other_letters_is_read_word_by_word_and_the_others_are_not(checked):
    pages = [(parted(f"{word} na rede."), "pt") for word in ("Uma", "Łódź", "“Uma”", "北京", "😀")]
    assert in_all_ways(checked, pages, WANTED) == [page.text.strip() for page, _ in pages]
