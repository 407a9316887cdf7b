"""A Web of a few scripted URLs, for what the synthetic one does not do."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class ScriptedRequest:
    """One request, as the server saw it."""

    url: str
    at: float
    headers: dict[str, str]


@dataclass
class ScriptedResponse:
    """What to say. `reset` hangs up without a word; `endless` says the body again and again."""

    body: bytes = b""
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    reset: bool = False
    endless: bool = False


@dataclass
class ScriptedWeb:
    port: int
    asked: list[ScriptedRequest]

    def urls(self) -> list[str]:
        """Without robots.txt."""
        return [one.url for one in self.asked if not one.url.endswith("/robots.txt")]

    def times(self, url: str) -> list[float]:
        return [one.at for one in self.asked if one.url == url]

    def gaps(self) -> dict[str, float]:
        """The shortest time between two requests to each host."""
        found: dict[str, float] = {}
        last: dict[str, float] = {}
        for one in self.asked:
            host = one.url.split("/")[2]
            if host in last:
                found[host] = min(found.get(host, one.at - last[host]), one.at - last[host])
            last[host] = one.at
        return found

    def collection(
        self, folder: Path, roots: list[str], more: str = "", scope: str = "", delay_s: float = 0.01
    ) -> Path:
        """`more` are further sections; [politeness] and [network] are there."""
        path = folder / "c.toml"
        listed = ", ".join(f'"{root}"' for root in roots)
        path.write_text(
            f'name = "c"\nroots = [{listed}]\n[scope]\nhosts = ["*.test"]\n{scope}\n'
            f'[network]\nconnect_to = {{"*.test" = "127.0.0.1:{self.port}"}}\n'
            f'[politeness]\ndelay = {delay_s}\ndelay_factor = 0\nbackoff = "500ms"\n{more}\n'
        )
        return path


def links(*urls: str) -> ScriptedResponse:
    return ScriptedResponse(
        "".join(f'<a href="{url}">{url}</a>' for url in urls).encode(), headers={"Content-Type": "text/html"}
    )


@contextmanager
def scripted_web(answer: Callable[[str, int], ScriptedResponse | None]) -> Iterator[ScriptedWeb]:
    """`answer(url, n)` for the n-th request of that URL, from 0; None is a 404."""
    asked: list[ScriptedRequest] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = (
            -1
        )  # head and body leave together: else each answer waits 40 ms for an ACK, and a crawl five times that

        def do_GET(self) -> None:
            url = f"http://{self.headers['Host']}{self.path}"
            before = sum(1 for one in asked if one.url == url)
            asked.append(ScriptedRequest(url, time.monotonic(), dict(self.headers)))
            said = answer(url, before) or ScriptedResponse(code=404)
            if said.reset:
                self.close_connection = True
                return
            self.send_response(said.code)
            if said.endless:
                self._speak_without_end(said)
                return
            for name, value in ({"Content-Length": str(len(said.body))} | said.headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body)

        def _speak_without_end(self, said: ScriptedResponse) -> None:
            self.close_connection = True
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # until the other side hangs up
                while True:
                    self.wfile.write(said.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield ScriptedWeb(server.server_address[1], asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
