"""Many processes make the index that one would have made, whoever is killed in between."""

import multiprocessing
import os
import random
import signal
from pathlib import Path

import msgspec
import pytest

from tarrafa.archive.warc_reader import follow, visit_lengths
from tarrafa.errors import DataError
from tarrafa.graph import follower as graph
from tarrafa.index import parallel_rebuild, shards
from tarrafa.index.document_builder import DocumentBuilder, DocumentBuilderPool
from tarrafa.index.document_fields import DocumentValues, document_from_values
from tarrafa.index.follower import behind, build_part, catch_up, rebuild
from tarrafa.index.parallel_rebuild import rebuild_in_parallel
from tarrafa.index.reader import IndexReader
from tarrafa.runtime.data_dir import DataDirectory
from tests.graph.archived_web import a_record, new_data, small_web, write
from tests.index.test_index_shards import contents

PAGES = 300


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDirectory:
    """An archive of two files with pages that changed and pages that are gone."""
    monkeypatch.setattr(parallel_rebuild, "SMALL_BYTES", 0)
    data, records = new_data(tmp_path / "data"), small_web(PAGES)
    again = [msgspec.structs.replace(record, visit=2) for record in small_web(PAGES, seed=8)[::3]]
    write(data, records)
    write(data, [*again, *(a_record(record.url, 3, status=404) for record in records[::5])], "w2")
    graph.catch_up(data, lambda name, weights: None)
    return data


def test_a_document_is_the_same_whoever_made_it(data):
    analyst, record = DocumentBuilder(data), small_web(3)[2]
    sheet = DocumentValues()
    (standing,) = analyst.link_standings([record])
    marks = analyst.fill(sheet, record, standing)
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(sheet.values))
    here = analyst.build(record, standing)
    assert document_from_values(sent).to_dict() == here.document.to_dict()
    assert marks == here.standing
    assert marks.in_links > 0


@pytest.mark.parametrize("into", ["1", "2"])
def test_many_processes_make_what_one_makes(data, into):
    rebuild(data)
    wanted = contents(data)
    told: list[int] = []
    number = rebuild_in_parallel(data, 2, told.append, shards.parse_layout(into, "test"))
    assert number == 2 * PAGES // 3 + PAGES // 3 + PAGES // 3 + PAGES // 5
    assert contents(data) == wanted
    assert len(wanted) == PAGES * 4 // 5
    assert behind(data) == 0
    assert 0 <= sum(told) <= sum(visit_lengths(data.archive).values())
    words = {shown.text.split()[0] for shown in wanted}
    assert words, "and can be searched"
    assert sum(IndexReader(part).snapshot().documents for part in shards.parts(data)) == len(wanted)


def test_what_stands_in_the_way_is_said_in_one_line(data, monkeypatch):
    (file,) = sorted(data.archive.glob("*w2*.meta.warc.gz"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2 :] = b"\x00" * (len(content) - len(content) // 2)
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged|not whole|cannot be read") as caught:
        rebuild_in_parallel(data, 2)
    assert "\n" not in str(caught.value)


def test_a_child_that_is_killed_is_said_and_the_next_try_ends_well(data, monkeypatch):
    rebuild(data)
    wanted = contents(data)
    original = parallel_rebuild._PartBuilders._start

    def start_and_kill(builders: parallel_rebuild._PartBuilders, part: DataDirectory) -> None:
        original(builders, part)
        next(iter(builders._running.values()))[0].kill()

    monkeypatch.setattr(parallel_rebuild._PartBuilders, "_start", start_and_kill)
    with pytest.raises(DataError, match=r"was killed \(signal 9\); run the command again"):
        rebuild_in_parallel(data, 2)
    assert contents(data) == wanted, "the one that was there"
    assert behind(data) == 0
    monkeypatch.undo()
    rebuild_in_parallel(data, 2)
    assert contents(data) == wanted


def test_an_analyst_that_is_killed_is_said(data):
    with DocumentBuilderPool(data, 1) as pool:
        os.kill(pool._pool.submit(os.getpid).result(60), signal.SIGKILL)
        with pytest.raises(DataError, match="was killed; run the command again"):
            while True:
                for batch in pool.build_all(follow(data.archive, {})):
                    assert batch


def _die_while_making(data: DataDirectory, after_s: float, into: str) -> None:
    parallel_rebuild.SMALL_BYTES = 0
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if after_s:
        signal.setitimer(signal.ITIMER_REAL, after_s)
    rebuild_in_parallel(data, 2, divided=shards.parse_layout(into, "test"))
    os._exit(0)


@pytest.mark.long
@pytest.mark.parametrize("into", ["1", "3"])
def test_killed_at_random_moments_a_rebuild_leaves_nobody_behind_and_ends_as_in_one_go(data, into):
    rebuild(data)
    wanted = contents(data)
    rng = random.Random(17)
    for attempt in range(12):
        child = multiprocessing.get_context("fork").Process(
            target=_die_while_making, args=(data, rng.uniform(0.05, 3.0), into)
        )
        child.start()
        child.join(120)
        if attempt % 3 == 2:  # who follows goes on with whatever is there
            _wait_for_locks(data)
            catch_up(data)
            assert contents(data) == wanted
    _wait_for_locks(data)
    rebuild_in_parallel(data, 2)
    assert contents(data) == wanted
    assert behind(data) == 0


def _wait_for_locks(data: DataDirectory) -> None:
    """Until those that die with their parent are dead."""
    for part in shards.parts(data):
        while True:
            try:
                build_part(part)
                break
            except DataError as error:
                assert "another process" in str(error)
