"""Writes a report as HTML, Markdown, JSON and plots.

HTML opens from the disk and under a policy without inline script or style; the other formats are Markdown, JSON, and
all of them as files in a folder. Promises: text from the Web is text in every format, never markup; a file is complete
or missing. Knows nothing of how the numbers are computed.
"""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from tarrafa.errors import ConfigError, data_error_from_os
from tarrafa.i18n import Translator
from tarrafa.report import plots
from tarrafa.report.layout import PLOT_TITLES, ReportSection, ReportTable, lay_out
from tarrafa.report.schema import CollectionReport
from tarrafa.runtime.data_dir import write_atomically

REPORT_FORMATS = ("html", "md", "json", "plots")
STYLE, FOLDER = "report.css", "plots"

# A Markdown cell must hold neither bars nor line ends, and no sign that has a meaning there.
_MARKDOWN = str.maketrans(
    {sign: f"\\{sign}" for sign in "\\`*_{}[]#~"}
    | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "$": "&#36;"}
)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("tarrafa.report", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def stylesheet() -> str:
    """The style sheet of a standalone report."""
    return resources.files("tarrafa.report").joinpath("static", STYLE).read_text(encoding="utf-8")


def report_json(report: CollectionReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def report_html(report: CollectionReport, _: Translator, drawn: Sequence[str] = ()) -> str:
    """A whole page. `drawn` are the existing figures."""
    return _render("report.html", report, _, drawn=drawn, style=STYLE, plots=f"{FOLDER}/")


def report_article(
    report: CollectionReport, _: Translator, drawn: Sequence[str] = (), *, plots: str = f"{FOLDER}/"
) -> str:
    """The same without the page around it, to be embedded in another one; its content is safe markup."""
    return _render("article.html", report, _, drawn=drawn, plots=plots)


def _render(template: str, report: CollectionReport, _: Translator, **more: object) -> str:
    layout = lay_out(report, _)
    return _templates().get_template(template).render(layout=layout, _=_, plot_titles=PLOT_TITLES, **more)


def report_markdown(report: CollectionReport, _: Translator, drawn: Sequence[str] = ()) -> str:
    layout = lay_out(report, _)
    parts = [f"# {escape_markdown(layout.title)}", ""]
    for sentence in (layout.subtitle, *layout.sentences):
        parts += [escape_markdown(sentence), ""]
    for section in layout.sections:
        parts += _section(section, _, drawn)
    return "\n".join(parts) + "\n"


def _section(section: ReportSection, _: Translator, drawn: Sequence[str]) -> list[str]:
    parts = [f"## {escape_markdown(section.title)}", ""]
    for sentence in section.sentences:
        parts += [escape_markdown(sentence), ""]
    for name in section.plots:
        if name in drawn:
            parts += [f"![{escape_markdown(_.render(PLOT_TITLES[name]))}]({FOLDER}/{name}.png)", ""]
    for table in section.tables:
        parts += [] if table.caption == section.title else [f"**{escape_markdown(table.caption)}**", ""]
        parts += _table(table)
    return parts


def _table(table: ReportTable) -> list[str]:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(escape_markdown, cells))} |"

    rule = f"|{'|'.join('---:' if figure else '---' for figure in table.figures)}|"
    return [row(table.columns), rule, *map(row, table.rows), ""]


def escape_markdown(text: str) -> str:
    """Text that stays text in Markdown, on one line."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split()).translate(_MARKDOWN)


def check_formats(forms: Sequence[str]) -> None:
    unknown = [form for form in forms if form not in REPORT_FORMATS]
    if unknown or not forms:
        raise ConfigError(f"--format: {', '.join(unknown) or 'nothing'} is none of {', '.join(REPORT_FORMATS)}")


def write_report(
    report: CollectionReport, _: Translator, folder: Path, forms: Sequence[str] = REPORT_FORMATS
) -> list[Path]:
    """Write the requested formats as files; returns the main ones. Plots come first: pages show those that were
    drawn.
    """
    check_formats(forms)
    written, drawn = [], list[str]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if "plots" in forms and plots.can_draw():
            (folder / FOLDER).mkdir(exist_ok=True)
            drawn = plots.draw_plots(report, _, folder / FOLDER)
            written.append(folder / FOLDER)
        contents = {"html": report_html, "md": report_markdown}
        for form in forms:
            if form in contents:
                path = folder / f"report.{form}"
                write_atomically(path, contents[form](report, _, drawn).encode("utf-8", "replace"))
                written.append(path)
            elif form == "json":
                write_atomically(folder / "report.json", report_json(report))
                written.append(folder / "report.json")
        if "html" in forms:
            write_atomically(folder / STYLE, stylesheet().encode())
    except OSError as error:
        raise data_error_from_os(error, folder) from None
    return written
