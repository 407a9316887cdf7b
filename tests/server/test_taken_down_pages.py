"""A page that was taken down is 451, and nothing of it shows anywhere."""

import json

from tarrafa.graph import follower as graph
from tarrafa.graph.ranking_process import compute_rankings
from tarrafa.index import follower as index
from tarrafa.model import Link
from tarrafa.takedown import parse_target, record_action
from tests.graph.archived_web import a_record, new_data, write
from tests.server.conftest import RunningSite

SECRET, OTHER = "http://secret.test/page", "http://other.test/"


def test_a_page_that_was_taken_down_is_451_and_nothing_of_it_shows(tmp_path):
    data = new_data(tmp_path / "data")
    links = [Link(OTHER, "segredo"), Link(SECRET, "segredo")]
    write(data, [a_record(SECRET, title="Um segredo", text="segredo", links=links), a_record(OTHER, links=links)])
    graph.catch_up(data, lambda name, weights: None)
    index.catch_up(data)
    with RunningSite(data) as site:
        assert site.get(f"/page?url={SECRET}")[0].status == 200
        record_action(data, "add", parse_target(SECRET), "ana", "a reason that is nobody's business", 1_790_000_000.0)
        response, said = site.get(f"/page?url={SECRET}")
        assert (response.status, "This page was taken down" in said) == (451, True)
        assert "business" not in said
        response, said = site.get(f"/page.json?url={SECRET.upper().replace('PAGE', 'page')}")
        assert (response.status, list(json.loads(said))) == (451, ["error"])
        for path in ("/?q=segredo", "/search.json?q=segredo", f"/page?url={OTHER}", f"/page.json?url={OTHER}"):
            response, said = site.get(path)
            assert response.status == 200
            assert "Um segredo" not in said
            assert "secret.test" not in said
        assert json.loads(site.get(f"/page.json?url={OTHER}")[1])["in"] == []


def test_a_site_that_was_taken_down_is_451_and_is_not_named_among_others(tmp_path):
    data = new_data(tmp_path / "data")
    records = [a_record(SECRET, links=[OTHER]), a_record(OTHER, links=[SECRET, "http://third.test/"])]
    write(data, records)
    graph.catch_up(data, lambda name, weights: None)
    compute_rankings(data)
    with RunningSite(data) as site:
        assert "secret.test" in site.get("/site?name=other.test")[1]
        record_action(data, "add", parse_target("site:secret.test"), "ana", "a reason", 1_790_000_000.0)
        for path in ("/site?name=secret.test", "/site.json?name=secret.test", "/site?name=http://secret.test"):
            assert site.get(path)[0].status == 451
        for path in ("/site?name=other.test", "/site.json?name=other.test"):
            response, said = site.get(path)
            assert (response.status, "secret.test" in said, "third.test" in said) == (200, False, True)
