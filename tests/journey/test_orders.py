"""Crawls that look for new sites first, and crawls that follow a language beyond their hosts."""

import asyncio
from collections import defaultdict

import pytest

from tarrafa.cli.running import overview_of
from tarrafa.crawl.explain import Told, explain
from tarrafa.data import DataDirectory
from tarrafa.frontier.protocol import CollectionStatus
from tarrafa.model import Record, Status
from tarrafa.parse.url import host_name
from tarrafa.web.world import World
from tests.journey.crawling import a_journey, assert_polite, tarrafa
from tests.journey.small_web import Answer, a_small_web

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


def answer(url: str, _: int) -> Answer | None:
    if url == "http://old.pt.test/":
        return Answer(code=301, headers={"Location": "http://new.pt.test/"})
    if url not in WEB:
        return None
    text, links = WEB[url]
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return Answer((text.format(n=url) + anchors).encode(), headers={"Content-Type": "text/html; charset=utf-8"})


def status_of(data: DataDirectory) -> CollectionStatus:
    return asyncio.run(overview_of(data)).collections[0]


def told(data: DataDirectory, url: str) -> Told:
    return asyncio.run(explain(data, url, None, 0.0)).collections[0]


def test_a_language_is_followed_beyond_the_hosts_as_far_as_the_limits_let_it(tmp_path):
    with a_small_web(answer) as web:
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
    assert unseen.next_visit == "no page that was kept links to it"


def external(record: Record) -> int:
    """Every host of the synthetic Web is a site of its own."""
    page = record.page
    if page is None or page.robots.nofollow:
        return 0
    own = host_name(record.url)
    return len({link.url for link in page.links if link.is_followed and host_name(link.url) != own})


@pytest.mark.long
def test_in_breadth_every_site_is_walked_as_far_as_it_leads_elsewhere_and_no_further(tmp_path):
    journey = a_journey(tmp_path, World(seed=5, hosts=300, pages=6000))
    journey.sections = '[strategy]\norder = "breadth"\ncycle = 20\ntable_max = 50\n[fetch]\nsitemaps = false\n'
    with journey.web:
        journey.crawl(journey.write_collection(), "--workers", "2")
        assert_polite(journey)
    walks: defaultdict[str, list[Record]] = defaultdict(list)
    for record in sorted(journey.records(), key=lambda record: record.outcome.at):
        walks[host_name(record.url)].append(record)
    assert len(walks) == journey.world.hosts, "all sites"
    for name, records in walks.items():
        pages = [record for record in records if record.outcome.content_id and not record.outcome.location]
        for number, record in enumerate(pages, 1):
            assert record.outcome.external == external(record)
            goes_on = 2**number <= external(record)
            assert goes_on or record is records[-1], f"{name}: it went on after page {number}"
    status = status_of(journey.data)
    assert (status.pending, status.sites_chosen, status.table) == (0, 300, 0)
    assert status.passed_over > 1000
