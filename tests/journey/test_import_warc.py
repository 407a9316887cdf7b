"""What wget and warcprox archived of the synthetic Web is, imported, what our own crawl of it is.

wget comes with Debian; warcprox is installed from PyPI into an environment of its own. Where one cannot be had, its
test is skipped.
"""

import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tarrafa.archive.warc_reader import follow
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import Journey, a_journey, run_json, tarrafa
from tests.ports import reserve_port
from tests.wait import block_until

pytestmark = pytest.mark.long
INSTALL_S, FETCH_S = 300, 120
QUERIES = ("governo", "escola", "cidade saúde", "festa da cidade", "política economia")
WARCPROX = """
import socket, sys
port, real = int(sys.argv.pop(1)), socket.getaddrinfo
def look_up(host, *more, **named):
    if str(host).endswith(".test"):
        return real("127.0.0.1", port, type=socket.SOCK_STREAM)
    return real(host, *more, **named)
socket.getaddrinfo = look_up
import warcprox.main
import warcprox.warcproxy
warcprox.warcproxy.WarcProxyHandler.allow_localhost = True
warcprox.main.main()
"""


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    """Our own crawl of a Web that does not change meanwhile."""
    journey = a_journey(tmp_path_factory.mktemp("web"), World(seed=7, hosts=6, pages=150, changes=0.0))
    with journey.web:
        journey.crawl(journey.write_collection())
        yield journey


def requested(journey: Journey) -> list[str]:
    """The URLs that our crawl requested, each once, in its order."""
    return list(dict.fromkeys(entry.url for entry in journey.requests()))


def fetch_with_wget(journey: Journey, urls: list[str], folder: Path) -> Path:
    if shutil.which("wget") is None:
        pytest.skip("wget is not installed")
    (folder / "urls").write_text("\n".join(urls))
    target = folder / "by-wget"
    done = subprocess.run(
        ["wget", "-q", "-i", "urls", f"--warc-file={target}", "--warc-cdx=off", "--delete-after", "--max-redirect=0",
         "--tries=1", "--no-iri", "-e", "robots=off", "-e", "use_proxy=yes",
         "-e", f"http_proxy={journey.web.connect_to}"],
        cwd=folder, timeout=FETCH_S, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 8), done.stderr  # 8: some answers were errors
    return target.with_suffix(".warc.gz")


@contextmanager
def warcprox(journey: Journey, folder: Path) -> Iterator[str]:
    """A running warcprox, whose names of the synthetic Web lead there; its address."""
    python = folder / "environment" / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True, timeout=INSTALL_S)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "warcprox"], check=True, timeout=INSTALL_S, capture_output=True
        )
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"warcprox cannot be installed: {error}")
    with reserve_port() as reserved:
        port = int(reserved.getsockname()[1])
    process = subprocess.Popen(
        [python, "-c", WARCPROX, str(journey.web.port), "-p", str(port), "-d", folder / "warcs", "-z",
         "-j", folder / "dedup", "--stats-db-file", folder / "stats", "-c", folder / "ca.pem",
         "--certs-dir", folder / "certs"],
        stdout=subprocess.DEVNULL, stderr=(folder / "warcprox.log").open("wb"),
    )  # fmt: skip
    try:
        block_until(lambda: _answers(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "warcprox.log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=1):
            return True
    except OSError:
        return False


class Unfollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def fetch_with_warcprox(journey: Journey, urls: list[str], folder: Path) -> Path:
    with warcprox(journey, folder) as address:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": address}), Unfollowed)
        for url in urls:
            try:
                with opener.open(quote(url, safe="%/:=&?~#+!$,;'@()*[]"), timeout=30) as answer:
                    answer.read()
            except urllib.error.HTTPError as error:
                error.read()
    return folder / "warcs"


def kept_pages(data: DataDirectory) -> dict[str, VisitRecord]:
    return {entry.record.url: entry.record for entry in follow(data.archive, {}) if entry.record.outcome.kept}


@pytest.mark.parametrize("fetch", [fetch_with_wget, fetch_with_warcprox])
def test_what_others_archived_is_what_we_would_have_crawled(
    journey: Journey, tmp_path: Path, fetch: Callable[[Journey, list[str], Path], Path]
) -> None:
    urls = requested(journey)
    files = fetch(journey, urls, tmp_path)
    data, definition = DataDirectory(tmp_path / "data"), journey.write_collection()
    done = tarrafa("import", "warc", files, "--collection", definition, "--data", data.root)
    assert done.returncode == 0, done.stderr
    assert ", 0 damaged" in done.stdout, done.stdout

    ours, theirs = kept_pages(journey.data), kept_pages(data)
    assert set(theirs) == set(ours)
    for url, record in ours.items():
        assert record.page is not None and (other := theirs[url].page) is not None
        assert (other.text, other.title, other.links) == (record.page.text, record.page.title, record.page.links), url
    for query in QUERIES:
        own, other = (run_json("search", query, "--data", one.root, "-n", "20") for one in (journey.data, data))
        assert own["total"] == other["total"] > 0, query
        found = [[(hit["url"], hit["title"], hit["in_links"]) for hit in one["hits"]] for one in (own, other)]
        assert sorted(found[0]) == sorted(found[1]), query

    before = len(journey.requests())
    done = tarrafa("crawl", definition, "--data", data.root)
    assert done.returncode == 0, done.stderr
    again = [entry.url for entry in journey.requests()[before:]]
    assert not set(again) & set(ours), "a page that was imported is not requested again"
    assert set(kept_pages(data)) == set(ours)
