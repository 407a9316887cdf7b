"""Programs of others (pywb, wacz, polars, pyspark), each kind in an environment of its own: made once, from the package
index, or the test is skipped."""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.ports import reserved_port

PACKAGES = {
    "archive-tools-1": ("pywb==2.10.0", "cdxj-indexer==1.5.0", "warcio==1.8.1", "setuptools<80"),
    "wacz-tools-1": ("wacz==0.6.0", "warcio==1.8.1", "setuptools<80"),
    "table-tools-1": ("polars==2.1.0",),
    "spark-tools-1": ("pyspark==4.3.0", "warcio==1.8.1"),
}
INSTALL_S_MAX = 240
START_S_MAX = 60.0


def archive_tools() -> Path:
    """The folder with pywb and cdxj-indexer. `TARRAFA_ARCHIVE_TOOLS` names a ready environment."""
    if given := os.environ.get("TARRAFA_ARCHIVE_TOOLS"):
        return Path(given) / "bin"
    return environment("archive-tools-1")


@cache
def environment(name: str) -> Path:
    """The folder with the programs of an environment of `PACKAGES`."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tarrafa" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the processes of pytest-xdist share it
        if not (folder / "ready").exists():
            _install(folder, PACKAGES[name])
    return folder / "bin"


def _install(folder: Path, packages: tuple[str, ...]) -> None:
    commands = [
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *packages],
    ]
    try:
        for command in commands:
            subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S_MAX)
    except (subprocess.SubprocessError, OSError) as error:
        why = getattr(error, "stderr", b"") or b""
        pytest.skip(f"{', '.join(packages)} cannot be installed here: {error} {why[-300:]!r}")
    (folder / "ready").touch()


def run_tool(tools: Path, name: str, *arguments: str, stdin: str = "") -> str:
    command = [str(tools / name), *arguments]
    return subprocess.run(command, input=stdin, check=True, capture_output=True, text=True, timeout=120).stdout


@contextlib.contextmanager
def pywb_running(folder: Path, index: Path, archive: Path) -> Iterator[str]:
    """The address of a collection that pywb serves."""
    folder.mkdir()
    config = f"collections:\n  all:\n    index_paths: {index}\n    archive_paths: {archive}/\n"
    (folder / "config.yaml").write_text(config)
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(reserved_port())
        command = [str(archive_tools() / "wayback"), "-b", "127.0.0.1", "-p", str(port), "-d", str(folder)]
        log = stack.enter_context((folder / "log").open("wb"))
        process = subprocess.Popen(command, stdout=log, stderr=log)
        stack.callback(process.wait)
        stack.callback(process.kill)
        base = f"http://127.0.0.1:{port}/all"
        _wait_for(f"{base}/cdx?url=http://a.test/", process, folder / "log")
        yield base


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + START_S_MAX
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"pywb did not start: {log.read_text()[-2000:]}")
            time.sleep(0.1)
