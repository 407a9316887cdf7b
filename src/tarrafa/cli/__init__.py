"""argv in, core out.

Every command calls the same functions as the library and the pages do, and differs only in how it prints. What is
wrong is said in one line on stderr, with exit status 2.
"""

import sys

from tarrafa.errors import TarrafaError


def main() -> None:
    """The `tarrafa` command."""
    from tarrafa.cli.commands import app

    try:
        app()
    except TarrafaError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
