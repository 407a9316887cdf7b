"""Every condition of the query language, every switch of a question, on pages that tell them apart."""

import random
from itertools import product
from math import prod

import msgspec
import pytest

from tarrafa.errors import QueryError
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.model import Link, PageDate, VisitRecord
from tarrafa.search.request import ExpansionTerm, SearchRequest, Sort
from tests.graph.archived_web import a_record, new_data, write
from tests.search.sample_pages import Asker, a_page

DAY = 86_400.0
NEW, OLD = 1_790_000_000.0, 1_790_000_000.0 - 400 * DAY  # 2026-09-21 and 2025-08-17


def visited(record: VisitRecord, at: float, mime: str = "text/html") -> VisitRecord:
    return msgspec.structs.replace(record, outcome=msgspec.structs.replace(record.outcome, at=at, type=mime))


PAGES = {
    "rede": ("http://www.pesca.br/redes/redonda.html", "Rede redonda", "A rede de pesca é lançada ao mar.", "pt"),
    "barco": ("http://loja.pesca.br/barco", "O barco", "Um barco a vela com uma rede nova.", "pt"),
    "peixe": (
        "http://peixe.org/index.php?id=7",
        "Peixes do mar",
        "Peixe, pescador, em função da maré.",
        "pt",
    ),
    "net": ("http://net.org/net.pdf", "Round nets", "The fisherman casts a round net for tarpon.", "en"),
    "guia": ("http://guia.org/", "Guia", "Um guia de tudo: rede, mar, barco.", "pt"),
}
URL = {name: page[0] for name, page in PAGES.items()}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    data = new_data(tmp_path_factory.mktemp("asking") / "data")
    links = {
        "guia": (Link(URL["rede"], "redes"), Link(URL["barco"], "barcos")),
        "peixe": (Link(URL["rede"], "a rede"), Link("http://nowhere.org/", "nada")),
    }
    records = [
        visited(
            a_record(url, title=title, text=text, language=language, links=links.get(name, ())),
            OLD if name in ("barco", "net") else NEW,
            "application/pdf" if name == "net" else "text/html; charset=utf-8",
        )
        for name, (url, title, text, language) in PAGES.items()
    ]
    write(data, records)
    graph.catch_up(data, lambda name, weights: None)
    index.catch_up(data)
    asker = Asker(data)

    def names(text, **chosen):
        known = {url: name for name, url in URL.items()}
        return [known[hit.url] for hit in asker.search(text, **chosen).hits]

    return names


FOUND = {
    "inurl:redes": {"rede"},
    "inurl:redonda.html": {"rede"},
    "mar inurl:pesca": {"rede"},
    "intitle:mar": {"peixe"},
    'intitle:"rede redonda"': {"rede"},
    "intitle:redes": {"rede"},
    "rede -intitle:rede": {"barco", "guia"},
    "filetype:pdf": {"net"},
    "filetype:application/pdf": {"net"},
    "filetype:text/*": {"rede", "barco", "peixe", "guia"},
    "filetype:php": {"peixe"},
    "filetype:html -filetype:php -lang:en": {"rede", "barco", "guia"},
    "after:2026 rede": {"rede", "guia"},
    "before:2026-01-01": {"barco", "net"},
    "after:2025-08-17 before:2025-08-18": {"barco", "net"},
    "rede -after:2026-09": {"barco"},
    "link:http://www.pesca.br/redes/redonda.html": {"guia", "peixe"},
    "link:loja.pesca.br/barco": {"guia"},
    "link:http://nowhere.org/": {"peixe"},
    "link:http://unknown.org/": set(),
    "mar -link:http://nowhere.org/": {"rede", "guia"},
    "site:pesca.br": {"rede", "barco"},
    "site:pesca.br OR site:net.org": {"rede", "barco", "net"},
    "host:pesca.br": set(),
    "peix*": {"peixe"},
    "PESC*": {"rede", "peixe"},
    "funca*": {"peixe"},
    "fish* OR barc*": {"net", "barco", "guia"},
    "+rede +(vela OR tudo)": {"barco", "guia"},
    "+rede -(vela OR tudo)": {"rede"},
    "(barco mar) -site:guia.org": {"rede", "barco", "peixe"},
    "(+rede +mar) OR vela": {"rede", "guia", "barco"},
    "+rede -inexistente": {"rede", "barco", "guia"},
    "-inurl:inexistente rede": {"rede", "barco", "guia"},
    "rede +inexistente*": set(),
}


