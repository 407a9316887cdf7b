"""A real PostgreSQL for the tests: started where its programs are installed, on a loopback port, in a folder of its
own."""

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import psycopg

from tests.ports import reserve_port

FOLDERS = ("/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt")
WHY_NOT = "PostgreSQL's server programs (initdb, pg_ctl) are not installed"


@cache
def programs() -> Path | None:
    """Where initdb and pg_ctl are."""
    found = [path.parent for folder in FOLDERS for path in sorted(Path(folder).glob("*/bin/initdb"))]
    if (here := shutil.which("initdb")) is not None:
        found.append(Path(here).resolve().parent)  # beside it are the other programs
    return found[-1] if found else None


class Postgres:
    """One server, which can be stopped and started again. PostgreSQL does not run as root: then it runs as another.
    `standby_of`: it is a streaming standby of that server until it is promoted."""

    def __init__(
        self,
        listen: str = "127.0.0.1",
        password: str = "",
        *,
        durable: bool = False,
        standby_of: "Postgres | None" = None,
    ) -> None:
        self._bin = programs()
        assert self._bin is not None, WHY_NOT
        self.folder = Path(tempfile.mkdtemp(prefix="pg"))
        self._user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            shutil.chown(self.folder, self._user)
        self._held = reserve_port()  # also while it is stopped
        self.port: int = self._held.getsockname()[1]
        self._listen, self._password, self._durable = listen, password, durable
        atexit.register(self.remove)
        data = str(self.folder / "data")
        if standby_of is not None:
            self._run("pg_basebackup", "-R", "-N", "-c", "fast", "-D", data, "-d", standby_of.address())
            self.start()
            return
        how = ["--auth=trust"]
        if password:
            secret = self.folder / "password"
            secret.write_text(password)
            shutil.chown(secret, self._user)
            how = ["--auth=scram-sha-256", f"--pwfile={secret}"]
        self._run("initdb", "-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C", "-N", *how)
        if listen != "127.0.0.1":
            with (self.folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {listen}/24 trust\n")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        assert self._bin is not None
        subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user if os.getuid() == 0 else None, group=self._user if os.getuid() == 0 else None,
            check=True, stdout=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses={self._listen} -c max_connections=200" + (
            " -c shared_buffers=512MB -c max_wal_size=4GB" if self._durable else " -c fsync=off"
        )
        data, log = str(self.folder / "data"), str(self.folder / "log")
        self._run("pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "-t", "60", "start")

    def stop(self, how: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", how, "-w", "stop")

    def wait_for_standbys(self) -> None:
        """From now on each commit waits until a standby has it."""
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")

    def promote(self) -> None:
        with psycopg.connect(self.address(), autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)

    def hang(self) -> None:
        """Stop its processes: connections stay, nothing answers."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """To the server, which makes new processes, and then to those that it has."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(first, number)
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for pid in map(int, children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def remove(self) -> None:
        if self.folder.exists():
            if (self.folder / "data" / "postmaster.pid").exists():
                self.go_on()
                self.stop("immediate")
            shutil.rmtree(self.folder, ignore_errors=True)
        self._held.close()

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@{self._listen}:{self.port}/{database}"

    def database(self, name: str) -> str:
        """The address of an empty database."""
        with psycopg.connect(self.address(), autocommit=True, password=self._password or None) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
            if found is None:
                connection.execute(f'CREATE DATABASE "{name}"'.encode())
        with psycopg.connect(self.address(name), autocommit=True, password=self._password or None) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        return self.address(name)


def address_of_all(servers: Sequence[Postgres], database: str = "postgres") -> str:
    """One address with the hosts of several servers."""
    return f"postgresql://postgres@{','.join(f'127.0.0.1:{one.port}' for one in servers)}/{database}"


@cache
def a_server(number: int = 0) -> Postgres:
    """One for the whole run of the tests; the second, the third..."""
    return Postgres()
