"""A page whose title is the whole query stands first, whatever number is before it."""

import pytest

from tarrafa.index.document_fields import _title_keys, title_key
from tarrafa.search import query_builder
from tests.graph.archived_web import a_record, new_data
from tests.search.sample_pages import Asker, fill

NAMED, RIVAL, LINKED = "http://a.br/redes", "http://a.br/historia", "http://a.br/mapa"


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Asker:
    filler = [a_record(f"http://b.br/{n}", title=f"Outra página {n}", text="texto sobre o mar") for n in range(30)]
    return fill(
        new_data(tmp_path_factory.mktemp("titles") / "data"),
        a_record(NAMED, title="3.2. Redes de pesca", text=f"Uma rede de pesca. {'Outro texto. ' * 60}"),
        a_record(
            RIVAL, title="Redes, redes de pesca", text="redes de pesca " * 40, headings=("Histórias", "redes de pesca")
        ),
        a_record(LINKED, title="Mapa das redes de pesca", text="redes de pesca", links=[RIVAL] * 3),
        *filler,
    )


@pytest.mark.parametrize("text", ["redes de pesca", "Redes de Pesca", "3.2 redes de pesca"])
def test_the_page_with_this_title_comes_first(ask, text):
    assert ask.search(text).hits[0].url == NAMED


def test_without_that_gain_a_page_that_repeats_the_words_comes_first(ask, monkeypatch):
    monkeypatch.setattr(query_builder, "NAMED_SHARE", 0.0)
    assert ask.search("redes de pesca").hits[0].url == RIVAL


@pytest.mark.parametrize(
    ("title", "query"),
    [
        ("3.2. Redes de pesca", "redes de pesca"),
        ("Chapter 5 - Nets", "nets"),
        ("Capítulo 12. Redes", "Redes"),
        ("Apêndice A. Redes", "redes"),
        ("Appendix B: Nets", "nets"),
        ("A.1 Nets", "nets"),
        ("21.3\N{NO-BREAK SPACE}Creating Stand-Alone Executables", "creating stand-alone executables"),
        ("第 3 章 システムの初期化", "システムの初期化"),
        ("第12章 网络", "网络"),
        ("附录 A. 网络", "网络"),
        ("Kapitel 3: Netze", "netze"),
        ("Глава 2. Сети", "сети"),
        ("2001: A Space Odyssey", "2001 a space odyssey"),
    ],
)
def test_a_number_before_a_title_need_not_be_typed(title, query):
    page = a_record(NAMED, title=title).page
    assert page is not None and title_key(query) in _title_keys(page)


def test_a_letter_that_is_a_word_is_no_number():
    page = a_record(NAMED, title="A rede", text="").page
    assert page is not None and list(_title_keys(page)) == [title_key("a rede")]
    assert title_key("!?") == ""
