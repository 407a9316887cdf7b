"""Things instead of pages: what can be chosen, what is found, who says so; for people, for programs, in a terminal."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tarrafa.cli import main
from tarrafa.parse.rdf.prefixes import PREFIXES
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.entities.display import display_iri, summarize_properties, truncate
from tarrafa.server.entities.params import OPERATORS, EntityParams, format_condition, parse_condition
from tarrafa.takedown import parse_target, record_action
from tarrafa.triples.entity_query import EntityCondition
from tarrafa.triples.entity_reader import EntityValue
from tests.graph.archived_web import new_data
from tests.server.conftest import HOSTILE, RunningSite
from tests.server.entity_pages import ANA, LONG_VALUE, OWN, crawled_entity_pages, records
from tests.triples.sample_statements import SCHEMA

EVENT, PERSON, PRODUCT = (f"{SCHEMA}{name}" for name in ("Event", "Person", "Product"))
SUMMER = "/data?class=schema:Event&where=schema:startDate%3E%3D2026-10"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    return crawled_entity_pages(tmp_path_factory.mktemp("things") / "data")


@pytest.fixture(scope="module")
def site(data: DataDirectory) -> Iterator[RunningSite]:
    with RunningSite(data) as running:
        yield running


def hrefs(text: str) -> list[str]:
    return [unescape(href) for href in re.findall(r'href="([^"]*)"', text)]


def told(site: RunningSite, path: str = "/data.json", **parameters: Any) -> Any:
    response, text = site.get(f"{path}?{urlencode(parameters, doseq=True)}")
    assert response.status == 200, text
    return json.loads(text)


def labels(site: RunningSite, **parameters: Any) -> list[str]:
    found = told(site, n=100, **parameters)
    assert found["total"] == len(found["things"])
    return sorted(thing["label"] for thing in found["things"])


# -- choosing ----------------------------------------------------------------------------------------------------------


def test_vocabularies_classes_and_properties_are_offered_with_counts(site):
    _, text = site.get("/data")
    links = hrefs(text)
    assert {"/data?vocabulary=schema%3A", "/data?vocabulary=foaf%3A", "/data?class=schema%3AEvent"} <= set(links)
    assert "/data?not=schema%3AEvent" in links
    assert re.search(r'<bdi>Event</bdi> <small dir="ltr">schema:Event</small></a>\s*<span class="quiet"[^>]*>24<', text)
    assert f'title="{OWN[:-1]}' in text, "what has no short name is told by its address"
    _, text = site.get("/data?vocabulary=foaf")
    assert "/data?vocabulary=foaf%3A&class=foaf%3APerson" in hrefs(text)
    assert "class=schema%3AEvent" not in text, "only the classes of the chosen vocabulary"
    _, text = site.get("/data?class=schema:Product")
    assert "/data?class=schema%3AProduct&where=schema%3Aprice" in hrefs(text)
    assert "schema%3AstartDate" not in text, "only the properties of the chosen class"


def test_what_was_chosen_can_be_taken_back_one_by_one(site):
    _, text = site.get(f"{SUMMER}&where=schema:offers&not=schema:Place&vocabulary=schema&q=redes&collection=small")
    chips = [unescape(href) for href in re.findall(r'<a class="chip set" href="([^"]*)"', text)]
    chosen = ("q", "vocabulary", "class", "not", "collection")
    for gone, link in zip(chosen, chips, strict=True):
        kept = parse_qs(link.partition("?")[2])
        assert set(kept) == {*chosen, "where"} - {gone}
        assert len(kept["where"]) == 2
        assert site.get(link)[0].status == 200
    rows = [href for href in hrefs(text) if href.startswith("/data?q=") and href.count("where=") == 1]
    assert any("offers" in href for href in rows)
    assert any("startDate" in href for href in rows)
    assert '<input type="hidden" name="property" value="schema:startDate" form="search">' in text
    assert '<option value="&gt;=" selected>' in text
    assert 'aria-label="Take away: not Place"' in text


def test_the_fields_of_the_form_ask_what_the_links_ask(site):
    fields: dict[str, Any] = {"class": "schema:Event", "property": ["schema:startDate", "schema:name", ""],
              "is": [">=", "words", "words"], "value": ["2026-10", "redes", ""]}  # fmt: skip
    as_links: dict[str, Any] = {"class": "schema:Event", "where": ["schema:startDate>=2026-10", "schema:name redes"]}
    assert told(site, **fields) == told(site, **as_links)
    assert labels(site, **fields) == ["Festival de redes 10"]


def test_collections_are_a_choice_where_there_are_several(site):
    links = hrefs(site.get("/data?class=schema:Person")[1])
    assert "/data?class=schema%3APerson&collection=outra" in links
    assert labels(site, collection="outra") == ["Ana C."]


def test_thousands_of_classes_are_listed_in_part_and_found_by_a_part_of_their_name(site):
    _, text = site.get("/data")
    assert len(re.findall(r'<li><a class="name"', text)) < 35
    assert "/data?list=classes" in hrefs(text)
    _, text = site.get("/data?list=classes&filter=kind29&not=schema:Event")
    assert "/data?class=http%3A%2F%2Fvocabulario.test%2Fns%23Kind291&not=schema%3AEvent" in hrefs(text)
    assert len(re.findall(r"<bdi>Kind29\d</bdi>", text)) == 10
    _, text = site.get("/data?list=classes&filter=Kind&page=3")
    assert "/data?list=classes&filter=Kind&page=2" in hrefs(text)
    assert "Kind299" in text
    assert "No name like that" in site.get("/data?list=classes&filter=xyzzy")[1]
    found = told(site, list="classes", filter="kind", n=5, offset=2)
    assert (found["list"], found["total"], len(found["names"])) == ("classes", 300, 5)
    assert told(site, list="vocabularies")["names"][0] == {"iri": SCHEMA, "things": 119, "pages": 32, "uses": 0}
    assert told(site, list="properties", **{"class": "Product"})["total"] == 3


# -- finding -----------------------------------------------------------------------------------------------------------

PRODUCTS = [f"Tarrafa nº {number}" for number in range(1, 6)]
ASKED: list[tuple[dict[str, Any], list[str]]] = [
    ({"class": "schema:Product"}, PRODUCTS),
    ({"class": "product"}, PRODUCTS),
    ({"class": PRODUCT}, PRODUCTS),
    ({"class": "http://schema.org/Product"}, PRODUCTS),
    ({"class": "Product", "where": "price<15"}, PRODUCTS[:2]),
    ({"class": "Product", "where": ["price>7", "price<=21"]}, PRODUCTS[1:3]),
    ({"class": "Product", "where": f"<{SCHEMA}price> = 14"}, PRODUCTS[1:2]),
    ({"class": "Product", "where": "availability InStock", "q": "3"}, PRODUCTS[2:3]),
    ({"where": "jobTitle"}, ["Ana C."]),
    ({"where": "jobTitle PESCADORA"}, ["Ana C."]),
    ({"where": "jobTitle=pescadora", "vocabulary": "schema:"}, ["Ana C."]),
    ({"where": "jobTitle=pescadora", "vocabulary": "foaf"}, []),
    ({"q": "souza"}, ["Maria Souza"]),
    ({"q": "souza", "not": "foaf:Person"}, []),
    ({"q": "conceicao", "not": "foaf:Person"}, ["Ana C."]),
    ({"class": "Person", "vocabulary": "foaf"}, ["Maria Souza"]),
    ({"class": "Event", "where": ["startDate>=2026-10", "name noite*"]}, ["Noite das canoas 23"]),
    ({"class": "schema:Nothing"}, []),
    ({"where": "<http://nobody.test/?a=b> x"}, []),
    ({"collection": "nenhuma"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "found"), ASKED)
def test_things_are_found_by(site, parameters, found):
    assert labels(site, **parameters) == found


def test_the_page_and_the_json_tell_the_same(site):
    _, text = site.get(SUMMER)
    found = told(site, **{"class": "Event", "where": "startDate>=2026-10"})
    assert found["query"]["class"] == EVENT
    assert found["query"]["conditions"] == [{"property": f"{SCHEMA}startDate", "words": "2026-10", "operator": ">="}]
    assert f"{found['total']} things" in text
    for thing in found["things"]:
        assert f"/thing?key={quote(thing['key'], safe='')}" in hrefs(text)
        assert f"/page?url={quote(thing['pages'][0]['url'], safe='')}" in hrefs(text)
    assert "/?q=type%3Aschema%3AEvent" in hrefs(text), "the pages that declare such a thing"
    assert "/data?class=schema%3AEvent" in hrefs(text), "the badge"
    place = next(one for one in found["things"][0]["properties"] if one["property"] == f"{SCHEMA}location")
    assert place["label"] == "Praça da Estação"
    assert "Recife" in text, "what stands in a blank node within a blank node"


def test_pages_of_things_are_counted_from_one_and_keep_the_question(site):
    _, text = site.get("/data?class=schema:Event&page=2")
    assert "/data?class=schema%3AEvent&page=3" in hrefs(text)
    first, second, third = (
        re.findall(r'<h2 dir="auto"><a href="([^"]*)"', site.get(f"/data?class=schema:Event&page={page}")[1])
        for page in (1, 2, 3)
    )
    assert [len(keys) for keys in (first, second, third)] == [10, 10, 4]
    assert len({*first, *second, *third}) == 24
    assert "There are only 24 things" in site.get("/data?class=schema:Event&page=9")[1]


# -- a thing -----------------------------------------------------------------------------------------------------------


def test_a_thing_is_told_page_by_page_the_latest_first(site):
    response, text = site.get(f"/thing?key={quote(ANA, safe='')}")
    assert response.status == 200
    assert text.index("outra.test</b>/") < text.index("gente.test</b>/")
    assert {"/page?url=http%3A%2F%2Foutra.test%2F", "/page?url=http%3A%2F%2Fgente.test%2F"} <= set(hrefs(text))
    assert "2 pages speak of it" in text
    found = told(site, "/thing.json", key=ANA)
    assert (found["label"], found["classes"], found["pages_total"]) == ("Ana C.", [PERSON], 2)
    assert [page["url"] for page in found["said"]] == ["http://outra.test/", "http://gente.test/"]
    assert [one["text"] for one in found["said"][1]["properties"]] == ["Ana Conceição", "pescadora", "1980-05-01"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("/thing", "Which thing?"), ("/thing?key=http://nobody.test/", "No crawled page describes such a thing"),
     ("/thing?key=%00%FF", "No crawled page"), (f"/thing?key={'x' * 5000}", "No crawled page")],
)  # fmt: skip
def test_an_unknown_thing_is_404_and_one_sentence(site, path, sentence):
    response, text = site.get(path)
    assert (response.status, sentence in text) == (404, True)
    response, text = site.get(path.replace("/thing", "/thing.json"))
    assert (response.status, sentence in json.loads(text)["error"]) == (404, True)


def test_a_page_tells_what_it_declares_and_a_hit_leads_to_more_of_its_kind(site):
    _, text = site.get("/page?url=http://gente.test/")
    assert "What this page declares" in text
    assert f"/thing?key={quote(ANA, safe='')}" in hrefs(text)
    _, text = site.get("/page?url=http://muito.test/")
    assert re.search(r"What this page declares <span class=\"quiet\">20\+<", text)
    assert len(re.findall(r"/thing\?key=", text)) == 20
    _, text = site.get("/?q=type:schema:Event")
    assert "/data?class=schema%3AEvent" in hrefs(text)
    assert "/data" in hrefs(site.get("/help")[1])


# -- in bad faith ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/data?class=schema:CreativeWork", "/thing?key=http://mau.test/%23coisa", "/page?url=http://mau.test/", "/data",
     "/data?list=properties", "/data?list=vocabularies", f"/data?q={quote(HOSTILE)}", "/?q=type:schema:CreativeWork",
     f"/data?property=schema:name&is=words&value={quote(HOSTILE)}", f"/data?collection={quote(HOSTILE)}"],
)  # fmt: skip
def test_whatever_pages_say_is_a_text(site, path):
    response, text = site.get(path)
    assert response.status == 200
    assert "<script>alert" not in text
    assert "<img" not in text
    assert not [href for href in hrefs(text) if not href.startswith(("/", "#", "http://", "https://"))]
    assert len(text) < 120_000
    outside = re.sub(r'<bdi[^>]*>[^<]*</bdi>|href="[^"]*"|<title>.*</title>', "", text)
    assert "\u202e" not in outside, "what turns the direction stays inside"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_long_values_are_cut_and_other_addresses_are_no_links(site):
    _, text = site.get("/thing?key=http://mau.test/%23coisa")
    assert LONG_VALUE not in text
    assert "comprido…" in text or "compr…" in text
    assert "javascript:alert(1)" in text
    assert "http://mau.test/%E2%80%AEgnp.exe" in text, "a link is seen as it leads"
    assert any("gnp.exe" in href for href in hrefs(text))


def test_pictures_are_bounded_and_say_how_much_is_missing():
    shown = [EntityValue(f"http://a.test/{number % 9}", str(number)) for number in range(100)]
    found = summarize_properties(shown, "3", 4, 2)
    assert (len(found.properties), found.more) == (4, 5)
    assert (len(found.properties[0].values), found.properties[0].more) == (2, 10)
    assert [value.text for one in summarize_properties(shown[:4], "3").properties for value in one.values] == [
        "0",
        "1",
        "2",
    ]
    assert truncate("a  b\nc", 10) == "a b c"
    assert truncate("a" * 11, 10) == "a" * 9 + "…"
    assert display_iri("http://a.test/\u202ex\u2066") == "http://a.test/%E2%80%AEx%E2%81%A6"
    assert display_iri(EVENT) == "schema:Event"


def test_what_was_taken_down_is_not_told_any_more(tmp_path):
    data = crawled_entity_pages(tmp_path / "data", records()[:2])
    with RunningSite(data) as running:
        record_action(data, "add", parse_target("http://gente.test/"), "ana", "", 1_790_000_000.0)
        said = told(running, "/thing.json", key=ANA)["said"]
        assert [page["url"] for page in said] == ["http://outra.test/"]
        assert "pescadora" not in running.get("/data?class=schema:Person&q=ana")[1]
        assert running.get("/thing?key=http://gente.test/%23p1")[0].status == 404


# -- what cannot be meant ----------------------------------------------------------------------------------------------

BAD: list[tuple[str, str, str]] = [
    ("class=Evento", "No crawled page has a class called 'Evento'", "classe chamada 'Evento'"),
    ("not=nix:Event", "No crawled page has a class called 'nix:Event'", "classe chamada"),
    ("where=nix%3D3", "No crawled page has a property called 'nix'", "propriedade chamada 'nix'"),
    ("vocabulary=nix", "No vocabulary is known as 'nix'", "Nenhum vocabulário"),
    ("where=schema:startDate%3E%3Damanha", "must be a number, or a date", "deve ser um número"),
    ("where=schema:startDate%3E", "give a number, a date or a text", "dê um número"),
    ("property=schema:name&is=like&value=x", "A comparison is words, =, ", "Uma comparação é"),
    ("value=3&is=%3E&property=", "of which property?", "de qual propriedade?"),
    ("&".join(["where=schema:name"] * 11), "At most 10 conditions", "No máximo 10 condições"),
    ("q=x&" + "&".join(["where=schema:name"] * 10), "At most 10 conditions", "No máximo 10 condições"),
    (f"q={'x' * 3000}", "too long: 3,000 characters, at most 2,000 are read", "3.000 caracteres; no máximo 2.000"),
    (f"q={'x' * 60_000}", "too long: 60,000 characters, at most 2,000 are read", "60.000 caracteres"),
    ("list=nix", "list must be vocabularies, classes or properties", "list precisa ser"),
]


@pytest.mark.parametrize(("query", "sentence", "in_portuguese"), BAD)
def test_what_cannot_be_meant_is_400_and_one_sentence(site, query, sentence, in_portuguese):
    for path, said in ((f"/data?{query}", sentence), (f"/data?{query}&hl=pt", in_portuguese)):
        response, text = site.get(path)
        assert response.status == 400
        assert said in unescape(text)
    response, text = site.get(f"/data.json?{query}")
    assert (response.status, sentence in json.loads(text)["error"]) == (400, True)


@pytest.mark.parametrize("query", ["page=99999", "list=classes&page=99999"])
def test_there_is_an_end_to_paging(site, query):
    assert site.get(f"/data?{query}")[0].status == 400


@pytest.mark.parametrize("query", ["n=101", "n=-1", "n=x", "offset=-1", "offset=100001", "list=classes&n=1001"])
def test_lists_are_bounded(site, query):
    response, text = site.get(f"/data.json?{query}")
    assert response.status == 400
    assert list(json.loads(text)) == ["error"]


def test_where_no_data_was_crawled_a_page_says_so(tmp_path):
    with RunningSite(new_data(tmp_path / "data")) as running:
        for path in ("/data", "/data?class=Event&where=nix", "/data?list=classes"):
            response, text = running.get(path)
            assert response.status == 200
            assert "No data has been crawled yet" in text
        assert json.loads(running.get("/data.json")[1])["total"] == 0
        assert running.get("/thing?key=x")[0].status == 404


texts = st.text(max_size=40) | st.sampled_from(
    ["schema:Event", "Event", "name", "schema:startDate>=2026", "_:b", ANA, "classes", ">=", "1", "-1", "urn:x:y",
     HOSTILE, "<>", "{}", "%"]
)  # fmt: skip
names = st.sampled_from(["q", "vocabulary", "class", "not", "where", "property", "is", "value", "collection", "hl",
                         "page", "list", "filter", "n", "offset", "key"])  # fmt: skip


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["/data", "/data.json", "/thing", "/thing.json"]), st.lists(st.tuples(names, texts), max_size=6))
@example("/data", [("where", "=" * 50), ("where", "<<>>=")])
@example("/data", [("q", "\x00"), ("class", "\ud800")])
@example("/data.json", [("where", "\u202e>3")])
def test_no_parameter_is_our_fault(site, path, parameters):
    encoded = urlencode([(name, text.encode("utf-8", "surrogatepass")) for name, text in parameters])
    response, text = site.get(f"{path}?{encoded}")
    assert response.status in (200, 400, 404), text
    assert "<script>alert" not in text or path.endswith(".json")


@given(st.sampled_from(["", *(f"{iri}x" for iri in PREFIXES.values()), "http://a.test/?a=b", "urn:x:y"]), st.text(),
       st.sampled_from(OPERATORS))  # fmt: skip
@example(name="", words="<\x0b<>", operator="=")
def test_a_condition_that_is_written_reads_the_same_again(name, words, operator):
    one = parse_condition(format_condition(EntityCondition(name, words, operator)))
    again = EntityParams(where=(one,)).pairs()
    assert parse_condition(format_condition(one)) == one
    assert [text for key, text in again if key == "where"] in ([format_condition(one)], [])


# -- in a terminal -----------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(data, monkeypatch, capsys):
    def run(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["tarrafa", "entities", "--data", str(data.root), *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code or 0) == (2 if said.err else 0), said
        return str(said.err or said.out)

    return run


def test_the_command_line_asks_the_same_question(terminal, site):
    said = json.loads(terminal("tarrafa", "--class", "schema:Product", "--where", "price<15", "--json"))
    assert said == told(site, **{"q": "tarrafa", "class": "schema:Product", "where": "price<15"})
    said = terminal("--class", "Event", "--not", "schema:Place", "--vocabulary", "schema",
                    "--where", "startDate>=2026-10", "--where", "name redes", "--collection", "small")  # fmt: skip
    assert "1 entity\n" in said
    assert "Festival de redes 10" in said
    assert "Praça da Estação (schema:address Porto Alegre)" in said
    assert "http://agenda.test/10 2026-09-21" in said
    assert "24 entities on        24 pages  schema:Event" in terminal("--list", "classes")
    assert "Kind291" in terminal("--list", "classes", "kind29")
    assert terminal("xyzzy") == "No such entity found.\n"
    assert terminal("--class", "nix") == "error: No crawled page has a class called 'nix'.\n"
    assert terminal("--where", "startDate>x").count("\n") == 1
    assert "\u202e" not in terminal("--class", "CreativeWork")
