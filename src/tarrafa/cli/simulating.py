"""What would happen? The commands of `tarrafa simulate`.

tarrafa simulate --collection NAME  how fresh will it be, which policy is best, what would more visits buy?
tarrafa simulate run FILE           crawlers, servers and documents of your own
tarrafa simulate classic            the classic revisit policies and what bounds them
tarrafa simulate steady             the long run, and the bound that none can beat
tarrafa simulate learned            what it costs that rates must be learned
tarrafa simulate periodic           in bursts, or all the time?
tarrafa simulate mixture            all policies, on changes of four kinds

Simulations import numba, which takes a second: only when one runs.
"""

import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarrafa.simulate.classic import ClassicExperiment, ClassicResult, ClassicSetting

app = typer.Typer()  # cli/experiments.py adds the other commands

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="STEM", help="Draw STEM.png and STEM.svg; needs matplotlib.")
]
PLAIN_EVERY_S = 2.0


@app.command()
def classic(
    theta: Annotated[
        list[float] | None,
        typer.Option(metavar="X", help="Skew of server sizes (Zipf); may be repeated; by default 0, 0.25 … 1.5."),
    ] = None,
    rates_theta: Annotated[
        list[float] | None, typer.Option(metavar="X", help="Second experiment: skew of the pages' rates of change.")
    ] = None,
    weights_theta: Annotated[
        list[float] | None,
        typer.Option(metavar="X", help="Third experiment: skew of what pages matter; 0: all the same."),
    ] = None,
    budget: Annotated[int, typer.Option(help="Visits of the day, in all.")] = 8_640_000,
    documents: Annotated[int, typer.Option(help="Pages in all.")] = 1_000_000,
    servers: Annotated[int, typer.Option(help="Servers that they live on.")] = 2_000,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Compare the classic revisit policies with each other and with what bounds them, over one day.

    Numbers are mean staleness: the share of pages whose copy is out of date.

    PSP, MP2 and M-Wolf are walked through by ten crawlers; InfCrawlers, WP and NonPolite are bounds.
    """
    from tarrafa.cli import show
    from tarrafa.simulate import plots

    if plot is not None:
        plots.check_can_plot(plot)
    from tarrafa.simulate.classic import ClassicSetting, make_experiment, run_experiment

    what = make_experiment(theta or (), rates_theta or (), weights_theta or ())
    setting = ClassicSetting(documents, servers, budget)
    with StepProgress("simulate classic") as steps:
        rows = run_experiment(what, setting, steps.show)
    if plot is not None:
        plots.draw_classic(rows, plot, *TITLES[what.axis])
    if as_json:
        show.print_json(rows)
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

    from tarrafa.cli.show import console
    from tarrafa.simulate.classic import m_wolf_excess

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
    """How far a simulation is, on stderr: a bar in a terminal, a line now and then elsewhere. Use it in a `with`."""

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
        from tarrafa.cli.progress import format_duration

        self._bar.update(self._task, completed=done, total=total)
        now_s = self._now_s()
        if self._bar.disable and now_s - self._shown_s >= PLAIN_EVERY_S and done < total:
            self._shown_s = now_s
            left_s = (now_s - self._began_s) / done * (total - done)
            sys.stderr.write(f"{self._name}: step {done} of {total}, about {format_duration(left_s)} left\n")
            sys.stderr.flush()
