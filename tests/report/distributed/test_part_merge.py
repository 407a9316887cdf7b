"""What several machines hold adds up to what one would hold."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.graph.dead_links_and_inlinks import GraphStatistics, LinkedUrl
from tarrafa.i18n import translator
from tarrafa.index.index_state import PagesByFate
from tarrafa.model import CollectionNote, DeletedNote, HostNote, VisitRecord
from tarrafa.report import visit_rows
from tarrafa.report.distributed import part_wire
from tarrafa.report.distributed.local_part import PartRequest, Progress, RemoteParts, ReportPart, gather_local_part
from tarrafa.report.distributed.part_merge import merge_parts
from tarrafa.report.distributed.part_wire import PartReader, encode_part
from tarrafa.report.report_builder import build_report
from tarrafa.report.schema import CollectionReport, MissingNode, StoragePart
from tarrafa.report.writers import report_html, report_markdown
from tarrafa.report.writers import report_json as as_json
from tarrafa.runtime.data_dir import DataDirectory
from tests.report.sample_archives import NAME, T, a_visit, an_archive, robots

ASKED = PartRequest(NAME, "Tarrafa")
HOSTS = [f"http://{name}" for name in ("a.br", "www.a.br", "b.pt", "c.com:8080", "127.0.0.1", "d.gov.br")]
CONFIG = {"name": NAME, "roots": [f"{HOSTS[0]}/"], "strategy": {"order": "breadth", "cycle": 2, "favour": ["*.gov.br"]}}
Told = tuple[str, float, VisitRecord | HostNote | DeletedNote]  # by whom, when, what
RULES = ("", "User-agent: *\nDisallow: /x\n", "User-agent: *\nDisallow: /\n", "User-agent: *\nCrawl-delay: 8\n")


def carried(portion: ReportPart, sizes: random.Random | None = None) -> ReportPart:
    """As it arrives."""
    content = b"".join(encode_part(portion))
    with PartReader() as opening:
        while content:
            size = sizes.randint(1, 4000) if sizes is not None else len(content)
            opening.feed(content[:size])
            content = content[size:]
        assert opening.part is not None
        return opening.part


class OtherMachines:
    """Other machines, without a network between."""

    def __init__(self, machines: Sequence[DataDirectory], sizes: random.Random) -> None:
        self._machines, self._sizes = machines, sizes

    def __call__(self, asked: PartRequest, progress: Progress) -> "OtherMachines":
        self._asked = asked
        return self

    def wait(self) -> RemoteParts:
        found = {
            f"n{number}": carried(gather_local_part(one, self._asked), self._sizes)
            for number, one in enumerate(self._machines)
        }
        return RemoteParts(found)

    def stop(self) -> None:
        pass


# -- one archive, and the same one divided ----------------------------------------------------------------------------


def happenings(chance: random.Random, count: int) -> Iterator[tuple[float, VisitRecord | HostNote | DeletedNote]]:
    """What may stand in an archive, each at a moment of its own. All numbers are sums of powers of two, so that they
    add up to the same in any order."""
    numbers: dict[str, int] = {}
    for at in sorted(chance.sample(range(1, 40_000), count)):
        host, kind = chance.choice(HOSTS), chance.random()
        if kind < 0.1:
            text, status = chance.choice(RULES), chance.choice((200, 200, 404, 503, 0))
            key = host if host.count(":") > 1 else f"{host}:80"
            sitemaps = (f"{host}/s.xml",) if chance.random() < 0.3 else ()
            yield T + at / 8, robots(key, text if status == 200 else "", status, sitemaps)
        elif kind < 0.11:
            yield T + at / 8, DeletedNote(NAME, T + at / 8)
        else:
            url = f"{host}/{chance.randint(1, 4)}"
            numbers[url] = numbers.get(url, 0) + 1
            yield T + at / 8, a_random_visit(chance, url, at / 8, numbers[url])


def a_random_visit(chance: random.Random, url: str, at: float, number: int) -> VisitRecord:
    status = chance.choice((200, 200, 200, 304, 404, 410, 503, -7, 301, 302))
    to = f"{chance.choice(HOSTS)}/{chance.randint(1, 5)}" if status in (301, 302) or chance.random() < 0.05 else ""
    links = [f"{one}/1" for one in chance.sample(HOSTS, 3)]
    return a_visit(
        url, at, status, visit=number, depth=chance.randint(0, 4), links=links,
        language=chance.choice(("pt", "en", "")), charset=chance.choice(("utf-8", "ISO-8859-1", "")),
        collection=NAME if chance.random() < 0.9 else "other", worker=chance.choice(("", "", "far away")),
        type=chance.choice(("text/html", "application/pdf", "")), length=chance.randint(0, 1 << 20), location=to,
        elapsed_s=chance.randint(0, 256) / 64, server=chance.choice(("", "Apache/2.4", "nginx", "nginx/1.26")),
        requested=status != -7, grace=chance.random() < 0.1, external=chance.randint(0, 9),
    )  # fmt: skip


def written(root: Path, told: Sequence[Told]) -> DataDirectory:
    """An archive with a file for each writer; its second run begins in the middle of time."""
    data = an_archive(root)
    writers: dict[str, tuple[WarcWriter, int]] = {}
    for name, at, what in told:
        writer, run = writers.get(name) or (WarcWriter(data.archive, name, T), 0)
        if run < (now := 1 + (at > T + 2500)):
            config = CONFIG | {"title": f"{now}"}
            writer.append_note(CollectionNote(NAME, now, msgspec.Raw(msgspec.json.encode(config)), now), at)
        writers[name] = (writer, now)
        if isinstance(what, VisitRecord):
            writer.append(what, None)
        else:
            writer.append_note(what, at)
    for writer, _ in writers.values():
        writer.close()
    return data


def tables(report: CollectionReport) -> bytes:
    """Without what is the machine's own."""
    alike = replace(report, made_at=0.0, machines=[], storage=[], storage_by_machine=[], notes=[])
    return as_json(alike)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 120), st.integers(2, 3), st.sampled_from(["all", "period", "run"]))
