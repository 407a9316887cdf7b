"""A worker's leases: renewed from a thread, over TCP too; and the name that it joins under."""

import asyncio
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tarrafa.clock import Clock, boot_id, boottime
from tarrafa.crawl.worker import worker_fence
from tarrafa.crawl.worker import worker_fence as fence_module
from tarrafa.crawl.worker.worker_fence import WorkerFence
from tarrafa.errors import LeaseLost, NameTaken, TarrafaError, Unreachable
from tarrafa.frontier.address import TcpServer
from tarrafa.frontier.messages import ClockReading, RegistrationTerms
from tarrafa.frontier.rpc import frontier_server
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process_identity import ProcessId, current_process, pid_namespace, start_ticks
from tarrafa.runtime.token import Token
from tests.contract.frontier_bodies import SUFFIXES, FalseClock

TOKEN = Token(b"known to both ends only")
WAIT_S = 30.0
LEASE_S = 60.0  # it does not end before its test, however busy the machine is


@asynccontextmanager
async def a_frontier(path: Path, lease_s: float) -> AsyncIterator[tuple[SqliteFrontier, TcpServer, asyncio.Server]]:
    FalseClock.shift[0] = 0.0
    frontier = SqliteFrontier(path / "frontier.sqlite", FalseClock(0, 0), SUFFIXES, lease_clock=LeaseClock(lease_s))
    server = await frontier_server.serve_tcp(frontier, "127.0.0.1", 0, TOKEN)
    try:
        yield frontier, TcpServer("127.0.0.1", server.sockets[0].getsockname()[1], TOKEN), server
    finally:
        server.close()
        await frontier.close()


class Heard:
    """What the fence had to say."""

    def __init__(self) -> None:
        self.event, self.lost, self.apart = threading.Event(), list[TarrafaError](), list[float]()

    def on_lost(self, error: TarrafaError) -> None:
        self.lost.append(error)
        self.event.set()

    def on_apart(self, ahead_s: float) -> None:
        self.apart.append(ahead_s)
        self.event.set()

    def fence(self, address: TcpServer, terms: RegistrationTerms, clock: Clock) -> WorkerFence:
        return WorkerFence(address, terms, boottime(), clock, lambda: "a note", self.on_lost, self.on_apart)


def true_clock() -> Clock:
    return Clock(1_000_000.0, boottime(), 1e-9)  # stands still, as the frontier's does


@pytest.fixture
def often(monkeypatch):
    """Leases are renewed ten times a second."""
    monkeypatch.setattr(fence_module, "RENEWALS_PER_LEASE", 10 * LEASE_S)


async def test_a_lease_is_renewed_over_tcp_with_what_the_worker_has_to_say(tmp_path, often):
    async with a_frontier(tmp_path, LEASE_S) as (frontier, address, _):
        terms, heard = await frontier.join("w", current_process()), Heard()
        assert terms.lease_s == LEASE_S
        asked: list[float] = []

        def note() -> str:
            asked.append(fence._deadline)
            if len(asked) == 4:
                heard.event.set()
            return "a note"

        fence = WorkerFence(address, terms, boottime(), true_clock(), note, heard.on_lost, heard.on_apart)
        assert await asyncio.to_thread(heard.event.wait, WAIT_S)
        assert asked == sorted(set(asked)), "later each time"
        (node,) = (await frontier.overview()).nodes
        assert node.note == "a note"
        await asyncio.to_thread(fence.close)
        assert not heard.lost


async def test_the_fence_falls_before_the_lease_does(tmp_path):
    async with a_frontier(tmp_path, 3600.0) as (frontier, address, _):
        terms, heard = await frontier.join("w", current_process()), Heard()
        fence = WorkerFence(address, terms, boottime() - 3300.0, true_clock(), str, heard.on_lost, heard.on_apart)
        assert (fence.is_valid(), fence.may_send()) == (True, False), "in the last part of a lease no request leaves"
        await asyncio.to_thread(fence.close)
        late = WorkerFence(address, terms, boottime() - 3601.0, true_clock(), str, heard.on_lost, heard.on_apart)
        assert (late.is_valid(), late.may_send()) == (False, False)
        await asyncio.to_thread(late.close)


async def test_a_frontier_that_has_given_the_lease_to_others_brings_the_fence_down(tmp_path):
    async with a_frontier(tmp_path, 0.6) as (frontier, address, _):
        terms, heard = await frontier.join("w", current_process()), Heard()
        await frontier.leave(terms.worker)
        fence = heard.fence(address, terms, true_clock())
        assert await asyncio.to_thread(heard.event.wait, WAIT_S)
        assert isinstance(heard.lost[0], LeaseLost)
        assert not fence.is_valid()


