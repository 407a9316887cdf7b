"""What a host answers: types, charsets, languages, validators, notices for crawlers."""

import io
import json
import re
import zipfile
from collections import Counter
from datetime import datetime
from email.utils import parsedate_to_datetime
from xml.etree import ElementTree

import pycld2
import pytest
from protego import Protego

from tarrafa.testweb import BY_NAME, UrlForm, World
from tarrafa.testweb.http.web_response import WebRequest, WebResponse, make_response
from tarrafa.testweb.render.robots_sitemaps import is_allowed
from tarrafa.testweb.world.change_model import change_times, version_at
from tarrafa.testweb.world.resources import (
    CHARSETS,
    Resource,
    ResourceKind,
    all_resources,
    link_target,
    page_attributes,
    path_of,
)
from tests.testweb.web_in_thread import HtmlLinkReader, Response, canonical, read

WORLD = World(seed=3, hosts=30, pages=1500, crawl_delay_s=0.5, crawl_delay_share=0.4)
NOW = 1.8e9
PAGES = [Resource(ResourceKind.PAGE, no, n) for no in range(1, 31) for n in range(WORLD.host(no).pages)]


def ask(resource: Resource, now: float = NOW, form: UrlForm = BY_NAME, match: str = "", since: str = "") -> Response:
    request = WebRequest("GET", path_of(WORLD, resource), if_none_match=match, if_modified_since=since)
    return _response(make_response(WORLD, resource.no, form, request, now))


def _response(told: WebResponse) -> Response:
    lines = (line.partition(": ") for line in told.headers.splitlines())
    return Response(told.status, {name.lower(): value for name, _, value in lines}, told.body)


def _visible(response: Response) -> str:
    return re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", response.text(), flags=re.S)


def test_pages_say_their_title_and_weigh_what_pages_weigh():
    sizes = []
    for resource in PAGES[::3]:
        response = ask(resource)
        sizes.append(len(response.body))
        assert read(response).title == link_target(WORLD, resource.no, resource.n).title
    assert 6_000 < sum(sizes) / len(sizes) < 12_000
    assert min(sizes) > 1_500
    assert 20_000 < max(sizes) < 45_000


def test_every_charset_is_used_and_decodes_to_the_same_letters():
    met: Counter[str] = Counter()
    for resource in PAGES:
        about = page_attributes(WORLD, resource.no, resource.n)
        if met[about.charset] >= 4:
            continue
        met[about.charset] += 1
        response = ask(resource)
        text = response.text()  # raises where header, meta and bytes disagree
        assert "© " in text
        assert "\ufffd" not in text
        assert link_target(WORLD, resource.no, resource.n).title in text
        if about.charset in ("utf-8 meta", "windows-1252 header", "windows-1252 meta"):
            assert "“10 €” – " in text
    assert set(met) == set(CHARSETS)


def test_a_detector_recognises_the_language_of_nearly_all_pages():
    right = 0
    sample = PAGES[::5]
    for resource in sample:
        _, _, details = pycld2.detect(_visible(ask(resource)).encode(), isPlainText=True)
        right += details[0][1] == WORLD.host(resource.no).language
    assert right / len(sample) > 0.95


def test_real_words_are_there_to_search_for():
    text = " ".join(_visible(ask(resource)) for resource in PAGES[::3]).lower()
    for word in ("pescador", "rede", "biblioteca", "universidade", "praia", "festival", "library", "river", "network"):
        assert text.count(word) >= 5, word


def test_links_carry_the_words_of_their_target():
    reader: HtmlLinkReader = read(ask(PAGES[0]))
    anchors = {canonical(href, WORLD.root(1)): words for href, _, words in reader.links[8:]}
    titles = {f"http://{WORLD.authority(p.no)}{path_of(WORLD, p)}": link_target(WORLD, p.no, p.n).title for p in PAGES}
    shared = [url for url in anchors if url in titles]
    assert len(shared) > 5
    assert all(anchors[url] == titles[url] for url in shared)


