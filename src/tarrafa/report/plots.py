"""Draws the plots of a report as PNG and SVG.

Promises: each plot is drawn in the common style (simulate/matplotlib_plots.py) as PNG and SVG, and only where it has
data; text from the Web is never read as a formula. Without matplotlib no plot is drawn, and that is no error. Knows
nothing of how the numbers are computed.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tarrafa.i18n import Message, Translator, message
from tarrafa.model import status_name
from tarrafa.report.layout import PLOT_TITLES, shorten_text, storage_part_name
from tarrafa.report.schema import Bin, CollectionReport
from tarrafa.simulate.matplotlib_plots import COLOURS, Series, draw_lines, figure_axes

MARKS_MAX = 12  # labelled end points of lines
LABEL_CHARS_MAX = 40
STATUSES_SHOWN = 15
TICKS_MAX = 14
TIME_UNITS = (  # the label of the axis, the unit in seconds, the longest time it is used for
    (message("seconds since the beginning"), 1.0, 300.0),
    (message("minutes since the beginning"), 60.0, 3 * 3600.0),
    (message("hours since the beginning"), 3600.0, 4 * 86_400.0),
    (message("days since the beginning"), 86_400.0, math.inf),
)
ON_WHITE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}

Draw = Callable[[CollectionReport, Translator, Path, str], None]


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def draw_plots(report: CollectionReport, _: Translator, folder: Path) -> list[str]:
    """Write NAME.png and NAME.svg for each figure with data; their names."""
    if not can_draw():
        return []
    drawn = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a letter missing in the font is drawn as a box
        for name, (wanted, plot) in PLOTS.items():
            if wanted(report):
                plot(report, _, folder / name, _.render(PLOT_TITLES[name]))
                drawn.append(name)
    return drawn


def escape_label(text: str) -> str:
    """The text with its dollar signs escaped: they begin no formula."""
    return shorten_text(text, LABEL_CHARS_MAX).replace("$", r"\$")


def _scale(report: CollectionReport) -> tuple[Message, float]:
    """The label of the time axis, and its unit in seconds."""
    span = len(report.timeline.documents) * report.timeline.step_s
    return next((label, unit) for label, unit, most in TIME_UNITS if span <= most)


def _times(report: CollectionReport) -> list[float]:
    unit = _scale(report)[1]
    return [(place * report.timeline.step_s) / unit for place in range(len(report.timeline.documents) + 1)]


def _documents(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    x_label, unit = _scale(report)
    line = report.timeline
    with figure_axes(stem, title, _.render(x_label), _("Pages")) as axes:
        _plain_axis(axes.yaxis, _)
        axes.plot(_times(report), [0, *line.documents], color=COLOURS[0], linewidth=2.0)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.02)
        ends = sorted(report.collectors, key=lambda one: one.last)
        for place, one in enumerate(ends[-MARKS_MAX:]):
            at = (one.last - line.start) / unit
            axes.axvline(at, color=COLOURS[1], linestyle=(0, (2, 2)), linewidth=1.0)
            label, height = _("end of {name}", name=escape_label(one.name)), 0.04 + 0.075 * (place % MARKS_MAX)
            axes.annotate(label, (at, height), xycoords=("data", "axes fraction"), xytext=(-4, 0), ha="right",
                          textcoords="offset points", fontsize=8.5, color="#8a3c00", bbox=ON_WHITE)  # fmt: skip
        if len(ends) > MARKS_MAX:
            more = _("and {count} more", count=len(ends) - MARKS_MAX)
            axes.set_title(f"{title} ({more})")


def _growth(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    """Two axes: sites are far fewer than documents."""
    x_label = _.render(_scale(report)[0])
    line, times = report.timeline, _times(report)
    with figure_axes(stem, title, x_label, _("Pages")) as axes:
        other = axes.twinx()
        for own, values, colour, label, style in (
            (axes, line.documents, COLOURS[0], _("Pages"), "-"),
            (other, line.sites, COLOURS[1], _("Sites"), (0, (5, 2))),
        ):
            _plain_axis(own.yaxis, _)
            own.plot(times, [0, *values], color=colour, linewidth=2.0, linestyle=style)
            own.set_ylim(bottom=0)
            own.set_ylabel(label, color=colour)
        other.grid(visible=False)
        axes.margins(x=0.02)


def _statuses(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    shown = report.responses[:STATUSES_SHOWN]
    labels = [escape_label(f"{one.status} {_.render(status_name(one.status))}") for one in shown]
    counts = [one.count for one in shown]
    _horizontal_bars(stem, labels, counts, title, _("Visits"), [_.number(count) for count in counts], _, log=True)


def _servers(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    counts = sorted(report.servers.documents.values(), reverse=True)
    with figure_axes(stem, title, _("rank of the host"), _("Pages")) as axes:
        marker = "o" if len(counts) <= 200 else "."
        axes.plot(range(1, len(counts) + 1), counts, marker, color=COLOURS[0], markersize=4, linestyle="none")
        axes.set_xscale("log")
        axes.set_yscale("log")
        _plain_log(axes.xaxis, _)
        _plain_log(axes.yaxis, _)
        held = report.servers.holding_80_servers
        if held <= len(counts):
            axes.axvline(held, color=COLOURS[1], linestyle=(0, (2, 2)), linewidth=1.0)
            axes.annotate("80 %", (held, 0.95), xycoords=("data", "axes fraction"), xytext=(4, 0), color="#8a3c00",
                          textcoords="offset points", fontsize=8.5)  # fmt: skip


def _sizes(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    _bars(stem, report.sizes.bins, title, _("size"), _("Pages"), lambda low: _size(low, _), _)


def _size(low: float, _: Translator) -> str:
    """1 kB, 2 kB, 512 kB, 1 MB: edges are powers of two times a thousand."""
    unit, value = next(
        (u, low / n) for u, n in (("GB", 1.024e9), ("MB", 1.024e6), ("kB", 1e3), ("B", 1)) if low >= n or n == 1
    )
    return f"{_.number(value)} {unit}"


def _depths(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    bins = [Bin(float(one.name), float(one.name) + 1, one.count) for one in report.depths if one.name.isdigit()]
    _bars(stem, bins, title, _("Depth"), _("Pages"), _.number, _)


def _fraction(low: float, _: Translator) -> str:
    """The left edge of a bar, as a fraction below 1."""
    return "0" if not low else _.number(low) if low >= 1 else f"1/{round(1 / low)}"


def _waits(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    x_label = _("seconds (each bar up to twice its left edge)")
    _bars(stem, report.waits.bins, title, x_label, _("pages"), lambda low: _fraction(low, _), _)


def _internal(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    bins = report.internal_links.bins
    _bars(stem, bins, title, _("Internal links"), _("Pages"), lambda low: _from_to(low, bins, _), _)


def _from_to(low: float, bins: Sequence[Bin], _: Translator) -> str:
    high = next(math.ceil(one.high) - 1 for one in bins if one.low == low)
    return _.number(low) if high <= low else f"{_.number(low)}–{_.number(high)}"


def _changes(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    assert report.freshness is not None
    bins, x_label = report.freshness.changes_per_day.bins, _("changes per day (each bar up to twice its left edge)")
    _bars(stem, bins, title, x_label, _("pages"), lambda low: _fraction(low, _), _)


def _calibration(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    """One point for each power of ten of the rate; what is believed is right where it lies on the diagonal."""
    assert report.freshness is not None
    points = report.freshness.calibration
    x_label, y_label = _("revisits that should find a change"), _("revisits that did")
    with figure_axes(stem, title, x_label, y_label) as axes:
        axes.plot((0, 1), (0, 1), "--", color="#999999", linewidth=1)
        axes.plot([one.expected for one in points], [one.found for one in points], "o", color=COLOURS[0], markersize=6)
        for one in points:
            label = _("{rate} a day", rate=_fraction(one.per_day, _))
            axes.annotate(label, (one.expected, one.found), textcoords="offset points", xytext=(7, -4), fontsize=8.5)
        axes.set_xlim(0, 1.12)
        axes.set_ylim(0, 1.02)


def _degrees(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    """Log-log, the usual form for degrees; pages without links cannot be shown there."""
    with figure_axes(stem, title, _("links"), _("pages")) as axes:
        for points, colour, marker, label in (
            (report.degrees.incoming, COLOURS[0], "o", _("links in")),
            (report.degrees.outgoing, COLOURS[1], "s", _("links out")),
        ):
            shown = [(links, pages) for links, pages in points if links > 0]
            if shown:
                axes.plot(*zip(*shown, strict=True), marker, color=colour, markersize=4, alpha=0.8, label=label,
                          linestyle="none")  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        _plain_log(axes.xaxis, _)
        _plain_log(axes.yaxis, _)
        axes.legend(frameon=False)


def _breadth(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    numbers = [float(one.number) for one in report.cycles]
    few = len(numbers) <= TICKS_MAX
    passed = Series(_("Passed the rule"), numbers, [one.passed for one in report.cycles], markers=few)
    failed = Series(_("Failed the rule"), numbers, [one.failed for one in report.cycles], markers=few)
    draw_lines(stem, [passed, failed], title, _("Cycle"), _("Pages"), x_ticks=numbers if few else None)


def _storage(report: CollectionReport, _: Translator, stem: Path, title: str) -> None:
    parts = [part for part in report.storage if part.bytes]
    labels, sizes = [storage_part_name(part.name, _) for part in parts], [part.bytes for part in parts]
    colours = [COLOURS[{"data": 0, "index": 2}.get(part.kind, 5)] for part in parts]
    _horizontal_bars(
        stem, labels, [size / 1e6 for size in sizes], title, "MB", [_.size(size) for size in sizes], _, colours
    )


def _horizontal_bars(
    stem: Path,
    labels: Sequence[str],
    values: Sequence[float],
    title: str,
    x_label: str,
    bar_labels: Sequence[str],
    _: Translator,
    colours: Sequence[str] | None = None,
    *,
    log: bool = False,
) -> None:
    """Horizontal bars: labels may be long."""
    with figure_axes(stem, title, x_label, "") as axes:
        drawn = axes.barh(range(len(labels)), values, color=colours or COLOURS[0], height=0.65)
        axes.set_yticks(range(len(labels)), labels, fontsize=9)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        if log:
            axes.set_xscale("log")
            axes.set_xlim(left=0.5)
            _plain_log(axes.xaxis, _)
        axes.bar_label(drawn, bar_labels, padding=3, fontsize=8.5)
        axes.margins(x=0.14)


def _bars(
    stem: Path,
    bins: Sequence[Bin],
    title: str,
    x_label: str,
    y_label: str,
    label: Callable[[float], str],
    _: Translator,
) -> None:
    """One bar for each bin, with its left edge as the label."""
    with figure_axes(stem, title, x_label, y_label) as axes:
        _plain_axis(axes.yaxis, _)
        axes.bar(range(len(bins)), [one.count for one in bins], color=COLOURS[0], width=0.85)
        step = math.ceil(len(bins) / TICKS_MAX)
        places = list(range(0, len(bins), step))
        axes.set_xticks(places, [label(bins[place].low) for place in places], fontsize=8.5)
        axes.grid(visible=False, axis="x")


def _plain_axis(axis: Any, _: Translator) -> None:
    """Numbers as the language writes them."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(
        FuncFormatter(lambda value, _place: _.number(value) if value == int(value) else _.precise(value))
    )


