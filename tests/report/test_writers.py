"""What a report looks like, in each form and language; and that nothing from the Web is more than text in it."""

import html.parser
import re

import pytest
from msgspec.structs import replace

from tarrafa.coordinator.node.messages import Machine
from tarrafa.errors import ConfigError
from tarrafa.i18n import ENGLISH, PORTUGUESE
from tarrafa.model import status_name
from tarrafa.report import plots, writers
from tarrafa.report.comparison import compare_reports
from tarrafa.report.layout import language_label, lay_out
from tarrafa.report.report_builder import build_report
from tarrafa.report.schema import (
    CollectionReport,
    DeadLink,
    DeadLinks,
    FreshnessSummary,
    MachineUsage,
    SearchTime,
    StoragePart,
)
from tarrafa.report.tables import distribution
from tests.report.sample_archives import NAME, T, a_visit, an_archive

EVIL = "<script>alert(1)</script>|x|\n# \"'&amp;`$\\frac{1}{"
TRANSLATORS = {"en": ENGLISH, "pt": PORTUGUESE}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> CollectionReport:
    """Every text that the Web can choose is an attack, and every section has something to say."""
    import numpy as np

    url = "http://evil.test/?%22%3E<script>alert(2)</script>|"
    records = [
        a_visit(f"http://h{n}.br/{n}", n * 700, language=EVIL[:20], charset=EVIL, type=EVIL, server=EVIL, worker=EVIL)
        for n in range(4)
    ]
    records += [a_visit(url, 3000, location="http://evil.test/next", status=301), a_visit(url + "2", 3001)]
    data = an_archive(tmp_path_factory.mktemp("hostile"), ("w1", records))
    found = build_report(
        data, NAME, machines=[MachineUsage(EVIL, Machine(2, 2400.0, 0.5, 1.0, 1 << 33, 1, 1, 1, EVIL), 0.4, 0.9)]
    )
    rates = distribution(np.array([0.01, 0.2, 3.0]), 2.0, 1 / 1024)
    found = replace(
        found,
        dead=DeadLinks(1, 2, 0.5, [DeadLink(url, 2, 404)], [DeadLink(url + EVIL, 2)]),
        freshness=FreshnessSummary(3, 12, 4, 0.9, rates),
        search=[
            SearchTime("word", 2, 0.01, 0.02, 0.001, 0.002, 0.00002, 0.00003),
            SearchTime("pair", 2, 0.01, 0.02, 0.001, 0.002),
        ],
        storage=[StoragePart("archive", "data", 10**9), StoragePart("index", "index", 10**8)],
    )
    earlier = replace(found, languages=[], servers=replace(found.servers, documents={f"http://{EVIL}:80": 7}))
    return replace(found, comparison=compare_reports(earlier, found))


