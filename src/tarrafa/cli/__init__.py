"""argv in, core out.

Every command calls the same functions as the library and the pages do, and differs only in how it prints. What is
wrong is said in one line on stderr, with exit status 2.
"""

import io
import os
import sys

from tarrafa.errors import TarrafaError


def main() -> None:
    """The `tarrafa` command."""
    from tarrafa.cli.commands import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no accents still gets its answer
    try:
        app()
        sys.stdout.flush()
    except TarrafaError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except BrokenPipeError:  # whoever read has seen enough
        os._exit(0)
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        os._exit(2)