@pytest.mark.parametrize("kind", ["rdfa", "jsonld", "microdata"])
def test_part_of_the_pages_describe_a_thing(kind):
    pages = [page for page in PAGES if page_attributes(WORLD, page.no, page.n).structured == kind]
    assert len(PAGES) / 40 < len(pages) < len(PAGES) / 3
    types = set()
    for page in pages[:12]:
        text = ask(page).text()
        if kind == "jsonld":
            found = re.search(r'<script type="application/ld\+json">(.*?)</script>', text)
            assert found
            said = json.loads(found[1])
            assert said["@context"] == "https://schema.org"
            assert said["name"]
            types.add(said["@type"])
        else:
            pattern = (
                r'vocab="https://schema.org/" typeof="(\w+)"'
                if kind == "rdfa"
                else r'itemtype="https://schema.org/(\w+)">'
            )
            found = re.search(pattern, text)
            assert found
            types.add(found[1])
    assert types == {"Person", "Event", "Product"}


def test_robots_meta_comes_from_the_page_or_from_the_header():
    ways: Counter[str] = Counter()
    for page in PAGES:
        about = page_attributes(WORLD, page.no, page.n)
        wanted = {name for name in ("noindex", "nofollow", "noarchive") if getattr(about, name)}
        if not wanted:
            continue
        response = ask(page)
        header, meta = response.headers.get("x-robots-tag", ""), read(response).robots
        assert set((header or meta).split(", ")) == wanted
        ways["header" if header else "meta"] += 1
        assert not (header and meta)
    assert min(ways["header"], ways["meta"]) > 5


def test_print_versions_name_the_page_as_canonical():
    prints = [
        resource for no in range(1, 31) for resource in all_resources(WORLD, no) if resource.kind is ResourceKind.PRINT
    ]
    assert prints
    for resource in prints[:10]:
        plain = f"http://{WORLD.authority(resource.no)}{link_target(WORLD, resource.no, resource.n).path}"
        assert read(ask(resource)).canonical == plain


# --- versions


def _changing() -> Resource:
    return next(
        p for p in PAGES if page_attributes(WORLD, p.no, p.n).changes_per_day > 0.1 and WORLD.host(p.no).validators
    )


def test_a_change_changes_text_and_validators_and_nothing_else_does():
    page = _changing()
    rate = page_attributes(WORLD, page.no, page.n).changes_per_day
    first, second = change_times(WORLD, page.no, page.n, rate, NOW, NOW + 400 * 86_400)[:2]
    before, at, later, after = (ask(page, moment) for moment in (first - 1, first, second - 1, second))
    assert at == later
    assert len({(r.headers["etag"], r.headers["last-modified"], r.body) for r in (before, at, after)}) == 3
    assert read(before).links == read(after).links
    assert read(before).title == read(after).title
    parsed = parsedate_to_datetime(at.headers["last-modified"]).timestamp()
    assert parsed == first == version_at(WORLD, page.no, page.n, rate, first).since


def test_rfc9110_what_has_not_changed_is_answered_304():
    page = _changing()
    whole = ask(page)
    etag, modified = whole.headers["etag"], whole.headers["last-modified"]
    long_ago = "Thu, 01 Jan 1970 00:00:00 GMT"
    for match, since in ((etag, ""), (f'"other", W/{etag}', ""), ("*", ""), ("", modified), (etag, long_ago)):
        answered = ask(page, match=match, since=since)
        assert (answered.status, answered.body) == (304, b""), (match, since)
        assert answered.headers["etag"] == etag
    for match, since in (('"other"', ""), ("", long_ago), ("", "yesterday"), ('"other"', modified)):
        assert ask(page, match=match, since=since).status == 200, (match, since)


def test_after_a_change_the_old_validators_no_longer_hold():
    page = _changing()
    rate = page_attributes(WORLD, page.no, page.n).changes_per_day
    moment = change_times(WORLD, page.no, page.n, rate, NOW, NOW + 400 * 86_400)[0]
    old = ask(page, moment - 1).headers
    assert ask(page, moment - 0.5, since=old["last-modified"]).status == 304
    assert ask(page, moment, since=old["last-modified"]).status == 200
    assert ask(page, moment, match=old["etag"]).status == 200


