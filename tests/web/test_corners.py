"""Badly behaved hosts, where a world wants them."""

import asyncio

from tarrafa.clock import Clock
from tarrafa.web import World, read_log
from tarrafa.web.answer import Request
from tarrafa.web.corners import CORNERS, SLOW_PAUSE_S, SLOW_PIECES, Exchange, roots
from tests.web.serving import Serving, canonical, read

CALENDAR = "http://calendar.corner.test/"


def test_a_world_without_corners_has_none():
    with Serving(World(hosts=2, pages=4)) as web:
        assert web.get(CALENDAR).status == 404


def test_the_calendar_never_ends_and_is_logged(tmp_path):
    log_path = tmp_path / "log.jsonl"
    with Serving(World(hosts=2, pages=4, corners=True), log_path=log_path) as web:
        url, seen = CALENDAR, set()
        for _ in range(40):
            page = read(web.get(url))
            assert len(page.links) > 28
            seen.add(url)
            url = canonical(page.links[1][0], url)  # the month after
        assert len(seen) == 40
        assert url == "http://calendar.corner.test/2029/05/"
    entries = read_log(log_path)
    assert [entry.status for entry in entries] == [200] * 40
    assert entries[0].bytes > 500


def test_the_slow_host_answers_piece_by_piece():
    pieces: list[bytes] = []
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    exchange = Exchange(Request("GET", "/"), Clock.real(), pieces.append, lambda: None, sleep)
    asyncio.run(_visit("slow.corner.test", exchange))
    assert pauses == [SLOW_PAUSE_S] * (SLOW_PIECES - 1)
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert exchange.status == 200


async def _visit(name: str, exchange: Exchange) -> None:
    await CORNERS[name].handler(exchange)


def test_corners_are_found_by_name():
    assert CALENDAR in roots()
    assert all(corner.about for corner in CORNERS.values())