class Elements(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("t", TRANSLATORS.values(), ids=TRANSLATORS)
def test_html_holds_no_script_no_inline_style_and_nothing_from_elsewhere(hostile, t):
    page = writers.report_html(hostile, t, list(plots.PLOTS))
    found = Elements()
    found.feed(page)
    allowed = {"html", "head", "meta", "title", "link", "body", "main", "article", "header", "h1", "h2", "p", "nav",
               "ol", "li", "a", "section", "figure", "img", "div", "table", "caption", "thead", "tbody", "tr", "th",
               "td"}  # fmt: skip
    assert {tag for tag, _ in found.tags} <= allowed
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        for name in ("src", "href"):
            if name in attributes:
                assert re.fullmatch(r"report\.css|plots/[a-z]+\.svg|#[a-z]+", attributes[name] or ""), attributes
    assert "&lt;script&gt;" in page
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert f'<html lang="{t.code}">' in page


@pytest.mark.parametrize("t", TRANSLATORS.values(), ids=TRANSLATORS)
def test_in_markdown_a_table_has_the_same_columns_in_every_row(hostile, t):
    text = writers.report_markdown(hostile, t, ["documents"])
    assert "<" not in text
    assert "![" in text
    columns = 0
    for line in text.splitlines():
        if not line.startswith("|"):
            columns = 0
            assert not line.startswith("# ") or line.startswith(f"# {t('The Web of {name}', name=NAME)}")
            continue
        columns = columns or line.count("|")
        assert line.count("|") == columns, line
    assert text.count("&#124;x&#124;") > 3


def test_json_is_read_again_as_it_was(hostile):
    import msgspec

    assert msgspec.json.decode(writers.report_json(hostile), type=CollectionReport) == hostile


def test_every_section_of_the_classic_studies_is_there(hostile):
    assert [section.name for section in lay_out(hostile, ENGLISH).sections] == [
        "work", "machines", "links", "responses", "types", "servers", "documents", "languages", "software", "robots",
        "dead", "redirects", "time", "waits", "linked", "storage", "search", "freshness", "compared",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "english", "portuguese"),
    [(lambda t: t.number(1234567), "1,234,567", "1.234.567"), (lambda t: t.number(-0.4), "0", "0"),
     (lambda t: t.precise(12.345), "12.3", "12,3"), (lambda t: t.percent(0.12345), "12.3 %", "12,3 %"),
     (lambda t: t.size(999), "999 B", "999 B"), (lambda t: t.size(1234567), "1.23 MB", "1,23 MB"),
     (lambda t: t.span(0.0123), "12.3 ms", "12,3 ms"), (lambda t: t.span(3725), "62 min 05 s", "62 min 05 s"),
     (lambda t: t.span(90_000), "25 h 00 min", "25 h 00 min"), (lambda t: t.span(200_000), "2 d 7 h", "2 d 7 h"),
     (lambda t: t.moment(T), "2026-09-21 14:13:20 UTC", "2026-09-21 14:13:20 UTC"),
     (lambda t: t.render(status_name(404)), "Not Found", "Não encontrado"),
     (lambda t: t.render(status_name(799)), "", ""),
     (lambda t: t.render(status_name(-7)), "excluded by robots.txt", "excluída pelo robots.txt"),
     (lambda t: language_label("pt-BR", t), "Portuguese (pt-BR)", "Português (pt-BR)")],
)  # fmt: skip
def test_numbers_are_written_as_the_language_does(written, english, portuguese):
    assert (written(ENGLISH), written(PORTUGUESE)) == (english, portuguese)


def test_without_matplotlib_the_tables_still_come(hostile, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    written = writers.write_report(hostile, ENGLISH, tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["report.html", "report.md", "report.json"]
    assert "<img" not in (tmp_path / "new" / "folder" / "report.html").read_text()
    assert (tmp_path / "new" / "folder" / "report.css").exists()


def test_only_the_forms_that_are_asked_for_are_written(hostile, tmp_path):
    assert [path.name for path in writers.write_report(hostile, PORTUGUESE, tmp_path, ["md"])] == ["report.md"]
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    with pytest.raises(ConfigError, match="pdf is none of html, md, json, plots"):
        writers.write_report(hostile, ENGLISH, tmp_path, ["pdf"])


def test_a_report_of_nothing_is_still_a_report(tmp_path):
    empty = build_report(an_archive(tmp_path, ("w1", [a_visit("http://a.br/")])), NAME, since=T + 1e6)
    assert empty.work.visits == 0
    for t in TRANSLATORS.values():
        assert "<table>" in writers.report_html(empty, t)
        assert writers.report_markdown(empty, t)


def test_hostile_labels_are_drawn_as_they_are_written(hostile, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "plots").mkdir()
    only = {name: plots.PLOTS[name] for name in ("documents", "changes")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "PLOTS", only)
        assert plots.draw_plots(hostile, ENGLISH, tmp_path / "plots") == list(only)
    drawn = (tmp_path / "plots" / "documents.svg").read_text()
    assert "<script" not in drawn
    assert (tmp_path / "plots" / "changes.png").stat().st_size > 10_000
