"""Phrases are found exactly: the pages that hold the words side by side in one text, whatever the words."""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.index import schema, shards
from tarrafa.index.text_analysis import analyze
from tarrafa.model import Link, VisitRecord
from tarrafa.search import global_bm25, local_shard, match_ranking, query_builder
from tarrafa.search.query_builder import SoughtPhrase
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tests.graph.archived_web import a_record, new_data, write

# Frequent and rare words of each language, and words that both know: few, so that every phrase occurs often by chance.
VOCABULARY = {
    "pt": "de a o que não rede redes tarrafa guarda-chuva função 1",
    "en": "the of and that is net nets library rain-coat the-of 1",
    "fr": "de la que réseau filets bibliothèque l'eau 1",
    "": "de the rede net 1",
}
PAGES, QUERIES = 100, 400


class WrittenPage(NamedTuple):
    url: str
    language: str
    title: str
    headings: tuple[str, ...]
    text: str
    anchor: str

    def texts(self) -> Sequence[str]:
        return self.title, *self.headings, self.text, self.anchor


def random_text(rng: random.Random, language: str, longest: int) -> str:
    return " ".join(rng.choices(VOCABULARY[language].split(), k=rng.randint(0, longest)))


def random_page(rng: random.Random, number: int) -> WrittenPage:
    language = rng.choice(list(VOCABULARY))
    headings = tuple(random_text(rng, language, 5) for _ in range(rng.randint(0, 3)))
    url = f"http://h{number % 20}.test/{number}"
    return WrittenPage(url, language, random_text(rng, language, 4), headings, random_text(rng, language, 30),
                       random_text(rng, language, 4))  # fmt: skip


def records(pages: Sequence[WrittenPage]) -> list[VisitRecord]:
    """Each page, and one page of no words that links to all of them."""
    links = [Link(page.url, page.anchor) for page in pages]
    linked = a_record("http://links.test/", links=links, text="")
    return [linked] + [
        a_record(page.url, title=page.title, headings=page.headings, text=page.text, language=page.language)
        for page in pages
    ]


def holds(page: WrittenPage, phrase: str) -> bool:
    """The oracle: some text of the page has the terms of the phrase in a row."""
    sought = analyze(phrase, page.language).split()
    for text in page.texts():
        terms = analyze(text, page.language).split()
        if any(terms[start : start + len(sought)] == sought for start in range(len(terms) - len(sought) + 1)):
            return True
    return False


@pytest.fixture(scope="module")
def pages() -> list[WrittenPage]:
    rng = random.Random(20)
    return [random_page(rng, number) for number in range(PAGES)]


def indexed(folder: Path, pages: Sequence[WrittenPage], layout: str) -> Searcher:
    """In several segments of each part."""
    data = new_data(folder / "data")
    shards.set_layout(data, shards.parse_layout(layout, "test"))
    written = records(pages)
    for worker, some in (("w1", written[:60]), ("w2", written[60:])):
        write(data, some, worker)
        graph.catch_up(data, lambda name, weights: None)
        index.catch_up(data)
    return Searcher.open(data)


@pytest.fixture(scope="module")
def one_index(tmp_path_factory: pytest.TempPathFactory, pages: list[WrittenPage]) -> Searcher:
    return indexed(tmp_path_factory.mktemp("one"), pages, "1")


@pytest.fixture(scope="module")
def three_parts(tmp_path_factory: pytest.TempPathFactory, pages: list[WrittenPage]) -> Searcher:
    return indexed(tmp_path_factory.mktemp("three"), pages, "3")


@pytest.fixture(params=["one_index", "three_parts"])
def searcher(request: pytest.FixtureRequest) -> Searcher:
    found: Searcher = request.getfixturevalue(request.param)
    return found


def found_by(searcher: Searcher, phrase: str) -> set[str]:
    result = searcher.search(SearchRequest(f'"{phrase}"', PAGES, copies=True, crowded=True))
    assert result.total == len(result.hits)
    return {hit.url for hit in result.hits}


def test_a_phrase_finds_the_pages_that_a_search_through_all_texts_finds(searcher, pages):
    rng, found = random.Random(21), 0
    for _ in range(QUERIES):
        words = VOCABULARY[rng.choice(list(VOCABULARY))].split()
        phrase = " ".join(rng.choices(words, k=rng.randint(2, 6)))
        expected = {page.url for page in pages if holds(page, phrase)}
        assert found_by(searcher, phrase) == expected, phrase
        found += bool(expected)
    assert found > QUERIES // 4, "the phrases must occur"


