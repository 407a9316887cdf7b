"""Others read what the follower has published, and nothing else."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Quad, Store

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples.snapshots import (
    SNAPSHOTS_KEPT,
    UNFINISHED,
    TripleSnapshot,
    folder,
    newest_number,
    publish,
    remove_published,
)

HOLD = """
import sys
from pathlib import Path
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples.snapshots import TripleSnapshot
snapshot = TripleSnapshot.open_newest(DataDirectory(Path(sys.argv[1])))
print(snapshot.number, flush=True)
sys.stdin.read()
print(len(snapshot.store), flush=True)
"""


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    data = DataDirectory(tmp_path / "data")
    data.triples.mkdir(parents=True)
    return data


@pytest.fixture
def store(data: DataDirectory) -> Store:
    return Store(str(data.triples / "store"))


def there(data: DataDirectory) -> list[str]:
    return sorted(path.name for path in folder(data).iterdir())


def snapshot_of(data: DataDirectory) -> TripleSnapshot:
    snapshot = TripleSnapshot.open_newest(data)
    assert snapshot is not None
    return snapshot


def state(store: Store, number: int) -> None:
    store.add(Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), NamedNode("urn:o")))


def test_nothing_is_there_before_the_first_publication(data: DataDirectory) -> None:
    assert newest_number(data) == 0
    assert TripleSnapshot.open_newest(data) is None


def test_what_was_published_does_not_change_while_the_follower_goes_on(data: DataDirectory, store: Store) -> None:
    state(store, 1)
    assert publish(store, data) == 1
    with snapshot_of(data) as snapshot:
        state(store, 2)
        assert publish(store, data) == 2
        assert len(snapshot.store) == 1
    with snapshot_of(data) as snapshot:
        assert (snapshot.number, len(snapshot.store)) == (2, 2)


@contextmanager
def another_holds_the_newest(data: DataDirectory) -> Iterator[subprocess.Popen[str]]:
    arguments = [sys.executable, "-c", HOLD, str(data.root)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == f"{newest_number(data)}\n"
        yield reader


def test_only_the_newest_are_kept_and_what_somebody_holds(data: DataDirectory, store: Store) -> None:
    state(store, 1)
    publish(store, data)
    with another_holds_the_newest(data) as reader:
        for number in range(2, 8):
            state(store, number)
            publish(store, data)
        assert there(data) == ["1", *(str(number) for number in range(8 - SNAPSHOTS_KEPT, 8))]
        assert reader.communicate("")[0] == "1\n"  # its statements are all there, long after
    publish(store, data)
    assert "1" not in there(data)


def test_who_is_killed_holds_nothing(data: DataDirectory, store: Store) -> None:
    publish(store, data)
    with another_holds_the_newest(data) as reader:
        reader.send_signal(signal.SIGKILL)
    for _ in range(SNAPSHOTS_KEPT):
        publish(store, data)
    assert "1" not in there(data)


def test_what_a_crash_left_half_published_is_not_taken_for_published(data: DataDirectory, store: Store) -> None:
    publish(store, data)
    (folder(data) / UNFINISHED).mkdir()
    assert newest_number(data) == 1
    assert publish(store, data) == 2
    assert UNFINISHED not in there(data)


def test_what_is_withdrawn_is_gone(data: DataDirectory, store: Store) -> None:
    publish(store, data)
    remove_published(data)
    assert TripleSnapshot.open_newest(data) is None