def test_an_archive_that_is_divided_over_machines_gives_the_tables_of_the_whole(seed, count, machines, what):
    chance = random.Random(seed)
    periods: dict[str, dict[str, Any]] = {
        "all": {}, "period": {"since": T + 1000, "until": T + 4000}, "run": {"run": 2},
    }  # fmt: skip
    limits = periods[what]
    told = [(chance.choice(("w1", "w2")), at, what) for at, what in happenings(chance, count)]
    told.append(("w2", T + 6000, a_visit(f"{HOSTS[0]}/0", 6000, visit=9)))  # it is there still, whatever was deleted
    first = ("w1", T, replace(a_random_visit(chance, f"{HOSTS[0]}/0", 0.0, 1), collection=NAME))
    divided: list[list[Told]] = [[first], *([] for _ in range(machines - 1))]
    for one in told:
        chance.choice(divided).append(one)
    with tempfile.TemporaryDirectory() as folder:
        whole = written(Path(folder) / "whole", [first, *told])
        parts = [written(Path(folder) / str(number), part) for number, part in enumerate(divided)]
        expected = build_report(whole, NAME, search=False, **limits)
        found = build_report(parts[0], NAME, search=False, others=OtherMachines(parts[1:], chance), **limits)
    assert tables(found) == tables(expected)
    assert ("several" in found.notes, "several" in expected.notes) == (True, False)
    assert [one.name for one in found.storage_by_machine] == ["", *(f"n{n}" for n in range(machines - 1))]


def a_portion(root: Path, *records: VisitRecord, **more: Any) -> ReportPart:
    found = gather_local_part(an_archive(root, ("w1", list(records))), ASKED)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def test_a_url_that_two_machines_fetched_is_one_document_and_its_newest_visit_counts(tmp_path):
    url = f"{HOSTS[0]}/1"
    here = an_archive(tmp_path / "1", ("one-1", [a_visit(url, 0, length=10), a_visit(f"{HOSTS[0]}/2", 1)]))
    there = an_archive(tmp_path / "2", ("two-1", [a_visit(url, 9, visit=2, length=99, language="en")]))
    found = build_report(here, NAME, search=False, others=OtherMachines([there], random.Random(1)))
    assert (found.work.documents, found.work.pages_fetched, found.links.accessed) == (2, 3, 2)
    assert (found.sizes.least, found.sizes.most) == (99, 1000)
    assert {one.name: one.count for one in found.languages} == {"pt": 1, "en": 1}
    assert [(one.name, one.requests, one.documents) for one in found.collectors] == [("one-1", 2, 2), ("two-1", 1, 0)]


