"""A node that is away, hangs, lies or never ends costs a report its own portion, and nothing else."""

import socket
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import msgspec
import pytest

from tarrafa.coordinator.monitoring.utilization import CpuUsage, UsageDuringRuns
from tarrafa.coordinator.node.messages import Machine
from tarrafa.report.distributed import part_wire
from tarrafa.report.distributed.local_part import PartRequest, Progress, ReportPart, gather_local_part
from tarrafa.report.distributed.part_requests import SILENCE_S, PartRequests, RemoteNodes, ReportNode, find_participants
from tarrafa.report.distributed.part_wire import (
    CONTENT_TYPE,
    PartFailed,
    PartHosts,
    PartKeepAlive,
    PartMessage,
    PartProgress,
    encode_frame,
    encode_part,
)
from tarrafa.report.report_builder import build_report
from tarrafa.report.schema import MissingNode
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token
from tests.fake_server import RespondFunction, run_fake_server
from tests.report.sample_archives import NAME, a_visit, an_archive

TOKEN = Token(b"a token of many letters")
ASKED = PartRequest(NAME, "Tarrafa")
PATIENCE_S = SILENCE_S - 5  # dropped, and not given up after a silence
HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nConnection: close\r\n\r\n".encode()


def hanging(line: socket.socket) -> None:
    """Until the other end has had enough."""
    line.sendall(HEAD)
    line.recv(1)


def dripping(message: PartMessage) -> RespondFunction:
    """It lives, and that is all."""

    def drip(line: socket.socket) -> None:
        line.sendall(HEAD)
        line.settimeout(0.2)
        while True:
            line.sendall(encode_frame(message))
            with suppress(TimeoutError):
                line.recv(1)
                return

    return drip


def endless(line: socket.socket) -> None:
    line.sendall(HEAD)
    number = 0
    while True:
        number += 1
        line.sendall(encode_frame(PartHosts([f"http://h{number}-{n}.br:80" for n in range(100)])))


def plain(code: int, body: bytes = b"no", more: str = "") -> bytes:
    head = f"HTTP/1.1 {code} X\r\nContent-Type: text/plain\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@dataclass(frozen=True, slots=True)
class Hurried(RemoteNodes):
    """Has no time for these addresses, where nothing ever comes to its end; others may be slow."""

    endless: frozenset[str] = frozenset()

    def fetch_part(self, url: str, asked: PartRequest, tell: Progress, stop: threading.Event) -> ReportPart:
        limits = {"silence_s": 1, "stall_s": 1, "limit_s": 2} if url in self.endless else {}
        return RemoteNodes(self.nodes, self.token, **limits).fetch_part(url, asked, tell, stop)


HOSTILE: dict[str, tuple[bytes | RespondFunction, str]] = {
    "nothing": (b"", "away"),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", "away"),
    "a page": (plain(200, b"<html>Welcome</html>"), "broken"),
    "somebody else": (plain(401), "refused"),
    "another version": (plain(409), "version"),
    "an older version": (plain(404), "version"),
    "trouble": (plain(503), "trouble"),
    "elsewhere": (plain(302, more="Location: http://127.0.0.1:9/\r\n"), "broken"),
    "garbage": (HEAD + b"\xff\x00garbage" * 99, "broken"),
    "a bomb": (HEAD + b"\x7f\xff\xff\xff", "broken"),
    "an end in the middle": (HEAD + encode_frame(PartKeepAlive()) + encode_frame(PartKeepAlive())[:-3], "broken"),
    "no end": (HEAD + encode_frame(PartKeepAlive()), "broken"),
    "an excuse": (HEAD + encode_frame(PartFailed("the disk\nis <b>broken</b>")), "trouble"),
    "silence": (hanging, "away"),
    "a drip": (dripping(PartKeepAlive()), "away"),
    "a drip that is never done": (dripping(PartProgress(1, 2)), "away"),
    "too much": (endless, "broken"),
}


ENDLESS = ("silence", "a drip", "a drip that is never done")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> list[DataDirectory]:
    return [
        an_archive(
            tmp_path_factory.mktemp("m") / "d", (f"n{n}-1", [a_visit(f"http://h{n}.br/{i}", i) for i in range(n + 3)])
        )
        for n in range(2)
    ]


