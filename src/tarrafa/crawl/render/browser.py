"""The browser process of a worker: started without a way out, watched, killed and started again.

The way out is closed by namespaces (`browser_launcher`). Where the system does not give them, Chromium is told to use a
proxy of ours that refuses everything, no name can be resolved, and WebRTC may use nothing but that proxy. Where
Chromium's own sandbox does not come up, or neither holds, there is no browser: `RenderUnavailable`.
Promises: never as root, never without its sandbox; ends with the worker; no process of it outlives `kill`; a fresh
profile each time it starts, in memory; no extension, no update, no report to its makers. Memory in use is measured over
all its processes.
Knows nothing of pages or requests.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from tarrafa.crawl.render.browser_launcher import EXIT_NO_NAMESPACE, find_browser
from tarrafa.crawl.render.devtools import BrowserGone, DevToolsPipe
from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, message
from tarrafa.runtime.child_process import child_command

Isolation = Literal["namespace", "proxy"]

START_S_MAX, EXIT_S_MAX = 30.0, 1.0
OLD_SPACE_MB = 512  # of V8's heap, in one process
SPARE_UIDS = range(61_184, 65_520)  # systemd's range for users that exist while a service runs
SWITCHES = (
    "--headless",
    "--remote-debugging-pipe",
    "--user-data-dir={home}/profile",
    "--no-startup-window",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-component-extensions-with-background-pages",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-client-side-phishing-detection",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-notifications",
    "--disable-print-preview",
    "--disable-speech-api",
    "--disable-sync",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--deny-permission-prompts",
    "--disk-cache-size=1",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    "--renderer-process-limit=4",
    f"--js-flags=--max-old-space-size={OLD_SPACE_MB}",
    "--blink-settings=imagesEnabled=false",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # the name of earlier versions
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--disable-features=HttpsUpgrades,HttpsFirstBalancedMode,MediaRouter,OptimizationHints,Translate,WebBluetooth,WebUSB,"
    "DialMediaRouteProvider,AutofillServerCommunication,InterestFeedContentSuggestions,PaintHolding,SpareRendererForSitePerProcess",
)


class RenderUnavailable(ConfigError):
    """Pages cannot be rendered on this machine; the message says why."""


class RefusingProxy:
    """A proxy that accepts connections and closes them. What escapes the interception ends here."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=16)
        self._socket.setblocking(False)
        self.address: str = f"127.0.0.1:{self._socket.getsockname()[1]}"
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._refuse)

    def _refuse(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.accept()[0].close()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()


class Browser:
    """One browser. `hidden`: directories that it must not see, such as the data directory."""

    def __init__(self, hidden: tuple[str, ...] = ()) -> None:
        self._hidden = hidden
        self._process: subprocess.Popen[bytes] | None = None
        self._proxy: RefusingProxy | None = None
        self._home: str | None = None
        self.pipe: DevToolsPipe | None = None
        self.isolation: Isolation = "namespace"
        self.pages = 0  # rendered since it started
        self._known: list[int] = []  # its processes, when they were last looked for

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process_id(self) -> int | None:
        """Of the launcher, whose end is the end of all."""
        return self._process.pid if self._process is not None else None

    async def start(self, isolation: Isolation | None = None) -> DevToolsPipe:
        """Start it, in namespaces, else behind the proxy; `isolation` asks for one of them."""
        program = find_browser()
        if program is None:
            raise RenderUnavailable(message("no Chromium is installed (Debian: apt install chromium)"))
        reason: Message | str = ""
        for way in ("namespace", "proxy") if isolation is None else (isolation,):
            self.kill()
            try:
                return await self._start(program, "namespace" if way == "namespace" else "proxy")
            except BrowserGone:
                has_namespaces = self._exit_status() != EXIT_NO_NAMESPACE
                reason = message("its sandbox does not come up") if has_namespaces else message("no namespaces")
                self.kill()
                if has_namespaces:
                    break
        raise RenderUnavailable(
            message(
                "Chromium cannot be started here with its sandbox and without a way to the network ({reason}). User "
                "namespaces make it possible (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone)",
                reason=reason,
            )
        )

    async def _start(self, program: str, isolation: Isolation) -> DevToolsPipe:
        uid, words, home = _spare_uid(), [program, *SWITCHES], ""
        if isolation == "proxy":
            self._proxy = RefusingProxy()
            words += [f"--proxy-server=http://{self._proxy.address}", "--proxy-bypass-list=<-loopback>"]
            home = self._home = tempfile.mkdtemp(prefix="tarrafa-browser-")
            if uid:
                os.chown(home, uid, uid)
        commands, our_commands = os.pipe()
        our_answers, answers = os.pipe()
        hidden = [path for path in (*self._hidden, "/run") if not Path(program).is_relative_to(path)]
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220 (asyncio's would receive the terminal's Ctrl-C)
                child_command(
                    "tarrafa.crawl.render.browser_launcher",
                    commands=commands,
                    answers=answers,
                    command=msgspec.json.encode(words).decode(),
                    home=home,
                    uid=uid,
                    hidden=msgspec.json.encode(hidden).decode(),
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[commands, answers],
            )
        finally:
            os.close(commands)
            os.close(answers)
        self.pipe, self.isolation, self.pages = DevToolsPipe(our_answers, our_commands), isolation, 0
        await self.pipe.open()
        try:
            async with asyncio.timeout(START_S_MAX):
                if not await self.pipe.call("Browser.getVersion"):
                    raise BrowserGone("it does not say its version")
        except TimeoutError:
            raise BrowserGone("it does not answer") from None
        return self.pipe

    def _exit_status(self) -> int | None:
        """Of a launcher whose pipe was closed a moment ago; None if it still runs: the browser does not answer."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(EXIT_S_MAX) if self._process is not None else None
        return None

    def kill(self) -> None:
        """End all its processes."""
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None
        if self._process is not None:
            family = [] if self.isolation == "namespace" else list(self._family())
            self._process.kill()  # in namespaces, all others end with it
            for process in family:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._process.wait()
            self._process = None
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def memory_bytes(self, *, anew: bool = True) -> int:
        """Memory in use by all its processes; what they share as files is not counted. To look for its processes takes
        twenty times as long as to ask those known: `anew` says which."""
        if anew:
            self._known = [process.pid for process in self._family()]
        return sum(map(_private_bytes, self._known))

    def cpu_s(self) -> float:
        """Processor time of its processes that still run."""
        total = 0.0
        for process in self._family():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def _family(self) -> Iterator[psutil.Process]:
        if self._process is None:
            return
        with contextlib.suppress(psutil.Error):
            yield from psutil.Process(self._process.pid).children(recursive=True)


def _private_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", encoding="ascii") as file:  # noqa: PTH123
        lines = (line.split() for line in file)
        sizes: list[int] = [int(line[1]) << 10 for line in lines if line[0] in ("RssAnon:", "RssShmem:")]
        return sum(sizes)
    return 0


def _spare_uid() -> int:
    """A user that nobody is, for root's browser; 0 for anybody else, whose browser runs as the same user."""
    if os.getuid() != 0:
        return 0
    taken: set[int] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            taken.add(process.uids().real)
    start = os.getpid() % len(SPARE_UIDS)
    free: Iterator[int] = (uid for uid in (*SPARE_UIDS[start:], *SPARE_UIDS[:start]) if uid not in taken)
    return next(free)


async def check_browser(collection: str) -> Isolation:
    """Start a browser and end it: how it is held. `RenderUnavailable` if it cannot be."""
    browser = Browser()
    try:
        await browser.start()
        return browser.isolation
    except RenderUnavailable as error:
        raise RenderUnavailable(message("{name}: [render] when: {why}", name=collection, why=error.message)) from None
    finally:
        browser.kill()
