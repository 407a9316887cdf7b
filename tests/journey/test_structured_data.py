"""What pages say to machines is right in the store, in search and by SPARQL, seconds after the visit that saw it."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyoxigraph import NamedNode
from warcio.archiveiterator import ArchiveIterator

from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.oracle import describe_host, expected_requests
from tarrafa.testweb.render.schema_org import WRITERS, SchemaOrgEntity, make_entity
from tarrafa.testweb.world.hosts import World
from tarrafa.triples.snapshots import TripleSnapshot
from tests.journey.crawl_journey import TYPES, a_journey, kill_group, tarrafa
from tests.journey.scripted_web import ScriptedResponse, scripted_web
from tests.journey.test_rebuild_frontier import assert_all_came_back, crawl_half, facts, lose
from tests.journey.test_search_up_to_date import PATIENCE_S, REVISIT, SECONDS, FastCrawl

SCHEMA = "https://schema.org/"
ROOT = "http://a.test/"
NEW_PRICE = '"5.90"'  # of the second version
ASK = f"""PREFIX schema: <{SCHEMA}>
SELECT ?class ?name ?value {{ GRAPH $page {{ ?thing a ?class ; ?name ?value FILTER (isLiteral(?value)) }} }}"""


def said(page: str, data: DataDirectory) -> set[tuple[str, str, str]]:
    """Class, property and value of all that the store has of a page."""
    snapshot = TripleSnapshot.open_newest(data)
    if snapshot is None:
        return set()
    with snapshot:
        found = snapshot.store.query(ASK.replace("$page", str(NamedNode(page))))
        return {
            tuple(row[name].value.removeprefix(SCHEMA) for name in ("class", "name", "value"))
            for row in found  # type: ignore[union-attr]
        }


def told(it: SchemaOrgEntity) -> set[tuple[str, str, str]]:
    whole = {(it.type, name, value) for name, value in it.properties}
    return whole | {(kind, name, value) for _, kind, its in it.parts for name, value in its}


def test_every_thing_of_a_web_is_found_as_the_web_means_it(tmp_path):
    journey = a_journey(tmp_path, World(seed=7, hosts=6, pages=80, changes=0))
    with journey.web:
        journey.crawl(journey.write_collection())
        truth = {page.url: page for no in range(1, 7) for page in describe_host(journey.world, no, 0.0)}
    kept = [page for url in journey.kept() if (page := truth.get(url)) and page.thing and not page.noindex]
    assert {page.structured for page in kept} == {"rdfa", "jsonld", "microdata"}
    assert {page.thing.type for page in kept if page.thing} == {"Person", "Event", "Product"}
    for page in kept:
        assert page.thing is not None
        assert said(page.url, journey.data) >= told(page.thing), page.url
    for kind in ("Person", "Event", "Product"):
        done = tarrafa(
            "search", f"type:schema:{kind}", "--limit", "100", "--copies", "--data", journey.data.root, "--json"
        )
        found = {hit["url"] for hit in json.loads(done.stdout)["hits"]}
        assert found >= {page.url for page in kept if page.thing and page.thing.type == kind}


@pytest.mark.long
def test_a_crawl_that_keeps_only_pages_with_data_follows_all_and_stores_only_those(tmp_path):
    journey = a_journey(tmp_path, World(seed=8, hosts=6, pages=90, changes=0))
    truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
    known = {page.url: page for no in range(1, 7) for page in describe_host(journey.world, no, 0.0)}
    scope = 'hosts = ["*.test"]\nkeep = "structured"\nvocabularies = ["schema"]'
    with journey.web:
        archived = crawl_half(journey, journey.write_collection(scope=scope), 15)
        lost = facts(lose(journey))
        said = tarrafa("rebuild", "frontier", "--data", journey.data.root)
        assert said.returncode == 0, said.stderr
        assert_all_came_back(journey, lost)
        before = Counter(entry.url for entry in journey.requests())
        journey.crawl(journey.write_collection(scope=scope))
        asked = Counter(entry.url for entry in journey.requests())
    assert not [url for url in archived if asked[url] > before[url]], "a page that is not kept is not forgotten either"
    wanted = {url for url in truth.kept if url in known and known[url].structured}
    assert 20 < len(wanted) < len(truth.kept) / 2
    assert set(journey.kept()) == wanted, "all pages were followed, and those with data kept"
    assert truth.kept <= set(asked)
    bodies = set()
    for path in journey.data.archive.glob("*.warc.gz"):
        with path.open("rb") as stream:
            bodies |= {
                record.rec_headers.get_header("WARC-Target-URI")
                for record in ArchiveIterator(stream)
                if record.rec_type in ("response", "conversion")
            }
    assert not bodies & (truth.kept - wanted), "no body, no text"
    other = max(truth.kept - wanted, key=lambda url: len(next(r for r in journey.records() if r.url == url).page.links))  # type: ignore[union-attr]
    links = json.loads(tarrafa("links", other, "--data", journey.data.root, "--json").stdout)
    assert links["out"], "its links are known"
    status = json.loads(tarrafa("status", "--data", journey.data.root, "--json").stdout)
    assert status["collections"][0]["statuses"]["-26"] == len(truth.kept - wanted)
    assert status["triples"]["pages"] == len([url for url in wanted if not known[url].noindex])


def a_page(syntax: str, version: int) -> ScriptedResponse:
    body = WRITERS[syntax](make_entity(2, "A rede", version))
    html = f"<html><head><title>Coisas</title></head><body>{body}</body></html>"
    return ScriptedResponse(html.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


def test_data_that_changes_or_goes_is_right_seconds_after_its_visit_kill_or_no_kill(tmp_path: Path) -> None:
    urls = {syntax: f"{ROOT}{syntax}" for syntax in WRITERS}
    pages = {ROOT: ScriptedResponse("".join(f'<a href="{url}">x</a>' for url in urls.values()).encode())}
    pages[ROOT].headers["Content-Type"] = "text/html"
    pages |= {url: a_page(syntax, 1) for syntax, url in urls.items()}
    with scripted_web(lambda url, _: pages.get(url)) as web:
        crawl = FastCrawl(tmp_path, web.collection(tmp_path, [ROOT], more=REVISIT))
        crawl.start()
        for url in urls.values():
            crawl.wait(lambda url=url: said(url, crawl.data) == told(make_entity(2, "A rede", 1)), PATIENCE_S)  # type: ignore[misc]
        kill_group(crawl.process)
        pages |= {url: a_page(syntax, 2) for syntax, url in urls.items()}
        pages[urls["rdfa"]] = ScriptedResponse(b"<p>nada mais", headers={"Content-Type": "text/html"})
        crawl.start()
        for syntax, url in urls.items():
            right = set() if syntax == "rdfa" else told(make_entity(2, "A rede", 2))

            def seen(one: VisitRecord, gone: bool = not right) -> bool:
                stated = one.page.statements if one.page is not None and one.outcome.kept else None
                return stated == "" if gone else stated is not None and NEW_PRICE in stated

            crawl.wait(lambda url=url, seen=seen: crawl.records(url, seen), PATIENCE_S)  # type: ignore[misc]
            crawl.wait(lambda url=url, right=right: said(url, crawl.data) == right, SECONDS)  # type: ignore[misc]
            assert crawl.process.poll() is None
        crawl.wait(lambda: set(crawl.found("type:schema:Product")) == {urls["jsonld"], urls["microdata"]}, SECONDS)
        kill_group(crawl.process)


def test_a_crawl_that_keeps_only_rdfa_keeps_those_pages_and_explains_the_others(tmp_path):
    journey = a_journey(tmp_path, World(seed=8, hosts=4, pages=60, changes=0))
    truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
    known = {page.url: page for no in range(1, 5) for page in describe_host(journey.world, no, 0.0)}
    scope = 'hosts = ["*.test"]\nkeep = "structured"\nsyntaxes = ["rdfa"]'
    with journey.web:
        journey.crawl(journey.write_collection(scope=scope))
    by_syntax = {
        syntax: {url for url in truth.kept if url in known and known[url].structured == syntax}
        for syntax in ("rdfa", "jsonld", "microdata", "")
    }
    assert all(by_syntax.values())
    assert set(journey.kept()) == by_syntax["rdfa"]
    setting = "[scope] keep = structured; syntaxes = rdfa; open_graph = false; the page has "
    for syntax in "jsonld", "microdata":
        done = tarrafa("explain", min(by_syntax[syntax]), "--data", journey.data.root, "--json")
        reason = json.loads(done.stdout)["collections"][0]["because"]
        assert reason.removeprefix(setting) in (f"{syntax} (schema:)", f"rdfa (og:); {syntax} (schema:)")
