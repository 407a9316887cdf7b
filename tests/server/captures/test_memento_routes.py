"""The archive that people see: CDX server, Memento, text and bytes of captures, over HTTP."""

import json
import re
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tarrafa.captures import follower
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, record_action
from tests.captures.archived_site import (
    DAY_S,
    ENCODED,
    FIRST_AT,
    MOVED,
    PAGE,
    SHY,
    SiteArchive,
    new_archive,
    write_site,
)
from tests.server.conftest import RunningSite

EVIL = "http://evil.test/"
SCRIPT, STYLE, DRAWING, LONG = (f"http://evil.test/{name}" for name in ("x.js", "x.css", "x.svg", "long"))
EVIL_BODY = b"<script>document.cookie</script><base href=//evil><form action=/console/><img src=//evil/x>"
FIRST = timestamp_of(FIRST_AT)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    data = new_archive(tmp_path_factory.mktemp("replay") / "data")
    site = write_site(data)
    site.visit(EVIL, FIRST_AT, EVIL_BODY, text="<script>alert(1)</script>\n\u202eevil")
    site.visit(SCRIPT, FIRST_AT, b"alert(1)", header="Content-Type: application/javascript", has_page=False)
    site.visit(STYLE, FIRST_AT, b"a{}", header="Content-Type: text/css\r\nContent-Security-Policy: script-src *")
    site.visit(DRAWING, FIRST_AT, b"<svg onload=alert(1)>", header='Content-Type: image/svg+xml; charset="x\r\n y"')
    for number in range(2_300):
        site.visit(LONG, FIRST_AT + 60 * number, b"<p>%d</p>" % number)
    site.close()
    follower.catch_up(data)
    return data


@pytest.fixture(scope="module")
def site(data: DataDirectory) -> Iterator[RunningSite]:
    with RunningSite(data) as running:
        yield running


# -- CDX ---------------------------------------------------------------------------------------------------------------


def test_cdx_lists_the_captures_of_a_url(site):
    response, text = site.get(f"/cdx?url={PAGE}&output=json")
    found = [json.loads(line) for line in text.splitlines()]
    assert response.status == 200
    assert [one["status"] for one in found] == ["200"] * 5
    assert [one["mime"] for one in found].count("warc/revisit") == 1
    assert site.get("/cdx?url=http://nowhere.test/")[1] == ""


def test_cdx_pages_cover_the_range_once(site):
    assert site.get("/cdx?url=evil.test*&pageSize=1000&showNumPages=true")[1] == "3\n"
    pages = [site.get(f"/cdx?url=evil.test*&pageSize=1000&page={page}")[1].splitlines() for page in range(3)]
    whole = site.get("/cdx?url=evil.test*")[1].splitlines()
    assert [line for page in pages for line in page] == whole and len(whole) == 2_304


def test_cdx_limits_from_the_end_and_collapses(site):
    last = site.get(f"/cdx?url={LONG}&limit=-2&fl=timestamp&output=text")[1].split()
    assert last == [timestamp_of(FIRST_AT + 60 * number) for number in (2_298, 2_299)]
    days = site.get(f"/cdx?url={LONG}&collapse=timestamp:8&fl=timestamp&output=text")[1].split()
    assert len(days) == len({day[:8] for day in days}) == 3


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("", "Which URL"),
        ("url=a.br&limit=0", "limit must not be 0"),
        ("url=a.br&limit=1e9", "limit must be a number from -50000 to 50000"),
        ("url=a.br&limit=9999999999999999999999", "limit must be a number"),
        ("url=a.br&from=tomorrow", "from must be a timestamp"),
        ("url=a.br&closest=123456789012345", "closest must be a timestamp"),
        ("url=a.br&matchType=all", "matchType must be one of: exact, prefix, host, domain"),
        ("url=a.br&output=xml", "output must be one of"),
        ("url=a.br&filter=~(a+)%2B[", "the expression cannot be read"),
        ("url=a.br&" + "&".join(["filter=a"] * 11), "filter may be there at most 10 times"),
        ("url=a.br&filter=" + "a" * 301, "filter may have at most 300 characters"),
        ("url=" + "a" * 4_001, "url may have at most 4000 characters"),
        ("url=a.br&fl=" + ",".join("a" * 21), "fl may name at most 20 fields"),
        ("url=a.br&page=-1", "page must be a number from 0"),
        ("url=a.br&page=6667", "page must be a number from 0 to 6666"),
        ("url=a.br&pageSize=0", "pageSize must be a number from 1"),
        ("url=a.br&sort=up", "sort must be one of"),
        ("url=a.br&sort=closest", "needs closest="),
        ("url=a.br&collapse=timestamp:x", "collapse: write a field"),
        ("url=a.br&url=b.br", "url is there twice"),
        ("url=a.br&orderBy=x", "Unknown parameter 'orderBy'; known ones: url, matchType"),
        ("url=a.br&resolveRevisits=perhaps", "resolveRevisits must be true or false"),
    ],
)
def test_cdx_refuses_what_it_does_not_know_in_one_line(site, query, sentence):
    response, text = site.get(f"/cdx?{query}")
    assert response.status == 400
    assert sentence in text and text.count("\n") == 1


