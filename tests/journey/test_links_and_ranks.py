"""A crawl by real processes, and then: who matters, what is there to say about a page and a site?"""

import asyncio
import json
import time
from typing import Any

import pytest

from tarrafa.archive.warc_reader import follow
from tarrafa.cli import page_site_links
from tarrafa.crawl.explain.page_and_site import describe_page, describe_site
from tarrafa.graph.graph_writer import out_edges
from tarrafa.parse.url import host_key
from tarrafa.testweb.world.hosts import World
from tests.graph.test_ranking_process import by_hand
from tests.journey.crawl_journey import a_journey, tarrafa


def test_after_a_crawl_links_pages_and_sites_are_told_with_exact_numbers_and_ranks(tmp_path, capsys):
    journey = a_journey(tmp_path, World(seed=5, hosts=3, pages=30))
    with journey.web:
        journey.crawl(journey.write_collection())

    def said(*command: str) -> Any:
        done = tarrafa(*command, "--data", journey.data.root, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    records = {entry.record.url: entry.record for entry in follow(journey.data.archive, {})}
    ways = {url: out_edges(record) or [] for url, record in records.items()}
    expected = by_hand({url: [edge.url for edge in edges if edge.hops is not None] for url, edges in ways.items()})
    root = journey.world.root(1)
    page = said("page", root, "--limit", "1000")
    assert page["rank"] == pytest.approx(expected[root], rel=1e-4)
    assert {one["url"] for one in page["in"]} == {
        url for url, edges in ways.items() if url != root and any(edge.url == root for edge in edges)
    }
    assert (page["in_total"], page["out_total"]) == (len(page["in"]), len({edge.url for edge in ways[root]}))
    assert (page["status"], page["state"], page["frontier"]) == (200, "fetched", "")
    assert [(one["status"], one["number"]) for one in page["history"]] == [(200, 1)]
    assert page["first_seen_at"] <= page["visited_at"] == page["changed_at"] == page["versions"][0]
    text = records[root].page.text.lower().split()  # type: ignore[union-attr]
    assert page["words"][0]["count"] >= text.count(page["words"][0]["word"]) > 0

    links = said("links", root, "--in", "--limit", "2", "--offset", "1")
    assert (links["in"], links["out"]) == ([{key: one[key] for key in one} for one in page["in"][1:3]], [])
    assert (links["in_total"], links["rank"]) == (page["in_total"], page["rank"])

    host = host_key(root)
    site = said("site", host)
    own = {url for url in expected if host_key(url) == host}
    assert (site["kind"], site["known"], site["visited"]) == ("host", len(own), len(own & set(records)))
    assert site["rank"] == pytest.approx(sum(expected[url] for url in own), rel=1e-4)
    (state,) = site["states"]
    assert (state["host"], state["robots_status"], state["delay_s"]) == (host, 200, pytest.approx(0.03, abs=1))
    assert "User-agent" in state["robots"]
    told = asyncio.run(describe_site(journey.data, site["site"], time.time()))
    assert host in {one.host for one in told.hosts}
    page_site_links.print_site(told)
    page_site_links.print_page(asyncio.run(describe_page(journey.data, root, page["visited_at"])))
    shown = capsys.readouterr().out
    for words in ("robots.txt", "times the mean", "pages link here", "visit 1", "known since", root, host):
        assert words in shown
