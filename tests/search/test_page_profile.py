"""What the record of a page says of it (content, template, headline, description, alternates) in its search results."""

from typing import Any

import msgspec
import pytest

from tarrafa.model import DeclaredEntity, SearchResult, VisitRecord
from tarrafa.search.request import SearchRequest
from tests.graph.archived_web import new_data
from tests.search.sample_pages import Asker, a_page, fill

A, B, C, D = (f"http://{name}.test/" for name in "abcd")
MENU = "Início\nCinema\nTeatro\nFale conosco agora"
ARTICLE = "A sessão de ontem mostrou três curtas do diretor. O público aplaudiu de pé e pediu outra sessão amanhã."


@pytest.fixture
def data(tmp_path):
    return new_data(tmp_path / "data")


def a_profile(url: str, content: str, title: str = "", *, menu: str = "", listed: str = "", **more: Any) -> VisitRecord:
    """A page with a menu before its content and a list of links behind it, as parsing tells them apart."""
    text, spans = "", dict[str, tuple[tuple[int, int], ...]]()
    for name, piece in (("template_spans", menu), ("content_spans", content), ("link_list_spans", listed)):
        if piece:
            text += "\n" if text else ""
            spans[name] = ((len(text), len(text) + len(piece)),)
            text += piece
    record = a_page(url, text, title)
    assert record.page is not None
    return msgspec.structs.replace(record, page=msgspec.structs.replace(record.page, **spans, **more))


def urls(result: SearchResult) -> list[str]:
    return [hit.url for hit in result.hits]


# -- ranking ----------------------------------------------------------------------------------------------------------


def test_a_word_of_the_content_counts_above_the_same_word_in_menus(data):
    menus = [a_profile(f"{B}{n}", f"{ARTICLE} {n}", menu=f"{MENU}\ncinema cinema cinema") for n in range(5)]
    ask = fill(data, *menus, a_profile(A, f"{ARTICLE} {ARTICLE} O cinema fechou.", menu=MENU)).search
    pages = [a_page(f"{C}{n}", f"outra página {n}") for n in range(8)]
    assert urls(ask("cinema")) == [A], "a word in the menus of most pages finds those that are about it"
    ask = fill(data, *pages, worker="w2").search
    assert urls(ask("cinema"))[0] == A
    assert ask("cinema").total == 6


def test_what_stands_only_in_a_menu_or_a_list_of_links_is_found(data):
    ask = fill(
        data, a_profile(A, ARTICLE, menu=MENU, listed="Dez filmes de faroeste"), a_profile(B, ARTICLE * 2)
    ).search
    for text in ("teatro", "faroeste", '"fale conosco agora"', "+teatro", "curtas +faroeste", "teatro faroeste"):
        assert urls(ask(text))[0] == A, text
    assert urls(ask("curtas -teatro")) == [B]
    assert ask("teatro").suggestion is None
    parts = Asker(data).searcher.explain_score(SearchRequest("teatro"), A)
    assert [part.kind for part in parts] == ["template", "links"]


def test_words_that_stand_only_in_menus_are_completed_corrected_and_found_by_their_beginning(data):
    asker = fill(data, a_profile(A, f"{ARTICLE} Vimos o teatro.", menu=MENU), a_profile(B, ARTICLE * 2, menu=MENU))
    assert asker.searcher.suggest("contag") == []
    assert asker.searcher.suggest("agor") == ["agora"]
    assert asker.searcher.suggest("teat") == ["teatro"], "once, whether the page or its menu has it"
    assert asker.searcher.suggest("curtas cin") == ["curtas cinema"]
    assert asker.search("conosko").suggestion == "conosco"
    assert set(urls(asker.search("cine*"))) == {A, B}


def test_a_form_counts_where_the_page_writes_it_itself_and_not_where_its_menu_does(data):
    own = a_profile(A, f"{ARTICLE} O teatro fechou.", menu=MENU)
    other = a_profile(B, f"{ARTICLE} Dois teatros fecharam.", menu=MENU)
    asker = fill(data, own, other, *(a_page(f"{C}{n}", f"outra página {n}") for n in range(8)))
    assert urls(asker.search("teatro")) == [A, B]
    forms = [[part.what for part in asker.searcher.explain_score(SearchRequest("teatro"), url) if part.kind == "form"]
             for url in (A, B)]  # fmt: skip
    assert forms == [["teatro"], []]


def test_the_parts_of_a_score_are_the_score_also_of_a_listing(data):
    ask = fill(data, a_profile(A, "Cinema", "Cinema", menu=MENU, listed="sessão de cinema\n" * 30))
    [hit] = ask.search("cinema sessão").hits
    parts = ask.searcher.explain_score(SearchRequest("cinema sessão"), A)
    added = sum(part.value for part in parts if part.kind in ("text", "title", "template", "pair", "form"))
    factors = {part.kind: part.value for part in parts if part.kind in ("links", "listing")}
    assert set(factors) == {"links", "listing"}
    assert hit.score == pytest.approx(added * factors["links"] * factors["listing"], rel=1e-3)


