"""Draws line and bar plots with matplotlib as PNG and SVG.

Promises: one call draws a figure and writes it as PNG and as SVG; the same numbers give the same bytes, with the same
matplotlib. Colours are Okabe and Ito's, which colour-blind readers can tell apart; bounds that no policy can reach are
dashed.
Knows nothing of how the numbers were computed.

matplotlib is the only optional library here, and slow to import: it is imported only when something is drawn.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tarrafa.errors import ConfigError, data_error_from_os

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
SIZE_INCHES = (7.2, 4.5)
LABEL_POINTS = 9.5
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 10,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": "#555555",
    "grid.color": "#E3E3E3",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "svg.hashsalt": "tarrafa",
    "svg.fonttype": "path",
}


@dataclass(slots=True, frozen=True)
class Series:
    """One curve."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    bound: bool = False  # dashed and without markers: no policy reaches it
    markers: bool = True  # False for curves of many points

    @property
    def marked(self) -> bool:
        return len(self.x) == 1 or (self.markers and not self.bound)


def check_can_plot(stem: Path) -> None:
    """Report what is missing before a long computation, not after it."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        raise ConfigError("drawing needs matplotlib: pip install 'tarrafa[plot]'") from None
    if not stem.parent.is_dir():
        raise ConfigError(f"{stem}: there is no directory {stem.parent} to draw into")


@contextmanager
def figure_axes(stem: Path, title: str, x_label: str, y_label: str, *, percent: bool = False) -> Iterator[Any]:
    """Axes in the common style; when the block ends, STEM.png and STEM.svg are written."""
    check_can_plot(stem)
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    settings: Any = {}  # not the settings of the user's own matplotlibrc
    settings.update(mpl.rcParamsDefault)
    settings.update(STYLE)
    with mpl.rc_context(settings):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(title)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if percent:
            axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
        yield axes
        for form, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None, "Title": title})):
            path = stem.with_name(f"{stem.name}.{form}")
            try:
                figure.savefig(path, format=form, metadata=metadata)
            except OSError as error:
                raise data_error_from_os(error, path) from None


def draw_lines(
    stem: Path,
    series: Sequence[Series],
    title: str,
    x_label: str,
    y_label: str,
    *,
    y_from: float | None = 0.0,
    percent: bool = False,
    x_ticks: Sequence[float] | None = None,
) -> None:
    """Draw curves, each labelled at its right end; with `y_from` None the axis begins at the lowest number."""
    with figure_axes(stem, title, x_label, y_label, percent=percent) as axes:
        for number, one in enumerate(series):
            axes.plot(
                one.x,
                one.y,
                color=COLOURS[number % len(COLOURS)],
                linestyle=(0, (5, 2)) if one.bound else "-",
                linewidth=1.4 if one.bound else 2.0,
                marker=MARKERS[number % len(MARKERS)] if one.marked else None,
                markersize=5.5,
            )
        axes.margins(x=0.02)
        if x_ticks is not None:
            axes.set_xticks(x_ticks, [f"{tick:g}" for tick in x_ticks])
        if y_from is not None:
            axes.set_ylim(bottom=y_from)
        _label_ends(axes, series)


def draw_bars(
    stem: Path,
    labels: Sequence[str],
    values: Sequence[float],
    title: str,
    y_label: str,
    *,
    bound: tuple[str, float] | None = None,
) -> None:
    """Draw one bar for each label, from zero, with its number on it; `bound` is a dashed line across."""
    with figure_axes(stem, title, "", y_label) as axes:
        drawn = axes.bar(labels, values, color=COLOURS[0], width=0.65)
        axes.bar_label(drawn, [f"{value:.4g}" for value in values], padding=2)
        axes.grid(visible=False, axis="x")
        if bound is not None:
            name, height = bound
            axes.axhline(height, color=COLOURS[1], linestyle=(0, (5, 2)), linewidth=1.4)
            axes.annotate(
                name, (1.0, height), xycoords=("axes fraction", "data"), xytext=(5, 0), textcoords="offset points",
                va="center", color=COLOURS[1], fontsize=LABEL_POINTS, annotation_clip=False,
            )  # fmt: skip


def _label_ends(axes: Any, series: Sequence[Series]) -> None:
    """Write each curve's name beside its last point, in its colour, moved apart where two would overlap."""
    from matplotlib.colors import to_rgb

    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    height_points = SIZE_INCHES[1] * 72 * 0.78  # approximate height of the axes: title and labels take the rest
    per_point = (high - low) / height_points
    places = spread_labels([one.y[-1] for one in series], LABEL_POINTS * 1.3 * per_point, low)
    for number, (one, place) in enumerate(zip(series, places, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        dark = tuple(0.7 * part for part in to_rgb(colour))  # letters need more contrast than lines
        shift = (place - one.y[-1]) / per_point
        axes.annotate(
            one.label, (one.x[-1], one.y[-1]), xytext=(16, shift), textcoords="offset points", va="center",
            color=dark, fontsize=LABEL_POINTS, annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 1, "shrinkB": 4, "relpos": (0, 0.5),
            },
        )  # fmt: skip


def spread_labels(places: Sequence[float], least: float, lowest: float = -math.inf) -> list[float]:
    """The same positions in the same order, at least `least` apart, each group centred on its original positions.

    None lies lower than `lowest`.
    """

    def centre_of(members: list[int]) -> float:
        wanted = sum(places[member] for member in members) / len(members)
        return max(wanted, lowest + least * (len(members) - 1) / 2)

    groups: list[tuple[float, list[int]]] = []  # centre, members from below
    for index in sorted(range(len(places)), key=lambda index: places[index]):
        groups.append((centre_of([index]), [index]))
        while len(groups) > 1:
            (below, lower), (above, upper) = groups[-2:]
            if below + least * len(lower) / 2 <= above - least * len(upper) / 2:
                break
            members = lower + upper
            groups[-2:] = [(centre_of(members), members)]
    found = [0.0] * len(places)
    for centre, members in groups:
        for rank, member in enumerate(members):
            found[member] = centre + (rank - (len(members) - 1) / 2) * least
    return found
