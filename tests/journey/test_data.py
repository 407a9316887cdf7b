"""What pages say to machines is right in the store, in search and by SPARQL, seconds after the visit that saw it."""

import json
from pathlib import Path

from pyoxigraph import NamedNode

from tarrafa.data import DataDirectory
from tarrafa.model import Record
from tarrafa.triples.publishing import Snapshot
from tarrafa.web.structured import WRITERS, Thing, thing
from tarrafa.web.truth import of_host
from tarrafa.web.world import World
from tests.journey.crawling import a_journey, kill_group, tarrafa
from tests.journey.small_web import Answer, a_small_web
from tests.journey.test_right_in_search import PATIENCE_S, REVISIT, SECONDS, Life

SCHEMA = "https://schema.org/"
ROOT = "http://a.test/"
NEW_PRICE = '"5.90"'  # of the second version
ASK = f"""PREFIX schema: <{SCHEMA}>
SELECT ?class ?name ?value {{ GRAPH $page {{ ?thing a ?class ; ?name ?value FILTER (isLiteral(?value)) }} }}"""


def said(page: str, data: DataDirectory) -> set[tuple[str, str, str]]:
    """Class, property and value of all that the store has of a page."""
    snapshot = Snapshot.newest(data)
    if snapshot is None:
        return set()
    with snapshot:
        found = snapshot.store.query(ASK.replace("$page", str(NamedNode(page))))
        return {
            tuple(row[name].value.removeprefix(SCHEMA) for name in ("class", "name", "value"))
            for row in found  # type: ignore[union-attr]
        }


def told(it: Thing) -> set[tuple[str, str, str]]:
    whole = {(it.type, name, value) for name, value in it.properties}
    return whole | {(kind, name, value) for _, kind, its in it.parts for name, value in its}


def test_every_thing_of_a_web_is_found_as_the_web_means_it(tmp_path):
    journey = a_journey(tmp_path, World(seed=7, hosts=6, pages=120, changes=0))
    with journey.web:
        journey.crawl(journey.write_collection())
        truth = {page.url: page for no in range(1, 7) for page in of_host(journey.world, no, 0.0)}
    kept = [page for url in journey.kept() if (page := truth.get(url)) and page.thing and not page.noindex]
    assert {page.structured for page in kept} == {"rdfa", "jsonld", "microdata"}
    assert {page.thing.type for page in kept if page.thing} == {"Person", "Event", "Product"}
    for page in kept:
        assert page.thing is not None
        assert said(page.url, journey.data) >= told(page.thing), page.url
    for kind in ("Person", "Event", "Product"):
        done = tarrafa(
            "search", f"type:schema:{kind}", "--results", "100", "--copies", "--data", journey.data.root, "--json"
        )
        found = {hit["url"] for hit in json.loads(done.stdout)["hits"]}
        assert found >= {page.url for page in kept if page.thing and page.thing.type == kind}


def a_page(syntax: str, version: int) -> Answer:
    html = f"<html><head><title>Coisas</title></head><body>{WRITERS[syntax](thing(2, 'A rede', version))}</body></html>"
    return Answer(html.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


def test_data_that_changes_or_goes_is_right_seconds_after_its_visit_kill_or_no_kill(tmp_path: Path) -> None:
    urls = {syntax: f"{ROOT}{syntax}" for syntax in WRITERS}
    pages = {ROOT: Answer("".join(f'<a href="{url}">x</a>' for url in urls.values()).encode())}
    pages[ROOT].headers["Content-Type"] = "text/html"
    pages |= {url: a_page(syntax, 1) for syntax, url in urls.items()}
    with a_small_web(lambda url, _: pages.get(url)) as web:
        life = Life(tmp_path, web.collection(tmp_path, [ROOT], more=REVISIT))
        life.start()
        for url in urls.values():
            life.wait(lambda url=url: said(url, life.data) == told(thing(2, "A rede", 1)), PATIENCE_S)  # type: ignore[misc]
        kill_group(life.process)
        pages |= {url: a_page(syntax, 2) for syntax, url in urls.items()}
        pages[urls["rdfa"]] = Answer(b"<p>nada mais", headers={"Content-Type": "text/html"})
        life.start()
        for syntax, url in urls.items():
            right = set() if syntax == "rdfa" else told(thing(2, "A rede", 2))

            def seen(one: Record, gone: bool = not right) -> bool:
                stated = one.page.statements if one.page is not None and one.outcome.kept else None
                return stated == "" if gone else stated is not None and NEW_PRICE in stated

            life.wait(lambda url=url, seen=seen: life.records(url, seen), PATIENCE_S)  # type: ignore[misc]
            life.wait(lambda url=url, right=right: said(url, life.data) == right, SECONDS)  # type: ignore[misc]
        life.wait(lambda: set(life.found("type:schema:Product")) == {urls["jsonld"], urls["microdata"]}, SECONDS)
        kill_group(life.process)
