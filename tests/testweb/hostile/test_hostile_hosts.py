"""Badly behaved hosts, where a world wants them."""

import gzip
import html
import re
from collections import Counter, deque
from urllib.parse import urlsplit

import pytest

from tarrafa.model import Status
from tarrafa.parse.url import canonical
from tarrafa.testweb import FORBIDDEN_ROOTS, HOSTILE_HOSTS, CrawlExpectation, World, hostile_host_of, read_log
from tarrafa.testweb.hostile import SUFFIXES, hostile_roots
from tarrafa.testweb.hostile.response_builders import register_site
from tarrafa.testweb.hostile.slow_busy_hosts import SLOW_PAUSE_S, SLOW_PIECES
from tests.testweb.hostile.recorded_exchange import RecordedExchange, request_hostile_url
from tests.testweb.web_in_thread import WebInThread, read
from tests.testweb.web_in_thread import canonical as canonical_by_others

CALENDAR = "http://calendar.corner.test/"
WANTED = ("text/html", "application/xhtml+xml", "text/plain")
EACH = pytest.mark.parametrize("corner", HOSTILE_HOSTS.values(), ids=HOSTILE_HOSTS)


def test_a_world_without_corners_has_none():
    with WebInThread(World(hosts=2, pages=4)) as web:
        assert web.get(CALENDAR).status == 404
        assert web.server.connections == {"*.test": f"127.0.0.1:{web.port}"}


def test_the_calendar_never_ends_and_is_logged(tmp_path):
    log_path = tmp_path / "log.jsonl"
    with WebInThread(World(hosts=2, pages=4, hostile=True), log_path=log_path) as web:
        url, seen = CALENDAR, set()
        for _ in range(40):
            page = read(web.get(url))
            assert len(page.links) > 28
            seen.add(url)
            url = canonical_by_others(page.links[1][0], url)  # the month after
        assert len(seen) == 40
        assert url == "http://calendar.corner.test/2029/05/"
    entries = read_log(log_path)
    assert [entry.status for entry in entries] == [200] * 40
    assert entries[0].bytes > 500


def test_the_slow_host_answers_piece_by_piece():
    seen = request_hostile_url("http://slow.corner.test/")
    assert seen.sleeps == [SLOW_PAUSE_S] * (SLOW_PIECES - 1)
    assert seen.header("content-length") == str(len(seen.body))
    assert seen.status == 200


def test_corners_are_found_by_name_exact_then_family():
    assert CALENDAR in hostile_roots()
    assert hostile_host_of("Calendar.Corner.Test") is HOSTILE_HOSTS["calendar.corner.test"]
    assert hostile_host_of("a.b.wild.test") is hostile_host_of("www.wild.test") is HOSTILE_HOSTS["*.wild.test"]
    assert (
        hostile_host_of("wild.test")
        is hostile_host_of("nobody.corner.test")
        is hostile_host_of("h0001.br.test")
        is None
    )


def test_two_corners_cannot_have_one_name():
    with pytest.raises(AssertionError, match="calendar"):
        register_site("calendar", "nothing", {})


def test_every_corner_of_a_suffix_is_a_site_of_its_own():
    own = [name for name in HOSTILE_HOSTS if not name.startswith("*.")]
    assert all(name.partition(".")[2] in SUFFIXES for name in own)


def test_forbidden_addresses_are_urls_and_no_corners():
    for url in FORBIDDEN_ROOTS:
        host = urlsplit(canonical(url) or "").hostname
        assert host and hostile_host_of(host) is None, url


@EACH
def test_what_is_expected_is_well_formed(corner):
    expects = corner.expects
    known = set(Status) | set(range(100, 600)) | {999}
    assert corner.about and not corner.about.endswith(".")
    for url in (*expects.statuses, *corner.roots):
        assert canonical(url) == url
        assert hostile_host_of(urlsplit(url).hostname or "") is corner, url
    assert set(corner.roots) <= set(expects.statuses)
    for url, statuses in expects.statuses.items():
        assert statuses and set(statuses) <= known, url
        assert len(set(statuses)) == len(statuses), url
    for url in expects.kept:
        assert expects.statuses[url] == (200,), "what must be kept is nothing but a page"
        assert expects.may_be_kept(url)
        assert not url.startswith(expects.never or ("nowhere",)), url
    assert all(prefix.startswith(("http://", "https://")) for prefix in (*expects.never, *expects.may_keep))
    least = sum(200 in statuses for statuses in expects.statuses.values())
    assert expects.requests_max >= least or corner.name.endswith(".tls.test")


