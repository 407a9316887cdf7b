"""`tarrafa simulate classic` from the outside."""

import inspect
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tarrafa.cli import simulate
from tarrafa.cli.app import app
from tarrafa.errors import ConfigError
from tarrafa.simulate.classic_policies import ClassicSetting

FEW = ["--documents", "500", "--servers", "10", "--budget", "4000"]
FIELDS = ["theta", "psp", "mp2", "m_wolf", "inf_crawlers", "wp", "non_polite"]


def classic(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["simulate", "classic", *FEW, *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "thetas"),
    [
        ((), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5]),
        (("--theta", "0", "--theta", "1"), [0.0, 1.0]),
        (("--rates-theta", "0.5"), [0.5]),
        (("--theta", "1", "--rates-theta", "0.5", "--rates-theta", "2"), [0.5, 2.0]),
        (("--weights-theta", "0", "--weights-theta", "1"), [0.0, 1.0]),
    ],
)
def test_json_is_a_list_of_rows_in_the_order_asked_for(arguments, thetas):
    rows = json.loads(classic("--json", *arguments))
    assert [row["theta"] for row in rows] == thetas
    assert all(list(row) == FIELDS for row in rows)
    assert all(0.0 < row[name] < 1.0 for row in rows for name in FIELDS[1:])


def test_the_table_says_what_is_assumed_and_what_comes_out():
    told = classic()
    assert "PSP" in told
    assert "500 pages on 10 servers, 4,000 visits in all; rates of change are per hour" in told
    assert "Staleness of M-Wolf against PSP: -3.7%, mean over theta 0 to 1.5" in told
    assert "mean over theta 0.25 to 1.25" in told
    assert "against PSP" not in classic("--theta", "0")


def test_a_plot_is_written_beside_the_table(tmp_path):
    pytest.importorskip("matplotlib")
    classic("--theta", "0", "--theta", "1", "--plot", str(tmp_path / "figure"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.png", "figure.svg"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--theta", "-1"], "--theta must be"),
        (["--budget", "0"], "budget must be"),
        (["--plot", "/nowhere/at/all/x"], "no directory"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(arguments, told):
    with pytest.raises(ConfigError, match=told):
        CliRunner().invoke(app, ["simulate", "classic", *arguments], catch_exceptions=False)


def test_the_defaults_of_the_command_are_those_of_the_library():
    defaults = {name: one.default for name, one in inspect.signature(simulate.classic).parameters.items()}
    assert (defaults["documents"], defaults["servers"], defaults["budget"]) == (
        ClassicSetting().documents,
        ClassicSetting().servers,
        ClassicSetting().budget,
    )


def test_the_command_line_starts_without_numba_and_matplotlib():
    code = "import sys, tarrafa.cli.app; print(*({'numba', 'numpy', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