async def test_a_frontier_that_is_gone_brings_the_fence_down(tmp_path):
    heard = Heard()
    async with a_frontier(tmp_path, 0.6) as (frontier, address, server):
        terms = await frontier.join("w", current_process())
        server.close()
        await server.wait_closed()
        fence = heard.fence(address, terms, true_clock())
        assert await asyncio.to_thread(heard.event.wait, WAIT_S)
        assert isinstance(heard.lost[0], Unreachable)
        assert not fence.may_send()


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_a_clock_that_jumps_is_noticed_and_the_lease_holds(tmp_path, often, jump):
    async with a_frontier(tmp_path, LEASE_S) as (frontier, address, _):
        terms, heard = await frontier.join("w", current_process()), Heard()
        fence = heard.fence(address, terms, true_clock())
        FalseClock.shift[0] = jump
        assert await asyncio.to_thread(heard.event.wait, WAIT_S)
        assert heard.apart[0] == pytest.approx(-jump)
        assert fence.is_valid(), "leases do not depend on anybody's wall clock"
        await asyncio.to_thread(fence.close)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A node's directory, of a frontier that is on another machine: it cannot see who is dead here."""
    monkeypatch.setattr("tarrafa.frontier.store.leases.is_dead", lambda process: False)
    directory = DataDirectory(tmp_path / "node")
    directory.create()
    return directory


def a_dead_process() -> ProcessId:
    with subprocess.Popen(["sleep", "60"]) as process:
        dead = ProcessId(boot_id(), process.pid, start_ticks(process.pid) or 0, pid_namespace())
        process.kill()
    return dead


def remember(data: DataDirectory, process: ProcessId, lease_s: float) -> None:
    content = msgspec.json.encode(worker_fence.PreviousWorker(process, lease_s))
    (data.run / "n-1.worker").write_bytes(content)


async def test_a_successor_buries_its_predecessor_and_has_its_name_at_once(tmp_path, data):
    async with a_frontier(tmp_path, 60.0) as (frontier, _, _):
        dead = a_dead_process()
        former = await frontier.join("n-1", dead)
        remember(data, dead, 60.0)
        terms, asked_at = await worker_fence.register(frontier, data, "n-1")
        assert terms.worker > former.worker
        assert asked_at <= boottime()
        with pytest.raises(LeaseLost):
            await frontier.renew(former.worker, "")
        assert worker_fence._read(data.run / "n-1.worker") == worker_fence.PreviousWorker(current_process(), 60.0)
        worker_fence.free_name(data, "n-1")
        assert not list(data.run.glob("*.worker"))


async def test_where_the_predecessor_cannot_be_seen_its_lease_is_waited_for(tmp_path, data):
    async with a_frontier(tmp_path, 0.4) as (frontier, _, _):
        before_the_boot = ProcessId("another boot", 4242, 1)
        former = await frontier.join("n-1", before_the_boot)
        remember(data, before_the_boot, 0.4)
        terms, _ = await worker_fence.register(frontier, data, "n-1")
        assert terms.worker > former.worker


@pytest.mark.parametrize("record", [None, b"", b"nonsense", b"{}"])
async def test_a_name_that_somebody_else_has_is_an_error_at_once(tmp_path, data, record):
    async with a_frontier(tmp_path, 3600.0) as (frontier, _, _):
        await frontier.join("n-1", ProcessId("another machine", 4242, 1))
        if record is not None:
            (data.run / "n-1.worker").write_bytes(record)
        with pytest.raises(NameTaken, match=r"named 'n-1' is at work already \(process 4242\); use another --name"):
            await worker_fence.register(frontier, data, "n-1")


class SlowServer:
    """One of several servers did not answer: less than a whole lease is left."""

    def __init__(self, enough: threading.Event) -> None:
        self._enough, self._renewals = enough, 0

    def call(self, method: str, *arguments: object) -> object:
        if method == "renew":
            self._renewals += 1
            if self._renewals == 3:
                self._enough.set()
            return LEASE_S / 2
        return ClockReading(true_clock().now(), 1e-9) if method == "time" else []

    def close(self) -> None: ...


def test_a_server_that_missed_a_renewal_is_asked_again_soon(monkeypatch):
    heard, enough = Heard(), threading.Event()
    monkeypatch.setattr(fence_module, "connect_blocking", lambda address: SlowServer(enough))
    fence = heard.fence(TcpServer("127.0.0.1", 1, TOKEN), RegistrationTerms(1, LEASE_S), true_clock())
    assert enough.wait(LEASE_S / fence_module.RENEWALS_PER_LEASE - 1), "within the time of one renewal"
    fence.close()
    assert not heard.lost
