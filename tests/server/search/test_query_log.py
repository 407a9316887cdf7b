"""What people ask, without the people."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest
from typer.testing import CliRunner

from tarrafa.cli import app
from tarrafa.errors import ConfigError, DataError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.search import query_log
from tarrafa.server.search.query_log import (
    DAYS_KEPT,
    AskedQueries,
    QueryLog,
    is_personal,
    normalized_query,
    query_report,
)
from tests.graph.archived_web import new_data

NOW = 1_794_000_000.0
DAY = 86_400


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def rows(data: DataDirectory) -> list[tuple[str, str, int, int]]:
    return list(apsw.Connection(str(data.queries)).execute("SELECT * FROM asked ORDER BY day, query"))


def test_texts_are_counted_by_the_day_with_what_they_found(data):
    clock = [NOW]
    with QueryLog(data, lambda: clock[0]) as log:
        for text, hits in (("Rede de  Pesca", 7), ("rede de pesca", 9), ("nada disso", 0)):
            log.record(text, hits)
        clock[0] += DAY
        log.record("rede de pesca", 8)
    assert rows(data) == [
        ("2026-11-06", "nada disso", 1, 0),
        ("2026-11-06", "rede de pesca", 2, 9),
        ("2026-11-07", "rede de pesca", 1, 8),
    ]


def test_what_many_asked_completes_a_text_and_what_one_asked_does_not(data):
    now = NOW
    with QueryLog(data, lambda: now) as log:
        for days in (0, 1, 2):
            now = NOW + days * 86_400
            for text, hits in (("Função pública", 5), ("função nenhuma", 0)):
                log.record(text, hits)
            for text in ["função pessoal"] * 9 if days == 1 else ():
                log.record(text, 3)
            log.flush()
        asked = AskedQueries(data, lambda: now)
        assert asked.beginning_with("funca", 3) == asked.beginning_with("FUNÇÃO p", 3) == ["função pública"]
        assert asked.beginning_with("função pública", 3) == asked.beginning_with("fun cao", 3) == []
        assert asked.beginning_with("", 3) == []
        log.record("função pessoal", 3)
        log.flush()
        assert asked.beginning_with("funcao", 3) == ["função pública"], "it is read once a minute"
        now += 61
        assert asked.beginning_with("funcao", 3) == ["função pessoal", "função pública"]


def test_only_the_owner_can_read_what_people_ask(data):
    for _ in range(2):
        with QueryLog(data, lambda: NOW) as log:
            log.record("rede", 7)
        assert data.queries.stat().st_mode & 0o777 == 0o600
        data.queries.chmod(0o644)  # as older versions made it


def test_the_report_tells_the_most_asked_and_what_was_asked_in_vain(data):
    with QueryLog(data, lambda: NOW - DAY) as log:
        for text, hits in (("rede", 5), ("barco", 0), ("agora há", 0)):
            log.record(text, hits)
    with QueryLog(data, lambda: NOW) as log:
        for text, hits in (("rede", 6), ("barco", 0), ("agora há", 4), ("agora há", 4), ("x@y.test", 0)):
            log.record(text, hits)
    found = query_report(data, NOW)
    assert (found.days, found.asked, found.empty, found.unkept) == (30, 8, 4, 1)
    assert [(one.query, one.times, one.hits) for one in found.top] == [
        ("agora há", 3, 4),
        ("barco", 2, 0),
        ("rede", 2, 6),
    ]
    assert [(one.query, one.times) for one in found.zero] == [("barco", 2)], "what is found by now was not in vain"
    today = query_report(data, NOW, days=1, most=1)
    assert (today.asked, [one.query for one in today.top]) == (5, ["agora há"])
    assert query_report(new_data(data.root.parent / "other"), NOW).asked == 0


PERSONAL = [
    "maria@example.br", "quem é a@b", "123456", "cpf 123.456.789-09", "fone 3409-5000", "+55 (31) 3409 5000",
    "cartão 4111 1111 1111 1111", "2055-1234", "nascido 01/02/1980", "x" * 101, "12 34 56",
]  # fmt: skip
ORDINARY = [
    "rede de pesca", "copa 2014", "eleições 2022 2026", "rede after:2026-01-31 before:2026-02", "12345", "lei 8.666",
    "@", "a @ b", "ação", "x" * 100,
]  # fmt: skip


@pytest.mark.parametrize("text", PERSONAL)
def test_what_looks_personal_is_not_kept(text):
    assert is_personal(text)
    assert normalized_query(text) == ""


@pytest.mark.parametrize("text", ORDINARY)
def test_what_is_ordinary_is_kept(text):
    assert normalized_query(text) == text


@pytest.mark.parametrize("text", ["", "   ", "a\x00b", "\u202eabc", "a\ud800b"])
def test_what_is_no_text_is_counted_only(data, text):
    with QueryLog(data, lambda: NOW) as log:
        log.record(text, 3)
    assert (query_report(data, NOW).asked, query_report(data, NOW).unkept, rows(data)) == (1, 1, [])


def test_days_are_forgotten_after_their_time(data):
    for age in (0, DAYS_KEPT - 1, DAYS_KEPT):
        with QueryLog(data, lambda age=age: NOW - age * DAY) as log:  # type: ignore[misc]
            log.record(f"há {age} dias", 1)
    with QueryLog(data, lambda: NOW) as log:
        log.record("hoje", 1)
    assert [text for _, text, _, _ in rows(data)] == [f"há {DAYS_KEPT - 1} dias", "hoje", "há 0 dias"]
    assert query_report(data, NOW, days=DAYS_KEPT).asked == 3


def test_a_day_keeps_so_many_texts_and_counts_the_others(data, monkeypatch):
    monkeypatch.setattr(query_log, "TEXTS_PER_DAY_MAX", 3)
    monkeypatch.setattr(query_log, "PENDING_MAX", 4)
    log = QueryLog(data, lambda: NOW)
    for number in range(6):
        log.record(f"texto {number}", 1)
    log.record("texto 0", 1)
    log.flush()
    log.record("texto 0", 1)
    log.record("mais um", 1)
    log.close()
    assert [(text, times) for _, text, times, _ in rows(data)] == [("texto 0", 3), ("texto 1", 1), ("texto 2", 1)]
    assert (query_report(data, NOW).asked, query_report(data, NOW).unkept) == (9, 4)


def test_nothing_but_day_text_and_numbers_is_written(data):
    with QueryLog(data, lambda: NOW) as log:
        log.record("rede", 1)
    columns = {
        (table, row[1])
        for table in ("asked", "days")
        for row in apsw.Connection(str(data.queries)).execute(f"PRAGMA table_info({table})")
    }
    assert {name for _, name in columns} == {"day", "query", "times", "hits", "empty", "unkept"}


def test_a_log_that_cannot_be_written_fails_nobody_and_says_so_once(data, caplog):
    data.queries.mkdir()
    log = QueryLog(data, lambda: NOW)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            log.record("rede", 1)
            log.flush()
        log.close()
    assert len(caplog.records) == 1
    assert "queries are not logged" in caplog.text


def test_a_log_of_another_version_or_none_at_all_is_one_sentence(data):
    data.queries.write_bytes(b"no database at all" * 100)
    with pytest.raises(DataError, match="delete the file"):
        query_report(data, NOW)
    data.queries.unlink()
    apsw.Connection(str(data.queries)).pragma("user_version", 99)
    with pytest.raises(DataError, match="another version"):
        query_report(data, NOW)
    with QueryLog(data, lambda: NOW) as log:
        log.record("rede", 1)
    assert apsw.Connection(str(data.queries)).pragma("user_version") == 99, "what is not ours is left alone"


def test_two_processes_write_and_a_kill_loses_the_last_seconds_only(data):
    code = f"""