@pytest.mark.parametrize("text", FOUND)
def test_what_a_search_finds(ask, text):
    found = ask(text)
    assert set(found) == FOUND[text]
    assert len(found) == len(set(found))


def test_sorted_by_links_or_date_the_most_or_the_newest_stand_first(ask):
    assert ask("rede OR barco", sort=Sort.LINKS)[:2] == ["rede", "barco"]
    assert set(ask("rede OR net", sort=Sort.DATE)[:2]) == {"rede", "guia"}
    assert set(ask("rede OR net", sort=Sort.DATE)[2:]) == {"barco", "net"}


def test_pages_are_found_and_sorted_by_the_date_that_they_state(tmp_path):
    data = new_data(tmp_path / "data")
    stated = {"2009-05-17": 1_242_518_400, "2020-01-02": 1_577_923_200, "2015-10-21": 1_445_385_600}
    records = [
        a_record(f"http://a.br/{day}", text=f"rede do dia {day}", published=PageDate(at, "meta"))
        for day, at in stated.items()
    ]
    write(data, [*records, a_record("http://a.br/visto", text="rede vista")])
    index.catch_up(data)
    asker = Asker(data)

    def found(query: str) -> list[str]:
        return [hit.url.rpartition("/")[2] for hit in asker.search(query, sort=Sort.DATE).hits]

    assert found("rede") == ["visto", "2020-01-02", "2015-10-21", "2009-05-17"]
    assert found("rede after:2010 before:2026") == ["2020-01-02", "2015-10-21"]
    assert found("rede before:2009-05-18") == ["2009-05-17"]
    kinds = {hit.updated[:10]: hit.date_kind for hit in asker.search("rede").hits}
    assert kinds == dict.fromkeys(stated, "published") | {"2026-09-21": "seen"}


def test_where_new_pages_are_preferred_the_newer_of_equals_stands_first(tmp_path):
    data = new_data(tmp_path / "data")
    texts = ("rede de pesca um", "rede de pesca dois", "rede de pesca três")
    records = [
        visited(a_record(f"http://{name}.org/", text=text), at)
        for name, text, at in zip("abc", texts, (OLD, OLD - 900 * DAY, NEW), strict=True)
    ]
    write(data, records)
    index.catch_up(data)
    asker = Asker(data)
    plain, recent = (asker.search("rede", recent=recent) for recent in (False, True))
    assert len({hit.score for hit in plain.hits}) == 1
    assert [hit.url for hit in recent.hits] == ["http://c.org/", "http://a.org/", "http://b.org/"]


def test_a_third_page_of_a_site_stands_behind_those_of_others_and_none_is_lost(tmp_path):
    data = new_data(tmp_path / "data")
    records = [a_record(f"http://w{n}.grande.br/", title=f"Rede {n}", text=f"rede rede {n}") for n in range(6)]
    records += [a_record(f"http://outro{n}.br/", text=f"uma rede {n} entre muitas outras coisas") for n in range(3)]
    write(data, records)
    index.catch_up(data)
    asker = Asker(data)
    sites = ["grande" if "grande" in hit.url else "outro" for hit in asker.search("rede").hits]
    assert sites == ["grande"] * 2 + ["outro"] * 3 + ["grande"] * 4
    crowded = ["grande" if "grande" in hit.url else "outro" for hit in asker.search("rede", crowded=True).hits]
    assert crowded == ["grande"] * 6 + ["outro"] * 3
    pages = [hit.url for offset in range(0, 9, 2) for hit in asker.search("rede", n=2, offset=offset).hits]
    assert len(pages) == len(set(pages)) == 9


