"""Crawls that look for new sites first, and crawls that follow a language beyond their hosts."""

import asyncio
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import psycopg
import pytest

from tarrafa.crawl.explain.explain import UrlExplanation, explain
from tarrafa.crawl.explain.frontier_lookup import fetch_overview
from tarrafa.frontier.messages import CollectionStatus
from tarrafa.model import Status, UrlState, VisitRecord
from tarrafa.parse.url import host_name
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.contract.postgres_process import WHY_NOT, Postgres, programs
from tests.journey.crawl_journey import TYPES, a_journey, assert_polite, pids_of, tarrafa
from tests.journey.scripted_web import ScriptedResponse, scripted_web
from tests.journey.test_postgres import a_cluster

PORTUGUESE = (
    "<html lang=pt><p>O pescador da vila lança a rede ao mar de manhã cedo e volta com os peixes para casa. {n}"
)
ENGLISH = "<html lang=en><p>The fisherman of the village throws the net into the sea and comes home with the fish. {n}"

# Who links to whom, in which language. Inside are the hosts of br.test.
WEB: dict[str, tuple[str, list[str]]] = {
    "http://a.br.test/": (PORTUGUESE, ["http://a.br.test/en", "http://b.pt.test/", "http://c.com.test/"]),
    "http://a.br.test/en": (ENGLISH, ["http://a.br.test/2", "http://unseen.com.test/"]),
    "http://a.br.test/2": (PORTUGUESE, ["http://b.pt.test/private/x", "http://old.pt.test/"]),
    "http://b.pt.test/": (PORTUGUESE, ["http://c.com.test/2", "http://d.com.test/", "http://a.br.test/3"]),
    "http://c.com.test/": (ENGLISH, ["http://a.br.test/4", "http://e.pt.test/"]),
    "http://c.com.test/2": (PORTUGUESE, []),
    "http://d.com.test/": (PORTUGUESE, ["http://f.com.test/"]),
    "http://f.com.test/": (PORTUGUESE, ["http://g.com.test/"]),
    "http://g.com.test/": (PORTUGUESE, []),
    "http://a.br.test/3": (PORTUGUESE, []),
    "http://new.pt.test/": (PORTUGUESE, []),
    "http://b.pt.test/private/x": (PORTUGUESE, []),
}


def answer(url: str, _: int) -> ScriptedResponse | None:
    if url == "http://old.pt.test/":
        return ScriptedResponse(code=301, headers={"Location": "http://new.pt.test/"})
    if url not in WEB:
        return None
    text, links = WEB[url]
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return ScriptedResponse(
        (text.format(n=url) + anchors).encode(), headers={"Content-Type": "text/html; charset=utf-8"}
    )


def status_of(data: DataDirectory) -> CollectionStatus:
    return asyncio.run(fetch_overview(data)).collections[0]


def told(data: DataDirectory, url: str) -> UrlExplanation:
    return asyncio.run(explain(data, url, None, 0.0)).collections[0]


def test_a_language_is_followed_beyond_the_hosts_as_far_as_the_limits_let_it(tmp_path):
    with scripted_web(answer) as web:
        scope = 'languages = ["pt"]\ndepth_max = 3\nexclude = ["*/private/*"]'
        file = web.collection(tmp_path, ["http://a.br.test/"], scope=scope)
        file.write_text(file.read_text().replace('hosts = ["*.test"]', 'hosts = ["*.br.test"]'))
        done = tarrafa("crawl", file, "--data", tmp_path / "data", "--quiet")
        assert done.returncode == 0, done.stderr
        never = {"http://unseen.com.test/", "http://b.pt.test/private/x", "http://e.pt.test/", "http://a.br.test/4"}
        assert set(web.urls()) == set(WEB) - never - {"http://g.com.test/"} | {"http://old.pt.test/"}
    data = DataDirectory(tmp_path / "data")
    status, outside, unseen = status_of(data), told(data, "http://c.com.test/"), told(data, "http://unseen.com.test/")
    assert (status.state, status.fetched, status.too_deep) == ("finished", 8, 1)
    assert {code: status.statuses[code] for code in ("-20", "-24", "301")} == {"-20": 1, "-24": 1, "301": 1}
    assert (outside.in_scope, outside.status) == (True, Status.LANGUAGE_OUTSIDE)
    assert "a kept page led to it" in outside.rule
    assert "outside the scope, in another language" in outside.meaning
    assert (unseen.known, unseen.in_scope) == (False, False)
    assert unseen.next_visit == "1 page links to it, but this link was not followed"


