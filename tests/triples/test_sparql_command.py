"""`tarrafa sparql`: a table for people, every format for programs, one line for what is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tarrafa.cli.app import app
from tarrafa.errors import ConfigError, QueryError, QueryLimitExceeded
from tarrafa.triples.sparql_pool import NoAcceptableFormat
from tests.triples.sample_store import HOSTILE, filled, hostile_page, new_data, small_web

NAMES = "SELECT ?who ?n { ?who a schema:Person ; schema:name ?n ; schema:jobTitle ?j } ORDER BY ?n LIMIT 2"

ENDLESS = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = new_data(tmp_path_factory.mktemp("command") / "data")
    filled(data, [*small_web(9), *hostile_page()])
    return data.root


def run(root: Path, *arguments: str, typed: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["sparql", "--data", str(root), *arguments], input=typed)


def told(root: Path, *arguments: str) -> str:
    done = run(root, *arguments)
    assert done.exit_code == 0, done.exception
    return done.stdout


def test_a_table_shortens_names_and_obeys_nothing_that_pages_say(root):
    table = told(root, "SELECT ?c ?g { GRAPH ?g { ?s a ?c } } LIMIT 1").split()
    assert table[:2] == ["c", "g"]
    assert table[2].startswith("schema:")
    assert table[3].startswith("http://")
    shown = told(root, "SELECT ?x { VALUES ?x { '\\u001b[31m[bold]red' } }")
    assert "\x1b" not in shown
    assert "[31m[bold]red" in shown
    assert told(root, "ASK { ?s a schema:Recipe }") == "no\n"
    assert "@prefix schema:" in told(root, "CONSTRUCT { ?s schema:name ?n } WHERE { ?s schema:name ?n }")


def test_every_format_can_be_had(root):
    found = json.loads(told(root, NAMES, "--json"))
    assert [row["n"]["value"] for row in found["results"]["bindings"]] == [HOSTILE, HOSTILE]
    assert told(root, NAMES, "--format", "csv").startswith("who,n")
    build = "CONSTRUCT WHERE { ?s schema:jobTitle 'pescadora' }"
    assert told(root, build, "--format", "nt").count("\n") == 3


@pytest.mark.long
def test_a_query_comes_from_a_file_or_from_the_standard_input(root, tmp_path):
    (tmp_path / "q.rq").write_text("ASK {}")
    assert told(root, "--file", str(tmp_path / "q.rq")) == "yes\n"
    assert run(root, "-", typed="ASK {}").stdout == "yes\n"


def test_what_was_left_out_is_said(root):
    done = run(root, "SELECT * { ?s ?p ?o }", "--limit", "3")
    assert "only the first 3 results; there are more (--limit)" in done.stderr


@pytest.mark.long
def test_before_anything_is_crawled_that_is_said(tmp_path):
    done = run(new_data(tmp_path / "data").root, "SELECT * { ?s ?p ?o }")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "no page with structured data has been crawled yet" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (["SELECT * {"], QueryError, "line 1, column 11"),
        (["SELECT * { SERVICE <http://x/> {} }"], QueryError, "sends no requests to other machines"),
        ([], ConfigError, "give a query"),
        (["ASK {}", "--file", "x"], ConfigError, "give a query"),
        (["--file", "/nowhere/x.rq"], ConfigError, "/nowhere/x.rq: cannot be read"),
        (["ASK {}", "--part", "1-of-2"], QueryError, "not kept here"),
        (["ASK {}", "--format", "ttl"], NoAcceptableFormat, "json, xml, csv, tsv"),
        pytest.param([ENDLESS, "--time-limit", "0.3"], QueryLimitExceeded, "0.3 s", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(root, arguments, kind, said):
    """`main` prints it and exits with status 2, as for every command."""
    error = run(root, *arguments).exception
    assert isinstance(error, kind)
    assert said in str(error)
    assert "\n" not in str(error)
