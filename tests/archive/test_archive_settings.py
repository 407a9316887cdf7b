"""Settings of the archive: files rotate by time, lie on several disks, and a missing disk is not taken as lost."""

import shutil
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tarrafa.archive import warc_writer
from tarrafa.archive.archive_settings import MARKER, directory_for_new_files, read_settings
from tarrafa.archive.warc_reader import follow
from tarrafa.archive.warc_writer import recover_archive
from tarrafa.errors import ConfigError, DataError
from tests.archive.test_warc_files import a_record, an_exchange, killed, write


class Usage(NamedTuple):
    free: int


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "data" / "archive").mkdir(parents=True)
    return tmp_path / "data" / "archive"


def configure(archive: Path, text: str) -> None:
    (archive.parent / "archive.toml").write_text(text)


def two_disks(archive: Path, more: str = "free_min = 0") -> tuple[Path, Path]:
    disks = archive.parents[1] / "a", archive.parents[1] / "b"
    for disk in disks:
        disk.mkdir()
    configure(archive, f"directories = {[str(disk) for disk in disks]}\n{more}")
    return disks


def test_a_pair_of_files_is_complete_after_file_time(archive, monkeypatch):
    configure(archive, 'file_time = "1 hour"')
    clock = [0.0]
    monkeypatch.setattr(warc_writer, "boottime", lambda: clock[0])
    writer = write(archive, range(1))
    for minutes in (30, 59, 60, 61):
        clock[0] = minutes * 60.0
        writer.append(a_record(minutes), an_exchange(minutes))
        writer.prepare_commit()()
    writer.close()
    assert list(Counter(entry.file for entry in follow(archive, {})).values()) == [4, 1]


def test_files_lie_in_the_first_directory_with_space_and_are_read_through_links(archive, monkeypatch):
    first, second = two_disks(archive, 'free_min = "1 GB"')
    free = {first: 2 << 30, second: 3 << 30}
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(free.get(path, 0)))
    write(archive, range(3)).close()
    free[first] = 1 << 20
    write(archive, range(3, 5), "w2").close()
    assert [len(list(disk.glob("*.warc.gz"))) for disk in (first, second)] == [2, 2]
    assert [entry.record.visit for entry in follow(archive, {})] == [0, 1, 2, 3, 4]
    assert all(path.is_symlink() for path in archive.glob("*.warc.gz"))


def test_files_go_where_most_space_is_free(archive, monkeypatch):
    _, second = two_disks(archive, 'choose = "most free"')
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(9 if path == second else 5))
    assert directory_for_new_files(archive) == second


def test_a_disk_that_is_not_mounted_is_named_and_gets_no_file(archive):
    first, second = two_disks(archive)
    write(archive, range(3)).close()
    shutil.move(first, archive.parents[1] / "elsewhere")
    first.mkdir()  # the mount point of the disk
    with pytest.raises(DataError, match="not there; mount its disk, nothing is lost"):
        list(follow(archive, {}))
    with pytest.raises(DataError, match="not there; mount its disk, nothing is lost"):
        recover_archive(archive)
    assert directory_for_new_files(archive) == second
    assert not (first / MARKER).exists()
    first.rmdir()
    shutil.move(archive.parents[1] / "elsewhere", first)
    assert len(list(follow(archive, {}))) == 3


def test_a_killed_writer_on_another_disk_leaves_nothing_unpublished(archive):
    first, _ = two_disks(archive)
    killed(write(archive, range(3)))
    recover_archive(archive)
    assert [path.name for path in first.iterdir()] == [MARKER]
    assert list(archive.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["file_size = 1", 'file_time = "soon"', 'directories = ["disk"]', "sizes = 1", "[", "erase_wait = -1"]
)
def test_wrong_settings_name_the_file(archive, text):
    configure(archive, text)
    with pytest.raises(ConfigError, match=r"archive\.toml"):
        read_settings(archive)
