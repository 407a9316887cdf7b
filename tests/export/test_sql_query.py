"""`tarrafa sql`: what is answered, in which forms, and what no query can reach."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tarrafa.errors import QueryError
from tarrafa.export.parquet_export import export_tables
from tarrafa.export.sql_query import sql_answer
from tarrafa.export.table_rows import TABLES, TableContents
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, record_action
from tests.captures.archived_site import FIRST_AT, new_archive
from tests.cli.test_captures import run
from tests.export.table_archive import NEWS, SmallCrawl
from tests.export.test_warc_and_wacz import silent
from tests.wait import block_until


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    made = new_archive(tmp_path_factory.mktemp("sql") / "data")
    crawl = SmallCrawl(made)
    crawl.write_all()
    crawl.page("http://evil.com.br/", "\x1b[31mred\x1b[0m text", day=2)
    crawl.commit()
    export_tables(made, made.root / "tables", TableContents(), silent)
    return made


def test_an_answer_is_a_table_csv_or_json(data):
    query = f"SELECT title, words, reserves, visited_at FROM newest_pages WHERE url = '{NEWS}/'"
    assert json.loads(run(data, "sql", query, "--json").stdout) == [
        {"title": "capa", "words": 3, "reserves": ["ai-train"], "visited_at": "2026-09-21T14:13:21.250000"}
    ]
    rows = list(csv.reader(io.StringIO(run(data, "sql", query, "--csv").stdout)))
    assert rows == [["title", "words", "reserves", "visited_at"],
                    ["capa", "3", '["ai-train"]', "2026-09-21T14:13:21.250000"]]  # fmt: skip
    shown = run(data, "sql", query).stdout.split()
    assert shown[:5] == ["title", "words", "reserves", "visited_at", "capa"]


def test_no_rows_are_said_and_are_valid_in_every_form(data):
    query = "SELECT url FROM pages WHERE url = ''"
    assert json.loads(run(data, "sql", query, "--json").stdout) == []
    assert run(data, "sql", query, "--csv").stdout == "url\n"
    assert "no rows" in run(data, "sql", query).stdout


def test_many_rows_are_all_in_csv_and_json_and_cut_in_a_table(data):
    query = "SELECT range AS n FROM range(2500)"
    assert len(json.loads(run(data, "sql", query, "--json").stdout)) == 2_500
    assert len(run(data, "sql", query, "--csv").stdout.splitlines()) == 2_501
    done = run(data, "sql", query)
    assert len(done.stdout.splitlines()) == 1_001 and "only the first 1,000 rows" in done.stderr


def test_texts_of_others_do_not_reach_the_terminal_as_commands(data):
    query = "SELECT text FROM pages WHERE host = 'evil.com.br'"
    assert "\x1b" not in run(data, "sql", query).stdout
    assert json.loads(run(data, "sql", query, "--json").stdout) == [{"text": "\x1b[31mred\x1b[0m text"}]


def test_without_a_query_the_columns_are_listed(data):
    rows = list(csv.reader(io.StringIO(run(data, "sql", "--csv").stdout)))[1:]
    assert {row[0] for row in rows} == {*TABLES, "newest_pages"}
    assert ["pages", "visited_at", "TIMESTAMP"] in rows and ["pages", "file", "VARCHAR"] in rows


@pytest.mark.parametrize(
    "query",
    [
        "COPY pages TO '{folder}/out.csv'",
        "COPY (SELECT 1) TO '{tables}' (FORMAT parquet)",
        "CREATE TABLE x AS SELECT 1",
        "ATTACH '{folder}/x.db'",
        "INSTALL httpfs",
        "SET memory_limit = '100GB'",
        "PRAGMA threads = 99",
        "EXPORT DATABASE '{folder}/all'",
        "SELECT 1; COPY pages TO '{folder}/out.csv'",
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        "FROM query('SELECT * FROM read_text(''{secret}'')')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_parquet('{folder}/*.parquet')",
        "SELECT * FROM read_text('https://localhost/')",
        "SELECT * FROM manifest",  # a name of this program
        "EXPLAIN ANALYZE COPY pages TO '{folder}/out.csv'",
        "",
    ],
)
def test_a_query_reads_the_tables_and_nothing_else(data, tmp_path, query):
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    root = data.root / "tables"
    some = next(root.glob("pages/*/*.parquet"))
    before = some.read_bytes()
    manifest = [("a", "row")]
    with (
        pytest.raises(QueryError),
        sql_answer(root, query.format(folder=tmp_path, secret=secret, tables=some)) as found,
    ):
        assert not list(found.rows), manifest
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"] and some.read_bytes() == before


def test_a_query_that_needs_too_much_memory_or_is_wrong_is_said_in_one_line(data):
    for query, told in (("SELEC 1", "syntax error"), ("SELECT nothing FROM pages", "nothing"), ("x" * 200_000, "long")):
        done = run(data, "sql", query)
        assert done.returncode == 2 and told in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert "one of them" in run(data, "sql", "SELECT 1", "--json", "--csv").stderr


def test_more_than_the_memory_is_sorted_on_the_disk(data, monkeypatch):
    monkeypatch.setattr("tarrafa.export.sql_query.MEMORY_LIMIT", "150MB")
    query = "SELECT md5(range::VARCHAR) AS m, repeat(md5(range::VARCHAR), 20) AS t FROM range(400000) ORDER BY m"
    with sql_answer(data.root / "tables", f"SELECT count(*), max(t[1:8]) FROM ({query} LIMIT 390000)") as answer:
        assert next(answer.rows)[0][0] == 390_000


def test_without_tables_or_duckdb_what_to_do_is_said(data, tmp_path, monkeypatch):
    done = run(data, "sql", "SELECT 1", "--tables", tmp_path / "none")
    assert done.returncode == 2 and "`tarrafa export parquet` makes them" in done.stderr
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for command in (("sql", "SELECT 1"), ("export", "parquet", tmp_path / "new")):
        done = run(data, *command)
        assert done.returncode == 2 and "pip install 'tarrafa[sql]'" in done.stderr
    assert not (tmp_path / "new").exists()


def test_tables_that_do_not_obey_a_takedown_are_refused(tmp_path):
    made = new_archive(tmp_path / "data")
    SmallCrawl(made).write_all()
    assert run(made, "export", "parquet").returncode == 0
    assert NEWS in run(made, "sql", "SELECT url FROM pages", "--csv").stdout
    record_action(made, "add", parse_target("site:news.com.br"), "ana", "a reason", FIRST_AT)
    done = run(made, "sql", "SELECT url FROM pages", "--csv")
    assert done.returncode == 2 and "taken down" in done.stderr and not done.stdout
    told = run(made, "export", "parquet").stderr
    assert "1 part written again" in told
    for table, column in (("pages", "url"), ("visits", "url"), ("links", "src || dst"), ("entities", "url")):
        listed = run(made, "sql", f"SELECT {column} FROM {table}", "--csv").stdout
        assert "news.com.br" not in listed
        assert ("shop.com.br" in listed) is (table != "links")  # each of them had that site at one end


def test_an_empty_archive_has_empty_tables(tmp_path, monkeypatch):
    made = new_archive(tmp_path / "data")
    assert run(made, "export", "parquet").returncode == 0
    for table in (*TABLES, "newest_pages"):
        assert run(made, "sql", f"SELECT count(*) FROM {table}", "--csv").stdout == "count_star()\n0\n"
    SmallCrawl(made).write_all()
    monkeypatch.chdir(tmp_path)
    relative = DataDirectory(Path("data"))
    assert run(relative, "export", "parquet").returncode == 0
    assert run(relative, "sql", "SELECT count(*) FROM visits", "--csv").stdout == "count_star()\n9\n"


def test_tables_elsewhere_are_queried_without_their_archive(data, tmp_path):
    target = tmp_path / "elsewhere"
    (data.root / "tables").rename(target)
    try:
        done = run(
            DataDirectory(tmp_path / "no data"), "sql", "SELECT count(*) FROM visits", "--csv", "--tables", target
        )
        assert done.stdout == "count_star()\n10\n"
    finally:
        Path(target).rename(data.root / "tables")


def test_a_query_is_interrupted_at_once(data, tmp_path):
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{hears}\nfrom tarrafa.cli import main; main()"
    query = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range <> b.range"
    command = [sys.executable, "-c", program, "sql", query, "--data", str(data.root)]
    with subprocess.Popen(command, env=os.environ | {"TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE) as process:
        block_until(lambda: list(tmp_path.glob("tarrafa-sql-*")))
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        finally:
            process.kill()
    assert process.returncode not in (0, -signal.SIGKILL)
    assert not list(tmp_path.glob("tarrafa-sql-*"))
