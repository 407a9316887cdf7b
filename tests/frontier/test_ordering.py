"""Which URL looks best, which of a host's comes first, and how far does a walk go?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.config.sections import StrategyConfig, UrlScoreWeights
from tarrafa.frontier.ordering import QueueOrder, continues_walk, is_cycle_due, order_of, plain_rank, url_score
from tarrafa.model import UrlRole
from tarrafa.parse.url import url_id

BR = StrategyConfig(order="breadth", favour=("*.br",), penalise=("*/login*", "*?*sessao=*"))

# From the best to the worst; docs/crawl-order.md has the same list.
EXAMPLES = [
    ("https://usp.br/", 43),
    ("http://www.usp.br/", 39),
    ("https://www5.usp.br/ensino/", 21),
    ("https://www.unicamp.br/unicamp/noticias/", -2),
    ("http://mit.edu/", -8),
    ("https://g1.globo.br/sp/campinas/noticia.html", -16),
    ("https://www.bbc.com/portuguese", -32),
    ("https://pt.wikipedia.org/wiki/Brasil", -48),
    ("https://www.usp.br/login", -176),
    ("https://www.example.com/pt/loja?sessao=4711", -255),
]
SEGMENT = st.text("abcdefghijklmnop-", min_size=1, max_size=12)
PATH = st.lists(SEGMENT, max_size=6)


def test_ten_examples_in_their_order():
    found = [(url, order_of(BR).score(url)) for url, _ in EXAMPLES]
    assert found == EXAMPLES
    assert [points for _, points in found] == sorted((points for _, points in found), reverse=True)


@given(PATH, SEGMENT, st.booleans(), st.booleans())
def test_shorter_is_better_and_so_are_fewer_blocks(path, segment, favoured, penalised):
    def points(*segments: str) -> float:
        return url_score(f"http://a.br/{'/'.join(segments)}", favoured, penalised, UrlScoreWeights())

    assert points(*path) > points(*path, segment), "a block more"
    assert points(*path, segment) > points(*path, segment + "x"), "a character more"
    assert points(*path, f"{segment}xx") > points(*path, segment, "x"), "the same length in more blocks"


@given(PATH)
def test_a_favoured_host_is_better_a_penalised_pattern_worse_and_the_scheme_does_not_count(path):
    url = f"http://a.br/{'/'.join(path)}"
    plain = url_score(url, False, False, UrlScoreWeights())
    assert url_score(url, False, True, UrlScoreWeights()) < plain < url_score(url, True, False, UrlScoreWeights())
    assert url_score(url.replace("http:", "https:"), False, False, UrlScoreWeights()) == plain


def test_weights_are_the_collections_own():
    weights = UrlScoreWeights(length=0, block=1, favour=2, penalty=3)
    order = QueueOrder(StrategyConfig(order="breadth", favour=("a.br",), penalise=("*y",), weights=weights))
    urls = ("http://a.br/very/long/x", "http://a.br/x/y", "http://b.br/x", "http://b.br/y")
    assert [order.score(url) for url in urls] == [-1, -3, -1, -4]


def test_queries_are_no_blocks_and_empty_blocks_none():
    assert url_score("http://a.br/?a/b/c", False, False, UrlScoreWeights(length=0)) == 0
    assert url_score("http://a.br//x//", False, False, UrlScoreWeights(length=0)) == -10


@pytest.mark.parametrize(
    ("page", "links", "expected"),
    [
        (1, 0, False), (1, 1, False), (1, 2, True), (1, 500, True), (2, 3, False), (2, 4, True), (3, 7, False),
        (3, 8, True), (9, 511, False), (9, 512, True), (5000, 10**9, False),
    ],
)  # fmt: skip
def test_after_the_ith_page_a_walk_goes_on_while_2_to_the_i_links_lead_elsewhere(page, links, expected):
    assert continues_walk(page, links) is expected
    assert (2**page <= links) is expected


@given(st.integers(1, 40), st.integers(0, 2**41))
def test_the_more_links_the_longer_and_never_without_end(page, links):
    assert continues_walk(page, links) == (2**page <= links)
    assert continues_walk(page, links) <= continues_walk(page, links + 1)
    assert continues_walk(page + 1, links) <= continues_walk(page, links)


@pytest.mark.parametrize(
    ("under_way", "cycle", "expected"), [(0, 1, True), (1, 1, False), (49, 100, True), (50, 100, False), (0, 100, True)]
)
def test_a_cycle_begins_when_less_than_half_of_one_is_under_way(under_way, cycle, expected):
    assert is_cycle_due(under_way, cycle) is expected


def ranked(order: QueueOrder, *urls: tuple[str, int, int, int, int]) -> list[str]:
    """By rank; each with its number, in-links, attempts and role."""
    return sorted((url for url, *_ in urls), key=lambda url: order.rank(url, *_facts(urls, url)))


def _facts(urls: tuple[tuple[str, int, int, int, int], ...], url: str) -> tuple[int, bytes, int, int, int]:
    number, in_links, attempts, role = next(facts for text, *facts in urls if text == url)
    return number, url_id(url), in_links, attempts, role


@pytest.mark.parametrize("name", ["fifo", "lifo", "random", "backlinks"])
def test_penalised_urls_go_after_all_others_and_before_those_that_failed(name):
    order = QueueOrder(StrategyConfig(order=name, penalise=("*/bad*",)))
    urls = [(f"http://a.br/{'bad' if n % 2 else 'good'}{n}", n, n, 0, 0) for n in range(20)]
    urls.append(("http://a.br/failed", 3, 99, 1, 0))
    found = ranked(order, *urls)
    assert [url[12:15] for url in found] == ["goo"] * 10 + ["bad"] * 10 + ["fai"]


@given(st.integers(0, 10**12), st.integers(0, 10**9), st.binary(min_size=16, max_size=16))
def test_without_penalties_the_plain_orders_are_what_they_were(sequence, in_links, name):
    for order in ("fifo", "lifo", "random", "backlinks"):
        found = QueueOrder(StrategyConfig(order=order)).rank(
            "http://a.br/x", sequence, name, in_links, 2, UrlRole.SITEMAP
        )
        assert found == plain_rank(order, sequence, name, in_links, 2)


def test_in_breadth_the_best_score_goes_first_equals_by_discovery_listings_and_failures_last():
    urls = [
        ("http://a.br/aa", 7, 0, 0, 0),
        ("http://a.br/", 9, 0, 0, 0),
        ("http://a.br/bb", 5, 1000, 0, 0),
        ("http://a.br/s.xml", 1, 0, 0, 1),
        ("http://a.br/b", 2, 0, 1, 0),
        ("http://a.br/login", 0, 0, 0, 0),
    ]
    assert ranked(QueueOrder(BR), *urls) == [
        "http://a.br/", "http://a.br/bb", "http://a.br/aa", "http://a.br/login", "http://a.br/s.xml", "http://a.br/b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.br/", True),
        ("https://x.y.br/z", True),
        ("http://a.com/b.br", False),
        ("http://a.com:8080/", True),
        ("http://a.com:80/", False),
    ],
)
def test_favour_is_for_hosts(url, expected):
    assert QueueOrder(StrategyConfig(favour=("*.br", "a.com:8080"))).favours(url) is expected
