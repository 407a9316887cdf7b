"""All that is known of a page and of a site, and why a result is one."""

import json
import re
from collections.abc import Iterator
from math import prod
from urllib.parse import quote

import pytest
from starlette.requests import Request

from tarrafa.graph import follower as graph
from tarrafa.graph.ranking_process import compute_rankings
from tarrafa.i18n import ENGLISH, PORTUGUESE
from tarrafa.index import follower as index
from tarrafa.model import Link
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import ScorePart
from tarrafa.server.jinja_environment import (
    ScoreExplanation,
    format_change_rate,
    host_name_of,
    readable_url,
)
from tarrafa.server.page_responses import PageResponses
from tests.graph.archived_web import a_record, new_data, small_web, url_of, write
from tests.server.conftest import HOSTILE, RunningSite, links

NO_LINKS_YET = "The link graph is not ready yet. It is built while the crawl runs: try again in a moment."


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    """A small Web with its ranks, and a site that leads to sixty others."""
    data = new_data(tmp_path_factory.mktemp("relations") / "data")
    far = [Link(f"http://www.s{n}.org/", f"sítio {n}") for n in range(60)]
    records = [
        *small_web(60),
        a_record("http://centro.org/", links=far, title="O centro", text="centro centro praça <b>"),
        a_record(
            "http://hostil.org/", links=[Link("http://centro.org/", HOSTILE)], title=HOSTILE, text=f"{HOSTILE} centro"
        ),
    ]
    write(data, records)
    graph.catch_up(data, lambda name, weights: None)
    compute_rankings(data)
    index.catch_up(data)
    return data


@pytest.fixture(scope="module")
def site(data: DataDirectory) -> Iterator[RunningSite]:
    with RunningSite(data) as running:
        yield running


def test_a_page_tells_rank_words_hosts_and_links(site):
    response, text = site.get("/page?url=http://centro.org/")
    assert response.status == 200
    for said in ("200 OK", "times the mean", "never visited", "O centro"):
        assert (said in text) is (said != "never visited")
    assert re.search(r">centro</a> <span class=\"quiet\">2</span>", text)
    assert "http://www.s1.org:80" in text
    assert "/site?name=centro.org" in links(text)
    assert "/?q=pra%C3%A7a" in links(text)
    found = json.loads(site.get("/page.json?url=http://centro.org/&n=5")[1])
    assert (found["out_total"], len(found["out"]), found["out_hosts_total"]) == (60, 5, 60)
    assert found["words"][0] == {"word": "centro", "count": 2}
    assert found["rank"] > 0


def test_the_lists_of_a_page_are_paged_each_by_itself(site):
    _, text = site.get("/page?url=http://centro.org/&hl=en&hosts=2")
    assert "/page?url=http%3A%2F%2Fcentro.org%2F&hl=en&hosts=2&out=2#out" in links(text)
    assert "/page?url=http%3A%2F%2Fcentro.org%2F&hl=en#hosts" in links(text)
    assert text.count("sítio") == 50
    assert site.get("/page?url=http://centro.org/&out=2")[1].count("sítio") == 10


def test_a_site_tells_its_pages_hosts_and_neighbours(site):
    response, text = site.get("/site?name=br.test")
    assert response.status == 200
    assert "/site?name=http%3A%2F%2Fh3.br.test%3A80" in links(text)
    assert "/?q=site%3Abr.test" in links(text)
    told = json.loads(site.get("/site.json?name=br.test&n=3")[1])
    assert (told["kind"], told["hosts_total"], len(told["hosts"])) == ("site", 7, 3)
    assert told["known"] >= told["visited"] >= told["fetched"] == told["indexed"] == 60
    host = json.loads(site.get("/site.json?name=h3.br.test")[1])
    assert (host["kind"], host["site"]) == ("host", "br.test")
    assert "/site?name=br.test" in links(site.get("/site?name=h3.br.test")[1])


def test_sites_that_are_linked_are_paged(site):
    _, text = site.get("/site?name=centro.org")
    assert "/site?name=centro.org&out=2#out" in links(text)
    assert "/site?name=s7.org" in links(text) + links(site.get("/site?name=centro.org&out=2")[1])


@pytest.mark.parametrize(
    ("path", "code", "sentence"),
    [
        ("/page", 404, "Which page?"),
        ("/page?url=javascript:alert(1)", 404, "not known here"),
        ("/site", 404, "Which site?"),
        ("/site?name=nowhere.test", 404, "No URL of this site"),
        ("/site?name=%3Cscript%3E", 404, "No URL of this site"),
        ("/site?name=br.test&collection=nobody", 404, "No URL of this site"),
        ("/why?q=rede", 404, "Which page?"),
        ("/why?q=-x&url=http://centro.org/", 400, "leave out"),
    ],
)
def test_what_is_not_known_is_one_sentence(site, path, code, sentence):
    response, text = site.get(path)
    assert (response.status, sentence in text) == (code, True)


@pytest.mark.parametrize("path", ["/page.json?url=http://centro.org/&n=0", "/site.json?name=br.test&n=1001",
                                  "/page.json?url=http://centro.org/&offset=-1", "/page.json?url=http://centro.org/&n=x",
                                  "/page.json?url=http://centro.org/&offset=100001"])  # fmt: skip
def test_lists_are_bounded(site, path):
    response, text = site.get(path)
    assert response.status == 400
    assert list(json.loads(text)) == ["error"]


