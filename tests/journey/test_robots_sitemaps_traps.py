"""Crawls of small Webs that say where their rules, their pages and their ends are."""

from pathlib import Path
from typing import Any

from tarrafa.archive.warc_reader import follow
from tarrafa.crawl.worker.host_memory import HOSTILE_MAX
from tarrafa.model import VisitRecord
from tests.journey.crawl_journey import run_json, tarrafa
from tests.journey.scripted_web import ScriptedResponse, links, scripted_web

A, B, C = "http://a.test/", "http://b.test/", "http://c.test/"


def crawl(file: Path, folder: Path) -> dict[str, Any]:
    done = tarrafa("crawl", file, "--data", folder / "data", "--quiet")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = run_json("status", "--data", folder / "data")["collections"][0]
    return found


def explain(url: str, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = run_json("explain", url, "--data", folder / "data")
    return found


def records(folder: Path) -> dict[str, VisitRecord]:
    return {entry.record.url: entry.record for entry in follow(folder / "data" / "archive", {})}


def text(body: str, kind: str = "text/plain") -> ScriptedResponse:
    return ScriptedResponse(body.encode(), headers={"Content-Type": kind})


def moved(to: str) -> ScriptedResponse:
    return ScriptedResponse(code=302, headers={"Location": to})


RULES = "User-agent: *\nDisallow: /private/\n"


def test_rules_that_live_on_another_host_are_fetched_there_and_obeyed(tmp_path):
    """RFC 9309 section 2.3.1.2. `a` leads to the robots.txt of `b`, `c` to another file of `b`, `d` in a circle."""

    def answer(url: str, _: int) -> ScriptedResponse | None:
        pages = {A: ["x", "private/1"], C: ["x", "private/1"], B: ["x"], "http://d.test/": ["x"]}
        notices = {
            f"{A}robots.txt": moved(f"{B}robots.txt"),
            f"{B}robots.txt": text(RULES),
            f"{C}robots.txt": moved(f"{B}rules.txt"),
            f"{B}rules.txt": text(RULES),
            "http://d.test/robots.txt": moved("http://e.test/robots.txt"),
            "http://e.test/robots.txt": moved("http://d.test/robots.txt"),
        }
        if url in pages:
            return links(*(url + path for path in pages[url]))
        return notices.get(url) or (links() if url.endswith("/x") else None)

    with scripted_web(answer) as web:
        file = web.collection(tmp_path, [A, C, "http://d.test/"])
        status = crawl(file, tmp_path)
        asked = [one.url for one in web.asked]
    assert not [url for url in asked if "private" in url]
    assert status["excluded"] == 2
    assert {f"{A}x", f"{C}x", "http://d.test/x"} <= set(asked)
    assert asked.count(f"{B}rules.txt") == 1
    gaps = web.gaps()
    assert min(gaps.values()) >= 0.009, gaps


def test_what_only_sitemaps_and_feeds_tell_is_found_with_its_date(tmp_path):
    sitemap = "http://www.sitemaps.org/schemas/sitemap/0.9"
    feed = '<link rel=alternate type="application/rss+xml" href="/feed.xml">'
    answers = {
        f"{A}robots.txt": text(f"Sitemap: {A}index.xml\nSitemap: {A}list.txt\nUser-agent: *\nDisallow: /hidden/\n"),
        f"{A}index.xml": text(
            f'<sitemapindex xmlns="{sitemap}"><sitemap><loc>{A}part.xml</loc></sitemap>'
            f"<sitemap><loc>{B}not-its-own.xml</loc></sitemap></sitemapindex>", "application/xml"),
        f"{A}part.xml": text(
            f'<urlset xmlns="{sitemap}"><url><loc>{A}orphan</loc><lastmod>2026-01-02</lastmod></url>'
            f"<url><loc>{A}hidden/x</loc></url><url><loc>http://elsewhere.example/</loc></url></urlset>", "text/xml"),
        f"{A}list.txt": text(f"{A}listed\n"),
        f"{A}feed.xml": text(
            f"<rss><channel><item><link>{A}news</link><pubDate>Fri, 02 Jan 2026 00:00:00 GMT</pubDate></item>"
            "</channel></rss>", "application/rss+xml"),
        A: text(f"<title>a</title>{feed}<p>Bom dia", "text/html"),
        **{f"{A}{name}": links() for name in ("orphan", "listed", "news")},
    }  # fmt: skip
    with scripted_web(lambda url, _: answers.get(url)) as web:
        status = crawl(web.collection(tmp_path, [A]), tmp_path)
        asked = web.urls()
        orphan = explain(f"{A}orphan", tmp_path)["collections"][0]
        file = web.collection(tmp_path, [A], more="[fetch]\nsitemaps = false\nfeeds = false\n")
        other = tmp_path / "other"
        assert crawl(file, other)["fetched"] == 1
    assert sorted(asked) == sorted(url for url in answers if not url.endswith("robots.txt")), "each of them once"
    assert (status["fetched"], status["excluded"]) == (4, 1)
    assert (orphan["announced"], orphan["state"], orphan["depth"]) == ("2026-01-02T00:00:00Z", "fetched", 1)
    kept = records(tmp_path)
    assert not kept[f"{A}index.xml"].outcome.kept
    assert kept[f"{A}index.xml"].outcome.role == 1


def test_what_has_no_end_is_given_up_and_each_refusal_has_its_status(tmp_path):
    def answer(url: str, _: int) -> ScriptedResponse | None:
        path = url.removeprefix(A)
        if url == A:
            names = ["loop/", "calendar/1", "photo.jpg", "film.mp4", "soft/0", "go/0", "wiki/File:Foo.jpg", "same/1"]
            return links(*(A + name for name in names))
        if path.startswith("loop/"):  # a relative link that leads one step deeper, for ever
            return text('<p>laço <a href="loop/">mais</a> <a href="x/y/">e</a>', "text/html")
        if path.startswith("calendar/"):
            day = int(path.partition("/")[2])
            return text(f'<title>Agenda</title><p>Nada no dia {day}<a href="{day + 1}">amanhã</a>', "text/html")
        if path.startswith("soft/"):
            number = int(path.partition("/")[2])
            more = "".join(f'<a href="/soft/{number * 3 + step}">x</a>' for step in (1, 2, 3))
            return text(f"<p>Não encontrado{more}", "text/html")
        if path.startswith("go/"):  # a chain of meta refreshes without end
            return text(f'<meta http-equiv=refresh content="0; url=/go/{int(path[3:]) + 1}">', "text/html")
        if path.startswith("same/"):  # the very text of its parent, one step deeper: nothing new behind it
            return text(f'<p>Igual<a href="/{path}/{len(path)}">x</a>', "text/html")
        return links() if path == "wiki/File:Foo.jpg" else None

    with scripted_web(answer) as web:
        scope = "copies_max = 5\nalike_max = 15"
        status = crawl(web.collection(tmp_path, [A], scope=scope), tmp_path)
        asked = web.urls()
        jpg, deep = explain(f"{A}photo.jpg", tmp_path), explain(f"{A}loop/loop/loop/loop/", tmp_path)
        calendar = explain(f"{A}calendar/999999", tmp_path)
    assert not [url for url in asked if url.endswith((".jpg", ".mp4")) and "wiki" not in url]
    assert f"{A}wiki/File:Foo.jpg" in asked
    assert status["pending"] == 0
    assert status["statuses"]["-3"] == 2
    assert status["statuses"]["-16"] == 1
    assert sum("/go/" in url for url in asked) == 6
    assert sum("/same/" in url for url in asked) == 2
    assert sum("/calendar/" in url for url in asked) <= 15 + 25
    assert sum("/soft/" in url for url in asked) <= 5 * 3 + 30
    assert sum("/loop/" in url for url in asked) <= 20
    (photo,) = jpg["collections"]
    assert (photo["in_scope"], photo["state"], photo["status"]) == (False, "dropped", -3)
    assert "image/jpeg" in photo["rule"]
    assert "is repeated" in deep["collections"][0]["rule"]
    assert not calendar["collections"][0]["known"]


def test_pages_that_hurt_cost_themselves_and_their_host_not_the_others(tmp_path):
    greedy = "<p>" + "".join(f"<b id={n}>" for n in range(500)) + "<p>x" * 50_000

    def answer(url: str, _: int) -> ScriptedResponse | None:
        if url == A:
            return links(*(f"{A}{n}" for n in range(8)), f"{B}1")
        if url.startswith(A) and "robots" not in url:
            return text(greedy, "text/html")
        return links() if url == f"{B}1" else None

    with scripted_web(answer) as web:
        status = crawl(web.collection(tmp_path, [A]), tmp_path)
        asked = web.urls()
    assert status["fetched"] == 2
    assert status["statuses"]["-30"] == 8
    assert sum(url.startswith(A) for url in asked) == 1 + HOSTILE_MAX, "after some such pages it is left alone"
    assert records(tmp_path)[f"{A}1"].outcome.error