def test_expectations_are_an_answer_not_an_excuse():
    """Nobody passes by accident: few statuses each, and those that let a page be kept or not are the exception."""
    every = [statuses for corner in HOSTILE_HOSTS.values() for statuses in corner.expects.statuses.values()]
    assert max(map(len, every)) <= 4
    assert sum(len(statuses) == 1 for statuses in every) > 0.7 * len(every)
    assert sum(len(corner.expects.kept) for corner in HOSTILE_HOSTS.values()) > 200
    assert CrawlExpectation({}).requests_max == 20


@EACH
def test_a_corner_does_the_same_every_time(corner):
    for url in (*corner.expects.statuses, f"{corner.origin.replace('*', 'www')}/robots.txt"):
        one, other = request_hostile_url(url), request_hostile_url(url)
        assert one == other, url


@EACH
def test_what_must_be_kept_is_a_page_in_the_end(corner):
    memory: Counter[str] = Counter()
    for url in sorted(corner.expects.kept):
        seen = request_hostile_url(url, memory)
        for _ in range(3):
            if seen.data.startswith(b"HTTP/1.1 200"):
                break
            seen = request_hostile_url(url, memory)
        assert not seen.endless, url
        assert b" 200" in seen.data[:200] or b"\r\n\r\nHTTP/1.1 200" in seen.data, url


# --- how a crawler finds it all


def _leads(seen: RecordedExchange, url: str) -> set[str]:
    """Whatever looks like a way out."""
    if seen.endless or len(seen.data) > 700_000 or not seen.data.startswith(b"HTTP/"):
        return set()
    try:
        text = seen.body.decode("utf-8", "replace")
    except (OSError, ValueError, EOFError):
        return set()
    if seen.type in ("application/gzip", "application/x-gzip"):
        text = gzip.decompress(seen.body).decode()
    found = re.findall(
        r'(?:href|location) ?= ?"([^"]*)"|url=([^"]+)"|<loc>([^<]*)|<link>(?:<!\[CDATA\[)?([^<\]]*)', text
    )
    found += re.findall(r"()()()(?mi:^sitemap: *(\S+))", text)
    hrefs = [html.unescape(next(filter(None, groups), "")) for groups in found]
    hrefs += text.lstrip("\ufeff").split() if seen.type == "text/plain" else []
    location = seen.header("location").encode("latin-1").decode()
    base = re.search(r'<base href="([^"]*)"', text)
    start = canonical(base[1], url) or url if base else url
    return {canonical(href, start) or "" for href in [*hrefs, *([location] if location else [])]}


def test_every_url_that_is_spoken_of_can_be_found_from_the_roots():
    spoken = {url: statuses for corner in HOSTILE_HOSTS.values() for url, statuses in corner.expects.statuses.items()}
    listings = re.compile(r"https?://[^/]+/(robots\.txt|[\w-]+\.(xml|xml\.gz|txt))$").fullmatch
    waiting = deque(
        [
            *hostile_roots(),
            *(f"{corner.origin}/robots.txt" for corner in HOSTILE_HOSTS.values() if "*" not in corner.name),
        ]
    )
    found, memory = set(waiting), Counter[str]()
    while waiting:
        url = waiting.popleft()
        if (url not in spoken and not listings(url)) or Status.TOO_LARGE in spoken.get(url, ()):
            continue
        new = _leads(request_hostile_url(url, memory, cookie="nada"), url) - found
        found |= new
        waiting.extend(link for link in sorted(new) if link and hostile_host_of(urlsplit(link).hostname or ""))
    assert spoken.keys() <= found, sorted(spoken.keys() - found)
