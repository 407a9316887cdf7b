"""Entry point of the `tarrafa` command: runs the app and prints errors with exit status 2.

Every command calls the same functions as the library and the pages, and differs only in how it prints. Each error is
one line on stderr, with exit status 2.
"""

import io
import os
import sys

from tarrafa.errors import ConfigError, TarrafaError
from tarrafa.runtime.terminal import print_note


def main() -> None:
    """The `tarrafa` command."""
    from tarrafa.cli.app import app

    # For this process and its children. No matrix is multiplied, but OpenBLAS starts threads when numpy is imported,
    # which spin: 45 ms of processor time in each process.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without accents still gets its output
    try:
        _refuse_secrets(sys.argv[1:])
        app()
        sys.stdout.flush()
    except TarrafaError as error:
        print_note(f"error: {error}")
        sys.exit(2)
    except BrokenPipeError:  # the reader of the pipe has closed it
        os._exit(0)
    except OSError as error:
        print_note(f"error: {error}")
        os._exit(2)


def _refuse_secrets(arguments: list[str]) -> None:
    """Refuse a token or password on the command line, and say what to do instead."""
    from tarrafa.runtime.token import TOKEN_ON_COMMAND_LINE

    if any(word == "--token" or word.startswith("--token=") for word in arguments):
        raise ConfigError(f"--token: {TOKEN_ON_COMMAND_LINE}")
    if any(word == "--password" or word.startswith("--password=") for word in arguments):
        reason = "every user of this machine can read a password on the command line"
        raise ConfigError(f"--password: {reason}: leave it out and type it when asked, or send it to standard input")
