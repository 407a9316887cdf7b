"""The report of a crawled synthetic Web agrees with its truth, and with `tarrafa status`."""

import itertools
import json
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tarrafa.archive.warc_reader import follow, worker_of
from tarrafa.cli import status_top
from tarrafa.clock import boottime
from tarrafa.model import SearchResult
from tarrafa.parse.url import host_key, split
from tarrafa.report import local_measurements
from tarrafa.report.report_builder import build_report
from tarrafa.report.schema import CollectionReport
from tarrafa.search.request import SearchRequest
from tarrafa.search.result_cache import SearchResultCache
from tarrafa.search.searcher import Searcher
from tarrafa.testweb.http.request_log import LoggedRequest
from tarrafa.testweb.oracle import ExpectedRequests, TruthPage, expected_requests, reachable
from tarrafa.testweb.render.compression import encode_chunks, is_chunked
from tarrafa.testweb.world.hosts import World
from tarrafa.testweb.world.page_links import outlinks
from tarrafa.testweb.world.resources import Resource, ResourceKind
from tests.journey.crawl_journey import TYPES, Journey, a_journey
from tests.report.sample_archives import counted

HOSTS = 10
WORLD = World(seed=21, hosts=HOSTS, pages=120, crawl_delay_s=0.02, crawl_delay_share=0.3, changes=0.0)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Journey, list[LoggedRequest]]]:
    """A crawl, and what it asked for: tests ask, too."""
    journey = a_journey(tmp_path_factory.mktemp("report"), WORLD)
    with journey.web:
        journey.delay_s = 0.01
        journey.crawl(journey.write_collection(), "--workers", "2")
        yield journey, journey.requests()


@pytest.fixture(scope="module")
def crawled(done: tuple[Journey, list[LoggedRequest]]) -> Journey:
    return done[0]


@pytest.fixture(scope="module")
def requests(done: tuple[Journey, list[LoggedRequest]]) -> list[LoggedRequest]:
    return done[1]


@pytest.fixture(scope="module")
def made(crawled: Journey) -> tuple[CollectionReport, float]:
    """And in how many seconds."""
    began = boottime()
    return build_report(crawled.data, "journey"), boottime() - began


@pytest.fixture(scope="module")
def report(made: tuple[CollectionReport, float]) -> CollectionReport:
    return made[0]


@pytest.fixture(scope="module")
def truth() -> ExpectedRequests:
    return expected_requests(WORLD, [WORLD.root(1)], types=TYPES, sitemaps=True)


@pytest.fixture(scope="module")
def pages(crawled: Journey, truth: ExpectedRequests) -> dict[str, TruthPage]:
    """What `/__truth__` says of each page that must be kept."""
    found: dict[str, TruthPage] = {}
    for host in {split(url).host for url in truth.kept}:
        content = crawled.web._get(f"/__truth__?host={host}")
        found.update({page.url: page for page in msgspec.convert(json.loads(content)["pages"], list[TruthPage])})
    return {url: found[url] for url in truth.kept}


def test_documents_and_requests_are_those_that_the_truth_demands(report, requests, truth):
    assert report.work.documents == len(truth.kept)
    asked = Counter(entry.path.partition("?")[0] == "/robots.txt" for entry in requests)
    assert report.work.requests == asked[False]
    assert report.links.accessed == len({entry.url for entry in requests if entry.path != "/robots.txt"})


def test_servers_are_those_of_the_world_with_their_documents(report, truth):
    assert report.servers.documents == Counter(host_key(url) for url in truth.kept)
    assert report.servers.with_documents == report.servers.sites == HOSTS
    counts = sorted(report.servers.documents.values(), reverse=True)
    held = next(n for n in range(1, HOSTS + 1) if sum(counts[:n]) >= 0.8 * sum(counts))
    assert (report.servers.holding_80_servers, report.servers.holding_80) == (held, held / HOSTS)


