"""What `explain` says of a finished crawl is true, and says why a URL is not kept."""

from pathlib import Path
from typing import Any

import pytest

from tests.journey.crawl_journey import run_json, tarrafa
from tests.journey.scripted_web import ScriptedResponse, scripted_web

A = "http://a.test/"
OUT = "http://out.example/"
PORTUGUESE = "<html lang=pt><p>O pescador da vila lança a rede ao mar de manhã cedo e volta com os peixes para casa. "
ENGLISH = "<html lang=en><p>The fisherman of the village throws the net into the sea and comes home with the fish. "
SHOP = '<script type="application/ld+json">{"@context": "http://schema.org", "@type": "Thing", "name": "x"}</script>'


def html(text: str, code: int = 200, **headers: str) -> ScriptedResponse:
    return ScriptedResponse(text.encode(), code, {"Content-Type": "text/html; charset=utf-8", **headers})


NAMES = [
    "kept", "hidden", "refresh", "moved", "gone", "shut", "english", "plain", "picture", "large", "rich", "long",
    "feed.xml",
]  # fmt: skip
FEED = '<link rel=alternate type="application/rss+xml" href="/feed.xml">'
WEB = {
    A: html(
        PORTUGUESE + SHOP + FEED + "".join(f'<a href="/{name}">x</a>' for name in NAMES) + f'<a href="{OUT}">x</a>'
    ),
    f"{A}kept": html(PORTUGUESE + SHOP + f'<a href="{OUT}">x</a><a rel=nofollow href="/unseen">x</a>'),
    f"{A}hidden": html(f'<meta name=robots content="noindex">{PORTUGUESE}{SHOP}hidden'),
    f"{A}refresh": html(f'<meta http-equiv=refresh content="0; url=/kept">{PORTUGUESE}{SHOP}'),
    f"{A}moved": html("", 301, Location="/kept"),
    f"{A}shut": html("no", 403),
    f"{A}english": html(ENGLISH + SHOP),
    f"{A}plain": html(PORTUGUESE + "plain"),
    f"{A}picture": ScriptedResponse(b"GIF89a", headers={"Content-Type": "image/gif"}),
    f"{A}large": html("x" * 700_000),
    f"{A}rich": html(PORTUGUESE + SHOP.replace('"x"', str(list(range(10_000, 20_000))))),
    f"{A}long": html(PORTUGUESE + SHOP + "rede " * 110_000),
    f"{A}feed.xml": ScriptedResponse(
        b'<rss version="2.0"><channel><title>x</title></channel></rss>', headers={"Content-Type": "application/rss+xml"}
    ),
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    with scripted_web(lambda url, _: WEB.get(url)) as web:
        scope = 'languages = ["pt"]\nbeyond = false\nkeep = "structured"\nsize_max = "600 kB"'
        done = tarrafa("crawl", web.collection(folder, [A], scope=scope), "--data", folder / "data", "--quiet")
        assert done.returncode == 0, done.stderr
    return folder / "data"


def explained(data: Path, url: str) -> dict[str, Any]:
    found: dict[str, Any] = run_json("explain", url, "--data", data)["collections"][0]
    return found


@pytest.mark.parametrize(
    ("name", "state", "meaning"),
    [
        ("kept", "fetched", "OK"),
        ("hidden", "fetched", "OK: kept, but not in the search index: the page says noindex"),
        (
            "rich",
            "fetched",
            "OK: kept, but not all of its structured data: at most 10,000 statements and 2,000,000 characters of a "
            "page are kept",
        ),
        ("long", "fetched", "OK: kept, but not all of its text: at most 500,000 characters are kept"),
        ("refresh", "dropped", f"OK: the page sends its readers on to {A}kept (meta refresh)"),
        ("moved", "dropped", f"Moved Permanently: it redirects to {A}kept"),
        ("gone", "dropped", "Not Found: only a response with status 200 is kept"),
        ("shut", "dropped", "Forbidden: only a response with status 200 is kept"),
        ("english", "dropped", "language not wanted: [scope] languages = pt"),
        (
            "plain",
            "dropped",
            "no structured data: [scope] keep = structured; syntaxes = rdfa, microdata, jsonld; open_graph = false; "
            "the page has no structured data",
        ),
        ("picture", "dropped", "type not wanted: [scope] types = text/html, application/xhtml+xml, text/plain"),
        ("large", "dropped", "too large: [scope] size_max = 600,000"),
        ("feed.xml", "dropped", "OK: a sitemap or feed: its URLs are read, and it is not kept as a page"),
    ],
)
def test_what_is_fetched_and_not_kept_says_why(crawled, name, state, meaning):
    found = explained(crawled, A + name)
    assert (found["state"], found["meaning"]) == (state, meaning)


def test_pages_with_more_statements_or_text_than_is_kept_are_counted(crawled):
    assert [(one["cut"], one["cut_text"]) for one in run_json("status", "--data", crawled)["pages"]] == [(1, 1)]
    shown = " ".join(tarrafa("status", "--data", crawled).stdout.split())
    assert "1 page has more structured data than is kept of one page" in shown
    assert "1 page has more text than is kept of one page (500,000 characters)" in shown
    report = tarrafa("report", "c", "--format", "md", "--out", crawled.parent / "report", "--data", crawled)
    assert report.returncode == 0, report.stderr
    table = next((crawled.parent / "report").glob("*.md")).read_text()
    assert "| Pages with more text than is kept of one page | 1 |" in table


def test_links_to_a_url_that_is_out_of_scope_are_counted_and_not_denied(crawled):
    found = explained(crawled, OUT)
    assert (found["known"], found["in_scope"]) == (False, False)
    assert found["next_visit"] == "it is out of scope, so the links of 2 pages to it were not followed"
    assert "not followed" in explained(crawled, "http://other.example/")["next_visit"]


def test_a_url_in_scope_that_is_not_known_says_whether_a_link_to_it_is(crawled):
    unseen, nowhere = explained(crawled, f"{A}unseen"), explained(crawled, f"{A}nowhere")
    assert unseen["next_visit"] == "1 page links to it, but this link was not followed"
    assert nowhere["next_visit"] == "no link to it is known here"


def test_each_visit_names_the_worker_that_made_it(crawled):
    (visit,) = explained(crawled, f"{A}kept")["history"]
    assert visit["worker"]
    assert visit["worker"] in tarrafa("explain", f"{A}kept", "--data", crawled).stdout