def test_whatever_other_nodes_do_costs_their_own_portion_only(machines, monkeypatch):
    monkeypatch.setattr(part_wire, "HOSTS_MAX", 10_000)
    told: list[tuple[int, int]] = []
    with ExitStack() as stack:
        liars = {name: stack.enter_context(run_fake_server(answer)) for name, (answer, _) in HOSTILE.items()}
        good = stack.enter_context(run_fake_server(HEAD + b"".join(encode_part(gather_local_part(machines[1], ASKED)))))
        nodes = [
            *((name, liar.url) for name, liar in liars.items()),
            ("good", good.url),
            ("off", ""),
            ("gone", "http://127.0.0.1:1"),
        ]
        others = Hurried(nodes, TOKEN, endless=frozenset(liars[name].url for name in ENDLESS))
        found = build_report(machines[0], NAME, search=False, others=others, progress=lambda *read: told.append(read))
        (question,) = good.heard
    expected = [MissingNode(name, why) for name, (_, why) in HOSTILE.items()]
    assert found.missing == [*expected, MissingNode("off", "unasked"), MissingNode("gone", "away")]
    assert found.work.documents == 3 + 4
    assert [one.name for one in found.collectors] == ["n0-1", "n1-1"]
    assert [one.name for one in found.storage_by_machine] == ["", "good"]
    assert question.startswith(f"POST /report/{part_wire.VERSION} HTTP/1.1".encode())
    assert b"Bearer a token of many letters" in question
    assert msgspec.msgpack.decode(question.partition(b"\r\n\r\n")[2], type=PartRequest).name == NAME
    assert told[-1][0] <= told[-1][1]


def test_without_a_token_nobody_is_asked(machines):
    with run_fake_server(HEAD) as liar:
        found = RemoteNodes([("one", liar.url)], Token())(ASKED, lambda done, total: None).wait()
        assert (found.missing, liar.heard) == ([MissingNode("one", "refused")], [])


def test_when_our_own_archive_cannot_be_read_nobody_is_waited_for(machines, tmp_path):
    data = an_archive(tmp_path, ("w1", [a_visit("http://a.br/")]))
    (path,) = data.archive.glob("*.meta.warc.gz")
    path.write_bytes(b"x" * path.stat().st_size)
    asked, ended = threading.Event(), threading.Event()

    def patient(line: socket.socket) -> None:
        asked.set()
        try:
            hanging(line)
        finally:
            ended.set()

    def others(question: PartRequest, progress: Progress) -> PartRequests:
        asking = RemoteNodes([("one", liar.url)], TOKEN)(question, progress)
        assert asked.wait(PATIENCE_S), "before our own archive is looked at: else there might be nothing to drop"
        return asking

    with run_fake_server(patient) as liar:
        with pytest.raises(Exception, match=str(path)):
            build_report(data, NAME, search=False, others=others)
        assert ended.wait(PATIENCE_S), "the question is dropped"


MACHINE = Machine(2, 3000.0, 0.9, 1.0, 1 << 30, 1 << 29, 1 << 40, 1 << 39)
HOME = ReportNode("home", MACHINE, is_own=True)
NODES = [
    HOME,
    ReportNode("gone", MACHINE),
    ReportNode("away", MACHINE),
    ReportNode("there", MACHINE, "http://10.0.0.2:8000"),
]


def test_a_node_that_died_before_the_collection_began_is_neither_listed_nor_missed():
    heard = {"home": CpuUsage(1.0, 4, 0.5), "away": CpuUsage(2.0, 4, 0.75), "there": CpuUsage(0.0, 4)}
    found = find_participants(NODES, UsageDuringRuns(heard, whole=True))
    assert [(one.name, one.busy, one.busy_most) for one in found.machines] == [
        ("home", 0.25, 0.5), ("away", 0.5, 0.75), ("there", 0.0, None),
    ]  # fmt: skip
    assert found.others == [("away", ""), ("there", "http://10.0.0.2:8000")], (
        "who was there and does not answer is named"
    )


def test_where_not_all_of_the_time_was_noted_everybody_is_asked():
    found = find_participants(NODES, UsageDuringRuns({"home": CpuUsage(1.0, 4, 0.5)}, whole=False))
    assert [one.name for one in found.machines] == ["home"]
    assert [name for name, _ in found.others] == ["gone", "away", "there"]
    nothing = find_participants(NODES, None)
    assert [(one.name, one.busy) for one in nothing.machines] == [(node.name, None) for node in NODES]
    assert len(nothing.others) == 3