def test_a_listing_stands_below_an_article_and_first_where_only_it_matches(data):
    titles = "\n".join(f"Sessão número {n} do festival" for n in range(20))
    tag = a_profile(A, "Arquivo", "Cinema", menu=MENU, listed=titles)
    article = a_profile(B, f"{ARTICLE} O cinema fica no centro. {ARTICLE}", "Cinema do centro", menu=MENU)
    ask = fill(data, tag, article).search
    assert urls(ask("cinema")) == [B, A]
    assert urls(ask("arquivo cinema"))[0] == A
    assert urls(ask("+arquivo")) == [A]


# -- titles -----------------------------------------------------------------------------------------------------------


def test_a_result_shows_the_headline_and_keeps_the_whole_title(data):
    whole = "Rede no mar — Blog do Porto"
    ask = fill(
        data, a_profile(A, ARTICLE, whole, headline="Rede no mar"), a_profile(B, f"{ARTICLE} rede", "Só rede")
    ).search
    told = {hit["url"]: hit for hit in msgspec.to_builtins(ask("rede"))["hits"]}
    assert (told[A]["title"], told[A]["full_title"]) == ("Rede no mar", whole)
    assert told[B]["title"] == "Só rede"
    assert "full_title" not in told[B]


def test_the_name_of_the_site_in_a_title_is_found_and_is_no_title(data):
    pages = [a_profile(f"{A}{n}", f"{ARTICLE} {n}", f"Nota {n} — Porto", headline=f"Nota {n}") for n in range(4)]
    ask = fill(data, *pages, a_profile(B, f"{ARTICLE} Chegamos ao porto de Santos, um porto antigo.", "Viagem")).search
    assert urls(ask("porto", crowded=True))[0] == B
    assert ask("porto").total == ask("nota porto").total == 5
    assert ask("intitle:porto").total == 4


# -- snippets ---------------------------------------------------------------------------------------------------------


def test_a_snippet_comes_from_the_content(data):
    ask = fill(data, a_profile(A, f"{ARTICLE} O cinema fechou.", menu=MENU * 20)).search
    assert ask("cinema").hits[0].snippet == f"{ARTICLE} O cinema fechou."


def test_a_word_that_only_the_menu_has_is_shown_behind_what_the_page_is_about(data):
    ask = fill(data, a_profile(A, ARTICLE, menu=MENU)).search
    snippet = ask("teatro").hits[0].snippet
    assert snippet.startswith("A sessão de ontem")
    assert "Teatro" in snippet


def test_without_the_words_in_the_text_the_description_is_shown(data):
    described = a_profile(A, ARTICLE, "Faroeste", menu=MENU, description="Críticas  de\nfilmes.")
    ask = fill(data, described, a_profile(B, f"{ARTICLE} e mais", "Faroeste novo", menu=MENU)).search
    assert {hit.url: hit.snippet for hit in ask("faroeste").hits} == {A: "Críticas de filmes.", B: f"{ARTICLE} e mais"}
    assert ask("curtas").hits[0].snippet != "Críticas de filmes."


# -- facts and languages ----------------------------------------------------------------------------------------------


def declared(data: Any, statements: str, title: str) -> tuple[DeclaredEntity, ...]:
    return fill(data, a_profile(A, ARTICLE, title, statements=statements)).search("curtas").hits[0].declared


RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


@pytest.mark.parametrize(
    "statements",
    [
        '<http://a.test/> <http://ogp.me/ns#type> "video.movie" .\n'
        '<http://a.test/> <http://ogp.me/ns#title> "Outro nome" .\n',
        f'_:x {RDF_TYPE} <http://schema.org/Article> .\n_:x <http://schema.org/headline> "Três  curtas" .\n',
        f"_:x {RDF_TYPE} <http://schema.org/Thing> .\n",
    ],
)
def test_a_page_without_facts_shows_none(data, statements):
    assert declared(data, statements, "Três curtas — Blog") == ()


def test_facts_are_shown(data):
    statements = f'_:x {RDF_TYPE} <http://schema.org/Event> .\n_:x <http://schema.org/startDate> "2026-05-02" .\n'
    assert declared(data, statements, "Festa") == (
        DeclaredEntity("schema:Event", "", (("schema:startDate", "2026-05-02"),)),
    )


def test_alternates_are_told_if_they_are_indexed(data):
    alternates = (
        ("x-default", B), ("en", B), ("es-AR", C), ("fr", "http://nowhere.test/"), ("pt", A), ("de", "ftp://d.test/"),
    )  # fmt: skip
    ask = fill(data, a_profile(A, ARTICLE, alternates=alternates), a_page(B, "english page"), a_page(C, "hola")).search
    assert ask("curtas").hits[0].alternates == (("en", B), ("es-AR", C))
    assert "alternates" not in msgspec.to_builtins(ask("english"))["hits"][0]


def test_of_many_alternates_those_in_languages_of_the_interface_are_kept(data):
    many = tuple((f"x{chr(97 + n)}", f"{D}{n}") for n in range(20))
    pages = [a_page(url, f"página {url}") for _, url in (*many, ("pt-BR", B))]
    ask = fill(data, a_profile(A, ARTICLE, alternates=(*many, ("pt-BR", B))), *pages).search
    [hit] = ask("curtas").hits
    assert hit.alternates
    assert hit.alternates[0] == ("pt-BR", B)
    assert len(hit.alternates) == 8
