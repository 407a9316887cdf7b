"""Whatever comes in the place of a portion is noticed, and bounded."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tarrafa.report import carrying, visits
from tarrafa.report.carrying import Opening, frame
from tarrafa.report.visits import ROW
from tests.report.archives import NAME


def rows(**columns: Any) -> bytes:
    one = np.zeros(1, ROW)
    for name, value in columns.items():
        one[name] = value
    return carrying._flat(one)


def packed(content: bytes) -> bytes:
    """Anything in the place of a message."""
    frame = zstandard.ZstdCompressor(level=1).compress(content)
    return len(frame).to_bytes(4, "big") + frame


def rest(count: int = 1, **more: Any) -> carrying.Rest:
    plain = carrying.Rest(count, count, None, -1, b"", [(NAME, 1.0)], [(1, 1.0)], [], True, [], None, None, None)
    return replace(plain, **more)


NAMED: list[carrying.Message] = [
    carrying.Hosts(["http://a.br:80"]),
    *(carrying.Named(table, [""]) for table in carrying.NUMBERED.values()),
]
HOSTILE: dict[str, bytes] = {
    "no frame": b"<html>no</html>" * 9,
    "a frame too long": b"\xff" * 8,
    "no zstandard": b"\0\0\0\x05hello",
    "a bomb": packed(bytes(1 << 26)),
    "no msgpack": packed(b"\xc1"),
    "brackets": packed(b"\x91" * 100_000),
    "no message": frame(["Else", 1]),  # type: ignore[arg-type]
    "no host": frame(carrying.Hosts(["javascript:alert(1)"])),
    "a long name": frame(carrying.Named("types", ["x" * 1000])),
    "less than nothing": frame(carrying.Read(-1, 5)),
    "half a row": frame(carrying.Rowed(b"x" * 60)),
    "no moment": frame(carrying.Rowed(rows(at=np.nan))),
    "no time": frame(carrying.Rowed(rows(elapsed_s=np.inf))),
    "before time": frame(carrying.Rowed(rows(at=-1.0))),
    "no flags": frame(carrying.Rowed(rows(flags=99))),
    "a row of nobody": frame(carrying.Rowed(rows())) + frame(rest()),
    "a number beyond": b"".join(map(frame, [*NAMED, carrying.Rowed(rows(host=1)), rest()])),
    "software of nobody": b"".join(map(frame, [*NAMED, carrying.Servers([(7, visits.Server(1.0, "x"))]), rest(0)])),
    "less than was told": b"".join(map(frame, [*NAMED, rest(3)])),
    "more after the end": frame(rest(0)) + frame(carrying.Read(1, 1)),
    "no part of a disk": frame(rest(0, storage=[("<b>", "data", 1)])),
    "a size below nothing": frame(rest(0, storage=[("index", "index", -1)])),
    "no delay": frame(carrying.Robots([("http://a.br:80", visits.Rules(200, delay_s=float("inf")))])),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_is_refused(name):
    with Opening() as opening, pytest.raises(ValueError, match=r"."):
        opening.take(HOSTILE[name])


def test_what_only_looks_so_is_taken():
    with Opening() as opening:
        opening.take(
            b"".join(map(frame, [carrying.Beat(), carrying.Read(3, 9), *NAMED, carrying.Rowed(rows()), rest()]))
        )
        assert opening.portion is not None
        assert (opening.read, len(opening.portion.visits.rows)) == ((3, 9), 1)


def test_no_table_grows_without_end(monkeypatch):
    monkeypatch.setattr(carrying, "HOSTS_MAX", 3)
    monkeypatch.setattr(carrying, "ROWS_MAX", 3)
    monkeypatch.setattr(carrying, "REDIRECTS_MAX", 3)
    monkeypatch.setattr(carrying, "NAMES_MAX", 3)
    key = "http://h{}.br:80"
    move = np.zeros(1, carrying.MOVE)
    endless: list[Callable[[int], carrying.Message]] = [
        lambda n: carrying.Hosts([key.format(n)]), lambda n: carrying.Named("types", [f"t{n}"]),
        lambda n: carrying.Servers([(n, visits.Server(1.0, "x"))]), lambda n: carrying.Rowed(rows()),
        lambda n: carrying.Robots([(key.format(n), visits.Rules(200))]), lambda n: carrying.Sitemaps([key.format(n)]),
        lambda n: carrying.Moves(carrying._flat(np.array([(n, 1, 1, 301)], move.dtype))),
    ]  # fmt: skip
    for message in endless:
        with Opening() as opening, pytest.raises(ValueError, match="than one machine can have"):
            for n in range(6):
                opening.take(frame(message(n)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_portion_with_a_byte_changed_is_taken_or_refused_and_nothing_else(data):
    good = bytearray(b"".join(map(frame, [*NAMED, carrying.Rowed(rows()), rest()])))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with Opening() as opening:
        try:
            opening.take(bytes(good))
        except ValueError:
            pass
        else:
            assert opening.portion is None or len(opening.portion.visits.rows) == 1
