"""The journey: machines crawl and revisit while faults happen, then everything comes to rest."""

import asyncio
import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import psycopg

from benchmarks.fault_injection.assertions import sqlite_rows
from benchmarks.fault_injection.engines import STORE, Engines
from benchmarks.fault_injection.fault_plan import Fault, plan_faults
from benchmarks.fault_injection.machines import Machine, Network, role_of
from benchmarks.fault_injection.vanishing_web import VanishPlan, WebInNamespace, WebSettings
from tarrafa.archive.warc_reader import Cursor, visit_lengths
from tarrafa.captures import follower as captures
from tarrafa.clock import boottime
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.errors import DataError
from tarrafa.frontier.address import PostgresServers, connect
from tarrafa.graph import follower as graph
from tarrafa.graph import rank_file
from tarrafa.graph.graph_writer import open_reader
from tarrafa.index import follower as index
from tarrafa.index import shards
from tarrafa.testweb.http.request_log import LoggedRequest, read_log
from tarrafa.testweb.world.hosts import World
from tarrafa.triples import status as triples

REQUEST_S_MAX = 20
PROGRESS_S, TICK_S = 15.0, 0.5
REST_S_MAX, RESTS_MAX = 900.0, 10
VANISH_FROM, VANISH_UNTIL = 0.25, 0.8
NAMES = "abcdefgh"
WORKER = "worker --name"  # the role of its processes
AWAY = (psycopg.Error, apsw.Error)
KEPT = 2  # state of a URL at the frontier
WAITING = "SELECT 1 FROM pending LIMIT 1"
WAITING_HANDED_OUT = "SELECT 1 FROM handed JOIN url USING (host, collection, id) WHERE status IS NULL LIMIT 1"
KEPT_FRESH = "SELECT url FROM page JOIN url USING (host, collection, id)"


@dataclass(frozen=True)
class Settings:
    minutes: float
    seed: int
    hosts: int
    pages: int
    machines: int
    servers: int  # of PostgreSQL; 0: one machine with files and SQLite
    parts: int
    delay_s: float
    revisits_per_s: float

    @property
    def seconds(self) -> float:
        return self.minutes * 60


