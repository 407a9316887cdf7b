"""What a search saves work by changes no answer: remembered readings, and matches that are left out of the order."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tarrafa.index import reader
from tarrafa.model import VisitRecord
from tarrafa.search import match_ranking
from tarrafa.search.local_shard import LocalShard
from tarrafa.search.request import SearchRequest
from tests.graph.archived_web import new_data
from tests.search.sample_pages import a_page, fill, set_block

WORDS = ["rede", "pesca", "mar", "barco", "vento", "areia", "praia", "porto", "peixe", "sal"]


def some_pages(count: int) -> Iterator[VisitRecord]:
    rng = random.Random(1)
    for number in range(count):
        text = " ".join(rng.choices(WORDS, k=rng.randrange(4, 40)))
        yield a_page(f"http://h{number % 40}.test/{number}", text, title=" ".join(rng.sample(WORDS, 2)))


def test_remembered_readings_are_counted_for_each_request(tmp_path):
    data = new_data(tmp_path)
    fill(data, *some_pages(30))
    texts = [
        "rede pesca",
        '"rede pesca" mar',
        "mar -rede",
        "redes xyzzy",
        "intitle:mar porto",
        "+rede de-pesca",
        "pesca",
    ]
    shard = LocalShard(data)
    for request in map(SearchRequest, [*texts, *texts]):
        fresh, known = LocalShard(data).statistics(request), shard.statistics(request)
        assert known.counts == fresh.counts
        assert len(shard.top_matches(request, known, 20).candidates) == len(
            shard.top_matches(request, fresh, 20).candidates
        )


@pytest.mark.parametrize("text", ["nota", "porto", "farol"])
def test_a_title_is_searched_for_each_term_that_it_has(tmp_path, text):
    """Terms are looked up in titles where the text has them, or the template: of a site's name it has each."""
    page = a_page("http://a.test/", "Uma rede seca.", title="Nota — Porto")
    assert page.page is not None
    page = replace(page, page=replace(page.page, headline="Nota"))
    asker = fill(new_data(tmp_path), page, a_page("http://b.test/", "Um farol de nota.", title="Farol"))
    hits = asker.search(text).hits
    gains = {
        hit.url: [part.kind for part in asker.searcher.explain_score(SearchRequest(text), hit.url)] for hit in hits
    }
    assert [url for url, kinds in gains.items() if "title" in kinds] == [
        "http://b.test/" if text == "farol" else "http://a.test/"
    ]


def test_a_new_commit_is_counted_anew(tmp_path):
    data = new_data(tmp_path)
    fill(data, a_page("http://a.test/", "uma rede"))
    shard, request = LocalShard(data), SearchRequest("rede")
    assert shard.statistics(request).frequency("all", "red") == 1
    fill(data, a_page("http://b.test/", "outra rede"), worker="w2")
    assert shard.statistics(request).frequency("all", "red") == 2


@pytest.mark.parametrize("text", ["rede pesca", "mar barco vento", "rede areia praia porto", "redes sal"])
def test_matches_that_are_left_out_of_the_order_change_no_hit(tmp_path, monkeypatch, text):
    set_block(monkeypatch, 5)
    asker = fill(new_data(tmp_path), *some_pages(160))
    lowest, left_out = match_ranking._lowest_weighed, list[float]()

    def several(offset: int) -> tuple[int, int, list[tuple[str, float]]]:
        found = asker.search(text, 5, offset, loose=True, crowded=True)
        return found.total, found.others, [(hit.url, hit.score) for hit in found.hits]

    def counted(*given: Any) -> float:
        left_out.append(lowest(*given))
        return left_out[-1]

    monkeypatch.setattr(match_ranking, "_lowest_weighed", counted)
    first = [several(offset) for offset in (0, 5, 20)]
    assert any(left_out)
    monkeypatch.setattr(match_ranking, "_lowest_weighed", lambda *given: 0.0)
    assert [several(offset) for offset in (0, 5, 20)] == first


@pytest.mark.parametrize("documents_max, chars_max", [(20_000, 8_000_000), (20_000, 100), (0, 0)])
def test_remembered_documents_change_no_hit(tmp_path, monkeypatch, documents_max, chars_max):
    asker = fill(new_data(tmp_path), *some_pages(120))
    texts = ["rede pesca", "mar", "+barco -vento", '"areia praia"', "lang:pt"]

    def several() -> list[list[tuple[str, float, str, int]]]:
        found = [asker.search(text, 10, offset).hits for text in texts for offset in (0, 10)]
        return [[(hit.url, hit.score, hit.snippet, hit.copies) for hit in hits] for hits in found]

    monkeypatch.setattr(reader, "ROWS_REMEMBERED_MAX", 0)
    monkeypatch.setattr(reader, "STORED_CHARS_REMEMBERED_MAX", 0)
    read = several()
    monkeypatch.setattr(reader, "ROWS_REMEMBERED_MAX", documents_max)
    monkeypatch.setattr(reader, "STORED_CHARS_REMEMBERED_MAX", chars_max)
    assert [several(), several()] == [read, read]
    assert all(read)


def test_remembered_documents_are_forgotten_after_a_commit(tmp_path):
    data = new_data(tmp_path)
    asker = fill(data, a_page("http://a.test/", "uma rede velha"))
    assert [hit.snippet for hit in asker.search("rede", 10).hits] == ["uma rede velha"]
    fill(data, a_page("http://a.test/", "uma rede nova", visit=2), worker="w2")
    assert [hit.snippet for hit in asker.search("rede", 10).hits] == ["uma rede nova"]
