"""SQLite files: opened by several processes, refused in another format, and their errors told in one line."""

import multiprocessing
import os
import signal

import apsw
import pytest

from tarrafa.coordinator.store import open_store
from tarrafa.errors import DataError, DiskFull, Locked
from tarrafa.frontier.store.database import open_database
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile, open_sqlite_readonly, rows


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


SCHEMA = "CREATE TABLE kept (x)"


@pytest.fixture
def file(tmp_path):
    return SqliteFile(tmp_path / "file.sqlite", 3, "delete it")


def test_a_new_file_has_tables_and_format_and_is_not_made_anew_later(file):
    assert file.found_format() == 0
    with file.writing(SCHEMA) as connection:
        connection.execute("INSERT INTO kept VALUES (7)")
    assert file.found_format() == 3
    with file.writing(SCHEMA), file.reading() as connection:
        assert rows(connection, "SELECT x FROM kept") == [(7,)]


def test_a_transaction_that_fails_leaves_nothing(file):
    with pytest.raises(ZeroDivisionError), file.writing(SCHEMA) as connection:
        connection.execute("INSERT INTO kept VALUES (7)")
        raise ZeroDivisionError
    with file.reading() as connection:
        assert rows(connection, "SELECT x FROM kept") == []


def test_tables_that_cannot_be_made_leave_no_format(file):
    with pytest.raises(DataError, match=r"file\.sqlite: cannot be used .*; delete it"):
        file.open(SCHEMA + "; CREATE NONSENSE")
    assert file.found_format() == 0


def test_another_format_is_refused_and_left_alone(file):
    apsw.Connection(str(file.path)).pragma("user_version", 9)
    for use in (lambda: file.open(SCHEMA), file.open_readonly):
        with pytest.raises(DataError, match=r"format 9, this one reads 3\); nothing was changed; delete it"):
            use()
    assert file.found_format() == 9


def test_a_file_without_a_format_leaves_that_of_others_alone(tmp_path):
    path = tmp_path / "file.sqlite"
    apsw.Connection(str(path)).pragma("user_version", 9)
    with SqliteFile(path).writing("CREATE TABLE IF NOT EXISTS kept (x)") as connection:
        assert connection.pragma("user_version") == 9


@pytest.mark.parametrize("sync", ["normal", "full"])
def test_a_writer_syncs_as_said_and_leaves_readers_alone(file, sync):
    connection = file.open(SCHEMA, sync=sync, cache_kib=512)
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == {"normal": 1, "full": 2}[sync]
    assert connection.pragma("cache_size") == -512
    connection.execute("BEGIN IMMEDIATE; INSERT INTO kept VALUES (7)")
    with file.reading() as reader:
        assert rows(reader, "SELECT x FROM kept") == []


def test_a_removed_file_leaves_no_log_to_the_next_one(file):
    connection = file.open(SCHEMA)
    connection.execute("INSERT INTO kept VALUES (7)")
    file.remove()
    assert not list(file.path.parent.iterdir())
    with file.writing(SCHEMA) as fresh:
        assert rows(fresh, "SELECT x FROM kept") == []


def test_a_file_that_is_no_database_is_said_to_be_damaged(file):
    file.path.write_bytes(b"no database at all, and long enough to be looked at" * 100)
    for use in (lambda: file.open(SCHEMA), file.open_readonly, file.found_format):
        with pytest.raises(DataError, match=r"file\.sqlite: cannot be used, it is damaged .*; delete it"):
            use()


def test_a_file_that_is_not_there_cannot_be_read_and_is_not_made(file):
    with pytest.raises(DataError, match=r"file\.sqlite: cannot be used"):
        file.open_readonly()
    assert not file.path.exists()


def test_a_file_that_another_process_keeps_locked_is_said_to_be(file):
    holder = file.open(SCHEMA)
    holder.execute("BEGIN IMMEDIATE")
    connection = file.open(SCHEMA, busy_timeout_ms=1)
    with pytest.raises(Locked, match="another process is writing it"), file.errors(connection):
        connection.execute("INSERT INTO kept VALUES (7)")


def test_a_full_disk_is_said_to_be_full(file):
    connection = file.open(SCHEMA)
    connection.pragma("max_page_count", connection.pragma("page_count"))
    with pytest.raises(DiskFull, match="the disk is full"), file.errors(connection):
        connection.execute("INSERT INTO kept VALUES (zeroblob(100000))")


def test_what_may_only_be_read_is_said_not_to_be_writable(file):
    file.open(SCHEMA).close()
    connection = file.open_readonly()
    with pytest.raises(DataError, match="cannot be written"), file.errors(connection):
        connection.execute("INSERT INTO kept VALUES (7)")


def test_errors_that_are_not_of_sqlite_pass(file):
    with pytest.raises(KeyError), file.errors():
        raise KeyError
