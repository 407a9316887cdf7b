"""What a machine holds, told to whoever makes a report: by a process of its own, for as long as he listens."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tarrafa.model import HostNote, VisitRecord
from tarrafa.report.distributed import part_wire
from tarrafa.report.distributed.local_part import PartRequest, RemoteParts, gather_local_part
from tarrafa.report.distributed.part_requests import PartRequests, RemoteNodes
from tarrafa.report.distributed.part_wire import CONTENT_TYPE, REQUEST_BYTES_MAX, VERSION, encode_part
from tarrafa.report.schema import MissingNode
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import TOKEN_VARIABLE, Token
from tarrafa.server import http_server
from tarrafa.server.http_server import bind, run_app
from tarrafa.server.internal import report_part_endpoint
from tarrafa.server.internal.report_part_endpoint import ReportPartCounter, create_report_part_app
from tests.report.sample_archives import NAME, a_visit, an_archive, robots
from tests.server.crawler_api_harness import AsgiResponse, asgi_request
from tests.wait import block_until

TOKEN = Token(b"a token of many letters")
ASKED = PartRequest(NAME, "Tarrafa")
AWAY = RemoteParts({}, [MissingNode("there", "away")])
PATIENCE_S = 60
RULES = robots("http://a.br:80", "User-agent: *\nDisallow: /x\n")
RECORDS: list[VisitRecord | HostNote] = [RULES, *(a_visit(f"http://a.br/{n}", n) for n in range(9))]


@contextmanager
def serving(data: DataDirectory) -> Iterator[str]:
    """The application in a thread, as the process of a node runs it; gives its address."""
    ready, address, running = threading.Event(), list[str](), list[Any]()

    def on_ready(where: str) -> None:
        address.append(where.rstrip("/"))
        ready.set()

    async def serve() -> None:
        stop = asyncio.Event()
        running.extend((asyncio.get_running_loop(), stop))
        counter = ReportPartCounter(data)
        app = Starlette(routes=[Mount(part_wire.PATH, create_report_part_app(counter, TOKEN))])
        await run_app(app, "127.0.0.1", bind("127.0.0.1", 0), stop, on_ready, counter.close)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield address[0]
    finally:
        running[0].call_soon_threadsafe(running[1].set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def begin(url: str, token: Token = TOKEN, told: Callable[[int, int], None] = lambda done, total: None) -> PartRequests:
    return RemoteNodes([("there", url)], token)(ASKED, told)


def counting() -> list[psutil.Process]:
    """Our children that count."""
    return [one for one in psutil.Process().children() if report_part_endpoint.MODULE in _words(one)]


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    return an_archive(tmp_path_factory.mktemp("p") / "d", ("w1", RECORDS))


def an_archive_that_hangs(root: Path) -> DataDirectory:
    """Whoever reads it waits until somebody writes."""
    data = an_archive(root, ("w1", RECORDS))
    (path,) = data.archive.glob("*.meta.warc.gz")
    path.unlink()
    os.mkfifo(path)
    return data


def test_what_arrives_is_what_is_there(data):
    with serving(data) as url:
        found = begin(url).wait()
    assert not found.missing
    assert list(encode_part(found.parts["there"])) == list(encode_part(gather_local_part(data, ASKED)))


def test_one_is_counted_at_a_time_those_in_line_hear_that_we_live_and_it_ends_with_its_question(tmp_path):
    heard: list[int] = []
    with serving(an_archive_that_hangs(tmp_path)) as url:
        first = begin(url)
        block_until(counting)
        (process,) = counting()
        assert TOKEN_VARIABLE not in process.environ()
        block_until(lambda: process.nice() > psutil.Process().nice())
        second = begin(url, told=lambda done, total: heard.append(done))
        block_until(lambda: len(heard) >= 2)
        assert counting() == [process]
        first.stop()
        assert first.wait() == AWAY
        block_until(lambda: counting() and process not in counting())
        second.stop()
        assert second.wait() == AWAY
        block_until(lambda: not counting())


def test_it_ends_with_whoever_serves(tmp_path, monkeypatch):
    monkeypatch.setattr(http_server, "GRACE_S", PATIENCE_S)  # who has no time left says nothing at all
    with serving(an_archive_that_hangs(tmp_path)) as url:
        asking = begin(url)
        block_until(counting)
    assert asking.wait().missing == [MissingNode("there", "trouble")]
    block_until(lambda: not counting())


def test_an_archive_that_cannot_be_read_and_a_wrong_token_are_told_apart(tmp_path):
    data = an_archive(tmp_path, ("w1", RECORDS))
    (path,) = data.archive.glob("*.meta.warc.gz")
    path.write_bytes(b"x" * path.stat().st_size)
    with serving(data) as url:
        assert begin(url).wait().missing == [MissingNode("there", "trouble")]
        assert begin(url, Token(b"another token of many")).wait().missing == [MissingNode("there", "refused")]


def post(data: DataDirectory, body: bytes, version: str = VERSION, **headers: str) -> AsgiResponse:
    told = {"authorization": f"Bearer {TOKEN.secret.decode()}", "content_type": CONTENT_TYPE} | headers

    async def asked() -> AsgiResponse:
        return await asgi_request(
            create_report_part_app(ReportPartCounter(data), TOKEN), "POST", f"/{version}", body, **told
        )

    return asyncio.run(asked())


@pytest.mark.parametrize(
    ("body", "version", "code"),
    [(b"\xc1", VERSION, 400), (b"\x91" * 20_000, VERSION, 400), (msgspec.msgpack.encode({"name": 1}), VERSION, 400),
     (msgspec.msgpack.encode({"name": "c", "agent": "x" * 999}), VERSION, 400), (b"", "0000", 409),
     (b"x" * (REQUEST_BYTES_MAX + 1), VERSION, 413)],
)  # fmt: skip
def test_what_is_no_question_is_refused_in_a_sentence(data, body, version, code):
    answer = post(data, body, version)
    assert answer.code == code
    assert b"\n" not in answer.body
    assert 10 < len(answer.body) < 500
    assert not counting()


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer x", f"Bearer {TOKEN.secret.decode()}x"])
def test_who_does_not_know_the_token_gets_nothing(data, given):
    answer = post(data, msgspec.msgpack.encode(ASKED), authorization=given)
    assert (answer.code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_who_goes_away_in_the_middle_of_a_long_answer_leaves_nobody_waiting(tmp_path, monkeypatch):
    """The process that counts says more than pipes hold, and nobody takes it."""
    monkeypatch.setattr(report_part_endpoint, "MODULE", "tests.server.internal.endless_frames")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))

    counter, heard = ReportPartCounter(DataDirectory(tmp_path)), asyncio.Event()

    async def say(content: bytes) -> None:
        heard.set()
        await asyncio.Event().wait()

    for _ in range(2):
        heard.clear()
        telling = asyncio.create_task(counter.count(ASKED, say))
        await asyncio.wait_for(heard.wait(), PATIENCE_S)
        telling.cancel()
        await asyncio.wait({telling}, timeout=PATIENCE_S)
        assert telling.done()
    assert counter.waiting == 0
