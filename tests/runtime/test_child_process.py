"""A child process gets its arguments, ends with its parent, stops on SIGTERM, and exits with a status that says why."""

import os
import subprocess
from pathlib import Path

import pytest

from tarrafa.runtime.child_process import EXIT_ERROR, EXIT_RETRY, EXIT_UNAVAILABLE, child_command
from tarrafa.runtime.data_dir import DataDirectory

CHILD = """
import asyncio, signal, sys, threading, time
from tarrafa.errors import AccessRefused, DataError, FrontierError, Unreachable
from tarrafa.runtime.child_process import on_sigterm, run_child
from tarrafa.runtime.data_dir import DataDirectory

ERRORS = {"data": DataError, "frontier": FrontierError, "unreachable": Unreachable, "refused": AccessRefused}

async def wait_in_loop():
    stop = asyncio.Event()
    on_sigterm(stop.set)
    print("ready", flush=True)
    await stop.wait()

def main(data: DataDirectory, does: str, count: int = 3) -> None:
    if does in ERRORS:
        raise ERRORS[does]("why it ended")
    if does == "wait in a loop":
        asyncio.run(wait_in_loop())
    elif does == "wait in a thread":
        stop = threading.Event()
        on_sigterm(stop.set)
        print("ready", flush=True)
        stop.wait()
    print(repr((data, does, count)))

if __name__ == "__main__":
    run_child(main)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a_child.py").write_text(CHILD)
    return tmp_path


def start(folder: Path, command: list[str]) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run(folder: Path, **arguments: object) -> tuple[int, str, str]:
    process = start(folder, child_command("a_child", data=DataDirectory(folder), **arguments))
    out, errors = process.communicate(timeout=60)
    return process.returncode, out.strip(), errors.strip()


def test_arguments_arrive_with_their_types(folder):
    data = DataDirectory(folder)
    assert run(folder, does="--odd value", count=12) == (0, repr((data, "--odd value", 12)), "")
    assert run(folder, does="") == (0, repr((data, "", 3)), "")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        ("data", EXIT_ERROR, "error: why it ended"),
        ("refused", EXIT_ERROR, "error: why it ended"),
        ("frontier", EXIT_RETRY, "why it ended"),
        ("unreachable", EXIT_UNAVAILABLE, "why it ended"),
    ],
)
def test_an_error_becomes_one_line_and_an_exit_status(folder, error, status, line):
    assert run(folder, does=error) == (status, "", line)


@pytest.mark.parametrize("does", ["wait in a loop", "wait in a thread"])
def test_sigterm_lets_a_child_finish(folder, does):
    process = start(folder, child_command("a_child", data=DataDirectory(folder), does=does))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.strip()) == (0, repr((DataDirectory(folder), does, 3)))


def test_a_child_whose_parent_is_gone_does_not_begin(folder):
    command = child_command("a_child", data=DataDirectory(folder), does="x")
    process = start(folder, [*command[:-1], "1"])
    assert (process.wait(60), process.communicate()[0]) == (EXIT_RETRY, "")
