"""Taking what pages state out of a data directory, in front of a person."""

import sys
from contextlib import ExitStack
from pathlib import Path

from tarrafa.cli.checkpoint import STDOUT, Advance
from tarrafa.data import DataDirectory, replacing
from tarrafa.errors import ConfigError
from tarrafa.triples.exporting import Statements, check_name, packed, write
from tarrafa.triples.state import state_of


def take_out_statements(data: DataDirectory, file: Path, collection: str | None, *, force: bool) -> str:
    """Export; what to say of it."""
    data.check_version()
    if file != STDOUT:
        check_name(file)
        if file.exists() and not force:
            raise ConfigError(f"{file}: exists already; nothing was changed (--force replaces it)")
    state = state_of(data)
    with Statements(data, collection) as statements, ExitStack() as stack:
        tell = stack.enter_context(Advance("exporting", state.pages if state is not None else 0))
        output = sys.stdout.buffer if file == STDOUT else stack.enter_context(replacing(file))
        found = write(statements, stack.enter_context(packed(output, file.name)), tell)
    return f"{file}: {found.statements:,} statements of {found.pages:,} pages"
