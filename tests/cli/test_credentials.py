"""`tarrafa credentials` adds, lists and removes credentials, and never prints a value."""

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tarrafa import credentials
from tarrafa.cli.app import app
from tarrafa.runtime.data_dir import DataDirectory

VALUE = "do-not-tell-anybody-7"


def said(tmp_path: Path, *words: str, given: str = "") -> str:
    result = CliRunner().invoke(app, ["credentials", *words, "--data", str(tmp_path / "data")], input=given)
    assert VALUE not in result.output
    if result.exception is not None:
        assert VALUE not in str(result.exception)
        return f"error: {result.exception}"
    return result.output


def test_a_secret_is_read_from_standard_input_listed_without_it_and_removed(tmp_path):
    add = ("add", "c", "--host", "*.a.br", "--host", "b.br", "--basic", "ana")
    assert said(tmp_path, *add, given=f"{VALUE}\nanother line\n") == "c: password of ana for *.a.br, b.br\n"
    data = DataDirectory(tmp_path / "data")
    assert [one.value for one in credentials.read(data, "c")] == [VALUE]
    assert stat.S_IMODE(credentials.credentials_path(data, "c").stat().st_mode) == 0o600
    assert "(replaced)" in said(tmp_path, *add, given=VALUE)
    assert '"kind": "basic"' in said(tmp_path, "list", "c", "--json")
    assert said(tmp_path, "remove", "c", "--host", "x.br") == "c: x.br: nothing to remove\n"
    assert said(tmp_path, "remove", "c", "--host", "b.br", "--basic", "ana") == "c: b.br: 1 removed\n"
    assert said(tmp_path, "list", "c") == "c: password of ana for *.a.br\n"
    assert said(tmp_path, "remove", "c", "--host", "*.a.br") == "c: *.a.br: 1 removed\n"
    assert said(tmp_path, "list", "c") == "c: no credentials\n"


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        (("add", "c", "--host", "a.br"), VALUE, "--basic USER is missing"),
        (("add", "c", "--host", "a.br", "--cookie", "--basic", "ana"), VALUE, "exclude each other"),
        (("add", "c", "--host", "*", "--cookie"), VALUE, "would be every host"),
        (("add", "c", "--host", "a.br", "--cookie"), "", "is empty"),
        (("add", "C/..", "--host", "a.br", "--cookie"), VALUE, "begins with a-z or 0-9"),
        (("add", "c", "--host", "a.br", "--header", "Host"), VALUE, "set by the crawler"),
        (("add", "c", "--host", "a.br", "--cookie"), "x" * 1_000_000, "at most 8,000 characters"),
        (("list", "c"), "", "no Tarrafa data here"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_changes_nothing(tmp_path, words, given, message):
    told = said(tmp_path, *words, given=given)
    assert message in told
    assert "\n" not in told
    assert not (tmp_path / "data").exists()
