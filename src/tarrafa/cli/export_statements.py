"""Exports the statements of the triple store as N-Quads."""

import sys
from contextlib import ExitStack
from pathlib import Path

from tarrafa.cli.maintenance import STDOUT, ProgressBar
from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory, replace_atomically
from tarrafa.triples.nquads_export import StatementExport, check_file_name, compressed, write_nquads
from tarrafa.triples.status import triples_status


def export_statements(data: DataDirectory, file: Path, collection: str | None, *, force: bool) -> str:
    """Export; what to say of it."""
    data.check_version()
    if file != STDOUT:
        check_file_name(file)
        if file.exists() and not force:
            raise ConfigError(f"{file}: exists already; nothing was changed (--force replaces it)")
    state = triples_status(data)
    with StatementExport(data, collection) as statements, ExitStack() as stack:
        tell = stack.enter_context(ProgressBar("exporting", state.pages if state is not None else 0))
        output = sys.stdout.buffer if file == STDOUT else stack.enter_context(replace_atomically(file))
        found = write_nquads(statements, stack.enter_context(compressed(output, file.name)), tell)
    return f"{file}: {found.statements:,} statements of {found.pages:,} pages"