def test_cdx_expressions_take_linear_time(site):
    began = time.monotonic()
    response, _ = site.get("/cdx?url=evil.test*&filter=~url:(h|h|t|t)*(.*.*)*(.*)*x")
    assert response.status == 200
    assert time.monotonic() - began < 10


# -- Memento -----------------------------------------------------------------------------------------------------------


def relations(header: str) -> dict[str, str]:
    return {rel: uri for uri, rel in re.findall(r'<([^>]*)>; rel="([^"]*)"', header)}


def test_rfc7089_timegate_leads_to_the_nearest_memento(site):
    wanted = {"Accept-Datetime": "Fri, 30 Oct 2026 00:00:00 GMT"}
    response, _ = site.get(f"/web/{PAGE}", headers=wanted)
    third = timestamp_of(FIRST_AT + 40 * DAY_S)
    assert (response.status, response.headers["Location"]) == (302, f"/web/{third}/{PAGE}")
    assert "accept-datetime" in response.headers["Vary"]
    found = relations(response.headers["Link"])
    assert found["original"] == PAGE
    assert found["timemap"].endswith(f"/web/timemap/link/{PAGE}")
    assert found["memento"].endswith(f"/web/{third}/{PAGE}")
    assert found["first memento"].endswith(f"/web/{FIRST}/{PAGE}")
    assert {"last memento", "prev memento", "next memento", "timegate"} & set(found) >= {"timegate", "prev memento"}
    assert site.get(f"/web/{PAGE}", headers={"Accept-Datetime": "yesterday"})[0].status == 400
    newest, _ = site.get(f"/web/{PAGE}")
    assert newest.headers["Location"] == f"/web/{timestamp_of(FIRST_AT + 201 * DAY_S)}/{PAGE}"


def test_rfc7089_memento_says_its_date(site):
    for form in ("", "id_"):
        response, _ = site.get(f"/web/{FIRST}{form}/{PAGE}")
        assert response.status == 200
        assert response.headers["Memento-Datetime"] == "Mon, 21 Sep 2026 14:13:20 GMT"
        assert relations(response.headers["Link"])["first memento"].endswith(f"/web/{FIRST}/{PAGE}")


def test_rfc7089_timemap_is_paged(site):
    response, text = site.get(f"/web/timemap/link/{LONG}")
    assert response.headers["Content-Type"] == "application/link-format"
    lines = text.rstrip("\n").split(",\n")
    assert sum("memento" in line for line in lines) == 1_000
    assert 'rel="first memento"' in text and 'rel="last memento"' not in text
    assert re.search(r'/web/timemap/link/2/[^>]*>; rel="next timemap"', text)
    last = site.get(f"/web/timemap/link/3/{LONG}")[1]
    assert 'rel="last memento"' in last and 'rel="prev timemap"' in last and last.count("memento") == 300
    assert site.get(f"/web/timemap/link/4/{LONG}")[0].status == 404
    assert json.loads(site.get(f"/web/timemap/json/{PAGE}")[1])["total"] == 5


# -- bytes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_bytes_come_decoded(site, name, is_chunked):
    url = ENCODED.format(name=f"{name}-{is_chunked}.html")
    response, text = site.get(f"/web/2026id_/{url}")
    assert response.status == 302
    response, text = site.get(response.headers["Location"])
    assert text == f"<html><p>olá, {name} {is_chunked} {'malha ' * 500}</p></html>"
    assert "Content-Encoding" not in response.headers and "Transfer-Encoding" not in response.headers


def test_a_revisit_comes_with_the_body_to_which_it_refers(site):
    for day, body in ((1, "<p>one</p>\n<p>same</p>"), (200, "<p>two</p>\n<p>same</p>")):
        at = timestamp_of(FIRST_AT + day * DAY_S)
        response, text = site.get(f"/web/{at}id_/{PAGE}")
        assert (response.status, text) == (200, body)
        assert response.headers["Memento-Datetime"]


@pytest.mark.parametrize("url", [EVIL, SCRIPT, STYLE, DRAWING])
def test_bytes_have_no_power_of_this_site(site, url):
    response, _ = site.get(f"/web/{FIRST}id_/{url}")
    assert response.status == 200
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none';") and "frame-ancestors 'none'" in policy
    assert "allow-" not in policy and "script-src" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in response.headers
    if url in (SCRIPT, STYLE):
        assert response.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("part", ["script", "style", "iframe", "image", "serviceworker", "object", "worker"])
