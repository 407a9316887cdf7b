"""`tarrafa simulate`, command by command, as somebody types it."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tarrafa.cli.app import app
from tarrafa.errors import TarrafaError
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.runtime.data_dir import DataDirectory
from tests.contract.frontier_bodies import SUFFIXES, FalseClock
from tests.contract.test_revisits import DAY_S, START, advance, kept, opened, visit_all

runner = CliRunner()
EXAMPLE = Path(__file__).parents[2] / "docs" / "simulate" / "example.toml"


def ran(*arguments: str) -> str:
    result = runner.invoke(app, ["simulate", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_steady_gives_the_bound_and_a_number_for_each_policy():
    found = json.loads(ran("steady-state", "--pages", "200", "--slots-per-day", "400", "--json"))
    assert {"index", "psp", "uniform"} <= set(found["policies"])
    assert found["bound"] <= min(found["policies"].values())
    assert found["violations"] == 0


def test_learned_shows_what_learning_costs_and_draws_it(tmp_path):
    shown = ran("learning", "--pages", "300", "--days", "2", "--seeds", "1", "--plot", str(tmp_path / "learned"))
    assert "Staleness with known rates" in shown
    assert (tmp_path / "learned.png").stat().st_size > 1000
    assert (tmp_path / "learned.svg").read_text().startswith("<?xml")


def test_bursts_are_worse_than_never_resting():
    means = json.loads(ran("periodic", "--json"))["mean_freshness"]
    assert means["shadow"] < means["steady"] <= means["best"]


def test_a_scenario_is_run_under_each_of_its_policies(tmp_path):
    text = EXAMPLE.read_text().replace("days = 30", "days = 12")
    (tmp_path / "short.toml").write_text(text)
    report = json.loads(ran("scenario", str(tmp_path / "short.toml"), "--json"))
    assert [run["policy"] for run in report["runs"]]
    assert all(run["violations"] == 0 for run in report["runs"])


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """A collection whose pages were seen for a week: some change every day, some never."""
    FalseClock.shift[0] = 0.0
    directory = DataDirectory(tmp_path / "data")
    directory.create()

    async def week() -> None:
        frontier = SqliteFrontier(directory.frontier, FalseClock(0, 0), SUFFIXES)
        pages = [f"http://h{n % 5}.br/{n}" for n in range(60)]
        _, worker = await opened(frontier, *pages, revisit={"interval_min": "6h", "weigh": "equal"})
        for day in range(7):
            advance(DAY_S)
            await visit_all(
                frontier, worker, lambda visit, day=day: kept(str(day) if int(visit.url[13:]) % 2 else "0"), rounds=1
            )
        await frontier.close()

    asyncio.run(week())
    return directory


def test_what_if_tells_which_policy_is_best_and_what_more_visits_would_buy(data, tmp_path, monkeypatch):
    monkeypatch.setenv("TARRAFA_CLOCK", f"{START + 7 * DAY_S}:0.0:0.0")
    options = ("--collection", "c", "--data", str(data.root))
    found = json.loads(ran(*options, "--rate", "60", "--json", "--plot", str(tmp_path / "plot")))
    assert (found["pages"], found["hosts"], found["visits_per_day"]) == (60, 5, 60.0)
    assert found["best"] == "index" == found["policies"][0]["policy"]
    index = found["policies"][0]
    assert index["freshness"] < index["twice"] <= 1.0
    for told in (found["fresh_now"], found["long_run"]):
        assert 0.0 < told["low"] <= told["likely"] <= told["high"] <= 1.0
    assert found["long_run"]["low"] < found["long_run"]["high"]
    curve = found["curve"]
    assert [one["index"] for one in curve] == sorted(one["index"] for one in curve)
    assert all(one["index"] >= one["uniform"] for one in curve)
    assert (tmp_path / "plot.png").exists()
    assert "in the long run" in ran(*options, "--policy", "uniform")


def test_what_if_of_nothing_says_so_in_one_sentence(data):
    with pytest.raises(TarrafaError, match="no collection is named 'nope'"):
        runner.invoke(app, ["simulate", "--collection", "nope", "--data", str(data.root)], catch_exceptions=False)
