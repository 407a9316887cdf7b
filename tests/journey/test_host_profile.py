"""What is learned of a host outlives its worker; what was said of a page stays in its record."""

import subprocess
import sys
from pathlib import Path

from tarrafa.archive.warc_reader import Cursor, follow
from tarrafa.model import Page
from tests.journey.crawl_journey import kill_group, run_json, tarrafa
from tests.journey.scripted_web import ScriptedResponse, scripted_web
from tests.parse.test_host_profile import FOOTER, MENU, sentences

POSTS = 120
BLOG = "http://blog.test/"
HTML = {"Content-Type": "text/html; charset=utf-8"}


def blog(url: str, _: int) -> ScriptedResponse | None:
    name = url.removeprefix(BLOG)
    if name and not name.startswith("p"):
        return None
    number = int(name[1:] or 0) if name else 0
    following = "".join(f'<a href="/p{one}">&gt;</a>' for one in range(number + 1, min(number + 60, POSTS)))
    markup = (
        f"<html lang=en-us><title>Meu Blog - Resenha {number}</title><body><ul>{MENU}</ul>"
        f"<article><p>{sentences(5, number)}</p><p>{sentences(4, -1 - number)}</p></article>{FOOTER}{following}"
    )
    return ScriptedResponse(markup.encode(), headers=HTML)


def start(file: Path, data: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl", str(file), "--data", str(data)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def pages_of(data: Path, cursor: Cursor | None = None) -> list[Page]:
    entries = follow(data / "archive", cursor or {})
    return [entry.record.page for entry in entries if entry.record.outcome.kept and entry.record.page is not None]


def first_hit(data: Path) -> tuple[str, ...]:
    """The one page that has this title: the order of equals is not the same after a rebuild."""
    hit = run_json("search", '"Resenha 77"', "--data", data)["hits"][0]
    return hit["url"], hit["title"], hit["snippet"]


def test_a_profile_survives_a_kill_and_a_rebuild_says_the_same_of_every_page(tmp_path):
    data = tmp_path / "data"
    with scripted_web(blog) as web:
        file = web.collection(tmp_path, [BLOG], delay_s=0.02)
        process = start(file, data)
        while len(pages_of(data)) < POSTS // 2:
            assert process.poll() is None, process.communicate()[1]
        kill_group(process)
        known = {page.url for page in pages_of(data)}
        process = start(file, data)
        said = process.communicate(timeout=300)[1]
        assert process.returncode == 0, said
    pages = pages_of(data)
    after = [page for page in pages if page.url not in known]
    assert len({page.url for page in pages}) == POSTS
    assert after
    assert all(page.template_spans and page.headline.startswith("Resenha") for page in after), "learned before the kill"
    assert all(page.language == "pt" for page in pages)
    assert not any(page.language_chars for page in pages), "not archived"
    found = first_hit(data)
    assert tarrafa("rebuild", "index", "--data", data).returncode == 0
    assert first_hit(data) == found
    assert pages_of(data) == pages