def test_bytes_are_no_part_of_a_page(site, part):
    assert site.get(f"/web/{FIRST}id_/{SCRIPT}", headers={"Sec-Fetch-Dest": part})[0].status == 403


def test_a_redirect_leads_within_the_archive(site):
    response, _ = site.get(f"/web/{FIRST}id_/{MOVED}")
    assert (response.status, response.headers["Location"]) == (302, f"/web/{FIRST}id_/{PAGE}")
    _, text = site.get(f"/web/{FIRST}/{MOVED}")
    assert f'href="/web/{FIRST}/{PAGE}"' in text


# -- text --------------------------------------------------------------------------------------------------------------


def test_the_text_of_a_capture_has_a_bar_of_its_versions(site):
    middle = timestamp_of(FIRST_AT + 40 * DAY_S)
    response, text = site.get(f"/web/{middle}/{PAGE}")
    assert response.status == 200
    assert "<p>two</p>" in text and "5 captures" in text
    for day in (0, 1, 200, 201):
        assert f'href="/web/{timestamp_of(FIRST_AT + day * DAY_S)}/{PAGE}"' in text
    assert ">2026</a>" in text and ">2027</a>" in text
    assert "had not changed" not in text
    assert "had not changed" in site.get(f"/web/{timestamp_of(FIRST_AT + 200 * DAY_S)}/{PAGE}")[1]


def test_the_text_is_in_both_languages_and_the_links_between_them_keep_the_url(site):
    address = "http://site.test:8080/P0.html?b=2&A=1"
    _, text = site.get(f"/copy?url={quote(address, safe='')}")
    assert "No capture" in text or "Archived copy" in text
    _, text = site.get(f"/copy?url={PAGE}&hl=pt")
    assert "Cópia arquivada" in text
    assert f"/copy?url={quote(PAGE, safe='')}" in text


def test_the_text_of_a_hostile_page_is_text(site):
    _, text = site.get(f"/web/{FIRST}/{EVIL}")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text and "document.cookie" not in text


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/web/", 404),
        ("/web/http://nowhere.test/", 404),
        ("/web/20261/http://a.test/", 404),
        ("/web/javascript:alert(1)", 404),
        ("/web/timemap/link/http://nowhere.test/", 404),
        ("/web/timemap/link/0/http://nowhere.test/", 404),
        ("/copy", 404),
        (f"/copy?url={PAGE}&at=yesterday", 400),
        ("/web/2026id_/" + "a" * 5_000, 404),
        ("/web/%0d%0aX:1/http://a.test/", 404),
    ],
)
def test_what_is_not_there_is_said(site, path, code):
    assert site.get(path)[0].status == code


def test_one_slash_and_no_scheme_are_understood(site):
    for written in ("http:/www.site.test/page.html", "www.site.test/page.html"):
        assert site.get(f"/web/{FIRST}id_/{written}")[0].status == 200


# -- what is not shown -------------------------------------------------------------------------------------------------


def test_noarchive_holds_everywhere_and_is_said(site):
    for path in (f"/web/{FIRST}/{SHY}", f"/web/{FIRST}id_/{SHY}", f"/web/{SHY}", f"/copy?url={SHY}"):
        response, text = site.get(path)
        assert response.status == 403
        assert "asks not to be shown from an archive" in text
    assert site.get(f"/cdx?url={SHY}")[1] == ""
    assert site.get(f"/web/timemap/link/{SHY}")[0].status == 403


def test_a_takedown_holds_everywhere_at_once(tmp_path):
    data = new_archive(tmp_path / "data")
    SiteArchive(data).close()
    write_site(data).close()
    follower.catch_up(data)
    paths = (f"/web/{FIRST}/{PAGE}", f"/web/{FIRST}id_/{PAGE}", f"/web/{PAGE}", f"/copy?url={PAGE}")
    with RunningSite(data) as site:
        assert [site.get(path)[0].status for path in paths] == [200, 200, 302, 200]
        record_action(data, "add", parse_target(PAGE), "ana", "a reason", time.time())
        assert [site.get(path)[0].status for path in paths] == [451] * 4
        assert site.get(f"/web/timemap/link/{PAGE}")[0].status == 451
        assert site.get(f"/cdx?url={PAGE}")[1] == ""
        assert "page.html" not in site.get("/cdx?url=site.test&matchType=domain")[1]


def test_where_nothing_is_archived_it_is_said(tmp_path):
    with RunningSite(new_archive(tmp_path / "data")) as site:
        assert site.get(f"/web/{PAGE}")[0].status == 404
        assert site.get(f"/cdx?url={PAGE}")[0].status == 503
