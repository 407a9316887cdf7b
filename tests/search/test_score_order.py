"""Hits are in the order of the score that they show, over all pages of results: one index, parts, shards, machines."""

import contextlib
import random
from collections.abc import Iterator
from functools import partialmethod
from math import prod

import pytest
from msgspec.structs import replace

from tarrafa.graph.ranking_process import compute_rankings
from tarrafa.index.shards import parts
from tarrafa.model import Hit, Link, VisitRecord
from tarrafa.search import match_ranking, scatter_gather
from tarrafa.search.local_shard import LocalShard
from tarrafa.search.request import SearchRequest, Sort
from tarrafa.search.searcher import Searcher
from tests.search.sample_pages import LONG, a_page
from tests.search.sharded_index import behind_a_url, divided

NOW = 1_795_000_000.0
PAGES, SITES = 420, 30


def linked_pages() -> list[VisitRecord]:
    """Pages of sites of different sizes. Some are linked to by many; every tenth has a copy."""
    rng = random.Random(19)
    urls = [f"http://w{number}.s{int(SITES * (number / PAGES) ** 2)}.br/imovel/p{number}" for number in range(PAGES)]
    rng.shuffle(urls)
    made = []
    for number, url in enumerate(urls):
        copied = number - number % 10 if number % 10 == 1 else number
        text = f"casa {'casa ' * (copied % 4)} número{copied} {LONG if copied % 3 else ''} {'palavra ' * (copied % 50)}"
        links = tuple(Link(urls[int(PAGES * rng.random() ** 4)]) for _ in range(5))
        made.append(a_page(url, text, f"Casa {copied}", links=links))
    return made


@pytest.fixture(scope="module")
def searchers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Searcher]]:
    root = tmp_path_factory.mktemp("order")
    whole, four = divided(root / "whole", "1", linked_pages()), divided(root / "four", "4", linked_pages())
    halves = [divided(root / f"half{n}", f"{n}/2", linked_pages()) for n in (1, 2)]
    for data in (whole, four, *halves):
        compute_rankings(data)  # after the index: the ranks that it knows are old
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalShard, "__init__", partialmethod(LocalShard.__init__, now=lambda: NOW))
        yield {
            "one": Searcher.open(whole),
            "four parts": Searcher.open(four),
            "four shards": Searcher([LocalShard(part) for part in parts(four)]),
            "two machines": Searcher([stack.enter_context(behind_a_url(half)) for half in halves]),
        }


KINDS = ("one", "four parts", "four shards", "two machines")
OPTIONS = [
    {},
    {"crowded": True},
    {"copies": True},
    {"crowded": True, "copies": True},
    {"recent": True},
    {"sort": Sort.LINKS},
    {"sort": Sort.DATE},
    {"natural": True, "expand": True},
]


def all_hits(searcher: Searcher, request: SearchRequest, n: int, most: int = 1_000) -> list[Hit]:
    """The hits of all pages of results."""
    hits: list[Hit] = []
    while len(hits) < most and (more := searcher.search(replace(request, n=n, offset=len(hits))).hits):
        hits += more
    return hits


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("text", ["lang:pt", "inurl:imovel", "casa", "+casa palavra"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_page_of_results_is_in_the_order_of_the_score_that_it_shows(searchers, kind, text, options):
    request = SearchRequest(text, **options)
    hits = all_hits(searchers[kind], request, 30)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert len({hit.url for hit in hits}) == len(hits) > 300
    assert [hit.url for hit in all_hits(searchers[kind], request, 100)] == [hit.url for hit in hits]


@pytest.mark.parametrize("kind", KINDS)
def test_explained_scores_are_the_scores_shown(searchers, kind):
    """Of pages that stand behind those of other sites as well."""
    request, lowered = SearchRequest("lang:pt"), 0
    for hit in all_hits(searchers[kind], request, 100)[:120:7]:
        told = searchers[kind].explain_score(request, hit.url)
        assert prod(part.value for part in told) == pytest.approx(hit.score, rel=0.051), (
            "a copy may have lent its score"
        )
        lowered += told[-1].kind == "site"
    assert lowered


def test_matches_that_score_nearly_alike_are_read_up_to_a_limit_and_still_follow_each_other(searchers, monkeypatch):
    monkeypatch.setattr(scatter_gather, "MATCHES_MAX", 100)
    monkeypatch.setattr(match_ranking, "RERANKED_MAX", 200)
    for kind in KINDS[:3]:
        hits = all_hits(searchers[kind], SearchRequest("lang:pt"), 10, 80)
        assert len({hit.url for hit in hits}) == len(hits) == 80
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
