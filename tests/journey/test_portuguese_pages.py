"""Every page of a node in Portuguese, after a crawl of hosts that fail in every way: nothing is said in English.

What the product says stands in the catalogue, with its English as the key. So a page in Portuguese must not contain the
English of an entry; and a reason that is stored or sent must be such an entry with its values, not a sentence.
"""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import apsw
import pytest

from tarrafa.cli.demo import SHORT_TIMEOUTS
from tarrafa.i18n import Message, catalogue, from_text
from tarrafa.testweb.hostile import FORBIDDEN_ROOTS, SUFFIXES, hostile_roots
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import Journey, a_journey, tarrafa
from tests.journey.test_console import Node

ENDLESS = re.compile(
    r"flood|babel|wild|calendar|maze|growing|session|facets|relative|markup|sitemap|robots-delay|mirror"
)
STATUSES_MIN = 12  # different ones, until the pages are read
PAGES_OF_A_KIND_MAX = 6
VALUES = frozenset({"1 day"})  # of a collection file, shown as they are written there
WAIT_S = 240.0
PLACE = re.compile(r"\{[^{}]*\}")
HIDDEN = re.compile(r"<(script|style|code|pre|textarea|option)\b.*?</\1>", re.DOTALL)
ATTRIBUTE = re.compile(r'\b(?:title|aria-label|placeholder|alt)="([^"]*)"')
QUOTED = re.compile(  # text of crawled pages, and URLs
    r'<(?:cite|td|dd|li|p|a|span|h\d)[^>]* (?:lang="[^"]*"|class="[^"]*(?:url|snippet|lines)[^"]*")[^>]*>.*?</',
    re.DOTALL,
)
START_PATHS = (
    "/", "/?q=rede", "/?q=type:", "/help", "/data", "/sparql", "/status", "/api", "/console", "/console/nodes",
    "/console/nodes/home", "/console/look", "/console/audit", "/console/new", "/console/c/journey",
    "/console/c/journey/edit", "/page?url=http://nowhere.test/", "/page?url=nonsense", "/site?name=nowhere.test",
    "/no-such-page", "/console/c/nowhere", "/console/c/journey/status/999", f"/?q={'x' * 1500}",
)  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Journey]]:
    folder = tmp_path_factory.mktemp("portuguese")
    journey = a_journey(folder, World(1, hosts=3, pages=30, hostile=True), latency_s=0.0)
    with journey.web:
        journey.roots = [journey.world.root(1), *FORBIDDEN_ROOTS[:2]]
        journey.roots += [root for root in hostile_roots() if not ENDLESS.search(root)]
        connect_to = ", ".join(f'"{name}" = "{target}"' for name, target in journey.web.connections.items())
        journey.network = f"connect_to = {{{connect_to}}}"
        journey.politeness, _, journey.sections = SHORT_TIMEOUTS.partition("\n\n")
        journey.suffixes += SUFFIXES
        file = journey.write_collection(scope='hosts = ["*.test"]\ndepth_max = 1\npages_max = 300')
        running = Node(journey.data.root)
        try:
            for command, code in ((("add", file), 0), (("resume", "journey"), 2), (("start", "journey"), 0)):
                done = tarrafa(*command, "--data", journey.data.root)
                assert done.returncode == code, done.stderr
            _wait_for_failures(running)
            _kill_a_worker(running)
            yield running, journey
        finally:
            running.end()


def _wait_for_failures(node: Node) -> None:
    until = time.monotonic() + WAIT_S
    while len(seen := node.json("/api/v1/collections/journey")["collection"]["statuses"]) < STATUSES_MIN:
        assert time.monotonic() < until, seen
        time.sleep(0.2)


def _kill_a_worker(node: Node) -> None:
    def workers() -> list[Any]:
        processes = node.json("/api/v1/nodes/home")["node"]["beat"]["processes"]
        return [one for one in processes if one["role"] == "worker"]

    os.kill(workers()[0]["pid"], signal.SIGKILL)
    until = time.monotonic() + WAIT_S
    while not any(one.get("cause") for one in workers()):
        assert time.monotonic() < until
        time.sleep(0.2)


@cache
def english_pieces() -> frozenset[str]:
    """The longest piece between the places of each English sentence, if Portuguese has it nowhere."""
    pieces, portuguese = set[str](), list[str]()
    for entry in catalogue.read():
        texts = [entry.id] if isinstance(entry.id, str) else list(entry.id)
        strings = [entry.string] if isinstance(entry.string, str) else list(entry.string or [])
        portuguese += strings if entry.id else []
        pieces |= {max(PLACE.split(text), key=len).strip() for text in texts if text}
    whole = "\n".join(portuguese)
    return frozenset(piece for piece in pieces if " " in piece and piece not in whole)


