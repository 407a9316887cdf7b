"""A node is killed at any moment, all of its processes at once: what it has acknowledged stands when it is back."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

LIVES, STEPS = 8, 25
SEED = 8


class Killable:
    """`tarrafa node`, in a process group of its own."""

    def __init__(self, data: Path) -> None:
        line = [sys.executable, "-c", "from tarrafa.cli import main; main()", "node", "--data", str(data)]
        line += ["--port", "0", "--workers", "0"]
        self.process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stderr is not None
        said = []
        for text in self.process.stderr:
            said.append(text)
            if found := re.search(r"search page: (\S+)/", text):
                self.address = found[1]
                break
        else:
            raise AssertionError("".join(said))
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/api/v1{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


def a_table(name: str, depth: int) -> dict[str, Any]:
    return {"name": name, "roots": [f"http://{name}.test/"], "scope": {"depth_max": depth}}


@pytest.mark.long
def test_what_a_node_has_acknowledged_survives_it(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    known: dict[str, tuple[str, int, int]] = {}  # name -> state, depth_max, versions: as acknowledged
    done = 0
    for life in range(LIVES):
        node = Killable(tmp_path / "d")
        _compare(node, known)
        ending = threading.Timer(rng.uniform(0.3, 4.0), node.kill)
        ending.start()
        try:
            for step in range(STEPS):
                _act(node, known, rng, f"c{life}-{step}")
                done += 1
        except (urllib.error.URLError, ConnectionError, TimeoutError, json.JSONDecodeError) as error:
            assert not isinstance(error, urllib.error.HTTPError) or error.code >= 500, error.read()
        ending.join()
    node = Killable(tmp_path / "d")
    _compare(node, known)
    assert done > LIVES, "otherwise it shows nothing"
    node.kill()


def _act(node: Killable, known: dict[str, tuple[str, int, int]], rng: random.Random, name: str) -> None:
    """One thing is done; while it is in doubt, nobody knows what became of it."""
    old = rng.choice(sorted(known)) if known and rng.random() < 0.6 else ""
    if not old:
        start = rng.random() < 0.5
        node.send("POST", "/collections", {"table": a_table(name, 1), "start": start})
        known[name] = ("running" if start else "ready", 1, 1)
        return
    state, depth, versions = known[old]
    del known[old]
    if rng.random() < 0.5:
        node.send("PUT", f"/collections/{old}/config", {"table": a_table(old, depth + 1)})
        known[old] = (state, depth + 1, versions + 1)
        return
    steps = {"running": ("pause", "paused"), "paused": ("resume", "running"), "ready": ("start", "running")}
    action, then = steps[state]
    node.send("POST", f"/collections/{old}/actions", {"action": action})
    known[old] = (then, depth, versions)


def _compare(node: Killable, known: dict[str, tuple[str, int, int]]) -> None:
    for name, (state, depth, versions) in known.items():
        told = node.send("GET", f"/collections/{name}")
        assert told["collection"]["state"] in (state, "finished" if state == "running" else state), name
        assert node.send("GET", f"/collections/{name}/config")["table"]["scope"]["depth_max"] == depth, name
        assert len(node.send("GET", f"/collections/{name}/versions")) == versions, name
