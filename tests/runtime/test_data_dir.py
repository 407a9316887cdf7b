"""Files that several processes share."""

import multiprocessing
import os
import signal

import apsw
import pytest

from tarrafa.coordinator.store import open_store
from tarrafa.frontier.store.database import open_database
from tarrafa.runtime.data_dir import DataDirectory, open_sqlite_readonly


def die_while_writing(path):
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA cache_size = 2; CREATE TABLE kept (x); INSERT INTO kept VALUES (1); BEGIN")
    for _ in range(100):
        connection.execute("INSERT INTO kept VALUES (zeroblob(1000))")
    os.kill(os.getpid(), signal.SIGKILL)


def test_who_reads_can_read_what_a_killed_writer_left(tmp_path):
    path = tmp_path / "file.sqlite"
    child = multiprocessing.get_context("fork").Process(target=die_while_writing, args=(path,))
    child.start()
    child.join(30)
    assert path.with_name("file.sqlite-journal").exists(), "the kill must leave one"
    connection = open_sqlite_readonly(path)
    assert connection.execute("SELECT count(*) FROM kept").fetchall() == [(1,)]
    with pytest.raises(apsw.ReadOnlyError):
        connection.execute("DELETE FROM kept")


def test_reading_makes_no_file(tmp_path):
    with pytest.raises(apsw.CantOpenError):
        open_sqlite_readonly(tmp_path / "none.sqlite")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("opened", ["frontier", "coordinator"])
def test_files_that_hold_secrets_are_their_owners_only_and_are_tightened(tmp_path, opened):
    data = DataDirectory(tmp_path)
    data.create()

    def modes() -> dict[str, int]:
        return {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{opened}.sqlite*")}

    def open_it() -> apsw.Connection:
        if opened == "coordinator":
            return open_store(data)
        return open_database(str(data.frontier), "").connection

    before = os.umask(0o022)
    try:
        connection = open_it()
        assert modes() == dict.fromkeys([f"{opened}.sqlite{ending}" for ending in ("", "-wal", "-shm")], 0o600)
        for path in tmp_path.glob(f"{opened}.sqlite*"):
            path.chmod(0o644)
        open_it().close()
        assert set(modes().values()) == {0o600}
        connection.close()
    finally:
        os.umask(before)
