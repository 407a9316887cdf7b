"""Each planted damage is found under its name; a healthy archive has no finding; a repair leaves it clean."""

from pathlib import Path

import pytest

from tarrafa.crawl.verify.findings import KINDS, Severity, VerifyReport
from tarrafa.crawl.verify.repair import repair
from tarrafa.crawl.verify.verification import Verification
from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.verify import planted
from tests.crawl.verify.conftest import Plant, copy_of

LOST, DERIVED, HARMLESS = Severity.LOST, Severity.DERIVED, Severity.HARMLESS
DAMAGES: list[tuple[Plant, str, str, Severity]] = [
    (planted.flip_in_body, "archive", "damaged-record", LOST),
    (planted.flip_in_header, "archive", "damaged-record", LOST),
    (planted.flip_in_text, "archive", "damaged-record", LOST),
    (planted.flip_in_visit, "archive", "damaged-record", LOST),
    (planted.flip_in_trailer, "archive", "damaged-record", LOST),
    (planted.flip_in_extra_field, "archive", "damaged-record", LOST),
    (planted.cut_file, "archive", "mark-beyond-file", LOST),
    (planted.cut_responses, "archive", "mark-beyond-file", LOST),
    (planted.swap_records, "archive", "misplaced-record", DERIVED),
    (planted.swap_texts, "archive", "misplaced-record", DERIVED),
    (planted.forge_content, "archive", "wrong-digest", LOST),
    (planted.forge_in_place, "archive", "wrong-digest", LOST),
    (planted.lose_mark, "archive", "mark-missing", DERIVED),
    (planted.damage_mark, "archive", "mark-damaged", DERIVED),
    (planted.old_mark, "archive", "mark-behind", DERIVED),
    (planted.old_response_mark, "archive", "mark-behind", DERIVED),
    (planted.mark_beyond_file, "archive", "mark-beyond-file", LOST),
    (planted.zero_block, "archive", "zeroed-block", LOST),
    (planted.duplicate_record, "archive", "duplicate-record", HARMLESS),
    (planted.unreadable_visit, "archive", "unreadable-record", LOST),
    (planted.lose_responses, "archive", "file-missing", LOST),
    (planted.lose_pair, "archive", "file-missing", LOST),
    (planted.mismatched_files, "archive", "wrong-file", LOST),
    (planted.visit_without_record, "frontier", "visit-without-record", LOST),
    (planted.forget_visit, "frontier", "record-unknown", DERIVED),
    (planted.delete_capture, "captures", "capture-missing", DERIVED),
    (planted.extra_capture, "captures", "capture-extra", DERIVED),
    (planted.wrong_capture, "captures", "capture-differs", DERIVED),
    (planted.delete_node, "graph", "page-missing", DERIVED),
    (planted.delete_edge, "graph", "edges-differ", DERIVED),
    (planted.old_node, "graph", "page-differs", DERIVED),
    (planted.wrong_in_links, "graph", "in-links-differ", DERIVED),
    (planted.cursor_beyond, "graph", "cursor-wrong", DERIVED),
    (planted.delete_page, "index", "page-missing", DERIVED),
    (planted.extra_page, "index", "page-extra", DERIVED),
    (planted.delete_document, "index", "document-missing", DERIVED),
    (planted.damage_frontier, "frontier", "store-damaged", DERIVED),
    (planted.damage_graph, "graph", "store-damaged", DERIVED),
    (planted.damage_captures, "captures", "store-damaged", DERIVED),
    (planted.damage_index, "index", "store-damaged", DERIVED),
    (planted.lose_documents, "index", "store-missing", DERIVED),
    (planted.extra_document, "index", "document-extra", DERIVED),
    (planted.delete_statements, "triples", "graph-missing", DERIVED),
    (planted.delete_graph, "triples", "graph-missing", DERIVED),
]
FOUND_QUICKLY = (
    planted.cut_file, planted.lose_mark, planted.damage_mark, planted.mark_beyond_file, planted.flip_in_extra_field,
    planted.lose_responses, planted.cursor_beyond, planted.delete_capture, planted.extra_capture, planted.delete_edge,
    planted.delete_page, planted.damage_captures, planted.lose_documents,
)  # fmt: skip
# What only a replica has: without one these stay, and are named.
LEFT_WITHOUT_REPLICA = (planted.forge_content, planted.forge_in_place)
_name = lambda plant: getattr(plant, "__name__", "")  # noqa: E731