from pathlib import Path
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.search.query_log import QueryLog
log = QueryLog(DataDirectory(Path({str(data.root)!r})), lambda: {NOW})
log.record("de lá", 1)
log.flush()
log.record("perdida", 1)
print("written", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "written\n"
        with QueryLog(data, lambda: NOW) as log:
            log.record("de cá", 1)
            log.flush()
            os.kill(other.pid, signal.SIGKILL)
            other.wait(30)
            log.record("de lá", 2)
    assert {text: times for _, text, times, _ in rows(data)}.items() >= {"de cá": 1, "de lá": 2}.items()
    assert query_report(data, NOW).asked in (3, 4), "the thread may just have written the last one"


def test_a_thread_writes_by_itself(data, monkeypatch):
    monkeypatch.setattr(query_log, "WRITE_EVERY_S", 0.01)
    written = threading.Event()
    log = QueryLog(data, lambda: NOW)
    flush = log.flush

    def flushing() -> None:
        flush()
        written.set()

    monkeypatch.setattr(log, "flush", flushing)
    log.record("rede", 1)
    assert written.wait(30)
    assert query_report(data, NOW).asked == 1
    log.close()


def asked_of_the_command(data: DataDirectory, *options: str) -> str:
    done = CliRunner().invoke(app.app, ["query-log", "--data", str(data.root), *options], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_command_shows_the_same_to_people_and_to_programs(data):
    assert "No searches" in asked_of_the_command(data)
    with QueryLog(data) as log:
        for text, hits in (("rede", 1234), ("rede", 1234), ("[bold]nada", 0), ("a@b", 1)):
            log.record(text, hits)
    told = json.loads(asked_of_the_command(data, "--json", "-n", "1"))
    assert (told["asked"], told["top"]) == (4, [{"query": "rede", "times": 2, "hits": 1234}])
    shown = asked_of_the_command(data)
    assert "4 searches in 30 days, 1 without results; the texts of 1 were not kept" in shown
    assert "rede  1,234 pages" in shown
    assert "[bold]nada" in shown


def test_an_address_for_others_must_be_one(data):
    with pytest.raises(ConfigError, match="--public-url"):
        CliRunner().invoke(
            app.app, ["serve", "--data", str(data.root), "--public-url", "busca.br"], catch_exceptions=False
        )