def test_some_hosts_send_no_validators():
    silent = [page for page in PAGES if not WORLD.host(page.no).validators]
    assert silent
    assert not {"etag", "last-modified"} & set(ask(silent[0], match="*").headers)
    assert ask(silent[0], match="*").status == 200


# --- notices


@pytest.mark.parametrize("form", [BY_NAME, UrlForm(8090)], ids=["names", "addresses"])
def test_robots_txt_says_what_the_truth_says(form):
    refused: Counter[ResourceKind] = Counter()
    for no in range(1, 31):
        told = ask(Resource(ResourceKind.ROBOTS, no, 0), form=form)
        host = WORLD.host(no)
        assert told.status == (200 if host.robots.present else 404)
        rules = Protego.parse(told.body.decode("utf-8-sig") if told.status == 200 else "")
        assert (rules.crawl_delay("tarrafa") or 0.0) == host.robots.crawl_delay_s
        for resource in all_resources(WORLD, no):
            if resource.kind is ResourceKind.ROBOTS:
                continue
            url = f"http://{WORLD.authority(no, form)}{path_of(WORLD, resource)}"
            assert rules.can_fetch(url, "tarrafa") == is_allowed(WORLD, resource), url
            refused[resource.kind] += not is_allowed(WORLD, resource)
    assert {kind for kind, count in refused.items() if count} == {
        ResourceKind.PAGE,
        ResourceKind.PRINT,
        ResourceKind.FILE,
    }
    assert any(WORLD.host(no).robots.crawl_delay_s for no in range(1, 31))


def test_the_sitemap_lists_all_but_private_pages_with_the_date_of_their_version():
    no = next(no for no in range(1, 31) if WORLD.host(no).pages > 60 and WORLD.host(no).language == "pt")
    space = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9"}
    listed = ElementTree.fromstring(ask(Resource(ResourceKind.SITEMAP, no, 0)).body).findall("s:url", space)
    places = {item.findtext("s:loc", "", space): item.findtext("s:lastmod", "", space) for item in listed}
    assert 0 < WORLD.host(no).pages - len(places) <= WORLD.host(no).pages // 10
    for page in (page for page in PAGES if page.no == no):
        url = f"http://{WORLD.authority(no)}{path_of(WORLD, page)}"
        if url in places:
            since = version_at(WORLD, no, page.n, page_attributes(WORLD, no, page.n).changes_per_day, NOW).since
            assert datetime.fromisoformat(places[url]).timestamp() == since
        else:
            assert "/privado/" in url


def test_a_long_sitemap_is_cut_into_parts():
    world = World(hosts=1, pages=2500)
    space = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9"}
    index = ElementTree.fromstring(make_response(world, 1, BY_NAME, WebRequest("GET", "/sitemap.xml"), NOW).body)
    parts = [item.text or "" for item in index.findall("s:sitemap/s:loc", space)]
    assert parts == [f"http://h0001.br.test/sitemap-{number}.xml" for number in (1, 2, 3)]
    pages = 0
    for part in parts:
        told = make_response(world, 1, BY_NAME, WebRequest("GET", part.removeprefix("http://h0001.br.test")), NOW)
        pages += len(ElementTree.fromstring(told.body).findall("s:url", space))
    assert 2400 < pages < 2500
    assert make_response(world, 1, BY_NAME, WebRequest("GET", "/sitemap-4.xml"), NOW).status == 404


def test_files_are_what_they_say():
    met = set()
    for no in range(1, 31):
        for resource in all_resources(WORLD, no):
            if resource.kind is not ResourceKind.FILE:
                continue
            told = ask(resource)
            met.add(told.type)
            if told.type == "application/zip":
                assert zipfile.ZipFile(io.BytesIO(told.body)).testzip() is None
            elif told.type == "text/plain":
                assert link_target(WORLD, no, resource.n).title in told.body.decode()
            else:
                assert told.body.startswith(b"\x89PNG\r\n" if told.type == "image/png" else b"%PDF-1.4")
    assert met == {"image/png", "application/pdf", "text/plain", "application/zip"}
