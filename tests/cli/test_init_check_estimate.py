"""`tarrafa init`, `check` and `estimate`: the commands before a crawl."""

import json

import pytest
from typer.testing import CliRunner

from tarrafa.cli.app import app
from tarrafa.coordinator.definitions.presets import PRESETS
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.errors import ConfigError

run = CliRunner().invoke


def test_every_preset_is_listed_and_written_as_a_file_that_can_be_crawled(tmp_path):
    listed = run(app, ["init", "--list"]).stdout
    for name in PRESETS:
        assert f"\n{name} " in f"\n{listed}"
        file = tmp_path / f"{name}.toml"
        told = run(app, ["init", str(file), "--preset", name, "--root", "https://www.ufmg.br/a/", "--language", "pt"])
        assert told.exit_code == 0, told.output
        assert load_collection(file).roots == ("https://www.ufmg.br/a/",)
        assert load_collection(file).name == name


def test_a_preset_that_is_refused_leaves_no_file(tmp_path):
    told = run(app, ["init", str(tmp_path / "a.toml"), "--preset", "site", "--root", "nonsense"])
    assert isinstance(told.exception, ConfigError)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('name = "c"\nroots = ["www.a.br"]\n[scope]\nexclude = ["*/login*"]\npages_max = 50\n')
    return path


def test_urls_are_checked_from_the_command_line_or_from_standard_input(file, tmp_path):
    empty = ["--data", str(tmp_path / "none")]
    told = run(app, ["check", str(file), "www.a.br/x", "http://www.a.br/login", *empty])
    assert told.stdout.splitlines()[:2] == [
        "in   http://www.a.br/x  ([scope] hosts = 'www.a.br' matches it)",
        "out  http://www.a.br/login  ([scope] exclude = '*/login*' matches it)",
    ]
    piped = run(app, ["check", str(file), "--json", *empty], input="b.br\n\nwww.a.br\n")
    found = json.loads(piped.stdout)
    assert [one["rule"] for one in found["verdicts"]] == ["no host", "root"]
    assert any("robots.txt" in note for note in found["notes"])


def test_a_collection_is_estimated_before_there_is_any_data(file, tmp_path):
    told = run(app, ["estimate", str(file), "--data", str(tmp_path / "none"), "--json"])
    found = json.loads(told.stdout)
    assert found["pages"] == {"low": 10, "likely": 50, "high": 50}
    assert "pages_max = 50" in found["bound"]
    assert not (tmp_path / "none").exists()
    shown = run(app, ["estimate", str(file), "--data", str(tmp_path / "none"), "--language", "pt"]).stdout
    assert "servidores desconhecidos: 1" in shown
