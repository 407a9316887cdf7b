"""Tables in Parquet: their rows, incremental runs, kills, takedowns, deletions, and that other programs open them."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from tarrafa import config
from tarrafa.archive.deletion_log import record_deletions
from tarrafa.config.sections import ArchiveConfig, Collection
from tarrafa.crawl.compaction.compaction import compact
from tarrafa.errors import ConfigError, DataError, DiskFull, Locked
from tarrafa.export import parquet_export
from tarrafa.export.parquet_export import export_tables, read_manifest
from tarrafa.export.table_rows import TABLES, TableContents
from tarrafa.model import CollectionNote
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.takedown import parse_target, record_action
from tests.captures.archive_tools import environment
from tests.captures.archived_site import DAY_S, FIRST_AT, new_archive
from tests.cli.test_captures import run
from tests.export.table_archive import LAB, NEWS, SHOP, SmallCrawl
from tests.export.test_warc_and_wacz import silent

WITH_ALL = TableContents()


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_archive(tmp_path / "data")


def rows(root: Path, query: str) -> list[tuple[Any, ...]]:
    """An answer over all files of the folders, as any program finds them."""
    with duckdb.connect(":memory:") as connection:
        for table in TABLES:
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{root}/{table}/*/*.parquet'")
        return connection.execute(query).fetchall()


def everything(root: Path) -> dict[str, list[str]]:
    """All rows of all tables, but for those of hosts, which depend on the parts."""
    names = [name for name in TABLES if name != "hosts"]
    return {name: sorted(map(str, rows(root, f"SELECT * FROM {name}"))) for name in names}


def test_the_rows_are_what_the_archive_has(data, tmp_path):
    SmallCrawl(data).write_all()
    root = tmp_path / "tables"
    done = export_tables(data, root, WITH_ALL, silent)
    assert done.rows == {"pages": 6, "visits": 9, "links": 7, "hosts": 4, "entities": 3}
    assert rows(root, f"SELECT title, text, content, words, links, year(published) FROM pages WHERE url = '{NEWS}/a'"
                " ORDER BY visited_at") == [("notícia", "notícia antiga", "", 2, 0, 2024),
                                            ("notícia", "notícia nova de hoje", "", 4, 1, 2024)]  # fmt: skip
    assert rows(root, "SELECT status, kept, server FROM visits WHERE host = 'dead.com.br'") == [(-12, False, "")]
    assert rows(root, f"SELECT robots_status, crawl_delay_s, sitemaps, visits, kept, errors FROM hosts WHERE"
                f" origin = '{NEWS}:443'") == [(200, 2.5, 1, 4, 3, 1)]  # fmt: skip
    assert rows(root, "SELECT name, properties FROM entities WHERE name <> ''") == [
        ("Boat fair", [{"name": "https://schema.org/name", "value": "Boat fair"}])
    ]
    assert rows(root, "SELECT src_site, dst_site, anchor FROM links WHERE src LIKE '%shop%' ORDER BY dst LIMIT 1") == [
        ("shop.com.br", "news.com.br", "to it")
    ]


def test_texts_that_utf8_does_not_have_are_written_all_the_same(data, tmp_path):
    crawl = SmallCrawl(data)
    crawl.page(f"{NEWS}/", "odd \udcff \x01 \u2028 \" ' , text")
    crawl.commit()
    export_tables(data, tmp_path / "tables", WITH_ALL, silent)
    assert rows(tmp_path / "tables", "SELECT text FROM pages") == [("odd ? \x01 \u2028 \" ' , text",)]


def test_after_a_compaction_no_row_is_lost_or_doubled(data, tmp_path):
    """The parts of the old files go, and those of the new ones come."""
    crawl, root = SmallCrawl(data), tmp_path / "tables"
    crawl.write_all()
    crawl.writer.close()
    other = SmallCrawl(data)
    other.page(f"{NEWS}/later", "página de depois", day=900)
    other.commit()
    other.writer.close()
    export_tables(data, root, WITH_ALL, silent)
    before = everything_but_files(root)
    assert compact(data).pairs_after == 1
    export_tables(data, root, WITH_ALL, silent)
    assert everything_but_files(root) == before


def test_pages_whose_text_retention_has_removed_have_no_row(data, tmp_path):
    crawl, root = SmallCrawl(data), tmp_path / "tables"
    crawl.writer.append_note(definition_note("last 1"), FIRST_AT)
    crawl.page(f"{NEWS}/", "um texto")
    crawl.page(f"{NEWS}/", "outro texto", day=9)
    crawl.commit()
    crawl.writer.close()
    export_tables(data, root, WITH_ALL, silent)
    assert compact(data).dropped
    done = export_tables(data, root, WITH_ALL, silent)
    assert (done.rows["pages"], done.rows["visits"]) == (1, 2)
    assert rows(root, "SELECT text FROM pages") == [("outro texto",)]


def everything_but_files(root: Path) -> list[list[tuple[Any, ...]]]:
    names = [name for name in TABLES if name != "hosts"]
    return [sorted(rows(root, f"SELECT * EXCLUDE (file) FROM {name}"), key=str) for name in names]


def definition_note(retention: str) -> CollectionNote:
    definition = Collection("br", archive=ArchiveConfig(retention=retention))
    return CollectionNote("br", 1, msgspec.Raw(config.encode_collection(definition)))


def test_a_second_run_adds_only_what_is_new(data, tmp_path):
    crawl, root = SmallCrawl(data), tmp_path / "tables"
    crawl.write_all()
    export_tables(data, root, WITH_ALL, silent)
    first = {path: path.stat().st_mtime_ns for path in root.glob("*/*/*.parquet")}
    again = export_tables(data, root, WITH_ALL, silent)
    assert (again.added, again.rewritten) == (0, 0)
    crawl.page(f"{SHOP}/new", "novidade")
    crawl.commit()
    other = SmallCrawl(data, "w2")
    other.page(f"{LAB}/other", "another file", language="en")
    other.commit()
    done = export_tables(data, root, WITH_ALL, silent)
    assert (done.added, done.rewritten, done.rows["pages"]) == (2, 0, 8)
    assert {path: path.stat().st_mtime_ns for path in first} == first
    export_tables(data, tmp_path / "fresh", WITH_ALL, silent)
    assert [len(some) for some in everything(root).values()] == [
        len(some) for some in everything(tmp_path / "fresh").values()
    ]
    assert rows(root, "SELECT count(*), count(DISTINCT url) FROM visits WHERE url LIKE '%new'") == [(1, 1)]


def test_parts_are_bounded_and_together_the_same(data, tmp_path, monkeypatch):
    SmallCrawl(data).write_all()
    export_tables(data, tmp_path / "one", WITH_ALL, silent)
    monkeypatch.setattr(parquet_export, "PART_VISITS_MAX", 2)
    done = export_tables(data, tmp_path / "many", WITH_ALL, silent)
    assert done.added == 5 and everything(tmp_path / "many") == everything(tmp_path / "one")


KILLED_RUN = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from tarrafa.export import parquet_export
from tarrafa.export.table_rows import TableContents
from tarrafa.runtime.data_dir import DataDirectory

@contextmanager
def silent(what, total):
    yield lambda more: None

left = int(sys.argv[3])
def counted(real):
    def call(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call

parquet_export.PART_VISITS_MAX = 3
parquet_export.write_atomically = counted(parquet_export.write_atomically)
Path.replace = counted(Path.replace)
parquet_export.export_tables(DataDirectory(Path(sys.argv[1])), Path(sys.argv[2]), TableContents(), silent)
"""


