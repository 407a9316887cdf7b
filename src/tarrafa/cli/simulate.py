"""Commands `tarrafa simulate`: simulations of revisit policies.

Simulations import numba, which takes a second, so that each command imports it when it runs.
"""

import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, Json
from tarrafa.runtime.data_dir import DataDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tarrafa.simulate.classic_policies import ClassicExperiment, ClassicResult, ClassicSetting
    from tarrafa.simulate.collection_forecast import CollectionForecast

app = typer.Typer()

Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="STEM", help="Also write STEM.png and STEM.svg (needs matplotlib).")
]
PLAIN_EVERY_S = 2.0


@app.command()
def classic(
    theta: Annotated[
        list[float] | None,
        typer.Option(metavar="X", help="Zipf skew of server sizes; can be repeated. Default: 0, 0.25 … 1.5."),
    ] = None,
    rates_theta: Annotated[
        list[float] | None, typer.Option(metavar="X", help="Second experiment: skew of the change rates of pages.")
    ] = None,
    weights_theta: Annotated[
        list[float] | None,
        typer.Option(metavar="X", help="Third experiment: skew of the weights of pages; 0: equal."),
    ] = None,
    budget: Annotated[int, typer.Option(help="Visits per day, in all.")] = 8_640_000,
    documents: Annotated[int, typer.Option(help="Number of pages.")] = 1_000_000,
    servers: Annotated[int, typer.Option(help="Number of servers.")] = 2_000,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Compare classic revisit policies and their bounds.

    One day is simulated. The numbers are mean staleness: the share of pages whose copy is out of date. PSP, MP2 and
    M-Wolf run with ten crawlers; InfCrawlers, WP and NonPolite are bounds.
    """
    from tarrafa.cli.output import terminal
    from tarrafa.simulate import matplotlib_plots

    if plot is not None:
        matplotlib_plots.check_can_plot(plot)
    from tarrafa.simulate.classic_policies import ClassicSetting, make_experiment, run_experiment

    what = make_experiment(theta or (), rates_theta or (), weights_theta or ())
    setting = ClassicSetting(documents, servers, budget)
    with StepProgress("simulate classic") as steps:
        rows = run_experiment(what, setting, steps.show)
    if plot is not None:
        matplotlib_plots.draw_classic(rows, plot, *TITLES[what.axis])
    if as_json:
        terminal.print_json(rows)
    else:
        _show_classic(rows, what, setting)


SHARE = "mean staleness (share of pages out of date)"
TITLES = {
    "servers": ("Staleness when pages crowd on few servers", "skew θ of server sizes (0: all the same)", SHARE),
    "rates": ("Staleness when most pages change rarely", "skew θ of the rates of change (0: evenly spread)", SHARE),
    "weights": (
        "Staleness when few pages matter most",
        "skew θ of the pages' weights (0: all the same)",
        "mean staleness (weighted share out of date)",
    ),
}
COLUMNS = ("PSP", "MP2", "M-Wolf", "InfCrawlers", "WP", "NonPolite")


def _show_classic(rows: "Sequence[ClassicResult]", what: "ClassicExperiment", setting: "ClassicSetting") -> None:
    from rich.table import Table

    from tarrafa.cli.output.terminal import console
    from tarrafa.simulate.classic_policies import m_wolf_excess

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name in ("theta", *COLUMNS):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        values = (row.psp, row.mp2, row.m_wolf, row.inf_crawlers, row.wp, row.non_polite)
        table.add_row(f"{row.theta:g}", *(f"{value:.5f}" for value in values))
    console.print(table)
    console.print(
        f"\nMean staleness; theta: {TITLES[what.axis][1].replace(' θ', '')}.\n"
        f"{setting.documents:,} pages on {setting.servers:,} servers, {setting.budget:,} visits in all; "
        f"rates of change are per hour; {setting.horizon_s / 3600:g} h, {setting.crawlers} crawlers, "
        f"{setting.download_s:g} s a download, {setting.politeness_s:g} s between visits of a server."
    )
    mean = m_wolf_excess(rows)
    for value, span in ((mean.whole, "0 to 1.5"), (mean.inner, "0.25 to 1.25")):
        if what.axis == "servers" and value is not None:
            console.print(f"Staleness of M-Wolf against PSP: {value:+.1%}, mean over theta {span}.")


class StepProgress:
    """Progress of a simulation on stderr: a bar in a terminal, lines elsewhere. Use it in a `with`."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        from tarrafa.clock import boottime

        console = Console(stderr=True)
        columns = (TextColumn("[bold cyan]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Bar(*columns, TimeRemainingColumn(), console=console, transient=True)
        self._bar.disable = not console.is_terminal
        self._task = self._bar.add_task(name, total=None)
        self._name, self._now_s = name, boottime
        self._began_s = self._shown_s = boottime()

    def __enter__(self) -> "StepProgress":
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def show(self, done: int, total: int) -> None:
        from tarrafa.i18n import ENGLISH

        self._bar.update(self._task, completed=done, total=total)
        now_s = self._now_s()
        if self._bar.disable and now_s - self._shown_s >= PLAIN_EVERY_S and done < total:
            self._shown_s = now_s
            left_s = (now_s - self._began_s) / done * (total - done)
            sys.stderr.write(f"{self._name}: step {done} of {total}, about {ENGLISH.span(left_s)} left\n")
            sys.stderr.flush()


Policies = Literal["index", "psp", "mp2", "m-wolf", "uniform", "proportional", "rateupdate"]


def _table(headings: "Sequence[str]", lines: "Iterable[Sequence[str]]") -> None:
    from rich.table import Table

    from tarrafa.cli.output.terminal import console

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for number, name in enumerate(headings):
        table.add_column(name, justify="right" if number else "left")
    for line in lines:
        table.add_row(*line)
    console.print(table)


def _require(plot: Path | None) -> None:
    """Refuse a plot that cannot be drawn before the simulation, not after it."""
    if plot is not None:
        from tarrafa.simulate import matplotlib_plots

        matplotlib_plots.check_can_plot(plot)


@app.callback(invoke_without_command=True)
def simulate(
    context: typer.Context,
    collection: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Simulate this collection, with the change rates learned of its pages."),
    ] = None,
    policy: Annotated[Policies | None, typer.Option(help="Policy. Default: the collection's.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Revisits per day. Default: the collection's.")] = None,
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Simulate revisit policies.

    With --collection NAME: how fresh will the collection be, which policy is best, what would more revisits give? The
    commands below simulate a scenario file, or models of the Web.
    """
    if context.invoked_subcommand is not None:
        return
    if collection is None:
        typer.echo(context.get_help())
        raise typer.Exit
    import asyncio

    from tarrafa.cli.output import terminal
    from tarrafa.clock import Clock
    from tarrafa.simulate.collection_forecast import forecast, read_collection_pages

    _require(plot)
    described, pages = asyncio.run(read_collection_pages(DataDirectory(data), collection))
    with StepProgress("simulate") as steps:
        found = forecast(described, pages, Clock.from_environment().now(), policy, rate, steps.show)
    if plot is not None:
        _draw_what_if(found, plot)
    if as_json:
        terminal.print_json(found)
    else:
        _show_what_if(found)


def _show_what_if(found: "CollectionForecast") -> None:
    from tarrafa.cli.output.terminal import console

    chosen = next(one for one in found.policies if one.policy == found.policy)
    best = found.policies[0]
    sample = f", {found.sampled:,} of them simulated" if found.sampled < found.pages else ""
    console.print(
        f"{found.collection}: {found.pages:,} pages on {found.hosts:,} hosts{sample}; "
        f"they change {found.changes_per_day:,.1f} times a day in all, and {found.fresh_now:.1%} are fresh now.\n"
        f"Politeness allows {found.polite_per_day:,.0f} revisits a day.\n"
    )
    _table(
        ("policy", f"fresh at {found.visits_per_day:,.0f} a day", "with twice as many"),
        ((one.policy, f"{one.freshness:.1%}", f"{one.twice:.1%}") for one in found.policies),
    )
    console.print(f"\nWith {found.policy}: {chosen.freshness:.1%} fresh in the long run.", end=" ")
    console.print(
        "It is the best." if found.policy == best.policy else f"{best.policy} would be best: {best.freshness:.1%}."
    )
    if 2 * found.visits_per_day > found.polite_per_day * 1.001:
        console.print("Twice the revisits would be more than politeness allows.")
    else:
        console.print(f"Twice the revisits would make it {chosen.twice:.1%}.")


def _draw_what_if(found: "CollectionForecast", plot: Path) -> None:
    from tarrafa.simulate import matplotlib_plots

    budgets = [one.visits_per_day for one in found.curve]
    matplotlib_plots.draw_lines(
        plot,
        [
            matplotlib_plots.Series("index", budgets, [one.index for one in found.curve]),
            matplotlib_plots.Series("uniform", budgets, [one.uniform for one in found.curve]),
        ],
        f"What more revisits would buy: {found.collection}",
        "revisits a day",
        "fresh pages in the long run",
        percent=True,
    )


@app.command("scenario")
def run_scenario(
    file: Annotated[Path, typer.Argument(help="Scenario file (TOML): crawlers, servers, documents.")],
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Simulate a scenario file under each of its policies."""
    _require(plot)
    from tarrafa.cli.output import terminal
    from tarrafa.simulate import policy_comparison, scenario

    described = scenario.read_scenario(file)
    with StepProgress("simulate scenario") as steps:
        report = policy_comparison.run_scenario(described, steps.show)
    if plot is not None:
        from tarrafa.simulate import matplotlib_plots

        matplotlib_plots.draw_lines(
            plot,
            [
                matplotlib_plots.Series(
                    one.policy,
                    [interval.until_s / 86_400 for interval in one.intervals],
                    [interval.freshness for interval in one.intervals],
                    markers=False,
                )
                for one in report.runs
            ],
            f"Freshness over time: {file.stem}",
            "days",
            "fresh documents, by importance",
            percent=True,
        )
    if as_json:
        terminal.print_json(report)
    else:
        _table(policy_comparison.HEADINGS, policy_comparison.report_rows(report))


@app.command("steady-state")
def steady_state(
    pages: Annotated[int, typer.Option(min=1, help="Number of pages.")] = 5_760,
    slots_per_day: Annotated[int, typer.Option(min=1, help="Polite visits per day and server.")] = 5_760,
    rates: Annotated[
        Literal["hour", "day"], typer.Option(help="Pages change 0.01 to 1 times per hour or day.")
    ] = "hour",
    servers: Annotated[int, typer.Option(min=1, help="Number of servers.")] = 1,
    days: Annotated[int, typer.Option(min=2, help="Simulated days; the second half is measured.")] = 40,
    budget: Annotated[
        float | None, typer.Option(help="Visits per day, in all. Default: what politeness allows.")
    ] = None,
    theta: Annotated[float, typer.Option(help="Zipf skew of server sizes.")] = 0.0,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Compare policies with the best possible one, in the long run."""
    _require(plot)
    from tarrafa.cli.output import terminal
    from tarrafa.simulate.steady_state import compare_steady as simulate_steady

    with StepProgress("simulate steady-state") as steps:
        found = simulate_steady(pages, slots_per_day, rates, servers, days, budget, theta, steps.show)
    if plot is not None:
        from tarrafa.simulate import matplotlib_plots

        names, values = list(found.policies), list(found.policies.values())
        matplotlib_plots.draw_bars(
            plot, names, values, "Staleness in the long run", "mean staleness", bound=("bound", found.bound)
        )
    if as_json:
        terminal.print_json(found)
        return
    _table(
        ("policy", "staleness", "above the bound", "visits a day"),
        (
            (name, f"{value:.5f}", f"{found.excess[name]:.2f} %", f"{found.visits_per_day[name]:,.0f}")
            for name, value in found.policies.items()
        ),
    )
    terminal.console.print(
        f"\nNo policy can be better than {found.bound:.5f}. Violations of politeness: {found.violations}."
    )


@app.command()
def learning(
    pages: Annotated[int, typer.Option(min=1, help="Number of pages; each changes 0.01 to 1 times per hour.")] = 20_000,
    visits_per_day: Annotated[float, typer.Option(min=0.01, help="Mean visits per day and page.")] = 8.64,
    last_modified: Annotated[
        bool, typer.Option("--last-modified", help="A visit also gives the time of the last change.")
    ] = False,
    days: Annotated[float | None, typer.Option(help="Simulated days. Default: 30 visits per page.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs to average.")] = 3,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Measure the cost of learning change rates.

    The cost is the staleness above that with known rates, by mean visits per page.
    """
    _require(plot)
    from tarrafa.cli.output import terminal
    from tarrafa.simulate.learning_cost import measure_learning_cost

    with StepProgress("simulate learning") as steps:
        found = measure_learning_cost(
            pages, visits_per_day, last_modified, days or 30 / visits_per_day, seeds, progress=steps.show
        )
    if plot is not None:
        from tarrafa.simulate import matplotlib_plots

        matplotlib_plots.draw_lines(
            plot,
            [
                matplotlib_plots.Series(
                    "learned", [n for n, _ in found.curve], [excess / 100 for _, excess in found.curve]
                )
            ],
            "What learning costs",
            "mean visits to a page",
            "staleness above that of known rates",
            percent=True,
        )
    if as_json:
        terminal.print_json(found)
        return
    shown = [one for one in found.curve if one[0] in (1, 2, 3, 5, 9, 15, 22, 26)]
    _table(("after mean visits", "excess"), ((str(visits), f"{excess:.2f} %") for visits, excess in shown))
    terminal.console.print(f"\nStaleness with known rates: {found.known:.5f}.")


@app.command()
def periodic(
    period: Annotated[float, typer.Option(min=0.01, help="Days from one burst to the next.")] = 30.0,
    burst: Annotated[float, typer.Option(min=0.001, help="Days per burst.")] = 7.0,
    interval: Annotated[float, typer.Option(min=0.001, help="Mean days between two changes of a page.")] = 30.0,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Compare crawling in bursts with crawling all the time.

    Both crawlers make the same number of visits.
    """
    _require(plot)
    import numpy as np

    from tarrafa.cli.output import terminal
    from tarrafa.revisit.change_rate import DAY_S
    from tarrafa.simulate.periodic_crawl import draw_curves
    from tarrafa.simulate.periodic_crawl import periodic_freshness as simulate_periodic

    rates = np.linspace(0.02, 1.98, 99) / (interval * DAY_S)  # some pages change more, some less
    curves = simulate_periodic(rates, period * DAY_S, burst * DAY_S)
    if plot is not None:
        draw_curves(curves, plot)
    means = {
        "in place": curves.mean(curves.in_place),
        "shadow": curves.mean(curves.shadow),
        "steady": curves.steady,
        "best": curves.best,
    }
    if as_json:
        terminal.print_json({"mean_freshness": means, "days": (curves.times_s / DAY_S).tolist(),
                      "in_place": curves.in_place.tolist(), "shadow": curves.shadow.tolist()})  # fmt: skip
    else:
        _table(("crawler", "mean freshness"), ((name, f"{value:.4f}") for name, value in means.items()))


@app.command()
def mixture(
    learn: Annotated[bool, typer.Option("--learn", help="Learn the change rates instead of knowing them.")] = False,
    as_json: Json = False,
) -> None:
    """Compare all policies under four models of change.

    Changes are Poisson, Pareto, regular, or a 60/30/10 mixture of the three.
    """
    from tarrafa.cli.output import terminal
    from tarrafa.simulate.process_comparison import compare_processes, comparison_table

    with StepProgress("simulate mixture") as steps:
        cells = compare_processes(learn=learn, progress=steps.show)
    if as_json:
        terminal.print_json(cells)
    else:
        terminal.console.print(comparison_table(cells), markup=False)
