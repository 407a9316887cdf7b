"""`tarrafa top`: the frame fits wherever it is shown, and the command ends when somebody has seen enough."""

import asyncio
import fcntl
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections import deque
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Group

from tarrafa.cli.output import CleanConsole
from tarrafa.cli.status_top import (
    BARS,
    PLAIN_BARS,
    FollowerStates,
    TopSnapshot,
    draw_frame,
    progress_text,
    sparkline,
    top,
)
from tarrafa.clock import Clock
from tarrafa.config import collection_from_table
from tarrafa.crawl.explain.frontier_lookup import fetch_overview
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.errors import DataError
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview, RegisteredWorker
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.i18n import ENGLISH
from tarrafa.index.index_status import IndexStatus
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.world.hosts import World
from tarrafa.triples.status import TriplesStatus
from tests.journey.crawl_journey import a_journey, tarrafa, wait_until_kept

COMMAND = [sys.executable, "-c", "from tarrafa.cli import main; main()"]
WAIT_S = 60
TITLE = b"Tarrafa"


def a_collection(name: str = "demo", state: str = "running", **more: object) -> CollectionStatus:
    numbers = {"known": 9_490, "fetched": 407, "pending": 6_913, "failed": 3, "hosts": 300, "pages_per_s": 31.1}
    fields = {"name": name, "state": state, "reason": "", "visits": 500, "statuses": {"200": 407, "-7": 9}}
    return CollectionStatus(**(fields | numbers | more))  # type: ignore[arg-type]


def a_sight(collections: int = 1, workers: int = 2, notes: int = 0) -> TopSnapshot:
    found = [a_collection(f"collection-{number}") for number in range(collections)]
    nodes = [
        RegisteredWorker(f"w{number}", 4_000 + number, 150, 25.0, "all is well " * 20) for number in range(workers)
    ]
    overview = FrontierOverview(found, nodes, [f"note {number}" for number in range(notes)])
    followers = FollowerStates(
        IndexStatus("1", 200, 226, 840_767, False, []), TriplesStatus(159, 1_129, 0, 329, 0), 0, 10**9
    )
    return TopSnapshot(1_795_176_000.0, overview, followers, 1_250_000)


def shown(sight: TopSnapshot, width: int = 80, height: int = 24, **more: object) -> list[str]:
    trends = {one.name: deque([0.0, 10.0, 31.1]) for one in sight.overview.collections}
    return [line.plain for line in draw_frame(sight, trends, width, height, **more)]  # type: ignore[arg-type]


def data_with_a_collection(folder: Path) -> Path:
    data = DataDirectory(folder / "data")
    data.create()
    table = {"name": "demo", "roots": ["http://a.br/"], "scope": {"hosts": ["a.br"]}}

    async def fill() -> None:
        frontier = SqliteFrontier(data.frontier, Clock.real(), "br\n")
        await submit_collection(frontier, collection_from_table(table, "test"))
        await frontier.close()

    asyncio.run(fill())
    return data.root


@settings(max_examples=60, deadline=None)
@given(
    collections=st.integers(0, 25), workers=st.integers(0, 40), notes=st.integers(0, 30),
    width=st.integers(20, 240), height=st.integers(12, 70),
)  # fmt: skip
def test_a_frame_fits_whatever_there_is_to_show(collections, workers, notes, width, height):
    lines = shown(a_sight(collections, workers, notes), width, height)
    assert len(lines) < height  # one is left for whoever shows it
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60)])
def test_a_frame_tells_collections_workers_and_how_far_the_followers_are(width, height):
    text = "\n".join(shown(a_sight(2), width, height, where="tarrafa-data"))
    for told in ("2 collections, 2 running", "814 pages", "62.2/s", "collection-1", "9,490", "200: 407", "w1", "4001",
                 "200 pages in 226 documents", "841 kB behind", "1,129 statements", "up to date", "1 GB", "▁▃█",
                 " left"):  # fmt: skip
        assert told in text
    assert ("too deep" in text) == (width == 200)


def test_a_frame_shows_first_what_runs_and_counts_what_has_no_room():
    sight = a_sight(30, 50)
    late = a_collection("zebra", reason="busy")
    lines = shown(
        TopSnapshot(
            sight.at,
            FrontierOverview([a_collection(f"c{n}", "finished") for n in range(29)] + [late], sight.overview.nodes),
            sight.followers,
        )
    )
    assert lines[3].startswith("zebra")
    assert "more collections" in "\n".join(lines)
    assert "… and 48 more workers with 7,200 hosts" in lines


def test_a_frame_says_in_words_how_each_goes():
    assert progress_text(a_collection()) == "about 3 min 00 s left"
    assert progress_text(a_collection(pages_per_s=0.0)) == "waiting for hosts to answer"
    assert progress_text(a_collection(state="paused", reason="by you at 14:02")) == "by you at 14:02"
    assert (
        progress_text(a_collection(keeps_fresh=True, revisits=10, changes=5))
        == "kept fresh: 10 revisits, 50% had changed"
    )


