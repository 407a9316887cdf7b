"""Crawlers to compare with: Scrapy and wget2, and how they are had and started.

Promises: a peer that this machine cannot have is named with the reason, never left out in silence. Both obey robots.txt
and follow all links to all hosts; neither keeps an archive, a frontier on disk, an index or a graph.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.crawl_workloads import BuiltWorkload
from benchmarks.debian_packages import NotAvailable, unpacked
from benchmarks.page_server import Certificate, cache_folder, compiled

SCRAPY = "scrapy"
INSTALL_S_MAX = 600.0
# On two cores beside the page server: Scrapy takes the same CPU with 32 and 128; wget2 with 8 to 64 threads.
SCRAPY_AT_ONCE, SCRAPY_PER_HOST, WGET2_THREADS = 64, 8, 16


@dataclass(frozen=True, slots=True)
class Start:
    """A command and its additions to the environment."""

    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Crawler:
    """A crawler that is ready to run: `start` gets the folder for its files, the workload and its certificate."""

    name: str
    version: str
    start: Callable[[Path, BuiltWorkload, Certificate | None], Start]


def scrapy_peer() -> Crawler:
    """Scrapy in a virtual environment of its own, installed once into the cache."""
    folder = cache_folder() / "scrapy"
    python = folder / "bin" / "python"
    try:
        if not (folder / ".ready").exists():
            _run(sys.executable, "-m", "venv", "--clear", str(folder))
            _run(str(python), "-m", "pip", "install", "--quiet", SCRAPY)
            (folder / ".ready").touch()
        version = _run(str(python), "-c", "import scrapy; print(scrapy.__version__)")
    except (OSError, subprocess.SubprocessError) as error:
        raise NotAvailable(f"Scrapy cannot be installed ({error})") from None

    def start(_: Path, built: BuiltWorkload, certificate: Certificate | None) -> Start:
        limits = (1, 1) if built.workload.one_at_a_time else (SCRAPY_AT_ONCE, SCRAPY_PER_HOST)
        spider = str(Path(__file__).parent / "scrapy_spider.py")
        return Start([str(python), spider, built.root, *map(str, limits)])

    return Crawler("Scrapy", version, start)


def wget2_peer() -> Crawler:
    """wget2, installed or unpacked from Debian's packages. The pages that it saves go to a folder that is removed."""
    names = compiled("loopback_names.c", "-shared", "-fPIC", "-ldl")
    if names is None:
        raise NotAvailable("wget2 needs a C compiler: its host names are resolved by a small library")
    program, libraries = shutil.which("wget2"), ""
    if program is None:
        program = str(unpacked("wget2") / "usr" / "bin" / "wget2")
        libraries = ":".join(map(str, (unpacked("libwget0") / "usr" / "lib").glob("*-linux-gnu")))
    environment = {"LD_PRELOAD": str(names)} | ({"LD_LIBRARY_PATH": libraries} if libraries else {})
    try:
        version = _run(program, "--version", environment=environment).split("\n")[0].split(" ")[2]
    except (OSError, subprocess.SubprocessError) as error:
        raise NotAvailable(f"wget2 does not run ({error})") from None

    def start(folder: Path, built: BuiltWorkload, certificate: Certificate | None) -> Start:
        threads = 1 if built.workload.one_at_a_time else WGET2_THREADS
        command = [program, "-q", "-r", "-l", "inf", "-H", f"--max-threads={threads}", "--no-http2", "--no-config"]
        command += ["--compression=none", "--tries=1", "-P", str(folder / "wget2")]
        if certificate is not None:
            command += [f"--ca-certificate={certificate.certificate}", "--no-ocsp", "--no-hsts"]
        return Start([*command, built.root], environment)

    return Crawler("wget2", version, start)


def _run(*command: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=INSTALL_S_MAX, env=os.environ | (environment or {})
    )
    return done.stdout.strip()
