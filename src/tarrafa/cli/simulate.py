"""Commands `tarrafa simulate`: simulations of revisit policies."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, Json
from tarrafa.cli.output import StepProgress, console, new_table, print_json, print_result, print_table
from tarrafa.clock import Clock
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import counted
from tarrafa.simulate import policy_comparison
from tarrafa.simulate.classic_policies import (
    ClassicExperiment,
    ClassicResult,
    ClassicSetting,
    draw_classic,
    m_wolf_excess,
    make_experiment,
    run_experiment,
)
from tarrafa.simulate.collection_forecast import CollectionForecast, FreshnessRange, forecast, read_collection_pages
from tarrafa.simulate.learning_cost import WebName, measure_learning_cost
from tarrafa.simulate.matplotlib_plots import Series, check_can_plot, draw_bars, draw_lines
from tarrafa.simulate.periodic_crawl import draw_curves, periodic_freshness
from tarrafa.simulate.policy_comparison import compare_processes, comparison_table
from tarrafa.simulate.scenario import read_scenario
from tarrafa.simulate.steady_state import compare_steady

app = typer.Typer()

Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="STEM", help="Also write STEM.png and STEM.svg (needs matplotlib).")
]


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
        list[float] | None, typer.Option(metavar="X", help="Third experiment: skew of the weights of pages; 0: equal.")
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
    _check_plot(plot)
    what = make_experiment(theta or (), rates_theta or (), weights_theta or ())
    setting = ClassicSetting(documents, servers, budget)
    with StepProgress("simulate classic") as steps:
        rows = run_experiment(what, setting, steps.show)
    if plot is not None:
        draw_classic(rows, plot, *TITLES[what.axis])
    print_result(rows, as_json, lambda rows: _show_classic(rows, what, setting))


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


def _show_classic(rows: Sequence[ClassicResult], what: ClassicExperiment, setting: ClassicSetting) -> None:
    table = new_table("theta", *COLUMNS, padding=(0, 1))
    for row in rows:
        values = (row.psp, row.mp2, row.m_wolf, row.inf_crawlers, row.wp, row.non_polite)
        table.add_row(f"{row.theta:g}", *(f"{value:.5f}" for value in values))
    print_table(table)
    console.print(
        f"\nMean staleness; theta: {TITLES[what.axis][1].replace(' θ', '')}.\n"
        f"{counted(setting.documents, 'page')} on {counted(setting.servers, 'server')}, "
        f"{counted(setting.budget, 'visit')} in all; "
        f"rates of change are per hour; {setting.horizon_s / 3600:g} h, {counted(setting.crawlers, 'crawler')}, "
        f"{setting.download_s:g} s a download, {setting.politeness_s:g} s between visits of a server."
    )
    mean = m_wolf_excess(rows)
    for value, span in ((mean.whole, "0 to 1.5"), (mean.inner, "0.25 to 1.25")):
        if what.axis == "servers" and value is not None:
            console.print(f"Staleness of M-Wolf against PSP: {value:+.1%}, mean over theta {span}.")


Policies = Literal["index", "psp", "mp2", "m-wolf", "uniform", "proportional", "rateupdate"]


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    table = new_table(*headings, left=(headings[0],), padding=(0, 2))
    for line in lines:
        table.add_row(*line)
    print_table(table)


def _check_plot(plot: Path | None) -> None:
    """Refuse a plot that cannot be drawn before the simulation, not after it."""
    if plot is not None:
        check_can_plot(plot)


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
    _check_plot(plot)
    described, pages = read_collection_pages(DataDirectory(data), collection)
    with StepProgress("simulate") as steps:
        found = forecast(described, pages, Clock.from_environment().now(), policy, rate, steps.show)
    if plot is not None:
        _draw_what_if(found, plot)
    print_result(found, as_json, _show_what_if)


def _range(one: FreshnessRange) -> str:
    return f"{one.likely:.1%} (probably {one.low:.1%} to {one.high:.1%})"


def _show_what_if(found: CollectionForecast) -> None:
    chosen = next(one for one in found.policies if one.policy == found.policy)
    best = found.policies[0]
    sample = f", {found.sampled:,} of them simulated" if found.sampled < found.pages else ""
    console.print(
        f"{found.collection}: {counted(found.pages, 'page')} on {counted(found.hosts, 'host')}{sample}; "
        f"they change {found.changes_per_day:,.1f} times a day in all, and {_range(found.fresh_now)} are fresh now.\n"
        f"Politeness allows {found.polite_per_day:,.0f} revisits a day.\n"
    )
    _table(
        ("policy", f"fresh at {found.visits_per_day:,.0f} a day", "with twice as many"),
        ((one.policy, f"{one.freshness:.1%}", f"{one.twice:.1%}") for one in found.policies),
    )
    console.print(
        f"\nIn the long run the index policy keeps {_range(found.long_run)} fresh, for all rates that may be true."
    )
    console.print(f"With {found.policy}: {chosen.freshness:.1%} fresh in the long run.", end=" ")
    console.print(
        "It is the best." if found.policy == best.policy else f"{best.policy} would be best: {best.freshness:.1%}."
    )
    if 2 * found.visits_per_day > found.polite_per_day * 1.001:
        console.print("Twice the revisits would be more than politeness allows.")
    else:
        console.print(f"Twice the revisits would make it {chosen.twice:.1%}.")


def _draw_what_if(found: CollectionForecast, plot: Path) -> None:
    budgets = [one.visits_per_day for one in found.curve]
    draw_lines(
        plot,
        [
            Series("index", budgets, [one.index for one in found.curve]),
            Series("uniform", budgets, [one.uniform for one in found.curve]),
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
    _check_plot(plot)
    described = read_scenario(file)
    with StepProgress("simulate scenario") as steps:
        report = policy_comparison.run_scenario(described, steps.show)
    if plot is not None:
        draw_lines(
            plot,
            [
                Series(
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
        print_json(report)
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
    _check_plot(plot)
    with StepProgress("simulate steady-state") as steps:
        found = compare_steady(pages, slots_per_day, rates, servers, days, budget, theta, steps.show)
    if plot is not None:
        names, values = list(found.policies), list(found.policies.values())
        draw_bars(plot, names, values, "Staleness in the long run", "mean staleness", bound=("bound", found.bound))
    if as_json:
        print_json(found)
        return
    _table(
        ("policy", "staleness", "above the bound", "visits a day"),
        (
            (name, f"{value:.5f}", f"{found.excess[name]:.2f} %", f"{found.visits_per_day[name]:,.0f}")
            for name, value in found.policies.items()
        ),
    )
    console.print(f"\nNo policy can be better than {found.bound:.5f}. Violations of politeness: {found.violations}.")


@app.command()
def learning(
    pages: Annotated[int, typer.Option(min=1, help="Number of pages.")] = 20_000,
    rates: Annotated[
        WebName,
        typer.Option(help="uniform: 0.01 to 1 change per hour. log-uniform: one a minute to one in three years."),
    ] = "uniform",
    visits_per_day: Annotated[float, typer.Option(min=0.01, help="Mean visits per day and page.")] = 8.64,
    last_modified: Annotated[
        bool, typer.Option("--last-modified", help="A visit also gives the time of the last change.")
    ] = False,
    days: Annotated[float | None, typer.Option(help="Simulated days. Default: 35 visits per page.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs to average.")] = 3,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Measure the cost of learning change rates.

    The cost is the staleness above that with known rates, by mean visits per page.
    """
    _check_plot(plot)
    with StepProgress("simulate learning") as steps:
        found = measure_learning_cost(
            pages,
            visits_per_day,
            last_modified,
            days or 35 / visits_per_day,
            seeds,
            progress=steps.show,
            web=rates,
        )
    if plot is not None:
        draw_lines(
            plot,
            [Series("learned", [n for n, _ in found.curve], [excess / 100 for _, excess in found.curve])],
            "What learning costs",
            "mean visits to a page",
            "staleness above that of known rates",
            percent=True,
        )
    if as_json:
        print_json(found)
        return
    shown = [one for one in found.curve if one[0] in (1, 2, 3, 5, 9, 10, 15, 22, 26, 30)]
    _table(("after mean visits", "excess"), ((str(visits), f"{excess:.2f} %") for visits, excess in shown))
    console.print(f"\nStaleness with known rates: {found.known:.5f}.")


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
    _check_plot(plot)
    rates = np.linspace(0.02, 1.98, 99) / (interval * DAY_S)  # some pages change more, some less
    curves = periodic_freshness(rates, period * DAY_S, burst * DAY_S)
    if plot is not None:
        draw_curves(curves, plot)
    means = {
        "in place": curves.mean(curves.in_place),
        "shadow": curves.mean(curves.shadow),
        "steady": curves.steady,
        "best": curves.best,
    }
    if as_json:
        print_json({"mean_freshness": means, "days": (curves.times_s / DAY_S).tolist(),
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
    with StepProgress("simulate mixture") as steps:
        cells = compare_processes(learn=learn, progress=steps.show)
    if as_json:
        print_json(cells)
    else:
        console.print(comparison_table(cells), markup=False)