def test_storage_documents_and_statements_are_sums_and_so_is_of_the_graphs_what_can_be_one(tmp_path):
    def graph(wanted: int, worst: int) -> GraphStatistics:
        listed = [LinkedUrl("http://a.br/gone", wanted, 404)], [LinkedUrl("http://a.br/", worst)]
        return GraphStatistics(10, 20, 8, [(0, 3), (2, 1)], 1, wanted, *listed)

    storage = [StoragePart("archive", "data", 5), StoragePart("index", "index", 7)]
    one = a_portion(
        tmp_path / "1", a_visit(f"{HOSTS[0]}/1"), storage=storage, index=PagesByFate(NAME, 3, 2, 1), statements=4
    )
    one.graph = graph(2, 5)
    two = a_portion(tmp_path / "2", a_visit(f"{HOSTS[2]}/1"), storage=storage, index=None, statements=6)
    three = a_portion(tmp_path / "3", storage=[], index=PagesByFate(NAME, 1, cut=1), graph=graph(3, 4))
    found = merge_parts([carried(part) for part in (one, two, three)])
    assert found.storage == [StoragePart("archive", "data", 10), StoragePart("index", "index", 14)]
    assert (found.index, found.statements) == (PagesByFate(NAME, 4, 2, 1, 1), 10)
    assert found.graph is not None
    assert (found.graph.dead_urls, found.graph.dead_links, found.graph.links_followed) == (2, 5, 16)
    assert found.graph.in_links == [(0, 6), (2, 2)]
    assert found.graph.most_wanted == [LinkedUrl("http://a.br/gone", 5, 404)]
    assert found.graph.pages_worst == [LinkedUrl("http://a.br/", 5)]
    assert merge_parts([two, a_portion(tmp_path / "4")]).graph is None


def test_many_rows_travel_in_parts_lie_in_files_and_add_up_to_the_same(tmp_path, monkeypatch):
    records = [
        a_visit(f"http://h{n % 7}.br/{n}", n, status=(200, 301)[n % 2], location="http://h1.br/") for n in range(90)
    ]
    machines = [an_archive(tmp_path / str(n), (f"w{n}", records[n::2])) for n in range(2)]
    few = build_report(machines[0], NAME, search=False, others=OtherMachines(machines[1:], random.Random(1)))
    monkeypatch.setattr(part_wire, "ROWS_PER_FRAME", 8)
    monkeypatch.setattr(part_wire, "NAMES_PER_FRAME", 2)
    monkeypatch.setattr(visit_rows, "ROWS_PER_CHUNK", 4)
    monkeypatch.setattr(visit_rows, "ROWS_IN_MEMORY", 16)
    monkeypatch.setattr("tarrafa.report.distributed.part_merge.ROWS_AT_ONCE", 4)
    many = build_report(machines[0], NAME, search=False, others=OtherMachines(machines[1:], random.Random(1)))
    assert tables(many) == tables(few)


def test_names_beyond_what_a_table_holds_are_one_row_wherever_they_were_met(tmp_path, monkeypatch):
    monkeypatch.setattr(visit_rows, "NAMES_MAX", 10)
    parts = [
        a_portion(tmp_path / str(m), *(a_visit(f"{HOSTS[m]}/{n}", n, type=f"x/{m}-{n}") for n in range(8)))
        for m in (0, 2)
    ]
    assert merge_parts(parts).visits.types == [*(f"x/0-{n}" for n in range(8)), "x/2-0", "x/2-1", visit_rows.OTHER]


@pytest.mark.parametrize("language", ["en", "pt"])
def test_who_is_not_counted_is_named_in_every_form(tmp_path, language):
    missing = [
        MissingNode("far-1", "away"),
        MissingNode("old", "version"),
        *(MissingNode(f"x{n}", "broken") for n in range(30)),
    ]

    class Silent(OtherMachines):
        def wait(self) -> RemoteParts:
            return RemoteParts({}, missing)

    data, t = an_archive(tmp_path, ("w1", [a_visit(f"{HOSTS[0]}/1")])), translator(language)
    found = build_report(data, NAME, search=False, others=Silent([], random.Random(1)))
    assert "without" in found.notes
    assert msgspec.json.decode(as_json(found))["missing"][0] == {"name": "far-1", "why": "away"}
    for text in (report_html(found, t), report_markdown(found, t)):
        assert (
            t("Without node {node}: {why}. What it fetched is not counted.", node="far-1", why=t("it does not answer"))
            in text
        )
        assert t("it is another version of Tarrafa") in text
        assert t.ngettext("And without {count} more node.", "And without {count} more nodes.", 12) in text
    assert "several" not in found.notes