def test_a_phrase_of_any_length_is_found_just_where_it_stands(tmp_path):
    data, rng, spoken = new_data(tmp_path / "data"), random.Random(3), ("rede", "mar", "rio")
    texts = {f"http://h{n}.org/": rng.choices(spoken, k=rng.randint(1, 12)) for n in range(60)}
    write(data, [a_record(url, title=said[0], text=" ".join(said)) for url, said in texts.items()])
    index.catch_up(data)
    ask = Asker(data)
    for phrase in (phrase for length in (2, 3, 4, 5) for phrase in product(spoken, repeat=length)):
        sought = f" {' '.join(phrase)} "
        wanted = {url for url, said in texts.items() if sought in f" {' '.join(said)} "}
        found = ask.search(f'"{" ".join(phrase)}"', n=60, copies=True)
        assert {hit.url for hit in found.hits} == wanted, phrase


def test_neighbours_in_the_query_that_are_neighbours_in_the_page_count_more(tmp_path):
    data = new_data(tmp_path / "data")
    texts = {
        "apart": "praia de areia e dados do banco sol",
        "near": "areia banco, praia de dados e do sol",
        "other": "uma coisa qualquer sem nada disso aqui",
    }
    write(data, [a_record(f"http://{name}.org/", text=text) for name, text in texts.items()])
    index.catch_up(data)
    hits = Asker(data).search("areia banco dados").hits
    assert [hit.url for hit in hits] == ["http://near.org/", "http://apart.org/"]
    assert hits[0].score > hits[1].score


def test_the_natural_mode_does_not_ask_for_words_that_stand_in_more_than_half_of_the_documents(tmp_path):
    data = new_data(tmp_path / "data")
    texts = [f"boa festa que a rede {n}" for n in range(5)] + ["a vela e o barco", "o barco"]
    write(data, [a_record(f"http://h{n}.org/", text=text) for n, text in enumerate(texts)])
    index.catch_up(data)
    asker = Asker(data)
    assert asker.search("boa festa vela").total == 6
    found = asker.search("boa festa a vela", natural=True)
    assert (found.total, found.ignored) == (1, ["boa", "festa", "a"])
    assert asker.search("festa rede", natural=True).total == 5, "if all of them are common, all of them are asked for"
    assert asker.search("+festa vela", natural=True).total == 5


@pytest.mark.parametrize(
    ("chosen", "typed"),
    [
        ({"language": "en"}, "lang:en"),
        ({"language": "pt-BR"}, "lang:pt-BR"),
        ({"after": "2026-01"}, "after:2026-01"),
        ({"before": "2026"}, "before:2026"),
        (
            {"language": "pt", "after": "2025-08-17", "before": "2025-08-18"},
            "lang:pt after:2025-08-17 before:2025-08-18",
        ),
    ],
)
def test_what_is_chosen_beside_the_text_counts_as_if_it_were_typed(ask, chosen, typed):
    beside = ask("rede OR net", **chosen)
    assert beside == ask(f"(rede OR net) {typed}")
    assert 0 < len(beside) < len(ask("rede OR net"))


@pytest.mark.parametrize("chosen", [{"language": "?"}, {"after": "ontem"}, {"before": "2026-13"}])
def test_what_cannot_be_chosen_beside_the_text_is_one_sentence(ask, chosen):
    with pytest.raises(QueryError, match="needs a"):
        ask("rede", **chosen)


def test_the_parts_of_a_score_say_why_and_make_the_score(tmp_path):
    data = new_data(tmp_path / "data")
    texts = {"a": "rede de pesca no mar", "b": "rede no mar de pesca", "c": "coisas"}
    write(data, [a_record(f"http://{name}.org/", title="Rede", text=text) for name, text in texts.items()])
    index.catch_up(data)
    searcher = Asker(data).searcher
    for question in (
        SearchRequest("rede de pesca", recent=True),
        SearchRequest('+rede "no mar" pes* site:org', all_words=True),
        SearchRequest("(mar OR rede) -nada", extras=(ExpansionTerm("coisas", 0.5),)),
        SearchRequest("pesca de rede", natural=True),
    ):
        for hit in searcher.search(question).hits:
            parts = searcher.explain_score(question, hit.url)
            added = sum(part.value for part in parts if part.kind in ("text", "title", "pair", "added", "form"))
            factor = prod(part.value for part in parts if part.kind in ("links", "recent", "curated"))
            assert added * factor == pytest.approx(hit.score, rel=1e-3)
    kinds = {(part.kind, part.what) for part in searcher.explain_score(SearchRequest("rede de pesca"), "http://a.org")}
    assert kinds >= {("text", "rede"), ("text", "pesca"), ("title", "rede"), ("pair", "de pesca"), ("links", "")}
    assert searcher.explain_score(SearchRequest("rede"), "http://c.org/") != []
    assert searcher.explain_score(SearchRequest("mar"), "http://c.org/") == []
    assert searcher.explain_score(SearchRequest("mar"), "http://unknown.org/") == []


