"""The lines of a page that show why it was found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.index.text_analysis import analyzer_for, compose, readings, word_spans
from tarrafa.search.snippet import SNIPPET_CHARS_MAX, SnippetSource, mark_terms, terms_of_texts
from tarrafa.search.snippet import _places as places
from tarrafa.search.snippet import make_snippet as make_snippet_of
from tarrafa.testweb.world.lexicon import lexicon

WANTED = frozenset(["red", "mar"])


def make_snippet(text: str, wanted: frozenset[str], language: str, otherwise: frozenset[str] = frozenset()) -> str:
    """Of a text that is all content."""
    return make_snippet_of(SnippetSource.of_content(text), wanted, language, otherwise)


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
    assert make_snippet_of(page, WANTED, "pt") == expected