class Journey:
    """One run. `engines` is None for one machine's body."""

    def __init__(self, settings: Settings, folder: Path, network: Network, engines: Engines | None) -> None:
        self.settings, self.folder, self.engines = settings, folder, engines
        world = World(seed=settings.seed, hosts=settings.hosts, pages=settings.pages, changes=2_000)
        now, self._began = time.time(), boottime()
        plan = VanishPlan(0.15, now + settings.seconds * VANISH_FROM, now + settings.seconds * VANISH_UNTIL)
        space, address = network.add()
        self._log_path = folder / "requests.jsonl"
        self.web = WebInNamespace(space, WebSettings(world, plan, address, str(self._log_path), 0.004))
        self.world, self.plan, self._file = world, plan, self._write_collection(world)
        self.machines = [
            Machine(name, network, folder, self._command(name), self._environment())
            for name in NAMES[: settings.machines]
        ]
        self._rng, self._said_at, self._pending = random.Random(settings.seed), 0.0, list[_Undo]()
        self.happened: dict[str, int] = {}

    def _command(self, name: str) -> list[str]:
        parts = str(self.settings.parts)
        if self.engines is None:
            return ["crawl", str(self._file), "--quiet", "--workers", "2", "--index-shards", parts]
        return ["worker", *self.where, "--name", name, "--workers", "1", "--index-shards", f"owned/{parts}"]

    def _environment(self) -> dict[str, str]:
        return {} if self.engines is None else {"TARRAFA_STORE": STORE}

    @property
    def where(self) -> list[str]:
        dsns = self.engines.dsns if self.engines is not None else []
        return [word for dsn in dsns for word in ("--frontier", dsn)]

    def _write_collection(self, world: World) -> Path:
        path = self.folder / "journey.toml"
        path.write_text(
            f'name = "journey"\nroots = ["{world.root(1)}"]\n[scope]\nhosts = ["*.test"]\n'
            f'[politeness]\ndelay = {self.settings.delay_s}\nbackoff = "2s"\ndelay_factor = 0\n'
            f'[fetch]\ntime_max = "{REQUEST_S_MAX}s"\n'  # hosts of a lost machine rest for so long
            f'[revisit]\npolicy = "uniform"\nrate = {int(self.settings.revisits_per_s * 86_400)}\n'
            'interval_min = 0\ngrace = "20s"\nweigh = "equal"\n'
            f'[network]\nconnect_to = {{"*.test" = "{self.web.authority}"}}\n'
            f"suffixes = {json.dumps(['br.test', 'pt.test', 'com.test'])}\n"
        )
        return path

    # -- time ----------------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        minutes, seconds = divmod(int(boottime() - self._began), 60)
        print(f"{minutes:3d}:{seconds:02d}  {text}", flush=True)

    def fetch(self, sql: str) -> list[tuple[object, ...]]:
        return self.engines.fetch(sql) if self.engines is not None else sqlite_rows(self.machines[0].data, sql)

    def tick(self, left_s: float | None = None) -> None:
        """Start what has ended by itself, end faults, and show the progress."""
        for machine in self.machines:
            machine.keep_running()
        for undo in [one for one in self._pending if one.at <= boottime()]:
            self._pending.remove(undo)
            self.say(f"over: {undo.what}")
            undo.action()
        if boottime() - self._said_at >= PROGRESS_S:
            self._said_at = boottime()
            left = f"{left_s:.0f} s left, " if left_s is not None else ""
            self.say(f"{left}{self._progress()}, load {os.getloadavg()[0]:.1f}")
        time.sleep(TICK_S)

    def _progress(self) -> str:
        try:
            counts = self.fetch(
                f"SELECT count(*), sum(CASE WHEN state = {KEPT} THEN 1 ELSE 0 END), sum(visits) FROM url"
            )
            known, kept, visits = (sum(int(str(row[place] or 0)) for row in counts) for place in range(3))
        except (*AWAY, OSError) as error:
            return f"the database is away ({type(error).__name__})"
        return f"{known:,} URLs known, {kept:,} pages kept, {visits:,} visits"

    def wait(self, what: str, condition: Callable[[], object], seconds: float = REST_S_MAX) -> bool:
        """Until a condition holds; whether it did in time."""
        began = boottime()
        while not self._holds(condition):
            if boottime() - began > seconds:
                self.say(f"NOT within {seconds:.0f} s: {what}")
                return False
            self.tick()
        self.say(f"{what}: after {boottime() - began:.0f} s")
        return True

    @staticmethod
    def _holds(condition: Callable[[], object]) -> bool:
        with contextlib.suppress(*AWAY, OSError, DataError):
            return bool(condition())
        return False

    # -- faults --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self._start()
        settings = self.settings
        faults = plan_faults(
            settings.seed, settings.seconds, settings.machines,
            has_store=self.engines is not None, servers=settings.servers,
        )  # fmt: skip
        began = boottime()
        while (passed := boottime() - began) < settings.seconds:
            while faults and faults[0].at <= passed:
                self._apply(faults.pop(0))
            self.tick(settings.seconds - passed)
        for undo in self._pending:
            self.say(f"over: {undo.what}")
            undo.action()
        self._pending.clear()

    def _start(self) -> None:
        first, *others = self.machines
        first.start()
        if self.engines is not None:
            self.wait("the first machine has joined", (first.data.archive / "log.json").exists, 60)
            asyncio.run(self._submit(self.engines.dsns))
        for machine in others:
            machine.start()

    async def _submit(self, dsns: Sequence[str]) -> None:
        frontier = await connect(PostgresServers(tuple(dsns)))
        try:
            await submit_collection(frontier, load_collection(self._file))
        finally:
            await frontier.close()

    def _apply(self, fault: Fault) -> None:
        machine = self.machines[fault.target]
        what = self._begin(fault, machine)
        if what is not None:
            self.happened[fault.kind] = self.happened.get(fault.kind, 0) + 1
            self.say(f"{fault.kind}: {what}")

    def _begin(self, fault: Fault, machine: Machine) -> str | None:
        """Let a fault happen; to what. None: there is nothing that it could happen to."""
        engines, is_up = self.engines, machine.is_on and not machine.is_suspended
        if fault.kind == "kill process" and is_up:
            return self._kill_process(machine)
        if fault.kind in ("machine burns", "power lost") and machine.is_on:
            (machine.burn if fault.kind == "machine burns" else machine.lose_power)()
            return self._later(fault, machine.name, machine.start)
        if fault.kind == "machine suspended" and is_up:
            machine.suspend()
            return self._later(fault, machine.name, machine.wake)
        if fault.kind == "worker stopped" and is_up:
            return self._stop_worker(fault, machine)
        if fault.kind == "store away" and engines is not None:
            engines.store.kill()
            return self._later(fault, "SeaweedFS", engines.store.start)
        if fault.kind == "primary lost" and engines is not None:
            return self._later(fault, engines.lose_primary(), engines.bring_back_primary)
        if fault.kind == "second server away" and engines is not None and engines.stop_second():
            return self._later(fault, "PostgreSQL", engines.start_second)
        return None

    def _later(self, fault: Fault, what: str, action: Callable[[], None]) -> str:
        self._pending.append(_Undo(boottime() + fault.length_s, f"{fault.kind}: {what}", action))
        return f"{what}, for {fault.length_s:g} s"

    def _kill_process(self, machine: Machine) -> str | None:
        pid = machine.any_process(self._rng)
        if pid is None:
            return None
        role = role_of(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"{machine.name}: {role}"

    def _stop_worker(self, fault: Fault, machine: Machine) -> str | None:
        pid = machine.any_process(self._rng, WORKER)
        if pid is None:
            return None
        os.kill(pid, signal.SIGSTOP)

        def go_on() -> None:
            if WORKER in role_of(pid):  # the watchdog may have replaced it
                os.kill(pid, signal.SIGCONT)

        return self._later(fault, f"{machine.name}: {role_of(pid)}", go_on)

    # -- rest ----------------------------------------------------------------------------------------------------------

    def come_to_rest(self, is_gone: Callable[[str], bool]) -> bool:
        """No fault any more: everything is visited, what has vanished is known to be gone, then the crawl is paused and
        all followers have read everything."""
        if self.engines is not None:
            self.engines.patroni.wait_until_safe()

        for _ in range(RESTS_MAX):
            is_still = (
                self.wait("every URL is visited, every page that is gone is settled", lambda: self._is_settled(is_gone))
                and self.wait("the crawl is paused", lambda: self._command_works("pause"), 120)
                and self.wait("no visit is under way", lambda: not self.fetch("SELECT 1 FROM handed LIMIT 1"), 120)
            )
            if not is_still or self._is_settled(is_gone):
                return is_still and self.wait("all followers have read everything", self._is_followed)
            self.wait("the crawl goes on: visits came back, or new URLs", lambda: self._command_works("resume"), 120)
        return False

    def _is_settled(self, is_gone: Callable[[str], bool]) -> bool:
        """No URL waits for its first visit, and every page that was kept and is gone has left."""
        if any(self.fetch(sql) for sql in (WAITING, WAITING_HANDED_OUT)):
            return False
        return not any(is_gone(str(url)) for (url,) in self.fetch(KEPT_FRESH))

    def _command_works(self, command: str) -> bool:
        where = self.where or ["--data", str(self.machines[0].data.root)]
        return self.machines[0].run(command, "journey", *where).returncode == 0

    def archived(self) -> Cursor:
        """The length of the archive at this moment."""
        if self.engines is None:
            return visit_lengths(self.machines[0].data.archive)
        ends = self.fetch("SELECT visits_end FROM log_head")
        names = {path.stem for machine in self.machines for path in machine.data.archive.glob("*log*.durable")}
        return {name: int(str(ends[0][0])) for name in names}

    def _is_followed(self) -> bool:
        until = self.archived()
        owned = list[int]()
        for machine in self.machines:
            data, layout = machine.data, shards.read_layout(machine.data)
            owned += layout.complete
            behind = (follower.behind(data, until) for follower in (graph, index, captures, triples))
            if any(behind) or not index.is_settled(data) or not _is_ranked(machine):
                return False
        return sorted(owned) == list(range(1, self.settings.parts + 1))

    def requests(self) -> list[LoggedRequest]:
        self.web.flush_log()
        return read_log(self._log_path)


@dataclass
class _Undo:
    """The end of a fault."""

    at: float
    what: str = field(default="")
    action: Callable[[], None] = field(default=lambda: None)


def _is_ranked(machine: Machine) -> bool:
    """Whether the ranks are those of the present graph."""
    stated = rank_file.read_header(machine.data)
    with contextlib.closing(open_reader(machine.data)) as connection:
        ((turned,),) = list(connection.execute("SELECT value FROM counters WHERE name = 'turned'"))
    return stated is not None and stated.turned == turned
