"""Full text and statements together: tarrafa:matches at the endpoint and on the command line, and the way there."""

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import date
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search import searcher as searcher_module
from tarrafa.search.searcher import Searcher
from tarrafa.server.search.params import SearchParams
from tarrafa.takedown import parse_target, record_action
from tests.graph.archived_web import COLLECTION
from tests.journey.crawl_journey import tarrafa
from tests.server.conftest import RunningSite, links
from tests.server.entity_pages import crawled_entity_pages, records

FAIRS = "SELECT ?page ?name { ?page tarrafa:matches %s GRAPH ?page { ?s a schema:Event ; schema:name ?name } }"
CSV = {"Accept": "text/csv"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    return crawled_entity_pages(tmp_path_factory.mktemp("matches") / "data")


@pytest.fixture(scope="module")
def site(data: DataDirectory) -> Iterator[RunningSite]:
    with RunningSite(data) as running:
        yield running


def answered(site: RunningSite, query: str) -> list[dict[str, str]]:
    response, text = site.get(f"/sparql?{urlencode({'query': query})}", headers=CSV)
    assert response.status == 200, text
    return list(csv.DictReader(io.StringIO(text)))


def test_what_a_search_finds_is_joined_with_what_pages_state(site, data):
    found = answered(site, FAIRS % '"intitle:agenda -7"')
    hits = json.loads(site.get("/search.json?q=intitle:agenda+-7&n=100&copies=1")[1])["hits"]
    assert {row["page"] for row in found} == {hit["url"] for hit in hits}
    assert len(found) == len(hits) == 23
    done = tarrafa("sparql", FAIRS % '"intitle:agenda -7"', "--data", data.root, "--format", "csv")
    assert len(list(csv.DictReader(io.StringIO(done.stdout)))) == 23, done.stderr


def test_an_invalid_search_is_400_with_the_sentence_of_the_search_box(site):
    for text, sentence in ('"after:amanhã"', "after: needs a date"), ("?x", "write it as a statement of its own"):
        response, said = site.get(f"/sparql?{urlencode({'query': FAIRS % text})}", headers=CSV)
        assert response.status == 400
        assert sentence in said


def test_more_pages_than_are_joined_are_told(site, data, monkeypatch):
    monkeypatch.setattr(searcher_module, "RESULT_DEPTH_MAX", 10)
    monkeypatch.setattr(searcher_module, "HITS_MAX", 5)
    few = Searcher.open(data).matching_pages("intitle:agenda")
    assert (len(few.urls), few.is_cut, few.missing) == (10, True, ())
    many, _ = site.get(f"/sparql?{urlencode({'query': FAIRS % repr('intitle:agenda')})}", headers=CSV)
    assert many.headers["X-Tarrafa-Matches-Limit"] == "10"
    few_only, _ = site.get(f"/sparql?{urlencode({'query': FAIRS % repr('+intitle:agenda +intitle:7')})}", headers=CSV)
    assert "X-Tarrafa-Matches-Limit" not in few_only.headers


def test_nothing_else_is_searched_where_nothing_matches(data):
    assert Searcher.open(data).matching_pages("agendaa").urls == []


def test_a_page_that_was_taken_down_matches_nothing(tmp_path):
    data = crawled_entity_pages(tmp_path / "data", records()[:4])
    before = Searcher.open(data).matching_pages("intitle:agenda").urls
    record_action(data, "add", parse_target(before[0]), "ana", "a test", 2e9)
    with RunningSite(data) as site:
        pages = {row["page"] for row in answered(site, 'SELECT ?page { ?page tarrafa:matches "intitle:agenda" }')}
    assert pages == set(before[1:])


def test_the_service_description_names_the_predicate(site):
    _, text = site.get("/sparql", headers={"Accept": "text/turtle"})
    assert "sd:propertyFeature <urn:tarrafa:matches>" in text


@pytest.mark.parametrize("language", ["en", "pt"])
@pytest.mark.parametrize("text", ["agenda", '"da agenda"', "a\\b<script>alert(1)</script>&\"'{{x}}"])
def test_the_results_of_a_search_lead_to_its_sparql(site, language, text):
    _, page = site.get(f"/?{urlencode({'q': f'{text} OR agenda', 'hl': language, 'collection': COLLECTION})}")
    [way] = [link for link in links(page) if link.startswith("/sparql?matches=")]
    assert parse_qs(urlsplit(way).query) == {
        "matches": [f"{text} OR agenda"],
        "collection": [COLLECTION],
        "hl": [language],
    }
    _, editor = site.get(way, headers={"Accept": "text/html"})
    assert "<script>alert" not in editor
    [query] = re.findall(r"<textarea[^>]*>(.*?)</textarea>", editor, re.DOTALL)
    found = answered(site, unescape(query))
    assert {"https://schema.org/Event", "https://schema.org/Place"} <= {row["class"] for row in found}


def test_the_filters_of_a_search_are_in_its_sparql(site):
    _, page = site.get("/?q=agenda&lang=pt&after=2020-01-01")
    [way] = [link for link in links(page) if link.startswith("/sparql?matches=")]
    assert parse_qs(urlsplit(way).query)["matches"] == ["(agenda) lang:pt after:2020-01-01"]
    past = SearchParams(q="a OR b", time="week", before="2026-12-01")
    assert past.filtered_text(date(2026, 11, 18)) == "(a OR b) after:2026-11-11 before:2026-12-01"
