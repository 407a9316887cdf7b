"""Finds the WARC and ARC files that a person names: files, folders, and WACZ packages (a ZIP file with `archive/`).

A member that the ZIP file stores as it is, as the WACZ specification asks for, is read in place; a deflated one is
unpacked into a scratch folder first.
Promises: what cannot be read is `Damage` with the name of its file, never an exception; packages within packages are
not opened.
"""

import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

from xxhash import xxh3_64_hexdigest

from tarrafa.archive.foreign_archive_reader import BOMB_BYTES_MIN, BOMB_RATIO, ZIP_MAGIC, ArchiveSource, Damage
from tarrafa.errors import ConfigError

ENDINGS = (".warc", ".warc.gz", ".warc.zst", ".arc", ".arc.gz", ".arc.zst", ".wacz")
MEMBERS_MAX = 100_000  # of a package
COPY_BYTES = 1 << 20
LOCAL_HEADER = Struct("<4s22xHH")  # its magic number, and the lengths of name and extra field
Found = tuple[ArchiveSource, Damage | None]


def find_files(named: list[Path]) -> list[Path]:
    """The files among these, and those below folders whose names end as archives do; each once, in order."""
    found: dict[Path, None] = {}
    for path in named:
        if path.is_dir():
            below = sorted(one for one in path.rglob("*") if one.name.lower().endswith(ENDINGS) and one.is_file())
            if not below:
                raise ConfigError(f"{path}: holds no file whose name ends in {', '.join(ENDINGS)}")
            found |= dict.fromkeys(below)
        elif path.is_file():
            found[path] = None
        else:
            raise ConfigError(f"{path}: no such file or folder")
    return list(found)


def open_sources(path: Path, scratch: Path, check_space: Callable[[], None]) -> Iterator[Found]:
    """The archives in a file, each with what is wrong with it, if anything. `scratch`: a folder for what must be
    unpacked; `check_space` raises when the disk is full."""
    with path.open("rb") as file:
        start = file.read(len(ZIP_MAGIC))
    whole = ArchiveSource(path, str(path))
    if start != ZIP_MAGIC:
        yield whole, None
        return
    try:
        with zipfile.ZipFile(path) as package:
            members = [one for one in package.infolist()[:MEMBERS_MAX] if _is_archive(one.filename)]
            for member in members:
                yield _open_member(path, package, member, scratch, check_space)
            if not members:
                yield whole, Damage(0, "the package holds no archive")
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError) as error:
        yield whole, Damage(0, f"no readable ZIP file ({str(error)[:80]})")


def _is_archive(name: str) -> bool:
    return name.lower().endswith(ENDINGS) and not name.lower().endswith(".wacz")


def _open_member(
    path: Path, package: zipfile.ZipFile, member: zipfile.ZipInfo, scratch: Path, check_space: Callable[[], None]
) -> Found:
    name = f"{path}!{member.filename}"
    broken = ArchiveSource(path, name, member.header_offset, 0)
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(LOCAL_HEADER.size)
    if len(header) < LOCAL_HEADER.size or not header.startswith(ZIP_MAGIC):
        return broken, Damage(member.header_offset, "the package has no such member here")
    if member.flag_bits & 1:
        return broken, Damage(member.header_offset, "the member is encrypted")
    _, name_size, extra_size = LOCAL_HEADER.unpack(header)
    start = member.header_offset + 30 + name_size + extra_size
    if member.compress_type == zipfile.ZIP_STORED:
        there = path.stat().st_size - start
        if member.file_size > there:
            damage = Damage(member.header_offset, "the member is cut off")
            return ArchiveSource(path, name, start, max(0, there)), damage
        return ArchiveSource(path, name, start, member.file_size), None
    return _unpack_member(package, member, name, scratch, check_space)


def _unpack_member(
    package: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, scratch: Path, check_space: Callable[[], None]
) -> Found:
    unpacked = scratch / f"{xxh3_64_hexdigest(name.encode())}{Path(member.filename).suffix}"
    scratch.mkdir(parents=True, exist_ok=True)
    damage, size = None, 0
    try:
        with package.open(member) as packed, unpacked.open("wb") as file:
            while part := packed.read(COPY_BYTES):
                check_space()
                file.write(part)
                size += len(part)
                if size > BOMB_BYTES_MIN and size > BOMB_RATIO * max(1, member.compress_size):
                    damage = Damage(member.header_offset, "it unpacks to implausibly much")
                    break
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        reason = f"it cannot be unpacked ({str(error)[:80]})"
        damage = Damage(member.header_offset, reason)
    return ArchiveSource(unpacked, name), damage


def remove_scratch(scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
