"""The latest lines of the logs, which stay small."""

from pathlib import Path

import pytest

from tarrafa.coordinator.node import logs
from tarrafa.coordinator.node.logs import LogReader
from tarrafa.coordinator.node.messages import LINE_CHARS_MAX, LINES_PER_HEARTBEAT_MAX


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "w1.log").write_text("what was said before\n")
    return tmp_path


def say(folder: Path, text: str, name: str = "w1") -> None:
    with (folder / f"{name}.log").open("a") as log:
        log.write(text)


def texts(found: LogReader) -> list[tuple[str, str]]:
    return [(line.process, line.text) for line in found.new_lines(1.0)]


def test_each_line_is_told_once_and_what_is_old_is_not(folder):
    found = LogReader(folder)
    assert texts(found) == []
    say(folder, "first\nsecond\n")
    say(folder, "of another one\n", "graph")
    assert texts(found) == [("graph", "of another one"), ("w1", "first"), ("w1", "second")]
    assert texts(found) == []


def test_a_line_is_told_when_it_is_at_its_end(folder):
    found = LogReader(folder)
    say(folder, "half a ")
    assert texts(found) == []
    say(folder, "line\nand half")
    assert texts(found) == [("w1", "half a line")]


def test_lines_are_cut_cleaned_and_only_so_many(folder):
    found = LogReader(folder)
    say(folder, "x" * 10_000 + "\n\x1b[31mred\x07\n")
    told = texts(found)
    assert told == [("w1", "x" * LINE_CHARS_MAX), ("w1", " [31mred")]
    say(folder, "".join(f"{number}\n" for number in range(100_000)))
    told = texts(found)
    assert len(told) == LINES_PER_HEARTBEAT_MAX
    assert told[-1] == ("w1", "99999")


def test_a_log_that_was_made_anew_is_read_from_its_beginning(folder):
    found = LogReader(folder)
    (folder / "w1.log").unlink()
    say(folder, "new\n")
    assert texts(found) == [("w1", "new")]


def test_a_log_that_grew_too_long_is_cut_while_somebody_writes_and_its_end_is_kept(folder, monkeypatch):
    monkeypatch.setattr(logs, "LOG_BYTES_MAX", 10_000)
    monkeypatch.setattr(logs, "LOG_BYTES_KEPT", 1_000)
    found = LogReader(folder)
    with (folder / "w1.log").open("ab", buffering=0) as writer:  # as a child has it open
        writer.write(b"x" * 20_000 + b"\nthe end\n")
        assert texts(found)[-1] == ("w1", "the end")
        assert (folder / "w1.log").stat().st_size == 0
        kept = (folder / "w1.log.1").read_bytes()
        assert len(kept) == 1_000
        assert kept.endswith(b"the end\n")
        writer.write(b"going on\n")
    assert texts(found) == [("w1", "going on")]
    assert (folder / "w1.log").read_text() == "going on\n"


def test_a_line_without_end_is_told_in_parts(folder):
    found = LogReader(folder)
    say(folder, "x" * (logs.READ_BYTES_MAX + 10))
    assert [len(text) for _, text in texts(found)] == [LINE_CHARS_MAX]
    assert texts(found) == []
