"""The command: what it prints, its exit status, JSON, and when it refuses."""

import json

import pytest
from typer.testing import CliRunner, Result

from tarrafa.cli.app import app
from tarrafa.crawl.verify.repair import repair
from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.verify import planted


def verify(data: DataDirectory, *options: str) -> Result:
    return CliRunner().invoke(app, ["verify", "--data", str(data.root), *options])


def test_nothing_wrong_is_status_0(copy: DataDirectory) -> None:
    for options in ((), ("--deep",), ("--repair",)):
        done = verify(copy, *options)
        assert done.exit_code == 0
        assert "nothing wrong: " in done.stdout


def test_a_finding_says_what_where_how_bad_and_what_mends_it(copy: DataDirectory) -> None:
    planted.flip_in_body(copy)
    done = verify(copy, "--deep")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "archive: a record is damaged (damaged-record, lost data): 1"
    assert lines[1].startswith(f"  {planted.warc(copy).name} at ")
    assert any("  mended by: tarrafa verify --repair --from DIR" in line for line in lines[2:])
    missing = next(number for number, line in enumerate(lines) if "(response-missing, lost data): 1" in line)
    assert "http://" in lines[missing + 1]


def test_json_has_severities_and_totals(copy: DataDirectory) -> None:
    planted.delete_capture(copy)
    done = verify(copy, "--deep", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (found["total"], found["lost"], found["derived"]) == (1, 0, 1)
    (one,) = found["findings"]
    assert (one["kind"], one["store"], one["severity"]) == ("capture-missing", "captures", "derived")
    assert found["counts"] == [{"store": "captures", "kind": "capture-missing", "severity": "derived", "count": 1}]


def test_json_of_a_repair_says_what_was_done(copy: DataDirectory) -> None:
    planted.delete_capture(copy)
    done = verify(copy, "--repair", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["done"], found["left"]) == (0, ["captures: rebuilt"], [])


def test_what_a_repair_cannot_mend_stays_status_1(copy: DataDirectory) -> None:
    planted.forge_content(copy)
    done = verify(copy, "--repair")
    assert done.exit_code == 1
    assert "which no replica has otherwise; it was left" in done.stderr


def test_a_repair_is_refused_while_a_crawl_runs_and_a_check_is_not(copy: DataDirectory) -> None:
    planted.delete_capture(copy)
    lock = copy.try_lock()
    assert lock is not None
    with lock:
        with pytest.raises(ConfigError, match="a crawl runs here; stop it first"):
            repair(copy, None)
        assert verify(copy, "--deep").exit_code == 1
    assert repair(copy, None).report.total == 0


def test_from_is_only_for_a_repair(copy: DataDirectory) -> None:
    done = verify(copy, "--from", str(copy.root))
    assert isinstance(done.exception, ConfigError)
    with pytest.raises(ConfigError, match="is no folder"):
        repair(copy, copy.root / "VERSION")
