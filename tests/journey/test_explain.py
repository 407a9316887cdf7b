"""What `explain` says of a finished crawl is true, and says why a URL is not kept."""

from pathlib import Path
from typing import Any

import pytest

from tarrafa.model import Status
from tests.journey.crawl_journey import run_json, tarrafa
from tests.journey.scripted_web import ScriptedResponse, scripted_web

A = "http://a.test/"
OUT = "http://out.example/"
PORTUGUESE = "<html lang=pt><p>O pescador da vila lança a rede ao mar de manhã cedo e volta com os peixes para casa. "
ENGLISH = "<html lang=en><p>The fisherman of the village throws the net into the sea and comes home with the fish. "
SHOP = '<script type="application/ld+json">{"@context": "http://schema.org", "@type": "Thing", "name": "x"}</script>'


# The pages that are kept and may be searched.
KEPT = ["", "kept", "rich", "long", "splash", "script", "scripted", "reserved", *(f"copy/{n}" for n in range(10))]


def html(text: str, code: int = 200, **headers: str) -> ScriptedResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ScriptedResponse(text.encode(), code, {"Content-Type": "text/html; charset=utf-8", **named})


NAMES = [
    "kept", "hidden", "refresh", "moved", "gone", "shut", "english", "plain", "picture", "large", "rich", "long",
    "feed.xml", "splash", "script", "private", "broken", "chain/0", "reserved", *(f"copy/{n}" for n in range(13)),
]  # fmt: skip
FEED = '<link rel=alternate type="application/rss+xml" href="/feed.xml">'
WEB = {
    A: html(
        PORTUGUESE + SHOP + FEED + "".join(f'<a href="/{name}">x</a>' for name in NAMES) + f'<a href="{OUT}">x</a>'
    ),
    f"{A}kept": html(PORTUGUESE + SHOP + f'<a href="{OUT}">x</a><a rel=nofollow href="/unseen">x</a>'),
    f"{A}hidden": html(f'<meta name=robots content="noindex">{PORTUGUESE}{SHOP}hidden'),
    f"{A}refresh": html(f'<meta http-equiv=refresh content="0; url=/kept">{PORTUGUESE}{SHOP}'),
    f"{A}splash": html(f'<meta http-equiv=refresh content="0; url=/kept">{PORTUGUESE * 4}{SHOP}'),
    f"{A}script": html(f'<html lang=pt>{SHOP}<p>O mar.<script>window.location.replace("/scripted")</script>'),
    f"{A}scripted": html(f"{PORTUGUESE}{SHOP}<p>Depois do script, outra página da vila."),
    f"{A}robots.txt": ScriptedResponse(
        b"User-agent: *\nDisallow: /private\nContent-Signal: search=yes, ai-train=no\nLicense: http://a.test/rsl.xml\n",
        headers={"Content-Type": "text/plain"},
    ),
    f"{A}broken": html("no gzip at all", Content_Encoding="gzip"),
    **{f"{A}chain/{n}": html("", 302, Location=f"/chain/{n + 1}") for n in range(9)},
    **{f"{A}copy/{n}": html(f"{PORTUGUESE}{SHOP}<p>A mesma notícia em todos os endereços da vila.") for n in range(13)},
    f"{A}reserved": html(
        f"<meta name=tdm-reservation content=1>{PORTUGUESE}{SHOP}<p>Tudo reservado.", Content_Usage="search=n"
    ),
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
        ("splash", "fetched", "OK"),
        ("script", "fetched", "OK"),
        ("scripted", "fetched", "OK"),
        ("private", "excluded", "excluded by robots.txt"),
        ("chain/5", "dropped", "too many redirects: [fetch] redirects_max = 5"),
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


def test_every_url_that_is_not_kept_is_counted_by_its_cause_and_the_sums_are_exact(crawled):
    found = run_json("status", "--data", crawled)
    (one,), (pages,) = found["collections"], found["pages"]
    assert one["unkept"] == {
        "301": 1, "302": 5, "404": 1, "403": 1, "refresh": 1, "listing": 1, str(Status.ROBOTS.value): 1,
        str(Status.COPY.value): 3, str(Status.LANGUAGE_NOT_WANTED.value): 1, str(Status.NOT_STRUCTURED.value): 1,
        str(Status.TYPE_NOT_WANTED.value): 1, str(Status.TOO_LARGE.value): 1, str(Status.INVALID_RESPONSE.value): 1,
        str(Status.REDIRECTS_EXCEEDED.value): 1,
    }  # fmt: skip
    assert sum(one["unkept"].values()) == one["dropped"] + one["failed"] + one["excluded"]
    assert one["known"] == one["fetched"] + sum(one["unkept"].values())
    assert pages["kept"] == one["fetched"] == pages["searchable"] + pages["noindex"]
    shown = " ".join(tarrafa("status", "--data", crawled).stdout.split())
    assert "c: 20 URLs visited or refused, and not kept: 302 Found: 5, one more copy: 3," in shown
    assert "only sends its readers on (meta refresh): 1" in shown


def test_the_report_says_where_the_urls_are_that_are_not_kept(crawled):
    report = run_json("report", "c", "--data", crawled)
    links, not_kept = report["links"], report["not_kept"]
    assert sum(one["count"] for one in not_kept) == links["dropped"] + links["failed"] + links["excluded"]
    assert links["kept"] == links["indexed"] + links["noindex"]
    assert links["discovered"] == links["kept"] + sum(one["count"] for one in not_kept)


def test_usage_preferences_are_shown_with_their_sources_and_counted_in_the_report(crawled):
    signal = ["robots.txt", "Content-Signal: search=yes, ai-train=no", ["ai-train"], ["search"]]
    licence = ["robots.txt", "License: http://a.test/rsl.xml", [], []]
    assert explained(crawled, f"{A}kept")["usage"] == [signal, licence]
    assert explained(crawled, f"{A}reserved")["usage"] == [
        ["page", "tdm-reservation: 1", ["ai-input", "ai-train"], []],
        ["header", "Content-Usage: search=n", ["search"], []],
        signal,
        licence,
    ]
    shown = " ".join(tarrafa("explain", f"{A}reserved", "--data", crawled).stdout.split())
    assert "reserves search (header: Content-Usage: search=n)" in shown
    report = run_json("report", "c", "--data", crawled)
    kept = report["links"]["kept"]
    counted = {one["name"]: one["count"] for one in report["reserved_uses"]}
    assert counted == {"search": 1, "ai-input": 1, "ai-train": kept, "licence": kept}


@pytest.mark.parametrize(("use", "left_out"), [("any", set()), ("search", {"reserved"}), ("ai-train", set(KEPT))])
def test_an_export_leaves_out_what_reserves_its_use_and_counts_it(crawled, tmp_path, use, left_out):
    done = tarrafa("export", "statements", tmp_path / "all.nq", "--for", use, "--data", crawled)
    assert done.returncode == 0, done.stderr
    graphs = {line.rsplit(" ", 2)[1].strip("<>") for line in (tmp_path / "all.nq").read_text().splitlines()}
    assert graphs == {A + name for name in set(KEPT) - left_out}
    left = f"; {len(left_out)} page{'s' if len(left_out) > 1 else ''} left out: the publisher reserves {use}"
    assert (left in " ".join(done.stderr.split())) is bool(left_out)


def test_a_frontier_is_exported_for_any_use(crawled, tmp_path):
    done = tarrafa("export", "frontier", tmp_path / "f", "--for", "search", "--data", crawled)
    assert done.returncode != 0
    assert "No such option: --for" in done.stderr


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