def test_a_run_that_is_killed_anywhere_is_repeated_without_loss_or_doubles(data, tmp_path):
    SmallCrawl(data).write_all()
    root, kills = tmp_path / "tables", 0
    for steps in (0, 2, 5, 7, 3, 6, 9, 100):  # renames and manifests that each run gets to
        command = [sys.executable, "-c", KILLED_RUN, str(data.root), str(root), str(steps)]
        done = subprocess.run(command, capture_output=True)
        kills += done.returncode == -signal.SIGKILL
        manifest = read_manifest(root)
        if manifest is not None:  # what it names is whole
            for table in TABLES:
                for path in manifest.paths(root, table):
                    duckdb.execute(f"SELECT count(*) FROM '{path}'").fetchall()
    assert done.returncode == 0, done.stderr
    assert kills >= 5
    export_tables(data, tmp_path / "fresh", WITH_ALL, silent)
    assert everything(root) == everything(tmp_path / "fresh")
    assert not (root / "scratch").exists()


def test_a_takedown_removes_its_rows_and_a_lift_brings_them_back(data, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_export, "PART_VISITS_MAX", 2)
    root = tmp_path / "tables"
    SmallCrawl(data).write_all()
    export_tables(data, root, WITH_ALL, silent)
    before = everything(root)
    record_action(data, "add", parse_target(f"{SHOP}/b"), "ana", "a reason", FIRST_AT)
    done = export_tables(data, root, WITH_ALL, silent)
    assert (done.added, done.rewritten) == (0, 1)
    assert f"{SHOP}/b" not in str(everything(root)) and f"{SHOP}/" in str(everything(root))
    record_action(data, "add", parse_target("site:lab.org"), "ana", "a reason", FIRST_AT + 1)
    export_tables(data, root, WITH_ALL, silent)
    assert "lab.org" not in str(everything(root))  # neither as source nor as target
    assert rows(root, "SELECT count(*) FROM hosts WHERE site = 'lab.org'") == [(0,)]
    for target in (f"{SHOP}/b", "site:lab.org"):
        record_action(data, "lift", parse_target(target), "ana", "a reason", FIRST_AT + 2)
    done = export_tables(data, root, WITH_ALL, silent)
    assert done.rewritten == 5 and everything(root) == before