def test_a_phrase_of_a_page_is_found_and_never_across_its_texts(searcher, pages):
    rng = random.Random(22)
    for page in rng.sample(pages, 60):
        texts = [text.split() for text in page.texts() if text]
        inside = [text[start : start + length] for text in texts for length in (2, 3, 5)
                  for start in range(len(text) - length + 1)]  # fmt: skip
        across = [one[-2:] + other[:2] for one in texts for other in texts]
        for words in rng.sample(inside, min(3, len(inside))) + rng.sample(across, min(3, len(across))):
            phrase = " ".join(words)
            if len(words) > 1:
                assert found_by(searcher, phrase) == {one.url for one in pages if holds(one, phrase)}, phrase


@pytest.mark.parametrize(
    ("phrase", "field", "terms"),
    [
        ("de que", schema.PAIRS, ("de_que",)),
        ("de de", schema.PAIRS, ("de_de",)),
        ("de que de", schema.PAIRS, ("de_que", "que_de")),
        ("de que não a", schema.PAIRS, ("de_que", "que_nao", "nao_a")),
        ("de tarrafa", schema.ALL, ("de", "tarraf")),
        ("rede de que", schema.ALL, ("red", "de", "que")),
        ("tarrafa", schema.ALL, ("tarraf",)),
        ("de", schema.ALL, ("de",)),
    ],
)
def test_frequent_words_are_found_by_pairs_and_other_phrases_by_positions(phrase, field, terms):
    sought = tuple(analyze(phrase, "pt").split())
    assert SoughtPhrase.of(schema.ALL, sought) == (field, terms)
    assert SoughtPhrase.of(schema.TITLE, sought) == (schema.TITLE, sought), "pairs are of `all`"


def test_pairs_in_other_places_of_a_page_do_not_make_a_longer_phrase(tmp_path):
    data = new_data(tmp_path / "data")
    write(
        data,
        [
            a_record("http://a.test/", text="de que tarrafa não a que não"),
            a_record("http://b.test/", text="de que não"),
        ],
    )
    index.catch_up(data)
    assert found_by(Searcher.open(data), "de que não") == {"http://b.test/"}


# -- neighbours of two words that many pages hold ----------------------------------------------------------------------


def scores_of(searcher: Searcher, text: str, n: int = PAGES) -> dict[str, float]:
    hits = searcher.search(SearchRequest(text, n, copies=True, crowded=True)).hits
    return {hit.url: hit.score for hit in hits}


@pytest.mark.parametrize("text", ["rede tarrafa", "tarrafa função rede", "+net +library", "réseau filets", "de rede"])
def test_costly_neighbours_score_the_best_matches_as_others_do(searcher, monkeypatch, text):
    expected = scores_of(searcher, text)
    assert len(expected) > 10
    monkeypatch.setattr(query_builder, "EARLY_PAIR_DOCUMENTS_MAX", 0)
    monkeypatch.setattr(local_shard.LocalShard, "_readings_of", lambda *given: global_bm25.RememberedReadings())
    monkeypatch.setattr(match_ranking, "LATE_PAIR_MATCHES", PAGES)
    assert scores_of(searcher, text) == pytest.approx(expected, abs=2e-4)


def test_costly_neighbours_count_for_the_first_matches_alone_however_many_are_asked_for(one_index, monkeypatch):
    text = "rede tarrafa"
    everywhere = scores_of(one_index, text)
    monkeypatch.setattr(query_builder, "EARLY_PAIR_DOCUMENTS_MAX", 0)
    monkeypatch.setattr(local_shard.LocalShard, "_readings_of", lambda *given: global_bm25.RememberedReadings())
    monkeypatch.setattr(match_ranking, "LATE_PAIR_MATCHES", 3)
    found = scores_of(one_index, text)
    assert set(found) == set(everywhere)
    lowered = [url for url, score in found.items() if score < everywhere[url] - 1e-3]
    assert 0 < len(lowered) <= len(found) - 3
    assert list(scores_of(one_index, text, 5)) == list(found)[:5]
    for url in [*list(found)[:10], *lowered]:
        parts = one_index.explain_score(SearchRequest(text, crowded=True), url)
        links = [part.value for part in parts if part.kind == "links"]
        words = [part.value for part in parts if part.kind in ("text", "title", "pair", "form")]
        assert sum(words) * math.prod(links) == pytest.approx(found[url], abs=1e-3), url