STATES = "SELECT url, state FROM url"
FINISHED = "SELECT url, number FROM visit JOIN url USING (host, collection, id)"


def external(record: VisitRecord) -> int:
    """Every host of the synthetic Web is a site of its own."""
    own = host_name(record.url)
    return sum(host_name(link) != own for link in led_to(record))


def assert_walked(archived: Iterable[VisitRecord], world: World) -> None:
    """Every site, as far as it leads elsewhere and no further."""
    walks: defaultdict[str, list[VisitRecord]] = defaultdict(list)
    for record in sorted(archived, key=lambda record: record.outcome.at):
        walks[host_name(record.url)].append(record)
    assert len(walks) == world.hosts, "all sites"
    for name, records in walks.items():
        pages = [record for record in records if record.outcome.content_id and not record.outcome.location]
        for number, record in enumerate(pages, 1):
            assert record.outcome.external == external(record)
            goes_on = 2**number <= external(record)
            assert goes_on or record is records[-1], f"{name}: it went on after page {number}"


@pytest.mark.long
def test_in_breadth_every_site_is_walked_as_far_as_it_leads_elsewhere_and_no_further(tmp_path):
    journey = a_journey(tmp_path, World(seed=5, hosts=300, pages=6000))
    journey.sections = '[strategy]\norder = "breadth"\ncycle = 20\ntable_max = 50\n[fetch]\nsitemaps = false\n'
    with journey.web:
        journey.crawl(journey.write_collection(), "--workers", "2")
        assert_polite(journey)
    assert_walked(journey.records(), journey.world)
    status = status_of(journey.data)
    assert (status.pending, status.sites_chosen, status.table) == (0, 300, 0)
    assert status.passed_over > 1000


@pytest.mark.long
@pytest.mark.skipif(programs() is None, reason=WHY_NOT)
@pytest.mark.parametrize("count", [1, 2])
def test_on_postgresql_sites_are_walked_the_same_whoever_is_killed(tmp_path, count):
    servers, world = [Postgres() for _ in range(count)], World(seed=5, hosts=200, pages=4000)
    cluster = a_cluster(tmp_path, world, servers)
    order = '[strategy]\norder = "breadth"\ncycle = 40\ntable_max = 50\n'
    cluster.journey.sections = f"{order}{cluster.journey.sections}sitemaps = false\n"
    with cluster.journey.web:
        try:
            a, b = (cluster.node(name, "--workers", "2") for name in "ab")
            cluster.submit(cluster.journey.write_collection())
            cluster.wait_until_visited(60, a)
            (victim,) = pids_of(a.pid, "--name a-1")
            os.kill(victim, signal.SIGKILL)
            cluster.wait_until_visited(120, a)
            servers[0].stop("immediate")
            servers[0].start()
            cluster.wait_until_exhausted(b)
            assert_polite(cluster.journey)
            status, records = cluster.status(), list(cluster.records("a", "b"))
            for node in (a, b):
                assert node.stop() == 130, node.said()
                assert "Traceback" not in node.said(), node.said()
            known = {str(url): state for dsn in cluster.dsns for url, state in ask(dsn, STATES)}
            finished = {(str(url), number) for dsn in cluster.dsns for url, number in ask(dsn, FINISHED)}
        finally:
            cluster.end()
            for server in servers:
                server.remove()
    assert max(Counter((record.url, record.visit) for record in records).values()) == 1
    made = [record for record in records if (record.url, record.visit) in finished]
    assert len(made) == len(finished), "every finished visit has its record"
    assert_walked(made, world)
    kept = {record.url for record in made if record.outcome.kept}
    truth = expected_requests(world, [world.root(1)], types=TYPES).kept
    assert kept == {url for url, state in known.items() if state == UrlState.FETCHED}
    assert kept <= truth, "what is there, and nothing else"
    assert {link for record in made for link in led_to(record)} <= set(known), "nothing that was found is lost"
    assert (status.pending, status.sites_chosen, status.table) == (0, 200, 0), "each site once"
    print(f"servers: {count}; {len(kept):,} pages of 200 sites, {len(records) - len(made)} archived and never reported")


def led_to(record: VisitRecord) -> set[str]:
    if record.page is None or record.page.robots.nofollow:
        return set()
    return {link.url for link in record.page.links if link.is_followed}


def ask(dsn: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(question.encode()).fetchall()