def test_a_frame_lets_nothing_through_that_speaks_to_the_terminal():
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    sight = a_sight(1, notes=1)
    node = RegisteredWorker(f"w{evil}", 1, 1, 1.0, evil)
    one = a_collection(f"c{evil}", "paused", reason=evil)
    seen = TopSnapshot(sight.at, FrontierOverview([one], [node], [evil]), sight.followers, trouble=evil)
    printed = io.StringIO()
    CleanConsole(file=printed, width=100).print(Group(*draw_frame(seen, {}, 100, 30, where=evil)))
    assert all(line.isprintable() for line in printed.getvalue().splitlines())


def test_a_frame_before_anything_is_there_says_what_to_do():
    lines = shown(TopSnapshot(0.0, FrontierOverview([], []), FollowerStates()))
    assert any("`tarrafa crawl FILE` starts one" in line for line in lines)
    assert "no worker is running" in lines


def test_a_curve_has_its_highest_value_full_and_its_width():
    assert sparkline([0, 1, 2, 4, 8], 10) == "▁▂▃▅█"
    assert sparkline(range(100), 10) == sparkline(range(90, 100), 10)
    assert sparkline([0, 0], 5) == "▁▁"
    assert sparkline([], 5) == sparkline([1.0], 0) == ""
    assert sparkline([0, 8], 5, PLAIN_BARS).isascii()
    assert len(BARS) == len(PLAIN_BARS)


def test_one_frame_goes_into_a_pipe_without_colours(tmp_path):
    root = data_with_a_collection(tmp_path)
    done = tarrafa("top", "--once", "--data", root, env=os.environ | {"COLUMNS": "80", "LINES": "24"})
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "paused" in done.stdout
    assert "interrupted; `tarrafa crawl FILE` goes on where it was" in done.stdout


def test_json_comes_one_line_a_time_and_says_what_status_says(tmp_path):
    root = data_with_a_collection(tmp_path)
    with subprocess.Popen([*COMMAND, "top", "--json", "--data", root], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.terminate()
    assert process.returncode == 0
    plain = msgspec.to_builtins(ENGLISH.render_all(asyncio.run(fetch_overview(DataDirectory(root)))))
    assert lines[1]["at"] > lines[0]["at"]
    assert lines[0]["collections"] == plain["collections"]
    assert set(plain) | {"index", "triples"} <= set(lines[0])


def test_a_directory_without_data_is_told_in_one_line(tmp_path):
    with pytest.raises(DataError, match="no Tarrafa data here"):
        top(tmp_path / "nothing")


@pytest.mark.parametrize("key", [pytest.param(b"q", id="q"), pytest.param(b"", id="Ctrl-C", marks=pytest.mark.long)])
def test_a_key_ends_it_and_the_terminal_is_as_it_was(tmp_path, key):
    root = data_with_a_collection(tmp_path)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [*COMMAND, "top", "--data", root], stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment | {"TERM": "xterm-256color"}, start_new_session=True,
    )  # fmt: skip
    try:
        seen = _read_until(ours, TITLE)
        if key:
            os.write(ours, key)
        else:
            process.send_signal(signal.SIGINT)
        seen += _read_until(ours, b"\x1b[?1049l")
        assert process.wait(WAIT_S) == 0
        assert b"\x1b[?1049h" in seen
        assert b"demo" in seen
        assert termios.tcgetattr(theirs) == before
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def _read_until(descriptor: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        ready, _, _ = select.select([descriptor], [], [], WAIT_S)
        assert ready, seen
        seen += os.read(descriptor, 1 << 16)
    return seen


@pytest.mark.long
def test_during_a_crawl_its_numbers_move_and_at_its_end_they_are_those_of_status(tmp_path):
    journey = a_journey(tmp_path, World(seed=5, hosts=10, pages=300))
    with journey.web:
        process = journey.start(journey.write_collection())
        wait_until_kept(journey, process, 5)
        watched = [*COMMAND, "top", "--json", "--data", str(journey.data.root)]
        with subprocess.Popen(watched, stdout=subprocess.PIPE) as onlooker:
            assert onlooker.stdout is not None
            lines = [json.loads(onlooker.stdout.readline()) for _ in range(3)]
            while lines[-1]["collections"][0]["state"] == "running":
                lines.append(json.loads(onlooker.stdout.readline()))
            process.communicate(timeout=WAIT_S)
            lines += [json.loads(onlooker.stdout.readline()) for _ in range(3)]
            onlooker.terminate()
        fetched = [line["collections"][0]["fetched"] for line in lines]
        assert fetched == sorted(fetched)
        assert fetched[-1] > fetched[0]
        assert any(line["nodes"] for line in lines)
        told = json.loads(tarrafa("status", "--json", "--data", journey.data.root).stdout)
        for name in ("state", "known", "fetched", "pending", "failed", "hosts", "statuses"):
            assert told["collections"][0][name] == lines[-1]["collections"][0][name]
