"""`tarrafa demo`, as a newcomer meets it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from tarrafa.archive.warc_reader import follow
from tarrafa.crawl.explain.frontier_lookup import fetch_overview
from tarrafa.runtime.data_dir import DataDirectory
from tests.journey.crawl_journey import tarrafa


def test_the_demo_crawls_indexes_and_says_what_to_search_for(tmp_path):
    done = tarrafa("demo", "--pages", "300", "--port", "0", "--data", tmp_path / "demo", "--exit")
    assert done.returncode == 0, done.stderr
    assert "Search it: http://127.0.0.1:" in done.stdout
    assert "with replay:   http://tarrafa.localhost:" in done.stderr
    assert done.stdout.count(" pages in ") == 4, "four example queries"
    assert " 0 pages in" not in done.stdout
    assert "/sparql" in done.stdout
    assert "300 pages" in done.stderr
    assert "\x1b[" not in done.stderr, "no colours where nobody sees them"
    found = json.loads(tarrafa("search", "pescador", "--data", tmp_path / "demo", "--json").stdout)
    assert found["total"] > 0


def started(data: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "demo", "--pages", "400", "--port", "0"]
    return subprocess.Popen(
        [*command, "--data", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def line_with(stream: object, words: str) -> str:
    for line in stream:  # type: ignore[attr-defined]
        if words in line:
            return str(line)
    raise AssertionError(f"never said: {words}")


def port_of(address: str) -> int:
    return urlsplit(address).port or 80


def statuses_in(data: Path) -> list[int]:
    return [entry.record.outcome.status for entry in follow(data / "archive", {})]


def test_ctrl_c_in_the_middle_stops_everything_and_the_next_run_goes_on(tmp_path):
    demo = started(tmp_path / "demo")
    line_with(demo.stderr, "demo: ")
    os.killpg(demo.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    said = demo.communicate(timeout=60)[1]
    assert demo.returncode == 130, said
    assert "Traceback" not in said
    assert -11 not in statuses_in(tmp_path / "demo"), "the synthetic Web outlived the crawl"

    demo = started(tmp_path / "demo")
    address = line_with(demo.stderr, "search page:").split()[2]
    line_with(demo.stdout, "Search it")
    with urllib.request.urlopen(f"{address}search.json?q=pescador", timeout=60) as answer:
        url = json.load(answer)["hits"][0]["url"]
    copy = urllib.request.Request(f"{address}copy?url={url}", headers={"Host": f"tarrafa.localhost:{port_of(address)}"})
    with urllib.request.urlopen(copy, timeout=60) as answer:
        assert f"http://replay.tarrafa.localhost:{port_of(address)}/" in answer.read().decode()
    os.killpg(demo.pid, signal.SIGINT)
    demo.communicate(timeout=60)
    (status,) = asyncio.run(fetch_overview(DataDirectory(tmp_path / "demo"))).collections
    assert (status.state, status.fetched) == ("finished", 400)
    assert -11 not in statuses_in(tmp_path / "demo"), "nothing was asked where the Web was before the restart"