def test_hostile_pages_and_anchors_are_escaped_everywhere(site):
    for path in ("/page?url=http://hostil.org/", "/page?url=http://centro.org/", "/site?name=hostil.org",
                 f"/why?q=centro&url={quote('http://hostil.org/')}", f"/why?q=x&url={quote(HOSTILE)}"):  # fmt: skip
        response, text = site.get(path)
        assert response.status == 200
        assert "<script>alert" not in text
        assert "<img" not in text


def test_what_only_the_machine_itself_may_hear_is_kept_from_others(site, data):
    """Nobody owns this frontier: the sentence that says so names a file."""
    here = json.loads(site.get("/page.json?url=http://centro.org/")[1])["frontier"]
    there = json.loads(site.get("/page.json?url=http://centro.org/", headers={"X-Forwarded-For": "192.0.2.1"})[1])
    assert str(data.root) in here
    assert there["frontier"] == "it does not answer"
    assert str(data.root) not in site.get("/page?url=http://centro.org/")[1]
    assert "The frontier does not answer now" in site.get("/page?url=http://centro.org/")[1]


def test_why_shows_the_parts_that_make_the_score(site):
    hit = json.loads(site.get("/search.json?q=rede+pesca&n=1")[1])["hits"][0]
    _, results = site.get("/?q=rede+pesca&lang=pt")
    link = next(link for link in links(results) if link.startswith("/why?"))
    assert "lang=pt" in link
    _, text = site.get(f"/why?q=rede+pesca&url={quote(hit['url'], safe='')}")
    assert "“rede” in the page or in links to it" in text
    assert "× " in text
    assert f"{hit['score']:,.2f}" in text
    assert "/?q=rede+pesca" in links(text)
    _, text = site.get(f"/why?q=rede+pesca&url={quote(hit['url'], safe='')}&hl=pt")
    assert "“rede” na página ou em links para ela" in text


def test_why_a_page_is_not_a_result_is_said_too(site):
    assert "not among the answers" in site.get(f"/why?q=praça&url={quote(url_of(3))}".replace("ç", "%C3%A7"))[1]


def test_every_part_of_a_score_has_a_name(data):
    kinds = ("text", "title", "pair", "added", "links", "recent", "curated")
    scope = {"type": "http", "method": "GET", "path": "/why", "query_string": b"q=x&hl=pt", "headers": []}
    reasons = ScoreExplanation.of([ScorePart(kind, "rede", 1.0) for kind in kinds])
    text = PageResponses(data, None).render(
        Request(scope), "score_explanation.html", url="http://a.br/", reasons=reasons
    )
    names = re.findall(r'<th scope="row">(.+?)</th>', text)
    assert len(set(names)) == len(kinds) + 1
    assert "“rede” na página ou em links para ela" in names


def test_reasons_add_up():
    parts = [
        ScorePart("links", "", 1.5),
        ScorePart("text", "a", 1.0),
        ScorePart("title", "a", 3.0),
        ScorePart("recent", "", 2.0),
    ]
    reasons = ScoreExplanation.of(parts)
    assert [part.value for part in reasons.parts] == [3.0, 1.0]
    assert reasons.score == pytest.approx(4.0 * prod((1.5, 2.0)))


def test_numbers_are_written_as_people_read_them():
    values = (0.0, 0.00123456, 0.5, 1.0, 1.239, 12.0, 1234.5)
    assert [ENGLISH.significant(value) for value in values] == [
        "0",
        "0.00123",
        "0.5",
        "1",
        "1.24",
        "12",
        "1,234",
    ]
    assert PORTUGUESE.significant(1234.5) == "1.234"
    assert PORTUGUESE.significant(1.239) == "1,24"
    assert format_change_rate(3.456, ENGLISH) == "about 3.5 times a day"
    assert format_change_rate(0.1, PORTUGUESE) == "cerca de uma vez a cada 10 dias"
    assert format_change_rate(0.0, ENGLISH) == ""
    assert [format_change_rate(rate, ENGLISH) for rate in (1.02, 1.0, 0.98)] == ["about once a day"] * 3


def test_addresses_can_be_read_without_being_disguised():
    assert readable_url("http://a.br/servi%C3%A7os/%E2%80%AE/%20/%2F/%ff/x") == (
        "http://a.br/serviços/%E2%80%AE/%20/%2F/%ff/x"
    )
    assert (
        host_name_of("https://www.a.br:81/x")
        == host_name_of("https://www.a.br:81")
        == host_name_of("www.a.br")
        == "www.a.br"
    )
    assert host_name_of("no host") == "no host"


def test_what_was_not_looked_at_yet_is_said_without_naming_a_file(tmp_path):
    young = new_data(tmp_path / "data")
    write(young, small_web(5))
    index.catch_up(young)
    with RunningSite(young) as site:
        before = {path: site.get(path) for path in ("/page?url=http://h0.br.test/", "/site?name=br.test&hl=pt")}
        graph.catch_up(young, lambda name, weights: None)
        between = {path: site.get(path) for path in ("/site?name=br.test&hl=pt", "/site.json?name=br.test")}
    for response, text in (*before.values(), *between.values()):
        assert response.status == 503
        assert ".sqlite" not in text
        assert str(tmp_path) not in text
    assert NO_LINKS_YET in before["/page?url=http://h0.br.test/"][1]
    assert PORTUGUESE(NO_LINKS_YET) in between["/site?name=br.test&hl=pt"][1]
    assert json.loads(between["/site.json?name=br.test"][1]) == {"error": NO_LINKS_YET}
