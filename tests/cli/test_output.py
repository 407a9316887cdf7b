"""Output of the commands: tables are never cut, and one of a thing is not several."""

import io
import re

from rich.table import Table

from tarrafa.cli import output
from tarrafa.cli.output import CleanConsole, new_table, print_table
from tarrafa.runtime.terminal import counted

NUMBERS = [f"{number}.12345" for number in range(20)]


def a_table() -> Table:
    table = new_table(*(f"column{number}" for number in range(20)), padding=(0, 1))
    table.add_row(*NUMBERS)
    return table


def test_a_program_gets_each_row_of_a_table_in_one_line(capsys):
    print_table(a_table())
    assert capsys.readouterr().out.splitlines()[1].split() == NUMBERS


def test_a_table_is_folded_in_a_narrow_terminal_and_not_cut(monkeypatch):
    printed = io.StringIO()
    shown = CleanConsole(file=printed, force_terminal=True, width=80, color_system=None, soft_wrap=True)
    monkeypatch.setattr(output, "console", shown)
    print_table(a_table())
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue())
    assert "…" not in text
    assert len(re.sub(r"\s", "", text)) == sum(len(f"column{n}{number}") for n, number in enumerate(NUMBERS))


def test_one_is_not_several():
    assert [counted(count, "page") for count in (0, 1, 1200)] == ["0 pages", "1 page", "1,200 pages"]
    assert [counted(count, "entity", "entities") for count in (1, 2)] == ["1 entity", "2 entities"]
