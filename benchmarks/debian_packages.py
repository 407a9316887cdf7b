"""Unpacks Debian packages into the user's cache, without installing them.

Promises: a package is fetched once; its files are there whole, or not at all.
"""

import subprocess
import tempfile
from pathlib import Path

from benchmarks.page_server import cache_folder

APT_S_MAX = 300.0


class NotAvailable(Exception):
    """A package or program that this machine cannot have; the text says why."""


def unpacked(package: str) -> Path:
    """The files of a package."""
    kept = cache_folder() / package
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            try:
                _run(folder, "apt-get", "download", package)
                _run(folder, "dpkg-deb", "-x", next(Path(folder).glob("*.deb")).name, "files")
            except (OSError, subprocess.SubprocessError, StopIteration) as error:
                raise NotAvailable(f"Debian's package {package} cannot be had ({error})") from None
            (Path(folder) / "files").rename(kept)
    return kept


def _run(folder: str, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=APT_S_MAX)
