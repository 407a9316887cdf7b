"""Archive settings of one machine: when files rotate, on which disks new files go, how long an erase order waits.

    # DATA/archive.toml; all keys may be left out
    file_size = "1 GiB"                     # a pair of files with more bytes is complete, and the next one begins
    file_time = "1 day"                     # so is a pair that was begun so long ago; 0: only by size
    erase_wait = "7 days"                   # between an order to erase and the erasure
    directories = ["/mnt/a", "/mnt/b"]      # where new files go; "." is DATA/archive
    choose = "first"                        # the first directory with enough space, or the one with "most free"
    free_min = "10 GB"                      # enough space

A file in another directory has a symbolic link in DATA/archive, so that every reader finds it there. Promises: a
directory whose disk is not mounted gets no file: files of ours lie beside a marker, and where links lead to a directory
without its marker, the disk is missing. Nothing there is taken as lost.
"""

import logging
import shutil
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from tarrafa.config.formats import ByteSize, Seconds, decode_quantity
from tarrafa.errors import ConfigError, DataError, data_error_from_os
from tarrafa.i18n import message

FILE_NAME = "archive.toml"
FILE_BYTES_MAX = 64 << 10
DIRECTORIES_MAX = 100
FILE_SIZE_MIN = 1_000
MARKER = "tarrafa-archive"  # in each directory that holds files of ours
OWN_DIRECTORY = "."
log = logging.getLogger(__name__)


class ArchiveSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file."""

    file_size: ByteSize = ByteSize(1 << 30)
    file_time: Seconds = Seconds(0)
    erase_wait: Seconds = Seconds(7 * 86_400)
    directories: tuple[str, ...] = ()
    choose: Literal["first", "most free"] = "first"
    free_min: ByteSize = ByteSize(10 * 10**9)


def read_settings(archive: Path) -> ArchiveSettings:
    """The settings of an archive; no file: the defaults."""
    path = archive.parent / FILE_NAME
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise ConfigError(
                message("{path}: larger than the {limit} KB allowed", path=path, limit=FILE_BYTES_MAX >> 10)
            )
        table = tomllib.loads(content.decode("utf-8-sig"))
        found = msgspec.convert(table, ArchiveSettings, dec_hook=decode_quantity)
    except FileNotFoundError:
        return ArchiveSettings()
    except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(message("{path}: {error}", path=path, error=error)) from None
    _check(path, found)
    return found


def _check(path: Path, found: ArchiveSettings) -> None:
    if found.file_size < FILE_SIZE_MIN or min(found.file_time, found.erase_wait, found.free_min) < 0:
        least = message("file_size must be {least} or more, the other quantities 0 or more", least=FILE_SIZE_MIN)
        raise ConfigError(message("{path}: {error}", path=path, error=least))
    wrong = [one for one in found.directories if one != OWN_DIRECTORY and not Path(one).is_absolute()]
    if wrong or len(found.directories) > DIRECTORIES_MAX:
        least = message('directories: write absolute paths, and "." for DATA/archive')
        raise ConfigError(message("{path}: {error}", path=path, error=least))


# -- directories -------------------------------------------------------------------------------------------------------


def directories(archive: Path, settings: ArchiveSettings) -> list[Path]:
    """The directories for new files whose disks are there, in the order of the settings."""
    found = []
    for name in settings.directories or (OWN_DIRECTORY,):
        if name == OWN_DIRECTORY:
            found.append(archive)
        elif _is_there(archive, Path(name)):
            found.append(Path(name))
        else:
            log.warning("%s: its disk is not mounted; no file is put there", name)
    return found or [archive]


def directory_for_new_files(archive: Path) -> Path:
    """Where the next pair of files goes."""
    settings = read_settings(archive)
    found = directories(archive, settings)
    free = {one: shutil.disk_usage(one).free for one in found}
    if settings.choose == "first":
        enough = [one for one in found if free[one] > settings.free_min]
        if enough:
            return enough[0]
    return max(found, key=lambda one: free[one])


def _is_there(archive: Path, directory: Path) -> bool:
    """Whether a directory holds its marker; a new one gets it."""
    try:
        if (directory / MARKER).exists():
            return True
        if not directory.is_dir() or any(one.parent == directory for one in linked_files(archive).values()):
            return False
        (directory / MARKER).write_text("Files of a Tarrafa archive are here. Do not delete this file.\n")
    except OSError as error:
        raise data_error_from_os(error, directory) from None
    return True


def linked_files(archive: Path) -> dict[Path, Path]:
    """The links in an archive, and the files to which they lead."""
    return {path: path.readlink() for path in archive.glob("*.warc.gz") if path.is_symlink()}


def raise_if_disk_missing(path: Path) -> None:
    """Raise `DataError` if a file of the archive is on a disk that is not there."""
    if path.is_symlink() and not path.exists():
        raise DataError(
            message(
                "{path}: is in {directory}, which is not there; mount its disk, nothing is lost",
                path=path.name,
                directory=path.readlink().parent,
            )
        )


def raise_if_any_disk_missing(archive: Path) -> None:
    for path in linked_files(archive):
        raise_if_disk_missing(path)
