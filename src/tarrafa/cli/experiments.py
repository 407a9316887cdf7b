"""The other commands of `tarrafa simulate`: what becomes of a collection, a scenario, the long run, a learner."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tarrafa.cli.simulating import Json, Plot, StepProgress, app
from tarrafa.data import DataDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tarrafa.simulate.whatif import CollectionForecast

Policies = Literal["index", "psp", "mp2", "m-wolf", "uniform", "proportional", "rateupdate"]


def _table(headings: "Sequence[str]", lines: "Iterable[Sequence[str]]") -> None:
    from rich.table import Table

    from tarrafa.cli.show import console

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for number, name in enumerate(headings):
        table.add_column(name, justify="right" if number else "left")
    for line in lines:
        table.add_row(*line)
    console.print(table)


def _require(plot: Path | None) -> None:
    """Before the work, not after it."""
    if plot is not None:
        from tarrafa.simulate import plots

        plots.check_can_plot(plot)


@app.callback(invoke_without_command=True)
def simulate(
    context: typer.Context,
    collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="What if? With the rates learned of this collection's pages.")
    ] = None,
    policy: Annotated[Policies | None, typer.Option(help="Another policy than the collection's.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Another number of revisits a day.")] = None,
    data: Annotated[Path, typer.Option("--data", envvar="TARRAFA_DATA", help="Where everything is kept.")] = Path(
        "tarrafa-data"
    ),
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Try revisit policies on a false Web, under a false clock; with --collection, on a collection's own pages."""
    if context.invoked_subcommand is not None:
        return
    if collection is None:
        typer.echo(context.get_help())
        raise typer.Exit
    import asyncio

    from tarrafa.cli import show
    from tarrafa.clock import Clock
    from tarrafa.simulate.whatif import read_collection_pages, forecast

    _require(plot)
    described, pages = asyncio.run(read_collection_pages(DataDirectory(data), collection))
    with StepProgress("simulate") as steps:
        found = forecast(described, pages, Clock.from_environment().now(), policy, rate, steps.show)
    if plot is not None:
        _draw_what_if(found, plot)
    if as_json:
        show.print_json(found)
    else:
        _show_what_if(found)


