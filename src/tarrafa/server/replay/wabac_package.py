"""The npm package of wabac.js, which replays archived pages in the browser: its place, its digest, its installation.

wabac.js is a program of others under the AGPL-3.0-or-later, and no part of Tarrafa (decision 0321): it is fetched from
npm, and its package is kept and handed out as it was published, with its licence and its source. Promises: nothing of
a file is used unless its SHA-512 is the one that is named here; a package that is absent or another one is one
`DataError` that says what to do.
"""

import gzip
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from tarrafa.errors import DataError, data_error_from_os
from tarrafa.i18n import message

NAME, VERSION = "@webrecorder/wabac", "2.27.3"
INTEGRITY = "sha512-i00+HSdwOdHRPeJU8g3LMOAHT4J+yX+dJdTEboTiI9YjWY5jYxUGqOgDuZ3xmPBzGAfYjfwoFTIaCB9lUBuNhA=="
FILE_NAME = f"wabac-{VERSION}.tgz"
LICENCE = "AGPL-3.0-or-later"
SCRIPT_MEMBER, LICENCE_MEMBER = "package/dist/sw.js", "package/LICENSE.md"
PACKAGE_BYTES_MAX, MEMBER_BYTES_MAX = 8 << 20, 8 << 20
DOWNLOAD_TIME_S = 60.0
HOW_TO_INSTALL = "`tarrafa get-replay` fetches it"


@dataclass(frozen=True, slots=True)
class WabacPackage:
    """The package as npm has it, and what is served of it."""

    package: bytes
    script: bytes
    script_gzip: bytes
    licence: bytes


def package_path() -> Path:
    """Where the package lies: beside what pip installs, so that it goes with the installation."""
    return Path(sys.prefix) / "share" / "tarrafa" / FILE_NAME


def load_package(path: Path | None = None) -> WabacPackage:
    """The installed package."""
    path = path or package_path()
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(message("wabac.js is not installed: {how}", how=HOW_TO_INSTALL)) from None
    except OSError as error:
        raise data_error_from_os(error, path) from None
    check_integrity(content, str(path))
    script = _member(content, SCRIPT_MEMBER)
    return WabacPackage(content, script, gzip.compress(script, mtime=0), _member(content, LICENCE_MEMBER))


def check_integrity(content: bytes, source: str) -> None:
    found = f"sha512-{b64encode(hashlib.sha512(content).digest()).decode()}"
    if found != INTEGRITY:
        sentence = message(
            "{source}: it is not {name} {version}: its SHA-512 is another one; {how}",
            source=source, name=NAME, version=VERSION, how=HOW_TO_INSTALL,
        )  # fmt: skip
        raise DataError(sentence)


def install_package(source: str = "", path: Path | None = None) -> Path:
    """Put the package into its place, from a file, a URL, or npm. One that is there stays."""
    path = path or package_path()
    with suppress(DataError):
        load_package(path)
        return path
    try:
        content = _read(source)
        source = source or "npm"
        check_integrity(content, source)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_bytes(content)
        beside.replace(path)
    except (OSError, subprocess.SubprocessError, StopIteration) as error:  # URLError is an OSError
        sentence = message(
            "{source}: wabac.js cannot be installed from there: {error}", source=source or "npm", error=str(error)
        )
        raise DataError(sentence) from None
    return path


def _read(source: str) -> bytes:
    """The package from a file or URL, or from npm: its client knows the registry and the proxies of this machine."""
    if not source:
        with tempfile.TemporaryDirectory() as folder:
            command = ["npm", "pack", f"{NAME}@{VERSION}", "--silent", "--pack-destination", folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=DOWNLOAD_TIME_S)
            return next(Path(folder).iterdir()).read_bytes()
    if "://" not in source:
        with Path(source).open("rb") as stream:
            return stream.read(PACKAGE_BYTES_MAX)
    if not source.startswith(("https://", "http://")):
        raise OSError(source)
    with urllib.request.urlopen(source, timeout=DOWNLOAD_TIME_S) as response:  # noqa: S310
        content: bytes = response.read(PACKAGE_BYTES_MAX)
    return content


def _member(package: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=BytesIO(package), mode="r:gz") as archive:
        stream = archive.extractfile(name)
        assert stream is not None  # the digest is that of a package that has it
        return stream.read(MEMBER_BYTES_MAX)
