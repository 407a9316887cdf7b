"""Child processes: the command that starts one, its arguments, its death with its parent, SIGTERM and exit status.

A process that another Tarrafa process starts (worker, follower, frontier server, planner, ranking, sandbox ...) is a
module of its own. A new one

1. has a `main` whose parameters are its arguments, and `if __name__ == "__main__": run_child(main)` at its end;
2. is started by `child_command(MODULE, name=value ...)`; secrets go through the environment, never through arguments;
3. calls `on_sigterm` if it has anything to finish before it ends;
4. sends heartbeats, if a supervisor keeps it running, which kills it without them (`heartbeat.send_heartbeats`,
   `heartbeat.send_from_thread`); what makes them must not wait for the disk;
5. is kept running by `crawl/supervisor/child_processes.py` if it must always run; by its parent if it ends by itself;
   or as a `SandboxProcess` if it answers messages, and may be killed for what they contain.

Promises: a child ends with its parent, whatever ends that, and leaves Ctrl-C in the terminal to it. An error becomes
one line on stderr, a message for its supervisor, and an exit status that says whether a restart can help.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

from tarrafa.errors import AccessRefused, FrontierError, TarrafaError, Unreachable
from tarrafa.i18n import to_text
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import print_note

PR_SET_PDEATHSIG = 1
FAILURE_VARIABLE = "TARRAFA_FAILURE"  # names the file for the message of an error that ends the child
EXIT_ERROR = 2  # a message for people was printed
EXIT_UNAVAILABLE = 69  # EX_UNAVAILABLE: the frontier does not answer: restart this process when it does
EXIT_RETRY = 75  # EX_TEMPFAIL: the supervisor should simply restart this process
GARBAGE_OBJECTS = 100_000  # new objects between two searches for cyclic garbage; with Python's 700: 3 to 8 % of the CPU


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs one of our modules. -P: nothing is imported from the current folder, which may hold a
    copy.py that is not Python's.
    """
    return [sys.executable, "-Pm", module, *arguments]


def child_command(module: str, **arguments: object) -> list[str]:
    """The command that starts a child of this process. The arguments are the parameters of the module's `main`."""
    words = []
    for name, value in (arguments | {"parent": os.getpid()}).items():
        words += [f"--{name}", str(value.root if isinstance(value, DataDirectory) else value)]
    return module_command(module, *words)


def run_child(main: Callable[..., None], death: signal.Signals = signal.SIGKILL) -> None:
    """Run the `main` of a child with the arguments that `child_command` wrote. `death`: what it gets when its parent
    dies.

    An error that cannot be handled here becomes one line on stderr and exit status 2; a child without its frontier
    ends, to be restarted.
    """
    words = iter(sys.argv[1:])
    given = {name.removeprefix("--"): value for name, value in zip(words, words, strict=True)}
    collect_garbage_rarely()
    die_with_parent(int(given.pop("parent")), death)
    types = get_type_hints(main)
    try:
        main(**{name: _parse_argument(value, types[name]) for name, value in given.items()})
    except TarrafaError as error:
        can_be_retried = isinstance(error, FrontierError) and not isinstance(error, AccessRefused)
        with contextlib.suppress(OSError):
            print_note(str(error) if can_be_retried else f"error: {error}")
            if FAILURE_VARIABLE in os.environ:
                Path(os.environ[FAILURE_VARIABLE]).write_text(to_text(error.message))
        if can_be_retried:
            sys.exit(EXIT_UNAVAILABLE if isinstance(error, Unreachable) else EXIT_RETRY)
        sys.exit(EXIT_ERROR)


def _parse_argument(value: str, kind: type) -> object:
    return DataDirectory(Path(value)) if kind is DataDirectory else kind(value)


def collect_garbage_rarely() -> None:
    gc.freeze()  # the modules stay: no search visits them
    gc.set_threshold(GARBAGE_OBJECTS)


def die_with_parent(parent_pid: int, death: signal.Signals = signal.SIGKILL) -> None:
    """End with the parent process, and leave Ctrl-C in the terminal to it."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death)
    if os.getppid() != parent_pid:  # the parent died before prctl
        os._exit(EXIT_RETRY)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def on_sigterm(stop: Callable[[], object]) -> None:
    """Call `stop` when the parent ends this process: in the running event loop, if there is one."""
    try:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    except RuntimeError:
        signal.signal(signal.SIGTERM, lambda number, frame: stop())
