"""A PostgreSQL that fails over, for the tests: etcd and three machines with Patroni, on loopback ports or those of a
bridge, in a folder of its own.

The machines are configured by docs/patroni.yml, with other names, addresses and folders.
"""

import atexit
import contextlib
import http.client
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests.contract.postgres_process import programs
from tests.ports import reserve_port
from tests.wait import block_until

EXAMPLE = Path(__file__).parents[1] / "docs" / "patroni.yml"
PROGRAMS = ("patroni", "etcd")
WHY_NOT = "Patroni, etcd or PostgreSQL are not installed (Debian: apt-get install patroni etcd-server postgresql)"
PASSWORD = "SECRET-1"  # of the superuser, as in the example
START_S = 120.0
LOOPBACK = "127.0.0.1"


def is_installed() -> bool:
    return programs() is not None and all(map(shutil.which, PROGRAMS))


class Machine:
    """One machine with PostgreSQL under Patroni, which can lose its power and get it again."""

    def __init__(self, name: str, folder: Path, etcd: int, user: str | None, listen: str) -> None:
        self.name, self._folder, self._user, self.listen = name, folder / name, user, listen
        self._folder.mkdir()
        self._data = self._folder / "data"
        self._held = [reserve_port(listen), reserve_port(listen)]
        self.port, self._rest = (int(held.getsockname()[1]) for held in self._held)
        text = EXAMPLE.read_text()
        for example, ours in (
            ("db1", name),
            ("10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379", f"127.0.0.1:{etcd}"),
            ("10.0.0.1:8008", f"{listen}:{self._rest}"),
            ("10.0.0.1:5432", f"{listen}:{self.port}"),
            ("10.0.0.0/24", f"{listen}/{32 if listen == LOOPBACK else 24}"),
            ("/var/lib/postgresql/frontier.pgpass", f"{self._folder}/pgpass"),
            ("/var/lib/postgresql/frontier", f"{self._data}"),
            ("/usr/lib/postgresql/15/bin", f"{programs()}"),
            ("/var/run/postgresql", f"{self._folder}"),
        ):
            assert example in text, example
            text = text.replace(example, ours)
        self._settings = self._folder / "patroni.yml"
        self._settings.write_text(text)
        if user is not None:
            shutil.chown(self._folder, user, user)
        self.start()

    def start(self) -> None:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PG")}  # not our password
        with (self._folder / "log").open("ab") as log:
            self._patroni = subprocess.Popen(
                [shutil.which("patroni") or "", str(self._settings)],
                stdout=log, stderr=log, cwd=self._folder, user=self._user, group=self._user, env=ours,
            )  # fmt: skip

    def kill(self) -> None:
        """The power fails: Patroni, the server and its processes end at once."""
        self.kill_patroni()
        for pid in self._server_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        block_until(lambda: not self._server_pids(), f"{self.name} has ended")

    def kill_patroni(self) -> None:
        """Patroni alone ends: its server stays, and nobody is left to tell it that it is no longer the primary."""
        self._patroni.kill()
        self._patroni.wait()

    def has_role(self, role: str) -> bool:
        """By Patroni: is it the `primary`, a `replica`, the `synchronous` one?"""
        asked = http.client.HTTPConnection(self.listen, self._rest, timeout=5)
        try:
            asked.request("GET", f"/{role}")
            return asked.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asked.close()

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def remove(self) -> None:
        self.kill()
        for held in self._held:
            held.close()

    def _server_pids(self) -> list[int]:
        """The server, if it runs, and its processes."""
        with contextlib.suppress(OSError, ValueError):
            first = int((self._data / "postmaster.pid").read_text().split()[0])
            if f"{self._data}".encode() in Path(f"/proc/{first}/cmdline").read_bytes():
                return [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
        return []


class PatroniCluster:
    """etcd, a primary and two standbys, one of which has each commit before it is acknowledged."""

    def __init__(self, listen: str = LOOPBACK) -> None:
        assert is_installed(), WHY_NOT
        self.folder = Path(tempfile.mkdtemp(prefix="patroni"))
        user = "postgres" if os.getuid() == 0 else None
        if user is not None:
            shutil.chown(self.folder, pwd.getpwnam(user).pw_name)
        self._held = [reserve_port(), reserve_port()]
        self.machines: list[Machine] = []
        atexit.register(self.remove)
        client, peer = (int(held.getsockname()[1]) for held in self._held)
        with (self.folder / "etcd.log").open("ab") as log:
            self._etcd = subprocess.Popen(
                [
                    shutil.which("etcd") or "", "--data-dir", f"{self.folder}/etcd", "--name", "one",
                    "--listen-client-urls", f"http://127.0.0.1:{client}",
                    "--advertise-client-urls", f"http://127.0.0.1:{client}",
                    "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                    "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                    "--initial-cluster", f"one=http://127.0.0.1:{peer}",
                ],
                stdout=log, stderr=log, cwd=self.folder, user=user, group=user,
            )  # fmt: skip
        self.machines += [Machine(name, self.folder, client, user, listen) for name in ("one", "two", "three")]
        self.wait_until_safe()

    def primary(self) -> Machine | None:
        return next((machine for machine in self.machines if machine.has_role("primary")), None)

    def wait_until_safe(self) -> None:
        """Until all machines take part again, one of them as synchronous standby."""

        def is_safe() -> bool:
            standbys = [machine for machine in self.machines if machine.has_role("replica")]
            return (
                self.primary() is not None
                and len(standbys) == len(self.machines) - 1
                and any(machine.has_role("synchronous") for machine in standbys)
            )

        try:
            block_until(is_safe, "a primary and its standbys", START_S)
        except AssertionError as error:
            said = "\n".join(machine.log()[-3000:] for machine in self.machines)
            raise AssertionError(f"{error}\n{said}") from None

    def address(self, database: str = "postgres") -> str:
        hosts = ",".join(f"{machine.listen}:{machine.port}" for machine in self.machines)
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"

    def database(self, name: str) -> str:
        """The address of a new database."""
        with psycopg.connect(self.address(), autocommit=True, password=PASSWORD) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.address(name)

    def remove(self) -> None:
        if self.folder.exists():
            for machine in self.machines:
                machine.remove()
            self._etcd.kill()
            self._etcd.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
        for held in self._held:
            held.close()
