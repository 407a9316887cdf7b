"""No false finding: takedowns, deletions, imports, 304s, revisits, pages that say noindex, several collections."""

from pathlib import Path

from typer.testing import CliRunner

from tarrafa.archive.deletion_log import record_deletions
from tarrafa.captures import follower as captures
from tarrafa.cli.app import app
from tarrafa.crawl.verify.findings import VerifyReport
from tarrafa.crawl.verify.verification import Verification
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.model import Link, RobotsMeta
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples import follower as triples
from tests.captures.archived_site import COLLECTION, FIRST_AT, new_archive, write_site
from tests.graph.archived_web import a_record, new_data, small_web, write

DAY_S = 86_400.0


def run(*arguments: str | Path) -> None:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output


def follow_all(data: DataDirectory) -> None:
    graph.catch_up(data, lambda collection, weights: None)
    captures.catch_up(data)
    index.catch_up(data)
    triples.build_part(data)


def assert_healthy(data: DataDirectory) -> VerifyReport:
    for deep in (False, True):
        with Verification(data, deep=deep) as verification:
            report = verification.run()
        assert report.findings == []
    return report


def test_pages_that_were_taken_down_and_lifted(copy: DataDirectory) -> None:
    host = "h0001.br.test"
    run("takedown", "add", f"host:{host}", "--reason", "asked for", "--data", copy.root)
    assert_healthy(copy)
    run("takedown", "lift", f"host:{host}", "--data", copy.root)
    assert_healthy(copy)


def test_a_deleted_collection(copy: DataDirectory) -> None:
    run("delete", "journey", "--yes", "--data", copy.root)
    assert_healthy(copy)


def test_a_deletion_that_the_projections_have_not_applied_yet(copy: DataDirectory) -> None:
    record_deletions(copy.archive, {"journey": 9e9}, 9e9)
    with Verification(copy, deep=True) as verification:
        found = verification.run().counts
    assert {one.store for one in found} <= {"frontier"}


def test_imported_captures(crawled: DataDirectory, copy: DataDirectory) -> None:
    """Under another name: what is in both collections has one date and one digest."""
    run("import", "warc", crawled.archive, "--collection", "imported", "--data", copy.root)
    report = assert_healthy(copy)
    assert report.visits > 150


def test_captures_of_every_kind(tmp_path: Path) -> None:
    """304s, the same body again, pages that are not to be shown, robots.txt, two collections, no frontier."""
    data = new_archive(tmp_path / "data")
    write_site(data).close()
    follow_all(data)
    report = assert_healthy(data)
    assert report.notes == ["frontier: there is none here; visits were not compared"]
    record_deletions(data.archive, {COLLECTION: FIRST_AT + 900 * DAY_S}, FIRST_AT + 900 * DAY_S)
    follow_all(data)
    assert_healthy(data)


def test_pages_that_change_vanish_or_say_noindex(tmp_path: Path) -> None:
    """Later visits in other files, which are read in another order."""
    data = new_data(tmp_path / "data")
    write(data, small_web())
    follow_all(data)
    urls = [record.url for record in small_web()]
    later = [
        a_record(urls[3], 2, robots=RobotsMeta(noindex=True)),
        a_record(urls[4], 2, status=404),
        a_record(urls[5], 2, status=304),
        a_record(urls[6], 2, status=503),
        a_record(urls[7], 2, links=[Link(urls[3]), Link("http://new.test/")]),
        a_record(urls[8], 2, status=301, location=urls[9]),
        a_record(urls[10], 2, status=-25),
        a_record(urls[11], 0, text="old"),
    ]
    write(data, later, "a0")
    follow_all(data)
    assert_healthy(data)
    graph.rebuild(data)
    captures.rebuild(data)
    index.rebuild(data)
    triples.rebuild(data)
    assert_healthy(data)


def test_an_archive_that_is_ahead_of_its_projections(tmp_path: Path) -> None:
    data = new_data(tmp_path / "data")
    write(data, small_web(40))
    follow_all(data)
    write(data, small_web(120)[40:], "w2")
    assert_healthy(data)
    graph.catch_up(data, lambda collection, weights: None)
    assert_healthy(data)
