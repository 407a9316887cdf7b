"""The settings of the frontier's SQLite file."""

import contextlib

from tarrafa.frontier.store.database import open_database

FRAME_HEADER_BYTES = 24  # https://www.sqlite.org/fileformat2.html#walformat


def test_a_log_that_was_checkpointed_in_time_is_not_truncated(tmp_path):
    with contextlib.closing(open_database(str(tmp_path / "frontier.sqlite"), "").connection) as db:
        frame_bytes = int(db.pragma("page_size")) + FRAME_HEADER_BYTES
        assert int(db.pragma("journal_size_limit")) > int(db.pragma("wal_autocheckpoint")) * frame_bytes


def test_every_commit_is_synced(tmp_path):
    with contextlib.closing(open_database(str(tmp_path / "frontier.sqlite"), "").connection) as db:
        assert (db.pragma("journal_mode"), int(db.pragma("synchronous"))) == ("wal", 2)
