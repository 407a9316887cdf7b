"""The synthetic Web of the journey: pages change, and some of them vanish, in a network namespace of its own.

Which pages vanish, and when, depends on the plan alone, so that the journey knows the truth without asking.
"""

import json
import math
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import msgspec

from tarrafa.testweb.http.web_response import WebRequest, WebResponse, gone_status, typed
from tarrafa.testweb.http.web_server import WebServer, run_web_server
from tarrafa.testweb.world.hash_random import draw
from tarrafa.testweb.world.hosts import World
from tarrafa.testweb.world.resources import Resource, ResourceKind, resolve

PURPOSE_VANISH = 7_001
START_S = 30.0


class VanishPlan(msgspec.Struct, frozen=True):
    """A `share` of the pages vanishes between `begin` and `end`, for ever. Roots stay."""

    share: float
    begin: float
    end: float

    def vanishes_at(self, world: World, resource: Resource) -> float:
        if resource.kind is not ResourceKind.PAGE or resource.n == 0:
            return math.inf
        luck = draw(world.seed, PURPOSE_VANISH, resource.no, resource.n)
        if (luck & 0xFFFFFF) / 0x1000000 >= self.share:
            return math.inf
        return self.begin + (luck >> 24 & 0xFFFFFF) / 0x1000000 * (self.end - self.begin)


class WebSettings(msgspec.Struct):
    """What the process of the Web is told."""

    world: World
    plan: VanishPlan
    address: str
    log_path: str
    latency_s: float


class VanishingWeb(WebServer):
    """Serves on any address, not on loopback only: its network is the journey's own."""

    def __init__(self, settings: WebSettings) -> None:
        super().__init__(settings.world, log_path=Path(settings.log_path), latency_s=settings.latency_s)
        self._plan, self._address = settings.plan, settings.address

    def _listen(self) -> list[socket.socket]:
        listening = socket.create_server((self._address, 0), backlog=4096)
        return [listening]

    def respond(self, request: WebRequest, now: float) -> tuple[WebResponse, float, bool]:
        found = self.world.find(request.authority, self.port)
        if found is not None:
            resource = resolve(self.world, found[0], request.target)
            if resource is not None and self._plan.vanishes_at(self.world, resource) <= now:
                host = self.world.host(found[0])
                return typed(gone_status(host), "text/html", b"<title>gone</title>"), 0.0, True
        return super().respond(request, now)


class WebInNamespace:
    """The process, started in a network namespace."""

    def __init__(self, space: str, settings: WebSettings) -> None:
        self.settings = settings
        command = ["ip", "netns", "exec", space, sys.executable, "-m", __name__, msgspec.json.encode(settings).decode()]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.authority = f"{settings.address}:{json.loads(self._process.stdout.readline())}"

    def flush_log(self) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(f"http://{self.authority}/__log__/flush", timeout=START_S).close()

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=START_S)


def main() -> None:
    settings = msgspec.json.decode(sys.argv[1], type=WebSettings)
    run_web_server(VanishingWeb(settings), lambda server: print(server.port, flush=True))


if __name__ == "__main__":
    main()