RULES = """
synonyms = [["barco", "navio de vela"]]
blocked = ["ruim.br"]
lowered = [{site = "baixo.br", factor = 0.1}]
[[pin]]
query = "rede"
url = "http://fixo.br/"
"""


def test_those_who_run_the_engine_pin_lower_and_block_and_name_synonyms(tmp_path):
    data = new_data(tmp_path / "data")
    texts = {
        "http://a.br/": "rede rede rede",
        "http://www.baixo.br/": "rede rede rede rede",
        "http://sub.ruim.br/": "rede rede rede rede rede",
        "http://fixo.br/": "sem a palavra",
        "http://copia.fixo.br/": "sem a palavra",
        "http://navio.br/": "um navio de vela",
        "http://outro.br/": "um navio, de outra vela",
    }
    write(data, [a_page(url, text) for url, text in texts.items()])
    index.catch_up(data)
    asker = Asker(data)
    plain = [hit.url for hit in asker.search("rede").hits]
    assert plain == ["http://sub.ruim.br/", "http://www.baixo.br/", "http://a.br/"]
    (data.root / "search.toml").write_text(RULES)
    result = asker.search("Rede ")
    assert [(hit.url, hit.pinned) for hit in result.hits] == [
        ("http://fixo.br/", True),
        ("http://a.br/", False),
        ("http://www.baixo.br/", False),
    ]
    assert result.total == 3
    assert [hit.url for hit in asker.search("rede", offset=1, n=1).hits] == ["http://a.br/"]
    assert "curated" in {
        part.kind for part in asker.searcher.explain_score(SearchRequest("rede"), "http://www.baixo.br/")
    }
    assert not any(hit.pinned for hit in asker.search("+rede").hits)
    assert [hit.url for hit in asker.search("barcos").hits] == ["http://navio.br/"]
    assert [hit.url for hit in asker.search('"navio de vela"').hits] == ["http://navio.br/"]
    assert [hit.url for hit in asker.search("navio -barco").hits] == ["http://navio.br/", "http://outro.br/"]
    assert [hit.url for hit in asker.search("vela +(navio -barco)").hits] == ["http://navio.br/", "http://outro.br/"]


def test_where_only_conditions_are_named_the_best_linked_stand_first(tmp_path):
    data = new_data(tmp_path / "data")
    linked = {f"http://a.br/{number}": number for number in range(6)}
    sources = [
        a_page(f"http://b.br/{source}", "x", links=tuple(Link(url) for url, most in linked.items() if source < most))
        for source in range(6)
    ]
    write(data, [*(a_page(url, f"texto {number}", "Rede") for url, number in linked.items()), *sources])
    graph.rebuild(data)
    index.catch_up(data)
    asker = Asker(data)
    best_first = [url for url, _ in sorted(linked.items(), key=lambda one: -one[1])]
    for said in ("site:a.br", "intitle:rede lang:pt", "site:a.br -type:schema:Event"):
        hits = asker.search(said, crowded=True).hits
        assert [hit.url for hit in hits] == best_first, said
        links = [part.value for part in asker.searcher.explain_score(SearchRequest(said), best_first[0])]
        assert [hits[0].score] == pytest.approx(links, rel=1e-3)


def test_a_collection_of_which_nothing_is_indexed_is_said(ask):
    with pytest.raises(QueryError, match="Nothing is indexed of a collection named 'nope'"):
        ask("rede", collection="nope")
