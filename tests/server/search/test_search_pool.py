"""Searches in several processes: the same results and errors, and a process that dies loses no search."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from tarrafa.errors import Busy, DataError, QueryError, TarrafaError
from tarrafa.model import SearchResult
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest, Sort
from tarrafa.search.searcher import Searcher
from tarrafa.server.search import search_pool, search_process
from tarrafa.server.search.search_pool import SearchPool
from tests.graph.archived_web import new_data

START_S_MAX = 60.0
PROCESSES = 2
MISSPELT = SearchRequest("espleho")
REQUESTS = [
    SearchRequest("espelho"),
    SearchRequest("espelho moldura água"),
    SearchRequest("+volta -1", 5, 5),
    SearchRequest('"um dia de maio"'),
    MISSPELT,
    SearchRequest("zaragata", copies=True),
    SearchRequest("volta", 100, sort=Sort.LINKS),
    SearchRequest("dia", sort=Sort.DATE, natural=True, expand=True),
    SearchRequest("", related="http://many.test/"),
    SearchRequest("site:many.test lang:pt"),
    SearchRequest("日本語 ç 🙂"),
    SearchRequest("nada-disso"),
]
WRONG = [
    SearchRequest("volta", 101),
    SearchRequest("("),
    SearchRequest("-volta"),
    SearchRequest("volta", collection="none"),
    SearchRequest("", related="http://unknown.test/"),
]


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 4 * START_S_MAX))


@contextlib.asynccontextmanager
async def running(data: DataDirectory, count: int = PROCESSES) -> AsyncIterator[SearchPool]:
    """A pool whose processes are all there."""
    with SearchPool(data, Searcher.open(data), count) as pool:
        await asyncio.gather(*(pool.search(SearchRequest("volta")) for _ in range(4)))
        await until(lambda: len(children(pool)) == count and pool._ready == count)
        yield pool


def children(pool: SearchPool) -> list[int]:
    return [one.child.pid for one in pool._all if one.child is not None]


async def until(happens: Callable[[], bool]) -> None:
    async with asyncio.timeout(START_S_MAX):
        while not happens():
            await asyncio.sleep(0.01)


async def until_spellings_are_known(pool: SearchPool) -> None:
    """Each process reads the words of the index beside its first searches."""
    async with asyncio.timeout(START_S_MAX):
        while not all(one.total for one in await asyncio.gather(*[pool.search(MISSPELT)] * 4)):
            pass


def timeless(result: SearchResult) -> SearchResult:
    return msgspec.structs.replace(result, time_s=0.0)


def test_a_search_in_a_process_has_the_result_that_it_has_in_the_server(small):
    async def scene() -> None:
        here = Searcher.open(small)
        async with running(small) as pool:
            await until_spellings_are_known(pool)
            found = await asyncio.gather(*map(pool.search, REQUESTS))
        assert [timeless(one) for one in found] == [timeless(here.search(one)) for one in REQUESTS]
        assert any(one.hits for one in found)

    play(scene)


def test_an_error_in_a_process_is_the_error_that_the_server_would_have(small):
    async def scene() -> None:
        here = Searcher.open(small)
        async with running(small) as pool:
            for request in WRONG:
                with pytest.raises(TarrafaError) as there:
                    await pool.search(request)
                with pytest.raises(QueryError) as expected:
                    here.search(request)
                assert type(there.value) is type(expected.value)
                assert there.value.message == expected.value.message, "translated where it is shown"
            assert len((await pool.search(SearchRequest("volta"))).hits) == 10, "the process lives on"

    play(scene)


def test_an_unexpected_error_tells_where_it_was_raised():
    class Broken:
        def search(self, request: SearchRequest) -> SearchResult:
            raise ZeroDivisionError("here")

    response = search_process.answer(Broken(), SearchRequest("a"))  # type: ignore[arg-type]
    assert response.failure is not None
    error = response.failure.error()
    assert isinstance(error, RuntimeError)
    assert "ZeroDivisionError: here" in str(error)
    assert "test_search_pool" in str(error)


def test_no_process_is_started_where_searches_do_not_overlap(small):
    async def scene() -> None:
        with SearchPool(small, Searcher.open(small), PROCESSES) as pool:
            for request in REQUESTS:
                await pool.search(request)
            assert not children(pool)

    play(scene)


def test_without_processes_searches_overlap_in_threads(small):
    async def scene() -> None:
        with SearchPool(small, Searcher.open(small), 0) as pool:
            found = await asyncio.gather(*map(pool.search, REQUESTS))
            assert not children(pool)
            assert found[0].total

    play(scene)


def test_other_shards_are_searched_in_the_server(small, tmp_path):
    async def scene() -> None:
        here = Searcher.open(small)
        both = Searcher([*here.present_shards, *here.present_shards])
        with SearchPool(small, both, PROCESSES) as pool:
            found = await asyncio.gather(*map(pool.search, REQUESTS[:4]))
            assert not children(pool)
            assert all(len(one.shards) == 2 for one in found)

    play(scene)


def test_a_search_is_answered_though_its_process_is_killed(small):
    async def scene() -> None:
        async with running(small) as pool:
            first, second = children(pool)
            os.kill(first, signal.SIGSTOP)  # it accepts a search and never answers
            searches = [asyncio.create_task(pool.search(one)) for one in REQUESTS]
            await until(lambda: sum(one.done() for one in searches) == len(searches) - 1)
            os.kill(first, signal.SIGKILL)
            found = await asyncio.gather(*searches)
            assert found[0].total
            await until(lambda: pool._ready == PROCESSES)
            assert second in children(pool)
            assert first not in children(pool)

    play(scene)


def test_searches_go_on_in_the_server_when_all_processes_are_killed(small):
    async def scene() -> None:
        async with running(small) as pool:
            for pid in children(pool):
                os.kill(pid, signal.SIGKILL)
            found = await asyncio.gather(*map(pool.search, REQUESTS))
            assert found[0].total

    play(scene)


def test_a_search_that_takes_too_long_is_refused_and_its_process_replaced(small, monkeypatch):
    monkeypatch.setattr(search_pool, "SEARCH_S_MAX", 0.2)

    async def scene() -> None:
        async with running(small, 1) as pool:
            (pid,) = children(pool)
            os.kill(pid, signal.SIGSTOP)
            with pytest.raises(TarrafaError, match="took more than"):
                await pool.search(SearchRequest("volta"))
            await until(lambda: children(pool) not in ([], [pid]))

    play(scene)


def test_a_search_that_kills_processes_is_refused_and_not_tried_in_the_server(small):
    async def scene() -> None:
        async with running(small) as pool:
            pids = children(pool)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            search = asyncio.create_task(pool.search(SearchRequest("volta")))
            await until(lambda: len(pool._idle) == 1)
            busy = next(one for one in pool._all if one not in pool._idle)
            assert busy.child is not None
            os.kill(busy.child.pid, signal.SIGKILL)
            await until(lambda: not pool._idle)
            os.kill(next(pid for pid in pids if pid in children(pool)), signal.SIGKILL)
            with pytest.raises(Busy):
                await search

    play(scene)


def test_an_abandoned_search_keeps_no_process(small):
    async def scene() -> None:
        async with running(small, 1) as pool:
            (pid,) = children(pool)
            os.kill(pid, signal.SIGSTOP)
            searches = [asyncio.create_task(pool.search(one)) for one in REQUESTS]
            await asyncio.sleep(0)
            for search in searches[:-1]:
                search.cancel()
            os.kill(pid, signal.SIGCONT)
            await asyncio.wait(searches)
            assert searches[-1].result().query == REQUESTS[-1].text
            assert children(pool) == [pid]

    play(scene)


def test_processes_end_with_the_pool(small):
    async def scene() -> None:
        async with running(small) as pool:
            pids = children(pool)
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    play(scene)


def test_without_an_index_the_error_is_that_of_the_server(tmp_path):
    data = new_data(tmp_path / "data")

    async def scene() -> None:
        with SearchPool(data, Searcher.open(data), 1) as pool:
            found = await asyncio.gather(*map(pool.search, REQUESTS[:2]), return_exceptions=True)
            assert all(isinstance(one, DataError) for one in found)
            await until(lambda: pool._ready == 1)
            with pytest.raises(DataError, match="nothing indexed yet"):
                await pool.search(SearchRequest("a"))

    play(scene)


def test_a_process_that_cannot_be_started_leaves_the_server_searching(small, monkeypatch):
    def refuse(*_: object, **__: object) -> subprocess.Popen[bytes]:
        raise OSError("no memory")

    monkeypatch.setattr(subprocess, "Popen", refuse)

    async def scene() -> None:
        with SearchPool(small, Searcher.open(small), PROCESSES) as pool:
            for _ in range(2):
                found = await asyncio.gather(*map(pool.search, REQUESTS))
                assert found[0].total

    play(scene)


def test_a_server_that_is_killed_leaves_no_process(small, tmp_path):
    """The processes end with the server, however it ends."""
    told = tmp_path / "pids"
    code = f"""
import asyncio
from pathlib import Path
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tarrafa.server.search.search_pool import SearchPool
async def main():
    data = DataDirectory(Path({str(small.root)!r}))
    pool = SearchPool(data, Searcher.open(data), 2)
    await asyncio.gather(*(pool.search(SearchRequest("volta")) for _ in range(4)))
    while pool._ready < 2:
        await asyncio.sleep(0.01)
    Path({str(told)!r}).write_text(" ".join(str(one.child.pid) for one in pool._all) + ".")
    await asyncio.sleep(600)
asyncio.run(main())
"""
    server = subprocess.Popen([sys.executable, "-c", code])

    async def scene() -> None:
        await until(lambda: told.exists() and told.read_text().endswith("."))
        pids = [int(pid) for pid in told.read_text().rstrip(".").split()]
        assert len(pids) == 2
        server.kill()
        server.wait()
        await until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() and is_running(pid) for pid in pids))

    play(scene)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