def is_english(text: str) -> bool:
    """Whether a text holds an English sentence of the catalogue; short pieces count as a whole text only."""
    return any(piece == text or (piece.count(" ") > 1 and piece in text) for piece in english_pieces())


def texts_of(page: str) -> Iterator[str]:
    """The texts that a reader sees or hears; neither code nor text of crawled pages."""
    shown = QUOTED.sub("<b></", HIDDEN.sub(" ", page))
    for text in (*re.split(r"<[^>]*>", shown), *ATTRIBUTE.findall(shown)):
        if text := " ".join(unescape(text).split()):
            yield text


def get(address: str) -> tuple[str, str]:
    request = urllib.request.Request(address, headers={"Accept-Language": "pt-BR", "Accept": "text/html"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            errors = "replace" if "id_/" in address else "strict"  # bytes of archived pages
            return response.headers.get_content_type(), response.read().decode("utf-8", errors)
    except urllib.error.HTTPError as error:
        with error:
            return error.headers.get_content_type(), error.read().decode()


def pages(node: Node) -> Iterator[tuple[str, str]]:
    """Every page that links lead to; of each kind some."""
    todo, seen, kinds = list(START_PATHS), set[str](), dict[str, int]()
    while todo:
        path = todo.pop(0).partition("#")[0]
        kind = path.partition("?")[0]
        if path in seen or "hl=" in path or "/report" in path or kinds.get(kind, 0) >= PAGES_OF_A_KIND_MAX:
            continue
        seen.add(path)
        kinds[kind] = kinds.get(kind, 0) + 1
        media_type, text = get(f"{node.address}{path}")
        if media_type != "text/html":
            continue
        yield path, text
        found = (
            urljoin(f"{node.address}{path}", unescape(link)) for link in re.findall(r'<a [^>]*href="([^"]*)"', text)
        )
        todo += [link.removeprefix(node.address) for link in found if link.startswith(f"{node.address}/")]


def test_a_dead_process_is_shown_with_its_cause_in_portuguese(node):
    _, page = get(f"{node[0].address}/console/nodes/home")
    assert "morto pelo sinal 9 (SIGKILL)" in page


def test_no_page_in_portuguese_says_anything_in_english(node):
    running, _ = node
    seen: dict[str, str] = {}
    paths = []
    for path, page in pages(running):
        paths.append(path)
        seen |= dict.fromkeys(texts_of(page), path)
    assert len(paths) > 50
    assert {text: path for text, path in seen.items() if is_english(text) and text not in VALUES} == {}


@cache
def catalogued() -> frozenset[str]:
    """Every sentence of the code, also for several things: it takes seconds to collect them."""
    found = catalogue.sentences()
    return frozenset(form for one in found for form in ((one,) if isinstance(one, str) else one))


def is_known(reason: Message | str) -> bool:
    """Whether a reason is an entry of the catalogue, or made of such. Words of others are values."""
    if isinstance(reason, str):
        return False
    parts = [value for value in reason.values.values() if isinstance(value, Message)]
    is_made_of_parts = not re.search(r"\w", PLACE.sub("", reason.text))
    return (is_made_of_parts or reason.text in catalogued()) and all(map(is_known, parts))


def test_every_stored_reason_is_an_entry_of_the_catalogue(node):
    _, journey = node
    outcomes = [record.outcome for record in journey.records()]
    reasons = {str(one.error): one.error for one in outcomes if one.error}
    database = apsw.Connection(str(journey.data.frontier), flags=apsw.SQLITE_OPEN_READONLY)
    troubles = {text: from_text(text) for (text,) in database.execute("SELECT trouble FROM host WHERE trouble != ''")}
    notes = {text: from_text(text) for (text,) in database.execute("SELECT note FROM worker WHERE note != ''")}
    database.close()
    assert len(reasons) >= 10
    assert troubles
    unknown = [text for text, reason in (reasons | troubles | notes).items() if not is_known(reason)]
    assert unknown == []


def test_a_report_in_portuguese_says_nothing_in_english(node):
    _, journey = node
    out = journey.folder / "report"
    done = subprocess.run(
        [sys.executable, "-c", "from tarrafa.cli import main; main()", "report", "journey", "--language", "pt",
         "--out", str(out), "--data", str(journey.data.root)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    page = next(Path(out).glob("*.html")).read_text()
    found = {text for text in texts_of(page) if is_english(text)}
    assert found == set(), done.stdout