def verified(data: DataDirectory, *, deep: bool = True) -> VerifyReport:
    with Verification(data, deep=deep) as verification:
        return verification.run()


def kinds(report: VerifyReport) -> set[tuple[str, str]]:
    return {(one.store, one.kind) for one in report.counts}


def test_a_healthy_archive_has_no_finding(crawled: DataDirectory) -> None:
    for deep in (False, True):
        report = verified(crawled, deep=deep)
        assert (report.findings, report.notes, report.known_losses) == ([], [], 0)
        assert report.records > 300
    assert report.visits > 80


@pytest.mark.parametrize(("plant", "store", "kind", "severity"), DAMAGES, ids=_name)
def test_each_damage_is_found_under_its_name(
    copy: DataDirectory, plant: Plant, store: str, kind: str, severity: Severity
) -> None:
    plant(copy)
    report = verified(copy)
    assert (store, kind) in kinds(report)
    found = next(one for one in report.findings if (one.store, one.kind) == (store, kind))
    assert found.severity == severity
    assert found.place or found.detail or found.collection
    assert KINDS[kind].text and found.remedy


@pytest.mark.parametrize("plant", FOUND_QUICKLY, ids=_name)
def test_lengths_marks_cursors_and_counts_are_checked_without_reading_all(copy: DataDirectory, plant: Plant) -> None:
    plant(copy)
    assert verified(copy, deep=False).total > 0


@pytest.mark.parametrize("plant", [one[0] for one in DAMAGES], ids=_name)
def test_a_repair_with_a_replica_restores_everything(
    copy: DataDirectory, crawled: DataDirectory, plant: Plant, tmp_path: Path
) -> None:
    plant(copy)
    result = repair(copy, crawled.root)
    assert result.report.findings == [], result
    assert verified(copy, deep=False).total == 0


@pytest.mark.parametrize("plant", [one[0] for one in DAMAGES], ids=_name)
def test_a_repair_without_a_replica_leaves_it_clean_or_says_what_remains(copy: DataDirectory, plant: Plant) -> None:
    plant(copy)
    result = repair(copy, None)
    if plant in LEFT_WITHOUT_REPLICA:
        assert kinds(result.report) == {("archive", "wrong-digest")}
        assert result.left
    else:
        assert result.report.findings == [], result
    again = repair(copy, None)
    assert again.done == []


def test_what_a_crash_left_behind_the_mark_hides_no_lost_response(copy: DataDirectory) -> None:
    planted.flip_in_body(copy)
    with planted.warc(copy).open("ab") as file:
        file.write(planted.warc(copy).read_bytes()[:1000])
    assert ("archive", "response-missing") in kinds(verified(copy))
    assert repair(copy, None).report.findings == []


def test_damaged_bytes_are_kept(copy: DataDirectory) -> None:
    path = planted.warc(copy)
    planted.flip_in_body(copy)
    damaged = path.read_bytes()
    repair(copy, None)
    (kept,) = (copy.root / "quarantine").glob(f"{path.name}.*")
    start, _, end = kept.name.removeprefix(f"{path.name}.").partition("-")
    assert kept.read_bytes() == damaged[int(start) : int(end)]
    now = path.read_bytes()
    assert now[: int(start)] + kept.read_bytes() + now[int(end) :] == damaged
    planted.assert_gzip(path)


def test_a_gap_is_filled_by_a_replica_later(copy: DataDirectory, crawled: DataDirectory) -> None:
    path = planted.meta(copy)
    planted.flip_in_visit(copy)
    assert repair(copy, None).report.known_losses == 1
    result = repair(copy, crawled.root)
    assert path.read_bytes() == planted.meta(crawled).read_bytes()
    assert (result.report.known_losses, result.report.notes) == (0, [])


def test_copies_are_independent(crawled: DataDirectory, tmp_path: Path) -> None:
    one = copy_of(crawled, tmp_path / "one")
    planted.cut_file(one)
    assert verified(crawled).total == 0
