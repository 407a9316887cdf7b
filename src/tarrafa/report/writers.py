"""How is a report written down?

As HTML that opens from the disk and under a policy without inline script or style; as Markdown; as JSON; and all of it
as files in a folder. Promises: what comes from the Web is text in every form, never markup; a file is there whole or
not at all.
Knows nothing of how numbers came about.
"""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from tarrafa.data import write_atomically
from tarrafa.errors import ConfigError, from_os
from tarrafa.report import plots
from tarrafa.report.shapes import Report
from tarrafa.report.telling import Section, Story, Table, tell
from tarrafa.report.texts import Texts

FORMS = ("html", "md", "json", "plots")
STYLE, FOLDER = "report.css", "plots"

# In Markdown a cell must hold neither bars nor lines, and no sign that would begin something.
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


def style() -> str:
    """The style sheet of a report that stands by itself."""
    return resources.files("tarrafa.report").joinpath("static", STYLE).read_text(encoding="utf-8")


def json(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def html(report: Report, t: Texts, drawn: Sequence[str] = (), *, style: str = STYLE, plots: str = f"{FOLDER}/") -> str:
    """A whole page. `drawn` are the figures that there are; `style` and `plots` say where its parts are found."""
    return _templates().get_template("report.html").render(story=tell(report, t), t=t, drawn=drawn, style=style,
                                                           plots=plots)  # fmt: skip


def article(report: Report, t: Texts, drawn: Sequence[str] = (), *, plots: str = f"{FOLDER}/") -> str:
    """The same without the page around it, to stand in another one; what holds in it is harmless."""
    return _templates().get_template("article.html").render(story=tell(report, t), t=t, drawn=drawn, plots=plots)


def markdown(report: Report, t: Texts, drawn: Sequence[str] = (), *, plots: str = f"{FOLDER}/") -> str:
    story = tell(report, t)
    parts = [*_head(story, t)]
    for section in story.sections:
        parts += _section(section, t, drawn, plots)
    return "\n".join(parts) + "\n"


def _head(story: Story, t: Texts) -> list[str]:
    said = [line for sentence in story.says for line in (quiet(sentence), "")]
    return [f"# {quiet(story.title)}", "", quiet(story.subtitle), "", *said]


def _section(section: Section, t: Texts, drawn: Sequence[str], plots: str) -> list[str]:
    parts = [f"## {quiet(section.title)}", ""]
    for sentence in section.says:
        parts += [quiet(sentence), ""]
    for name in section.plots:
        if name in drawn:
            parts += [f"![{quiet(t(f'plot_{name}'))}]({plots}{name}.png)", ""]
    for table in section.tables:
        parts += [] if table.caption == section.title else [f"**{quiet(table.caption)}**", ""]
        parts += _table(table)
    return parts


def _table(table: Table) -> list[str]:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(quiet, cells))} |"

    rule = f"|{'|'.join('---:' if figure else '---' for figure in table.figures)}|"
    return [row(table.columns), rule, *map(row, table.rows), ""]


def quiet(text: str) -> str:
    """Text that stays text in Markdown, on one line."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split()).translate(_MARKDOWN)


def check(forms: Sequence[str]) -> None:
    unknown = [form for form in forms if form not in FORMS]
    if unknown or not forms:
        raise ConfigError(f"--format: {', '.join(unknown) or 'nothing'} is none of {', '.join(FORMS)}")


def write(report: Report, t: Texts, folder: Path, forms: Sequence[str] = FORMS) -> list[Path]:
    """The forms that are wanted, as files; the main ones are told. Plots come first: pages show what was drawn."""
    check(forms)
    written, drawn = [], list[str]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if "plots" in forms and plots.can_draw():
            (folder / FOLDER).mkdir(exist_ok=True)
            drawn = plots.draw(report, t, folder / FOLDER)
            written.append(folder / FOLDER)
        contents = {"html": html, "md": markdown}
        for form in forms:
            if form in contents:
                path = folder / f"report.{form}"
                write_atomically(path, contents[form](report, t, drawn).encode("utf-8", "replace"))
                written.append(path)
            elif form == "json":
                write_atomically(folder / "report.json", json(report))
                written.append(folder / "report.json")
        if "html" in forms:
            write_atomically(folder / STYLE, style().encode())
    except OSError as error:
        raise from_os(error, folder) from None
    return written
