"""Requests report parts from other nodes, all at once, and says which are missing and why.

The messages are those of `part_wire`. Promises: a valid part, or one word that gives the reason why there is none,
whatever the other node does or sends: a node that is silent for SILENCE_S, makes no progress for STALL_S, takes longer
than LIMIT_S, or sends invalid data is reported as missing, and does not affect the others. When the caller cancels, all
requests end within a second, on the other nodes too. The token goes to the given address and nowhere else: no redirect
is followed, no proxy is used, certificates are verified, and without TLS it is sent to no public address. Blocking.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec
import pycurl

from tarrafa.clock import boottime
from tarrafa.coordinator.monitoring.utilization import CpuUsage, UsageDuringRuns
from tarrafa.coordinator.node.messages import Machine
from tarrafa.fetch.node_client import may_send_secret, new_post_handle
from tarrafa.report.distributed.local_part import PartRequest, Progress, RemoteParts, ReportPart
from tarrafa.report.distributed.part_wire import CONTENT_TYPE, PATH, VERSION, PartReader
from tarrafa.report.schema import MachineUsage, MissingNode
from tarrafa.runtime.heartbeat import printable_text
from tarrafa.runtime.token import Token

AT_ONCE = 16
CONNECT_MAX_S = 5
SILENCE_S = 30  # a living node sends something every second
STALL_S = 600  # the request may wait in a queue there
LIMIT_S = 3600
UNASKED, AWAY, BROKEN, REFUSED, TROUBLE, OTHER_VERSION = "unasked", "away", "broken", "refused", "trouble", "version"
MEANING = {401: REFUSED, 404: OTHER_VERSION, 409: OTHER_VERSION, 500: TROUBLE, 503: TROUBLE}

log = logging.getLogger(__name__)


class PartUnavailable(Exception):
    """There is no part; with one word for the report, and a sentence for the log."""

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(detail)
        self.why = why


class ReportNode(NamedTuple):
    """A node as the coordinator knows it. `address`: where its part is requested; empty: it does not answer."""

    name: str
    machine: Machine | None  # None: reported by another version
    address: str = ""
    is_own: bool = False


class Participants(NamedTuple):
    machines: list[MachineUsage]
    others: list[tuple[str, str]]  # nodes to ask, and their addresses


def find_participants(nodes: Iterable[ReportNode], meanwhile: UsageDuringRuns | None) -> Participants:
    """With complete samples of the time of the collection's runs: the nodes that were active then. Where samples are
    incomplete, every known node is request: a node too many is better than missing visits without a notice.
    """
    sampled = meanwhile.nodes if meanwhile is not None else dict[str, CpuUsage]()
    is_sure = meanwhile is not None and meanwhile.whole
    machines, others = list[MachineUsage](), list[tuple[str, str]]()
    for node in nodes:
        used = sampled.get(node.name)
        if node.machine is not None and (used is not None or not sampled):
            mean, most = (used.mean, used.most) if used is not None else (None, None)
            machines.append(MachineUsage(node.name, node.machine, mean, most or None))
        if not node.is_own and (node.address or used is not None or not is_sure):
            others.append((node.name, node.address))
    return Participants(machines, others)


@dataclass(frozen=True, slots=True)
class RemoteNodes:
    """The nodes that a report asks: their names and addresses; an empty address: the node does not answer."""

    nodes: Sequence[tuple[str, str]]
    token: Token
    silence_s: int = SILENCE_S
    stall_s: float = STALL_S
    limit_s: int = LIMIT_S

    def __call__(self, request: PartRequest, progress: Progress) -> "PartRequests":
        return PartRequests(self, request, progress)

    def fetch_part(self, url: str, request: PartRequest, progress: Progress, stop: threading.Event) -> ReportPart:
        """The part of one node. Raises `PartUnavailable`."""
        if not url:
            raise PartUnavailable(UNASKED, "it does not answer others")
        if not self.token:
            raise PartUnavailable(REFUSED, "there is no token to ask it with")
        with PartReader() as reader:
            curl = self._curl(f"{url}{PATH}/{VERSION}", msgspec.msgpack.encode(request))
            _PartTransfer(reader, progress, stop, self.stall_s).perform(curl, url)
            if reader.part is None:
                raise PartUnavailable(
                    *((TROUBLE, reader.failed) if reader.failed else (BROKEN, "it ends in the middle"))
                )
            return reader.part

    def _curl(self, url: str, body: bytes) -> pycurl.Curl:
        curl = new_post_handle(CONTENT_TYPE, self.token.secret)
        curl.setopt(pycurl.URL, url.encode())
        curl.setopt(pycurl.POSTFIELDS, body)
        curl.setopt(pycurl.CONNECTTIMEOUT, CONNECT_MAX_S)
        curl.setopt(pycurl.TIMEOUT, self.limit_s)
        curl.setopt(pycurl.LOW_SPEED_LIMIT, 1)  # bytes a second
        curl.setopt(pycurl.LOW_SPEED_TIME, self.silence_s)
        return curl


class PartRequests:
    """Requests to all nodes, in daemon threads that do not keep the process alive."""

    def __init__(self, remote: RemoteNodes, request: PartRequest, progress: Progress) -> None:
        self._remote, self._request, self._progress = remote, request, progress
        self._nodes = list(remote.nodes)
        self._read: dict[str, tuple[int, int]] = {}
        self._found: dict[str, ReportPart | MissingNode] = {}
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._turns = iter(self._nodes)
        self._threads = [threading.Thread(target=self._fetch_in_turn, daemon=True) for _ in self._nodes[:AT_ONCE]]
        for thread in self._threads:
            thread.start()

    def wait(self) -> RemoteParts:
        for thread in self._threads:
            thread.join()
        gathered = RemoteParts()
        for name, _ in self._nodes:
            found = self._found.get(name) or MissingNode(name, TROUBLE)
            if isinstance(found, MissingNode):
                gathered.missing.append(found)
            else:
                gathered.parts[name] = found
        return gathered

    def stop(self) -> None:
        self._stop.set()

    def _fetch_in_turn(self) -> None:
        while True:
            with self._lock:
                name, url = next(self._turns, ("", ""))
            if not name:
                return
            try:
                self._found[name] = self._remote.fetch_part(
                    url, self._request, partial(self._update_progress, name), self._stop
                )
            except PartUnavailable as unavailable:
                log.warning("a report without node %s: %s", name, printable_text(str(unavailable)))
                self._found[name] = MissingNode(name, unavailable.why)
            except Exception:  # our own error, which costs only that node
                log.exception("a report without node %s", name)

    def _update_progress(self, name: str, done: int, total: int) -> None:
        with self._lock:
            self._read[name] = (done, total)
            self._progress(sum(one[0] for one in self._read.values()), sum(one[1] for one in self._read.values()))


@dataclass(slots=True)
class _PartTransfer:
    """One response, as it arrives."""

    reader: PartReader
    progress: Progress
    stop: threading.Event
    stall_s: float
    news_at: float = field(default_factory=boottime)
    code: int = 0
    kind: str = ""
    error: PartUnavailable | None = None

    def perform(self, curl: pycurl.Curl, url: str) -> None:
        curl.setopt(pycurl.HEADERFUNCTION, self._head)
        curl.setopt(pycurl.WRITEFUNCTION, self._take)
        curl.setopt(pycurl.NOPROGRESS, 0)
        curl.setopt(pycurl.XFERINFOFUNCTION, self._continues)
        curl.setopt(pycurl.PREREQFUNCTION, lambda connected, *_: self._may_send(connected, url))
        try:
            curl.perform()
        except pycurl.error as error:
            raise self.error or PartUnavailable(AWAY, str((*error.args, "")[1])) from None
        finally:
            curl.close()
        if self.error is not None or self.code != 200:
            raise self.error or self._refused()

    def _continues(self, *_: object) -> int:
        """Called about once a second; any value but 0 ends the transfer."""
        return int(self.stop.is_set() or boottime() - self.news_at > self.stall_s)

    def _may_send(self, connected: str, url: str) -> int:
        """The connection is open, and nothing has been sent yet."""
        if not may_send_secret(url, str(connected)):
            self.error = PartUnavailable(UNASKED, "without TLS a token is sent to no public address")
            return int(pycurl.PREREQFUNC_ABORT)
        return int(pycurl.PREREQFUNC_OK)

    def _head(self, line: bytes) -> None:
        if line.startswith(b"HTTP/"):
            words = line.split()
            self.code, self.kind = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0, ""
        elif line.lower().startswith(b"content-type:"):
            self.kind = line.partition(b":")[2].strip().decode("latin-1")

    def _refused(self) -> PartUnavailable:
        return PartUnavailable(MEANING.get(self.code, BROKEN), f"HTTP {self.code}")

    def _take(self, content: bytes) -> int:
        try:
            if self.code != 200:
                raise self._refused()
            if self.kind != CONTENT_TYPE:
                raise PartUnavailable(BROKEN, "what answers there is no node of Tarrafa")
            messages = self.reader.messages
            self.reader.feed(content)
            self.progress(*self.reader.read)
            self.news_at = boottime() if self.reader.messages > messages else self.news_at
        except ValueError as error:
            self.error = PartUnavailable(BROKEN, str(error))
        except OSError as error:
            self.error = PartUnavailable(TROUBLE, f"there is no room for it here ({error.strerror})")
        except PartUnavailable as unavailable:
            self.error = unavailable
        return len(content) if self.error is None else -1