def test_statuses_are_those_of_the_truth_and_of_the_status_command(report, crawled, requests, truth, capsys):
    reached = reachable(WORLD, [WORLD.root(1)], sitemaps=True)
    told = Counter(one.status for url, one in reached.items() if url not in truth.unwanted)
    found = {one.status: one.count for one in report.responses}
    assert {status: found[status] for status in told if status != 200} == {s: n for s, n in told.items() if s != 200}
    listings = sum(entry.status == 200 and "sitemap" in entry.path for entry in requests)
    assert found[200] == told[200] + listings

    status_top.status(crawled.data.root, as_json=True)
    (status,) = json.loads(capsys.readouterr().out)["collections"]
    everything = Counter(found) + Counter({one.status: one.count for one in report.unvisited})
    assert {str(code): count for code, count in everything.items()} == status["statuses"]
    assert (report.work.documents, report.links.discovered) == (status["fetched"], status["known"])
    assert (report.links.pending, report.links.failed) == (status["pending"], status["failed"])
    assert (report.links.excluded, report.state) == (status["excluded"], status["state"])
    assert report.work.requests == status["requests"]
    assert (report.work.visits, report.work.bytes) == (status["visits"], status["bytes"])
    assert {str(one.status): one.count for one in report.unvisited} == status["refused"]
    assert report.servers.visited == status["hosts"]


def test_languages_charsets_domains_and_types_are_the_pages_own(report, pages, crawled):
    written = [page for page in pages.values() if page.language]  # the others are plain files
    languages = Counter(page.language.partition("-")[0] for page in written)
    assert (Counter(counted(report.languages)) - languages).total() == len(pages) - len(written)
    assert set(counted(report.languages)) == set(languages)
    charsets = Counter("utf-8" if "utf-8" in page.charset else "windows-1252" for page in written)
    assert (Counter(counted(report.charsets)) - charsets).total() == len(pages) - len(written)
    ends = Counter(".".join(split(url).host.split(".")[-2:]) for url in pages)
    assert counted(report.domains) == ends
    assert counted(report.types)["text/html"] >= len(pages)


def test_sizes_are_what_came_over_the_wire(report, crawled, pages):
    sizes = sorted(_bytes_of(crawled, page) for page in pages.values())
    assert report.sizes.count == len(sizes)
    assert (report.sizes.least, report.sizes.most) == (sizes[0], sizes[-1])
    assert report.sizes.mean == report.work.mean_bytes == pytest.approx(sum(sizes) / len(sizes))
    assert sum(one.count for one in report.sizes.bins) == len(sizes)
    assert sum(one.bytes for one in report.servers.most) == sum(sizes)


def _bytes_of(journey: Journey, page: TruthPage) -> int:
    """Of the body, asked for as the crawler does."""
    parts = split(page.url)
    lines = [f"GET {parts.target} HTTP/1.1", f"Host: {parts.host}", "Accept-Encoding: gzip, deflate, br"]
    with socket.create_connection(("127.0.0.1", journey.web.port), timeout=10) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0]
    chunked = is_chunked(int(parts.host[1:5])) and page.language  # but it is not sent so where it hangs up afterwards
    return len(encode_chunks(body) if chunked else body)


def test_links_on_pages_are_the_worlds_links(report, crawled, truth):
    reached = reachable(WORLD, [WORLD.root(1)], sitemaps=True)
    internal = outgoing = 0
    for url in truth.kept:
        it = reached[url]
        targets = {link.to for link in outlinks(WORLD, Resource(it.kind, it.no, it.n))}
        targets.discard(Resource(it.kind, it.no, it.n))
        outgoing += len(targets)
        internal += sum(to.no == it.no for to in targets)
    assert report.internal_links.mean * len(truth.kept) == pytest.approx(internal)
    assert report.outgoing_links.mean * len(truth.kept) == pytest.approx(outgoing)
    assert sum(links * pages for links, pages in report.degrees.outgoing) == outgoing


def test_redirects_and_dead_links_are_the_worlds(report, truth):
    assert report.redirects.urls == len(truth.redirects)
    reached = reachable(WORLD, [WORLD.root(1)], sitemaps=True)
    codes = Counter(reached[url].status for url in truth.redirects)
    assert {one.status: one.count for one in report.redirects.codes} == codes
    in_loops = [url for url in truth.redirects if reached[url].kind is ResourceKind.LOOP]
    assert report.redirects.loop_urls == len(in_loops)
    assert report.dead is not None
    assert report.dead.urls == len(truth.missing)
    assert {one.url for one in report.dead.most_wanted} <= truth.missing


def test_robots_are_the_hosts(report):
    hosts = [WORLD.host(no) for no in range(1, HOSTS + 1)]
    present = [host for host in hosts if host.robots.present]
    assert (report.robots.asked, report.robots.present) == (HOSTS, len(present))
    slow = [host for host in present if host.robots.crawl_delay_s]
    assert report.robots.with_delay == len(slow)
    assert report.robots.delay_s_most == max(host.robots.crawl_delay_s for host in slow)