def _show_what_if(found: "CollectionForecast") -> None:
    from tarrafa.cli.show import console

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
    from tarrafa.simulate import plots

    budgets = [one.visits_per_day for one in found.curve]
    plots.draw_lines(
        plot,
        [
            plots.Series("index", budgets, [one.index for one in found.curve]),
            plots.Series("uniform", budgets, [one.uniform for one in found.curve]),
        ],
        f"What more revisits would buy: {found.collection}",
        "revisits a day",
        "fresh pages in the long run",
        percent=True,
    )


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="A scenario: crawlers, servers, documents (TOML).")],
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Run a scenario, event by event, under each of its policies."""
    _require(plot)
    from tarrafa.cli import show
    from tarrafa.simulate import comparing, scenario

    described = scenario.read_scenario(file)
    with StepProgress("simulate run") as steps:
        report = comparing.run_scenario(described, steps.show)
    if plot is not None:
        from tarrafa.simulate import plots

        plots.draw_lines(
            plot,
            [
                plots.Series(
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
        show.print_json(report)
    else:
        _table(comparing.HEADINGS, comparing.report_rows(report))


@app.command()
def steady(
    pages: Annotated[int, typer.Option(min=1, help="Pages in all.")] = 5_760,
    slots_per_day: Annotated[int, typer.Option(min=1, help="Polite visits a day that each server takes.")] = 5_760,
    rates: Annotated[Literal["hour", "day"], typer.Option(help="Pages change 0.01 to 1 times in this time.")] = "hour",
    servers: Annotated[int, typer.Option(min=1, help="Servers that the pages live on.")] = 1,
    days: Annotated[int, typer.Option(min=2, help="The second half is measured.")] = 40,
    budget: Annotated[float | None, typer.Option(help="Visits a day in all; else what politeness allows.")] = None,
    theta: Annotated[float, typer.Option(help="Skew of server sizes (Zipf).")] = 0.0,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """The long run: mean staleness of each policy, and the bound that none can beat."""
    _require(plot)
    from tarrafa.cli import show
    from tarrafa.simulate.steady import compare_steady as simulate_steady

    with StepProgress("simulate steady") as steps:
        found = simulate_steady(pages, slots_per_day, rates, servers, days, budget, theta, steps.show)
    if plot is not None:
        from tarrafa.simulate import plots

        names, values = list(found.policies), list(found.policies.values())
        plots.draw_bars(plot, names, values, "Staleness in the long run", "mean staleness", bound=("bound", found.bound))
    if as_json:
        show.print_json(found)
        return
    _table(
        ("policy", "staleness", "above the bound", "visits a day"),
        (
            (name, f"{value:.5f}", f"{found.excess[name]:.2f} %", f"{found.visits_per_day[name]:,.0f}")
            for name, value in found.policies.items()
        ),
    )
    show.console.print(f"\nNo policy can beat {found.bound:.5f}. Violations of politeness: {found.violations}.")


@app.command()
def learned(
    pages: Annotated[int, typer.Option(min=1, help="Pages, each changing 0.01 to 1 times an hour.")] = 20_000,
    visits_per_day: Annotated[float, typer.Option(min=0.01, help="Visits a day to each page, in the mean.")] = 8.64,
    last_modified: Annotated[bool, typer.Option("--last-modified", help="Visits learn when it last changed.")] = False,
    days: Annotated[float | None, typer.Option(help="How long; by default 30 visits a page.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs with other luck, averaged.")] = 3,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """What it costs that rates must be learned: staleness above that of known rates, as visits add up."""
    _require(plot)
    from tarrafa.cli import show
    from tarrafa.simulate.learned import measure_learning_cost

    with StepProgress("simulate learned") as steps:
        found = measure_learning_cost(pages, visits_per_day, last_modified, days or 30 / visits_per_day, seeds, progress=steps.show)
    if plot is not None:
        from tarrafa.simulate import plots

        plots.draw_lines(
            plot,
            [plots.Series("learned", [n for n, _ in found.curve], [excess / 100 for _, excess in found.curve])],
            "What learning costs",
            "mean visits to a page",
            "staleness above that of known rates",
            percent=True,
        )
    if as_json:
        show.print_json(found)
        return
    shown = [one for one in found.curve if one[0] in (1, 2, 3, 5, 9, 15, 22, 26)]
    _table(("after mean visits", "excess"), ((str(visits), f"{excess:.2f} %") for visits, excess in shown))
    show.console.print(f"\nStaleness with known rates: {found.known:.5f}.")


@app.command()
def periodic(
    period: Annotated[float, typer.Option(min=0.01, help="Days from one burst to the next.")] = 30.0,
    burst: Annotated[float, typer.Option(min=0.001, help="Days that a burst takes.")] = 7.0,
    interval: Annotated[float, typer.Option(min=0.001, help="Mean days between two changes of a page.")] = 30.0,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """A crawler that visits everything in bursts against one that never rests, with the same number of visits."""
    _require(plot)
    import numpy as np

    from tarrafa.cli import show
    from tarrafa.revisit.estimate import DAY_S
    from tarrafa.simulate.periodic import draw_curves
    from tarrafa.simulate.periodic import periodic_freshness as simulate_periodic

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
        show.print_json({"mean_freshness": means, "days": (curves.times_s / DAY_S).tolist(),
                      "in_place": curves.in_place.tolist(), "shadow": curves.shadow.tolist()})  # fmt: skip
    else:
        _table(("crawler", "mean freshness"), ((name, f"{value:.4f}") for name, value in means.items()))


@app.command()
def mixture(
    learn: Annotated[bool, typer.Option("--learn", help="Rates are learned, not known.")] = False,
    as_json: Json = False,
) -> None:
    """All policies on the same documents, whose changes are Poisson, Pareto, regular, or 60/30/10 of the three."""
    from tarrafa.cli import show
    from tarrafa.simulate.mixture import compare_processes, comparison_table

    with StepProgress("simulate mixture") as steps:
        cells = compare_processes(learn=learn, progress=steps.show)
    if as_json:
        show.print_json(cells)
    else:
        show.console.print(comparison_table(cells), markup=False)
