"""What is typed beside a node is done by its coordinator, as if it had been done in the console."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tarrafa import config
from tarrafa.coordinator.audit import AuditLog
from tarrafa.coordinator.node import control_socket
from tarrafa.coordinator.node.control_socket import (
    ControlAction,
    ControlRequest,
    ControlResponse,
    ControlServer,
    control_socket_path,
    send_control_request,
)
from tarrafa.crawl.supervisor.supervisor import STOPPED_REASON
from tarrafa.errors import ConfigError, NotFound, Unreachable
from tarrafa.frontier import address
from tarrafa.i18n import PORTUGUESE
from tests.coordinator.coordinator_harness import CoordinatorHarness, a_collection, is_over, visit

DAILY = {"every": "daily", "start": "2026-12-01"}


class Typist:
    """Somebody at a terminal."""

    def __init__(self, harness: CoordinatorHarness) -> None:
        self.harness, self.audit = harness, AuditLog(harness.ledger.data, harness.clock.now, lambda line: None)

    async def type(self, action: ControlAction, content: bytes = b"") -> ControlResponse:
        answer = await send_control_request(
            self.harness.ledger.data, ControlRequest(action, "news", "ana@sea", content)
        )
        assert answer is not None
        return answer

    def lines(self) -> list[tuple[str, str, str, str, bool]]:
        found = reversed(self.audit.read().lines)
        return [(line.who, line.action, line.subject, str(line.detail), line.refused) for line in found]


@asynccontextmanager
async def a_typist(harness: CoordinatorHarness) -> AsyncIterator[Typist]:
    typist = Typist(harness)
    async with ControlServer(harness.ledger.data, harness.coordinator, typist.audit):
        yield typist


async def test_what_is_typed_is_done_told_and_written_down_as_in_the_console(harness: CoordinatorHarness) -> None:
    async with a_typist(harness) as typist:
        added = await typist.type("add", config.encode_collection(a_collection()))
        assert added == ControlResponse("ready", "starts when a person starts it")
        assert [one.who for one in harness.ledger.versions("news")] == ["ana@sea"]
        after: dict[ControlAction, str] = {
            "start": "running",
            "pause": "paused",
            "resume": "running",
            "stop": "stopped",
        }
        for action, state in after.items():
            answer = await typist.type(action)
            assert (answer.state, answer.reason[:15]) == (state, "by ana@sea at 1")
        assert (await typist.type("start")).state == "running", "it goes on"
        assert [event for event, _, _ in harness.told] == ["started"] * 3
        await typist.type("stop")
        assert await typist.type("delete") == ControlResponse()
        assert typist.lines() == [
            ("ana@sea", "create a collection", "news", "", False),
            *(
                ("ana@sea", "act on a collection", "news", done, False)
                for done in ("start", "pause", "resume", "stop", "resume", "stop", "delete")
            ),
        ]


async def test_a_file_that_is_added_again_is_an_edit_and_lets_what_was_finished_go_on(
    harness: CoordinatorHarness,
) -> None:
    async with a_typist(harness) as typist:
        await typist.type("add", config.encode_collection(a_collection(scope={"pages_max": 1})))
        await typist.type("start")
        assert len(await visit(harness, 2)) == 1
        assert await is_over(harness)
        again = await typist.type("add", config.encode_collection(a_collection(scope={"pages_max": 2})))
        assert (again.state, again.reason[:28]) == ("running", "continues since it was edite")
        assert typist.lines()[-1] == ("ana@sea", "edit a collection", "news", "[scope] pages_max", False)


async def test_one_that_waits_for_its_date_is_said_to_and_can_be_paused(harness: CoordinatorHarness) -> None:
    async with a_typist(harness) as typist:
        added = await typist.type("add", config.encode_collection(a_collection(schedule=DAILY)))
        assert added.state == "waiting"
        assert added.reason.startswith("starts on Tuesday 2026-12-01 at 00:00 UTC")
        assert (await typist.type("pause")).reason.endswith("; its schedule is paused until it is resumed")
        assert (await typist.type("resume")).state == "waiting"


async def test_what_is_refused_is_said_and_written_down(harness: CoordinatorHarness) -> None:
    async with a_typist(harness) as typist:
        with pytest.raises(NotFound, match="no collection is named 'news'"):
            await typist.type("start")
        await typist.type("add", config.encode_collection(a_collection()))
        with pytest.raises(
            ConfigError,
            match=r"news is ready: pause needs the state running; possible now: start .`tarrafa start news`., del",
        ):
            await typist.type("pause")
        assert [refused for *_, refused in typist.lines()] == [True, False, True]


async def test_where_no_node_works_nobody_answers_and_a_stranger_harms_nothing(harness: CoordinatorHarness) -> None:
    data = harness.ledger.data
    assert await send_control_request(data, ControlRequest("start", "news", "ana@sea")) is None
    async with a_typist(harness) as typist:
        assert control_socket_path(data).stat().st_mode & 0o777 == 0o600
        for junk in (b"", b"\xff\xff\xff\xff", b"\0\0\0\x03abc"):
            reader, writer = await asyncio.open_unix_connection(str(control_socket_path(data)))
            writer.write(junk)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
        assert (await typist.type("add", config.encode_collection(a_collection()))).state == "ready"
    assert await send_control_request(data, ControlRequest("start", "news", "ana@sea")) is None


def test_how_a_crawl_was_left_is_said_in_both_languages() -> None:
    assert PORTUGUESE.render(STOPPED_REASON).startswith("parada; ")


async def test_a_node_or_a_frontier_that_is_silent_is_named_and_nothing_is_changed(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, request = harness.ledger.data, ControlRequest("pause", "news", "ana@sea")
    monkeypatch.setattr(control_socket, "PING_S_MAX", 0.5)
    silent = await asyncio.start_unix_server(lambda reader, writer: None, str(control_socket_path(data)))
    with pytest.raises(Unreachable, match="the node did not answer within"):
        await send_control_request(data, request)
    silent.close()
    monkeypatch.setattr(control_socket, "PING_S_MAX", 60.0)
    monkeypatch.setattr(address, "ANSWER_TIMEOUT_S", 0.1)
    async with a_typist(harness) as typist:
        monkeypatch.setattr(harness.coordinator.frontier(), "time", asyncio.Event().wait)
        with pytest.raises(Unreachable, match="the frontier did not answer within"):
            await typist.type("pause")
        assert typist.lines() == []
