"""Is a real site that nobody here wrote crawled whole, and are its pages found?

    python -m benchmarks.help_site [--keep FOLDER]

LibreOffice's help in Brazilian Portuguese (Debian's package, see benchmarks/relevance.py) is served as packaged by a
plain file server on loopback, with its menus and scripts, and with the refresh in `noscript` that every page holds.
`tarrafa crawl` crawls it from a list of its pages (the site's own table of contents is made by a script). Printed: how
many of its pages are kept and indexed, then MRR and success@10 of the entries of its index, asked over HTTP
(`/search.json?crowded=1`). With `--keep`, the data directory stays in FOLDER for `tarrafa serve`.
"""

import argparse
import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.debian_packages import unpacked
from benchmarks.relevance import HELP_MRR_MIN, HELP_SUCCESS_MIN, PACKAGE, Known, measure, office_help
from benchmarks.search_http import Server
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import URLS_MAX, SearchRequest
from tarrafa.search.scatter_gather import open_local_shard

SOURCE = Path(__file__).parents[1] / "src"
CRAWL_S_MAX = 1_800.0
COLLECTION = """name = "help"
roots_file = "pages.txt"
[politeness]
delay = 0
delay_factor = 0
[network]
allow_private = true
connect_to = {{"help.test" = "127.0.0.1:{port}"}}
"""


class QuietFiles(SimpleHTTPRequestHandler):
    """Python's own file server, without its log."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # header and body in one packet

    def log_message(self, format: str, *args: object) -> None:
        return None


@contextlib.contextmanager
def served(folder: Path) -> Iterator[int]:
    """The port of a file server on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def crawl(known: Known, folder: Path, port: int) -> Path:
    """Crawl the site as a user does; the data directory."""
    data, file = folder / "data", folder / "help.toml"
    (folder / "pages.txt").write_text("".join(f"{page.url}\n" for page in known.pages), encoding="utf-8")
    file.write_text(COLLECTION.format(port=port), encoding="utf-8")
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl", str(file), "--data", str(data)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    subprocess.run(command, check=True, timeout=CRAWL_S_MAX, env=environment, stdout=sys.stderr)
    return data


class HttpSearch:
    """Asks `/search.json` over one connection."""

    def __init__(self, known: Known, address: tuple[str, int]) -> None:
        self._numbers = {page.url: number for number, page in enumerate(known.pages)}
        self._connection = http.client.HTTPConnection(*address)

    def ask(self, question: str, n: int) -> list[int]:
        asked = urlencode({"q": question, "n": n, "crowded": 1})
        self._connection.request("GET", f"/search.json?{asked}", headers={"Host": "localhost"})
        hits = json.loads(self._connection.getresponse().read()).get("hits", [])  # none of an invalid query
        return [self._numbers.get(hit["url"], -1) for hit in hits]


def main() -> None:
    parser = argparse.ArgumentParser(description="LibreOffice's help as packaged: crawled, indexed, found.")
    parser.add_argument("--keep", type=Path, help="keep the data directory here")
    options = parser.parse_args()
    known = office_help()
    if known is None:
        return
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tarrafa-help-")))
        folder.mkdir(parents=True, exist_ok=True)
        port = stack.enter_context(served(unpacked(PACKAGE) / "usr" / "share" / "libreoffice" / "help"))
        data = crawl(known, folder, port)
        server = Server(SOURCE, data)
        try:
            reached = show(known, DataDirectory(data), HttpSearch(known, server.address))
        finally:
            server.process.terminate()
            server.process.wait()
    sys.exit(0 if reached else 1)


def show(known: Known, data: DataDirectory, search: HttpSearch) -> bool:
    shard, ids = open_local_shard(data), [url_id(page.url) for page in known.pages]
    chunks = (ids[start : start + URLS_MAX] for start in range(0, len(ids), URLS_MAX))
    indexed = sum(shard.find_urls(SearchRequest(""), chunk).total for chunk in chunks)
    print(f"{indexed:,} of {len(ids):,} pages kept and indexed")
    found = measure(known, search.ask)
    print(f"MRR {found.mrr:.4f}, success@10 {found.success:.4f}, nDCG@10 {found.ndcg:.4f}")
    return indexed == len(ids) and found.mrr >= HELP_MRR_MIN and found.success >= HELP_SUCCESS_MIN


if __name__ == "__main__":
    main()