def _plain_log(axis: Any, _: Translator) -> None:
    """10,000 and not 10 to the power of four."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    few = low > 0 and math.log10(high / low) < 2.5
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axis.set_minor_formatter(NullFormatter())
    _plain_axis(axis, _)


# In the order of the report: whether there are data, and the function that draws them.
PLOTS: dict[str, tuple[Callable[[CollectionReport], bool], Draw]] = {
    "documents": (lambda report: bool(report.timeline.documents), _documents),
    "growth": (lambda report: bool(report.timeline.documents), _growth),
    "statuses": (lambda report: bool(report.responses), _statuses),
    "servers": (lambda report: len(report.servers.documents) > 1, _servers),
    "sizes": (lambda report: bool(report.sizes.count), _sizes),
    "depths": (lambda report: bool(report.depths), _depths),
    "waits": (lambda report: bool(report.waits.count), _waits),
    "internal": (lambda report: bool(report.internal_links.count), _internal),
    "degrees": (lambda report: any(n for n, _ in (*report.degrees.incoming, *report.degrees.outgoing)), _degrees),
    "breadth": (lambda report: bool(report.cycles), _breadth),
    "storage": (lambda report: any(part.bytes for part in report.storage), _storage),
    "changes": (lambda report: report.freshness is not None, _changes),
    "calibration": (lambda report: report.freshness is not None and bool(report.freshness.calibration), _calibration),
}
