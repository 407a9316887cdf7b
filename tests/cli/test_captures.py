"""Commands versions, show and diff, and the export of the index of captures."""

import io
import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tarrafa.captures import follower
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.cli import main
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, record_action
from tests.captures.archived_site import DAY_S, FIRST_AT, MOVED, PAGE, SHY, new_archive, write_site

FIRST, SECOND = timestamp_of(FIRST_AT), timestamp_of(FIRST_AT + 40 * DAY_S)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    data = new_archive(tmp_path_factory.mktemp("captures") / "data")
    write_site(data).close()
    follower.catch_up(data)
    return data


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(data: DataDirectory, *arguments: str | Path) -> Done:
    """The command in this process: a process of its own takes a second to start."""
    out, errors, code = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8"), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tarrafa", *map(str, arguments), "--data", str(data.root)])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", errors)
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
        out.flush()
        errors.flush()
    return Done(code, *(one.buffer.getvalue().decode() for one in (out, errors)))


def test_versions_lists_every_capture_with_what_is_special_about_it(data):
    found = json.loads(run(data, "versions", PAGE, "--json").stdout)
    assert (found["total"], len(found["captures"])) == (5, 5)
    assert [one["note"] for one in found["captures"]] == ["", "revisit", "", "unchanged", ""]
    assert len(json.loads(run(data, "versions", PAGE, "--json", "-n", "2").stdout)["captures"]) == 2
    assert "noarchive" in run(data, "versions", SHY).stdout


def test_show_gives_text_markdown_or_bytes(data):
    assert run(data, "show", PAGE, "--at", FIRST).stdout.endswith("one\nsame\n")
    assert run(data, "show", PAGE, "--at", "2026-10-31", "--raw").stdout == "<p>two</p>\n<p>same</p>"
    assert run(data, "show", PAGE, "--at", SECOND, "--markdown").stdout == "# A page\n\ntwo\n\nsame\n\n"
    found = json.loads(run(data, "show", PAGE, "--json", "--at", SECOND).stdout)
    assert (found["text"], found["capture"]["timestamp"]) == ("two\nsame", SECOND)
    assert f"redirected to {PAGE}" in run(data, "show", MOVED).stdout


def test_diff_says_what_changed(data):
    lines = run(data, "diff", PAGE, FIRST, SECOND).stdout.splitlines()
    assert lines[-3:] == ["- one", "+ two", "  same"]
    found = json.loads(run(data, "diff", PAGE, FIRST, SECOND, "--json").stdout)
    assert (found["removed"], found["added"], found["from"]["timestamp"]) == (1, 1, FIRST)
    assert "the same text" in run(data, "diff", PAGE, FIRST, FIRST).stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "http://nowhere.test/"), "no capture of it is in this archive"),
        (("versions", "http://nowhere.test/"), "no capture of it is in this archive"),
        (("show", PAGE, "--at", "yesterday"), "not a date"),
        (("show", PAGE, "--raw", "--markdown"), "one of them"),
        (("show", SHY), "asks not to be shown from an archive"),
        (("diff", SHY, "2026", "2027"), "asks not to be shown from an archive"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(data, arguments, told):
    done = run(data, *arguments)
    assert done.returncode == 2 and told in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_the_export_is_sorted_and_leaves_out_what_is_not_shown(data, tmp_path):
    target = tmp_path / "captures.cdxj"
    assert run(data, "export", "captures", target).returncode == 0
    lines = target.read_bytes().splitlines()
    assert lines == sorted(lines) and lines and SHY.encode() not in target.read_bytes()
    assert run(data, "export", "captures", target).returncode == 2  # exists already
    assert run(data, "export", "captures", "-").stdout.encode() == target.read_bytes()


def test_a_takedown_holds_for_the_commands(tmp_path):
    data = new_archive(tmp_path / "data")
    write_site(data).close()
    follower.catch_up(data)
    record_action(data, "add", parse_target(PAGE), "ana", "a reason", FIRST_AT)
    for arguments in (("show", PAGE), ("versions", PAGE), ("diff", PAGE, FIRST, SECOND)):
        done = run(data, *arguments)
        assert done.returncode == 2 and "taken down" in done.stderr
    assert PAGE not in run(data, "export", "captures", "-").stdout


def test_rebuild_captures_names_what_is_damaged(tmp_path):
    data = new_archive(tmp_path / "data")
    write_site(data).close()
    (path,) = follower.response_files(data.archive)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 200)
    done = run(data, "rebuild", "captures")
    assert done.returncode == 0 and "captures: rebuilt" in done.stdout
