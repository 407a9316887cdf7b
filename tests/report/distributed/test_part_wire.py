"""Whatever comes in the place of a portion is noticed, and bounded."""

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tarrafa.report import visit_rows
from tarrafa.report.distributed import part_wire
from tarrafa.report.distributed.part_wire import PartReader, encode_frame
from tarrafa.report.visit_rows import ROW
from tests.report.sample_archives import NAME


def rows(**columns: Any) -> bytes:
    one = np.zeros(1, ROW)
    for name, value in columns.items():
        one[name] = value
    return part_wire._columns_to_bytes(one)


def packed(content: bytes) -> bytes:
    """Anything in the place of a message."""
    frame = zstandard.ZstdCompressor(level=1).compress(content)
    return len(frame).to_bytes(4, "big") + frame


def rest(count: int = 1, **more: Any) -> part_wire.PartEnd:
    plain = part_wire.PartEnd(count, count, None, -1, b"", [(NAME, 1.0)], [(1, 1.0)], [], True, [], None, None, None)
    return replace(plain, **more)


NAMED: list[part_wire.PartMessage] = [
    part_wire.PartHosts(["http://a.br:80"]),
    *(part_wire.PartNames(table, [""]) for table in get_args(part_wire.NameTable)),
]
HOSTILE: dict[str, bytes] = {
    "no frame": b"<html>no</html>" * 9,
    "a frame too long": b"\xff" * 8,
    "no zstandard": b"\0\0\0\x05hello",
    "a bomb": packed(bytes(1 << 26)),
    "no msgpack": packed(b"\xc1"),
    "brackets": packed(b"\x91" * 100_000),
    "no message": encode_frame(["Else", 1]),  # type: ignore[arg-type]
    "no host": encode_frame(part_wire.PartHosts(["javascript:alert(1)"])),
    "a long name": encode_frame(part_wire.PartNames("types", ["x" * 1000])),
    "less than nothing": encode_frame(part_wire.PartProgress(-1, 5)),
    "half a row": encode_frame(part_wire.PartRows("rows", b"x" * 60)),
    "no moment": encode_frame(part_wire.PartRows("rows", rows(at=np.nan))),
    "no time": encode_frame(part_wire.PartRows("rows", rows(elapsed_s=np.inf))),
    "before time": encode_frame(part_wire.PartRows("rows", rows(at=-1.0))),
    "no flags": encode_frame(part_wire.PartRows("rows", rows(flags=part_wire.FLAGS))),
    "a row of nobody": encode_frame(part_wire.PartRows("rows", rows())) + encode_frame(rest()),
    "a number beyond": b"".join(map(encode_frame, [*NAMED, part_wire.PartRows("rows", rows(host=1)), rest()])),
    "software of nobody": b"".join(
        map(encode_frame, [*NAMED, part_wire.PartServers([(7, visit_rows.ServerHeader(1.0, "x"))]), rest(0)])
    ),
    "less than was told": b"".join(map(encode_frame, [*NAMED, rest(3)])),
    "more after the end": encode_frame(rest(0)) + encode_frame(part_wire.PartProgress(1, 1)),
    "no part of a disk": encode_frame(rest(0, storage=[("<b>", "data", 1)])),
    "a size below nothing": encode_frame(rest(0, storage=[("index", "index", -1)])),
    "no delay": encode_frame(
        part_wire.PartRobots([("http://a.br:80", visit_rows.RobotsSummary(200, delay_s=float("inf")))])
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_is_refused(name):
    with PartReader() as opening, pytest.raises(ValueError, match=r"."):
        opening.feed(HOSTILE[name])


def test_what_only_looks_so_is_taken():
    with PartReader() as opening:
        opening.feed(
            b"".join(
                map(
                    encode_frame,
                    [
                        part_wire.PartKeepAlive(),
                        part_wire.PartProgress(3, 9),
                        *NAMED,
                        part_wire.PartRows("rows", rows()),
                        rest(),
                    ],
                )
            )
        )
        assert opening.part is not None
        assert (opening.read, len(opening.part.visits.rows)) == ((3, 9), 1)


@pytest.mark.parametrize("flag", [visit_rows.CUT_TEXT, *visit_rows.USE_FLAGS.values(), visit_rows.LICENSED])
def test_every_flag_of_a_row_is_taken(flag):
    with PartReader() as opening:
        opening.feed(b"".join(map(encode_frame, [*NAMED, part_wire.PartRows("rows", rows(flags=flag)), rest()])))
        assert opening.part is not None
        assert opening.part.visits.rows["flags"].tolist() == [flag]


def test_no_table_grows_without_end(monkeypatch):
    monkeypatch.setattr(part_wire, "HOSTS_MAX", 3)
    monkeypatch.setattr(part_wire, "ROWS_MAX", 3)
    monkeypatch.setattr(part_wire, "REDIRECTS_MAX", 3)
    monkeypatch.setattr(part_wire, "NAMES_MAX", 3)
    key = "http://h{}.br:80"
    move = np.zeros(1, part_wire.REDIRECT_ROW)
    endless: list[Callable[[int], part_wire.PartMessage]] = [
        lambda n: part_wire.PartHosts([key.format(n)]),
        lambda n: part_wire.PartNames("types", [f"t{n}"]),
        lambda n: part_wire.PartServers([(n, visit_rows.ServerHeader(1.0, "x"))]),
        lambda n: part_wire.PartRows("rows", rows()),
        lambda n: part_wire.PartRobots([(key.format(n), visit_rows.RobotsSummary(200))]),
        lambda n: part_wire.PartSitemaps([key.format(n)]),
        lambda n: part_wire.PartRedirects(part_wire._columns_to_bytes(np.array([(n, 1, 1, 301)], move.dtype))),
    ]
    for message in endless:
        with PartReader() as opening, pytest.raises(ValueError, match="than one machine can have"):
            for n in range(6):
                opening.feed(encode_frame(message(n)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_portion_with_a_byte_changed_is_taken_or_refused_and_nothing_else(data):
    good = bytearray(b"".join(map(encode_frame, [*NAMED, part_wire.PartRows("rows", rows()), rest()])))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with PartReader() as opening:
        try:
            opening.feed(bytes(good))
        except ValueError:
            pass
        else:
            assert opening.part is None or len(opening.part.visits.rows) == 1
