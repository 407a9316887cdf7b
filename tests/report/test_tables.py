"""What is in an archive is what is in the report: charsets, software, redirects, pauses, periods, cycles."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tarrafa.archive.deletion_log import record_deletions
from tarrafa.archive.warc_writer import WarcWriter, warc_date
from tarrafa.config import Collection
from tarrafa.errors import ConfigError, DataError
from tarrafa.model import CollectionNote, VisitRecord
from tarrafa.report import visit_rows
from tarrafa.report.comparison import compare_reports, read_report
from tarrafa.report.report_builder import build_report
from tarrafa.report.schema import CollectionReport
from tarrafa.report.tables import domain_of, named_domains, product_name
from tarrafa.report.writers import report_json as as_json
from tests.report.sample_archives import NAME, T, a_visit, an_archive, counted, robots

A, B, C = "http://a.br", "http://b.pt", "http://c.com:8080"


def report_of(root: Path, *records: VisitRecord, worker: str = "w1", **options: Any) -> CollectionReport:
    return build_report(an_archive(root, (worker, list(records))), NAME, **options)


def test_charsets_languages_and_domains_are_those_of_the_newest_copies(tmp_path):
    found = report_of(
        tmp_path,
        a_visit(f"{A}/1", 0, charset="UTF-8"),
        a_visit(f"{A}/2", 1, charset="windows-1252", language="en"),
        a_visit(f"{B}/", 2, charset=""),
        a_visit(f"{A}/2", 99, visit=2, charset="utf-8", language="pt", length=4000),
        a_visit("http://127.0.0.1:8090/", 3),
        a_visit(f"{A}/404", 4, 404, type=""),
    )
    assert counted(found.charsets) == {"utf-8": 3, "": 1}
    assert counted(found.languages) == {"pt": 4}
    assert counted(found.domains) == {"br": 2, "pt": 1, "(address)": 1}
    assert [row.servers for row in found.languages] == [3]
    assert (found.work.documents, found.work.pages_fetched, found.work.requests) == (4, 5, 6)
    assert found.sizes.most == 4000
    assert found.work.mean_bytes == (3 * 1000 + 4000) / 4
    assert counted(found.types) == {"text/html": 5, "": 1}
    assert found.types_distinct == 1


def test_a_page_stays_a_document_through_bad_weather_and_grace_and_is_none_once_it_is_gone(tmp_path):
    pages = [f"{A}/{n}" for n in range(5)]
    found = report_of(
        tmp_path,
        *(a_visit(url, n) for n, url in enumerate(pages)),
        a_visit(pages[0], 10, 304, visit=2),
        a_visit(pages[1], 11, 503, visit=2),
        a_visit(pages[2], 12, 404, visit=2, grace=True),
        a_visit(pages[3], 13, 410, visit=2),
        a_visit(pages[4], 14, -23, visit=2, requested=False),
    )
    assert found.work.documents == 3
    assert found.links.accessed == 5
    assert {one.status: one.count for one in found.responses} == {200: 5, 304: 1, 503: 1, 404: 1, 410: 1, -23: 1}


def test_pauses_are_no_active_time(tmp_path):
    found = report_of(
        tmp_path,
        a_visit(f"{A}/1", 1, elapsed_s=1.0),
        a_visit(f"{A}/2", 500, elapsed_s=0.5),
        a_visit(f"{A}/3", 500 + 7200),
        a_visit(f"{A}/4", 500 + 7200 + 50_000),
        a_visit(f"{A}/5", 500 + 7200 + 50_100),
    )
    work = found.work
    assert work.first == pytest.approx(T)
    assert work.duration_s == pytest.approx(57_800)
    assert work.active_s == pytest.approx(600)
    assert work.pauses == 2
    assert [pause.until - pause.since for pause in work.pauses_longest] == [7200, 50_000]
    assert work.documents_per_s == pytest.approx(5 / 600)
    assert work.kbit_per_s == pytest.approx(5 * 8 / 600)
    assert work.first_12_h == pytest.approx(3 / 5)
    assert found.waits.count == 2
    assert found.waits.least == pytest.approx(100)
    assert found.waits.most == pytest.approx(498.5)


def test_software_is_counted_by_server_with_and_without_its_version(tmp_path):
    found = report_of(
        tmp_path,
        a_visit(f"{A}/1", 0, server="Apache/2.2"),
        a_visit(f"{A}/2", 1, server="Apache/2.4.62 (Debian)"),
        a_visit(f"{B}/", 2, server="Apache/2.4.62 (Debian)"),
        a_visit(f"{C}/", 3, server="nginx"),
        a_visit("http://d.br/", 4),
    )
    assert (found.software.told, found.software.silent) == (3, 1)
    assert counted(found.software.products) == {"Apache": 2, "nginx": 1}
    assert counted(found.software.versions) == {"Apache/2.4.62 (Debian)": 2, "nginx": 1}


@pytest.mark.parametrize(
    ("server", "product"),
    [("Apache/2.4", "Apache"), ("nginx", "nginx"), ("Microsoft-IIS/10.0", "Microsoft-IIS"), ("", ""), (" / ", "/"),
     ("/", "/")],
)  # fmt: skip
def test_a_product_is_the_first_word_without_its_version(server, product):
    assert product_name(server.strip()) == product


def test_chains_and_loops_of_redirects(tmp_path):
    def moved(path: str, to: str, at: float, status: int = 301, **more: Any) -> VisitRecord:
        return a_visit(f"{A}{path}", at, status, location=f"{A}{to}" if to.startswith("/") else to, kept=False, **more)

    found = report_of(
        tmp_path,
        moved("/1", "/2", 0), moved("/2", "/3", 1, 302), a_visit(f"{A}/3", 2),  # two hops to a document
        moved("/x", "/404", 3), a_visit(f"{A}/404", 4, 404),  # one hop to an error
        moved("/out", "http://z.org/", 5, 308),  # out of the collection
        moved("/o1", "/o2", 6), moved("/o2", "/o3", 7), moved("/o3", "/o2", 8),  # a way into a loop of two
        moved("/self", "/self", 9),
        moved("/refresh", "/3", 10, 200),
        moved("/old", "/404", 11), moved("/old", "/3", 12, 307, visit=2),  # the newest counts
        moved("/long", "/1", 13, -16),
    ).redirects  # fmt: skip
    assert found.urls == 11
    assert {one.status: one.count for one in found.codes} == {301: 6, 302: 1, 308: 1, 200: 1, 307: 1, -16: 1}
    assert {int(one.low): one.count for one in found.chains} == {1: 5, 3: 1}
    assert counted(found.ends) == {"document": 3, "other": 1, "unvisited": 1, "loop": 1}
    assert (found.loops, found.loop_urls, found.exceeded) == (2, 3, 1)


def test_use_of_robots_txt(tmp_path):
    hosts = [f"http://h{n}.br:80" for n in range(7)]
    notes = [
        robots(hosts[0], "User-agent: *\nDisallow:\n"),
        robots(hosts[1], "User-agent: *\nDisallow: /x\nCrawl-delay: 5\n", sitemaps=("http://h1.br/s.xml",)),
        robots(hosts[2], "User-agent: *\nDisallow: /\n"),
        robots(hosts[3], status=404),
        robots(hosts[4], status=503),
        robots(hosts[5], "User-agent: Tarrafa\nAllow: /\nCrawl-delay: 15\nUser-agent: *\nDisallow: /\n"),
        robots("http://elsewhere.org:80", "User-agent: *\nDisallow: /\n"),
        robots(hosts[3], status=0),  # as it was
    ]
    visited = [a_visit(f"http://h{n}.br/", n, -7 if n == 2 else 200, requested=n != 2, kept=n != 2) for n in range(7)]
    found = build_report(an_archive(tmp_path, ("w1", [*notes, *visited])), NAME).robots
    assert (found.asked, found.present, found.absent, found.unreachable) == (6, 4, 1, 1)
    assert (found.with_rules, found.closed, found.with_delay, found.with_sitemaps) == (2, 1, 2, 1)
    assert (found.delay_s_mean, found.delay_s_most, found.urls_excluded) == (10, 15, 1)


def test_links_on_a_page_are_counted_once_and_without_itself(tmp_path):
    links = [f"{A}/2", f"{A}/2", f"{A}/1", f"{B}/", f"{A}:8080/x", "http://a.br.evil.org/"]
    found = report_of(tmp_path, a_visit(f"{A}/1", links=links), a_visit(f"{A}/2", 1))
    assert (found.internal_links.mean, found.internal_links.most) == (0.5, 1)
    assert (found.outgoing_links.mean, found.outgoing_links.most) == (2, 4)
    assert found.degrees.outgoing == [(0, 1), (4, 1)]


def test_servers_and_the_share_that_holds_eighty_percent(tmp_path):
    pages = [
        a_visit(f"http://h{host}.br/{n}", host + n / 100) for host in range(10) for n in range(92 if host == 0 else 1)
    ]
    found = report_of(tmp_path, *pages, a_visit("http://empty.br/", 50, 404)).servers
    assert (found.visited, found.with_documents, found.sites) == (11, 10, 10)
    assert found.most[0].host == "http://h0.br:80"
    assert (found.most[0].documents, found.most[0].bytes) == (92, 92_000)
    assert (found.holding_80_servers, found.holding_80) == (1, 0.1)


def test_each_collectors_end_is_known_crawlers_elsewhere_included(tmp_path):
    data = an_archive(
        tmp_path,
        ("w1", [a_visit(f"{A}/1", 0), a_visit(f"{A}/2", 10)]),
        ("w2", [a_visit(f"{B}/1", 5), a_visit(f"{B}/2", 30, 404)]),
        ("relay", [a_visit(f"{C}/1", 20, worker="far away")]),
    )
    found = build_report(data, NAME)
    assert [(one.name, one.requests, one.documents, one.last - T) for one in found.collectors] == [
        ("w1", 2, 2, 10), ("far away", 1, 1, 20), ("w2", 2, 1, 30),
    ]  # fmt: skip
    line = found.timeline
    assert (line.documents[-1], line.sites[-1], sum(line.requests), sum(line.bytes)) == (4, 3, 5, 5000)
    assert line.documents[int(5 / line.step_s)] == 2


def test_a_period_counts_its_own_visits_only(tmp_path):
    data = an_archive(tmp_path, ("w1", [a_visit(f"{A}/{n}", n * 100) for n in range(10)]))
    found = build_report(data, NAME, since=T + 200, until=T + 500)
    assert (found.work.documents, found.since, found.until) == (3, T + 200, T + 500)
    assert "graph_is_now" in found.notes
    with pytest.raises(ConfigError, match="--until must be later"):
        build_report(data, NAME, since=T, until=T)


def test_one_run_of_several_is_told_by_the_notes_in_the_archive(tmp_path):
    data = an_archive(tmp_path)
    for worker in ("w1", "w2"):
        writer = WarcWriter(data.archive, worker, T)
        for run in (1, 2):
            note = {"type": "collection", "collection": NAME, "revision": 1, "config": {"name": NAME}, "run": run}
            _append_note(writer, note)
            for n in range(run):
                writer.append(a_visit(f"{A}/{worker}-{n}", run * 100 + n, visit=run), None)
        writer.close()
    assert [build_report(data, NAME, run=run).work.visits for run in (None, 1, 2)] == [6, 2, 4]
    assert build_report(data, NAME, run=2).run == 2
    with pytest.raises(ConfigError, match=r"no run 3 with visits \(there are: 1, 2\)"):
        build_report(data, NAME, run=3)


def test_what_was_visited_before_the_collection_was_deleted_is_nobodys(tmp_path):
    data = an_archive(tmp_path, ("w1", [a_visit(f"{A}/1", 1)]), ("w2", [a_visit(f"{B}/1", 9)]))
    writer = WarcWriter(data.archive, "w3", T)
    _append_note(writer, {"type": "deleted", "collection": NAME, "at": T + 5})
    writer.append(a_visit(f"{C}/1", 2, collection="other"), None)
    writer.close()
    found = build_report(data, NAME)
    assert list(found.servers.documents) == ["http://b.pt:80"]
    assert [one.name for one in found.collectors] == ["w2"]


def test_a_collection_that_was_deleted_is_neither_told_nor_reported_until_its_name_is_used_again(tmp_path):
    gone = [a_visit(f"{A}/1", 1, collection="old"), a_visit(f"{A}/2", 2, collection="again")]
    data = an_archive(tmp_path, ("w1", [a_visit(f"{A}/3", 3), *gone]))
    writer = WarcWriter(data.archive, "w0", T)
    for name in ("old", "again"):
        writer.append_note(CollectionNote(name, 1, msgspec.Raw(b"{}")), T)
    writer.close()
    record_deletions(data.archive, {"old": T + 5, "again": T + 5}, T + 5)
    assert build_report(data, NAME).shared_with == 0
    for name in ("x", "old"):
        with pytest.raises(ConfigError, match=rf"no collection is named '{name}' \(there are: c\)"):
            build_report(data, name)
    writer = WarcWriter(data.archive, "w2", T + 6)
    writer.append(a_visit(f"{A}/2", 7, collection="again"), None)
    writer.close()
    assert (build_report(data, NAME).shared_with, build_report(data, "again").work.visits) == (1, 1)
    with pytest.raises(ConfigError, match=r"there are: again, c\)"):
        build_report(data, "old")


def test_a_run_of_a_deleted_collection_is_no_run_of_its_namesake(tmp_path):
    data = an_archive(tmp_path)
    writer = WarcWriter(data.archive, "w1", T)
    for run, at in ((1, 1), (2, 2), (1, 9)):
        writer.append_note(CollectionNote(NAME, run, msgspec.Raw(b"{}"), run), T + at)
        writer.append(a_visit(f"{A}/{at}", at), None)
    writer.close()
    record_deletions(data.archive, {NAME: T + 5}, T + 5)
    assert build_report(data, NAME, run=1).work.visits == 1
    with pytest.raises(ConfigError, match=r"no run 2 with visits \(there are: 1\)"):
        build_report(data, NAME, run=2)


def _append_note(writer: WarcWriter, content: dict[str, object]) -> None:
    writer._records()._meta.write("resource", warc_date(T), "", msgspec.json.encode(content))


def test_pages_pass_or_fail_the_breadth_rule_by_cycle(tmp_path):
    config = {"name": NAME, "roots": [f"{A}/"], "strategy": {"order": "breadth", "cycle": 2}}
    data = an_archive(tmp_path)
    writer = WarcWriter(data.archive, "w1", T)
    writer.append_note(CollectionNote(NAME, 1, msgspec.Raw(msgspec.json.encode(config))), T)
    for at, (host, page, links) in enumerate([
        ("a.br", 1, 2), ("www.a.br", 2, 3), ("b.br", 1, 1), ("a.br", 3, 8), ("c.br", 1, 900), ("c.br", 2, 4),
    ]):  # fmt: skip
        writer.append(a_visit(f"http://{host}/{page}", at, external=links), None)
    writer.close()
    found = build_report(data, NAME)
    assert found.order == "breadth"
    assert [(one.number, one.sites, one.pages, one.passed, one.failed) for one in found.cycles] == [
        (1, 2, 4, 2, 2), (2, 1, 2, 2, 0),
    ]  # fmt: skip


def test_another_collection_in_the_same_archive_is_not_counted_but_told(tmp_path):
    found = report_of(tmp_path, a_visit(f"{A}/1"), a_visit(f"{A}/2", collection="other"))
    assert (found.work.visits, found.shared_with) == (1, 1)
    assert "shared" in found.notes


def test_a_collection_that_nobody_knows_is_named_with_those_that_are_there(tmp_path):
    data = an_archive(tmp_path, ("w1", [a_visit(f"{A}/1")]))
    with pytest.raises(ConfigError, match=r"no collection is named 'x' \(there are: c\)"):
        build_report(data, "x")


def test_no_data_directory_is_one_line(tmp_path):
    with pytest.raises(DataError, match="no Tarrafa data here"):
        build_report(an_archive(tmp_path / "a").__class__(tmp_path / "b"), NAME)


def test_many_rows_lie_in_a_file_and_add_up_to_the_same(tmp_path, monkeypatch):
    records = [a_visit(f"http://h{n % 7}.br/{n}", n, depth=n % 5, length=n) for n in range(100)]
    data = an_archive(tmp_path, ("w1", records))
    small = build_report(data, NAME, search=False)
    monkeypatch.setattr(visit_rows, "ROWS_PER_CHUNK", 8)
    monkeypatch.setattr(visit_rows, "ROWS_IN_MEMORY", 24)
    large = build_report(data, NAME, search=False)
    alike = msgspec.structs.replace(large, made_at=small.made_at, machines=small.machines)
    assert as_json(alike) == as_json(small)


def test_what_the_web_makes_up_without_end_is_one_row(tmp_path, monkeypatch):
    monkeypatch.setattr(visit_rows, "NAMES_MAX", 10)
    found = report_of(tmp_path, *(a_visit(f"{A}/{n}", n, type=f"text/x-{n}") for n in range(30)))
    assert counted(found.types)[visit_rows.OTHER] == 20
    assert len(found.types) == 11


@pytest.mark.parametrize(
    ("host", "domain"),
    [("http://a.gov.br:80", "gov.br"), ("https://x.y.br:443", "br"), ("http://br:80", "br"), ("http://a.pt:80", "pt"),
     ("http://127.0.0.1:80", "(address)"), ("http://[::1]:80", "(address)"), ("http://localhost:80", "localhost")],
)  # fmt: skip
def test_domains_that_the_collection_names_come_before_top_level_domains(host, domain):
    config = msgspec.convert(
        {"name": "c", "scope": {"hosts": ["*.br", "www.pt"]}, "strategy": {"favour": ["*.gov.br"]}}, Collection
    )
    assert domain_of(host, named_domains(config)) == domain


def test_two_reports_are_compared_figure_by_figure_and_name_by_name(tmp_path):
    before = report_of(
        tmp_path / "1", a_visit(f"{A}/1"), a_visit(f"{B}/1", 1, language="en"), a_visit(f"{A}/2", 2, 404)
    )
    now = report_of(tmp_path / "2", *(a_visit(f"{A}/{n}", n) for n in range(3)), a_visit(f"{C}/1", 9, language="fr"))
    path = tmp_path / "report.json"
    path.write_bytes(as_json(before))
    assert read_report(path) == before
    found = compare_reports(read_report(path), now)
    figures = {one.name: (one.before, one.now) for one in found.figures}
    assert figures["documents"] == (2, 4)
    assert figures["servers"] == (2, 2)
    lists = {one.name: one for one in found.lists}
    assert [one.name for one in lists["servers"].appeared] == ["http://c.com:8080"]
    assert [one.name for one in lists["servers"].vanished] == ["http://b.pt:80"]
    assert [(one.name, one.before, one.now) for one in lists["servers"].moved] == [("http://a.br:80", 1, 3)]
    assert [one.name for one in lists["languages"].appeared] == ["fr"]
    assert [one.name for one in lists["responses"].vanished] == ["404"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"{}", "no report.json"), (b"\xff", "no report.json"), (b'{"format": 99, "collection": "c"}', "a newer Tarrafa")],
)
def test_what_is_no_earlier_report_is_refused_in_one_line(tmp_path, content, complaint):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=complaint):
        read_report(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_report(tmp_path / "missing.json")