def test_a_deleted_collection_is_in_no_table(data, tmp_path):
    crawl, root = SmallCrawl(data), tmp_path / "tables"
    crawl.page(f"{NEWS}/", "old", collection="gone")
    crawl.page(f"{SHOP}/", "stays")
    crawl.commit()
    export_tables(data, root, WITH_ALL, silent)
    record_deletions(data.archive, {"gone": FIRST_AT + DAY_S}, FIRST_AT + DAY_S)
    done = export_tables(data, root, WITH_ALL, silent)
    assert done.rewritten == 1
    assert rows(root, "SELECT DISTINCT collection FROM visits") == [("br",)]


def test_noarchive_hides_the_text_and_reserved_pages_are_left_out_for_a_use(data, tmp_path):
    crawl = SmallCrawl(data)
    crawl.write_all()
    crawl.page(f"{SHOP}/shy", "shy words", noarchive=True)
    crawl.commit()
    export_tables(data, tmp_path / "any", WITH_ALL, silent)
    assert rows(tmp_path / "any", "SELECT title, words, text, content FROM pages WHERE noarchive") == [
        ("shy", 2, None, None)
    ]
    done = export_tables(data, tmp_path / "train", TableContents("ai-train"), silent)
    assert done.reserved == 2
    assert rows(tmp_path / "train", "SELECT title, reserves FROM pages WHERE site = 'news.com.br'") == [("notícia", [])]
    export_tables(data, tmp_path / "small", TableContents(None, False), silent)
    assert rows(tmp_path / "small", "SELECT count(text), sum(words) FROM pages") == [(0, 19)]
    with pytest.raises(ConfigError, match="these tables were made for any use, without texts"):
        export_tables(data, tmp_path / "small", WITH_ALL, silent)
    export_tables(data, tmp_path / "small", WITH_ALL, silent, force=True)
    assert rows(tmp_path / "small", "SELECT count(text) FROM pages") == [(6,)]


def test_an_archive_file_that_is_gone_takes_its_parts_along(data, tmp_path):
    SmallCrawl(data).write_all()
    other = SmallCrawl(data, "w2")
    other.page(f"{LAB}/other", "another file")
    other.commit()
    other.writer.close()
    root = tmp_path / "tables"
    export_tables(data, root, WITH_ALL, silent)
    for path in data.archive.glob("*-w2-*"):
        path.unlink()
    assert export_tables(data, root, WITH_ALL, silent).rows["pages"] == 6
    assert len(list(root.glob("pages/*/*.parquet"))) == 1


def test_a_wrong_folder_a_second_run_and_a_damaged_manifest_are_said(data, tmp_path):
    SmallCrawl(data).write_all()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    for force in (False, True):
        with pytest.raises(ConfigError, match=r"has other files \(letter.txt\)"):
            export_tables(data, mine, WITH_ALL, silent, force=force)
    root = tmp_path / "tables"
    export_tables(data, root, WITH_ALL, silent)
    lock = try_lock(root / "lock")
    assert lock is not None
    with lock, pytest.raises(Locked, match="another export"):
        export_tables(data, root, WITH_ALL, silent)
    (root / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="--force makes all tables anew"):
        export_tables(data, root, WITH_ALL, silent)
    assert export_tables(data, root, WITH_ALL, silent, force=True).rows["pages"] == 6


def test_a_full_disk_is_said_and_what_was_written_stays(data, tmp_path, monkeypatch):
    SmallCrawl(data).write_all()
    root = tmp_path / "tables"
    export_tables(data, root, WITH_ALL, silent)
    before = everything(root)
    crawl = SmallCrawl(data, "w2")
    crawl.page(f"{LAB}/other", "another file")
    crawl.commit()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tarrafa.export.parquet_export.os.fsync", full)
    with pytest.raises(DiskFull, match="free some space"):
        export_tables(data, root, WITH_ALL, silent)
    monkeypatch.undo()
    assert everything(root) == before
    assert export_tables(data, root, WITH_ALL, silent).rows["pages"] == 7


def test_the_command_says_what_it_wrote(data):
    SmallCrawl(data).write_all()
    done = run(data, "export", "parquet", "--for", "ai-train")
    assert done.returncode == 0, done.stderr
    assert "1 new part; rows of pages: 4, visits: 9" in done.stderr and "2 pages left out" in done.stderr


POLARS = """
import json, sys, polars
root = sys.argv[1]
pages = polars.scan_parquet(f"{root}/pages/").select(polars.len(), polars.col("words").sum()).collect().row(0)
links = polars.scan_parquet(f"{root}/links/").group_by("dst_site").len().sort("dst_site").collect().rows()
print(json.dumps([pages, links]))
"""


@pytest.mark.long  # the first time some seconds to install Polars
def test_polars_opens_the_folders_as_they_are(data, tmp_path):
    SmallCrawl(data).write_all()
    export_tables(data, tmp_path / "tables", WITH_ALL, silent)
    command = [str(environment("table-tools-1") / "python"), "-c", POLARS, str(tmp_path / "tables")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [[6, 17], [["lab.org", 2], ["news.com.br", 4], ["shop.com.br", 1]]]