def test_depths_and_time_add_up(report, truth, crawled):
    assert sum(one.count for one in report.depths) == len(truth.kept)
    line = report.timeline
    assert (line.documents[-1], line.sites[-1]) == (len(truth.kept), HOSTS)
    assert sum(line.requests) == report.work.requests
    visits = [(worker_of(entry.file), entry.record.outcome.kept) for entry in follow(crawled.data.archive, {})]
    kept = {name: sum(is_kept for who, is_kept in visits if who == name) for name, _ in visits}
    assert {one.name: one.documents for one in report.collectors} == kept
    assert set(kept) <= {"w1", "w2"}, "one may be done before the other has started"
    assert sum(kept.values()) == len(truth.kept)
    assert report.waits.least >= crawled.delay_s - 0.005, "never sooner than the delay"


def test_storage_is_that_of_the_files_and_hard_links_count_once(report, crawled):
    parts = {part.name: part.bytes for part in report.storage}
    files = [path.lstat() for path in Path(crawled.data.root).rglob("*") if not path.is_dir()]
    everything = sum({(file.st_dev, file.st_ino): file.st_size for file in files}.values())
    assert everything < sum(file.st_size for file in files), "snapshots of the triple store are hard links"
    assert sum(parts.values()) == pytest.approx(everything, rel=0.01)
    assert parts["metadata"] == sum(path.stat().st_size for path in crawled.data.archive.glob("*.meta.warc.gz"))
    assert min(parts[name] for name in ("archive", "frontier", "index", "graph", "triples")) > 0


def test_what_can_be_found_is_timed_the_first_time_and_again(made, pages):
    report, took_s = made
    assert report.links.indexed == sum(not page.noindex for page in pages.values())
    assert report.links.noindex == sum(page.noindex for page in pages.values())
    assert (report.links.taken_down, report.links.waiting, report.links.no_longer_kept) == (0, 0, 0)
    assert {one.kind for one in report.search} == {"word", "pair", "phrase"}
    assert all(0 < one.first_s_median <= one.first_s_most < took_s for one in report.search)
    assert report.statements
    assert report.notes == ["no_busy"]


def test_search_times_are_those_of_two_searches_of_the_index_and_one_answer_of_the_cache(crawled, monkeypatch):
    now, asked = [0.0], list[str]()
    search, cached = Searcher.search, SearchResultCache.cached

    def slow_search(searcher: Searcher, request: SearchRequest) -> SearchResult:
        again = asked[-1:] == [request.text]
        asked.append(request.text)
        now[0] += (0.25 if again else 1.0) if request.n > 1 else 0.0  # a phrase is made of the best title
        return search(searcher, request)

    def timed_cache(cache: SearchResultCache, request: SearchRequest) -> SearchResult | None:
        before = len(asked)
        found = cached(cache, request)
        assert found is not None
        assert len(asked) == before, "the index is not searched"
        now[0] += 0.0625
        return found

    monkeypatch.setattr(Searcher, "search", slow_search)
    monkeypatch.setattr(SearchResultCache, "cached", timed_cache)
    monkeypatch.setattr(local_measurements, "perf_counter", lambda: now[0])
    found = local_measurements.search_times(crawled.data, "journey")
    assert [one.kind for one in found] == ["word", "pair", "phrase"]
    for one in found:
        searched = (one.first_s_median, one.first_s_most, one.again_s_median, one.again_s_most)
        assert searched == (1.0, 1.0, 0.25, 0.25), "each is searched twice in a row, and neither time by a cache"
        assert (one.cached_s_median, one.cached_s_most) == (0.0625, 0.0625)
    assert now[0] == 1.3125 * sum(one.questions for one in found)


def test_a_question_that_a_commit_threw_out_of_the_cache_is_not_timed_as_cached(crawled, monkeypatch):
    commits = itertools.count()
    monkeypatch.setattr(local_measurements, "index_version", lambda data: next(commits))
    found = local_measurements.search_times(crawled.data, "journey")
    assert [(one.cached_s_median, one.cached_s_most) for one in found] == [(None, None)] * 3
    assert all(one.again_s_median > 0 for one in found)
