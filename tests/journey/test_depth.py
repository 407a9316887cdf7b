"""A depth that falls after the page was fetched opens what it had cut: the way back from the graph to the frontier."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.journey.crawling import tarrafa

# The detour root -> a -> b -> c is walked first; the short way root -> slow -> c shows up when c has been fetched.
LINKS = {
    "http://one.test/": ["http://one.test/a", "http://slow.test/"],
    "http://one.test/a": ["http://one.test/b"],
    "http://one.test/b": ["http://one.test/c"],
    "http://one.test/c": ["http://one.test/d"],
    "http://one.test/d": ["http://one.test/e"],
    "http://one.test/e": [],
    "http://slow.test/": ["http://one.test/c"],
}


@contextmanager
def a_small_web() -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []
    detour_walked = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = f"http://{self.headers['Host']}{self.path}"
            asked.append(url)
            if url == "http://slow.test/":
                detour_walked.wait(30)
            links = LINKS.get(url)
            body = "".join(f'<a href="{link}">{link}</a>' for link in links or []).encode()
            self.send_response(404 if links is None else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if url == "http://one.test/c":
                detour_walked.set()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_shorter_path_found_after_the_fetch_lowers_the_depth_and_reopens_what_it_cut(tmp_path):
    with a_small_web() as (port, asked):
        file = tmp_path / "c.toml"
        file.write_text(
            'name = "c"\nroots = ["http://one.test/"]\n[scope]\nhosts = ["*.test"]\ndepth_max = 3\n'
            f'[politeness]\ndelay = 0.01\n[network]\nconnect_to = {{"*.test" = "127.0.0.1:{port}"}}\n'
        )
        done = tarrafa("crawl", file, "--data", tmp_path / "data", "--quiet")
        assert done.returncode == 0, done.stderr
        pages = sorted(url for url in asked if not url.endswith("robots.txt"))
        assert pages == sorted(url for url in LINKS if url != "http://one.test/e")
        found = json.loads(tarrafa("status", "--data", tmp_path / "data", "--json").stdout)["collections"][0]
        assert (found["state"], found["too_deep"]) == ("finished", 1)
