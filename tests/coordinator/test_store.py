"""What was decided is remembered, by whom and when."""

import contextlib

import apsw
import pytest

from tarrafa.coordinator.monitoring.timeseries import SECONDS_KEPT, CollectionTimeSeries
from tarrafa.coordinator.store import (
    SAMPLES_MAX,
    CollectionLifecycle,
    CollectionRun,
    CollectionSample,
    CoordinatorStore,
)
from tarrafa.errors import DataError
from tarrafa.runtime.data_dir import DataDirectory


@pytest.fixture
def data(tmp_path):
    directory = DataDirectory(tmp_path / "d")
    directory.create()
    return directory


@pytest.fixture
def ledger(data):
    kept = CoordinatorStore(data)
    yield kept
    kept.close()


def test_each_version_is_kept_with_its_date_and_author(ledger):
    assert ledger.add_version("a", b'{"x":1}', 10.0, "ana") == 1
    assert ledger.add_version("a", b'{"x":2}', 20.0, "rui") == 2
    assert [(one.number, one.at, one.who, bytes(one.config)) for one in ledger.versions("a")] == [
        (2, 20.0, "rui", b'{"x":2}'),
        (1, 10.0, "ana", b'{"x":1}'),
    ]


def test_a_ledger_that_has_fewer_tables_than_today_gets_them_and_keeps_what_it_holds(data):
    """The archive cannot give it back: it is only ever added to."""
    older = apsw.Connection(str(data.coordinator))
    older.execute("CREATE TABLE version (name TEXT, number INTEGER, at REAL, who TEXT, config BLOB);"
                  " INSERT INTO version VALUES ('a', 1, 10.0, 'ana', x'7b7d')")  # fmt: skip
    older.close()
    with contextlib.closing(CoordinatorStore(data)) as ledger:
        assert [(one.number, one.who, bytes(one.config)) for one in ledger.versions("a")] == [(1, "ana", b"{}")]
        assert ledger.add_version("a", b'{"x":2}', 20.0, "rui") == 2
        assert ledger.runs("a") == []


def test_the_same_once_more_is_no_new_version(ledger):
    ledger.add_version("a", b"{}", 10.0, "ana")
    assert ledger.add_version("a", b"{}", 20.0, "rui") == 1
    assert len(ledger.versions("a")) == 1


def test_what_was_written_is_there_after_a_restart_and_for_this_user_only(data):
    first = CoordinatorStore(data)
    first.put_lifecycle("a", CollectionLifecycle(created=5.0, creator="ana", held=True))
    first.put_run("a", CollectionRun(1, 6.0))
    first.put_run("a", CollectionRun(2, 9.0))
    first.put_run("a", CollectionRun(1, 6.0, ended=8.0, state="finished"))
    first.close()
    second = CoordinatorStore(data)
    assert second.lifecycle("a") == CollectionLifecycle(created=5.0, creator="ana", held=True)
    assert [(run.number, run.state) for run in second.runs("a")] == [(2, "running"), (1, "finished")]
    assert data.coordinator.stat().st_mode & 0o777 == 0o600
    second.close()


def test_a_collection_that_was_deleted_leaves_no_history(ledger):
    for name in ("a", "b"):
        ledger.add_version(name, b"{}", 1.0, "ana")
        ledger.put_lifecycle(name, CollectionLifecycle(created=1.0))
        ledger.put_run(name, CollectionRun(1, 1.0))
        ledger.put_sample(name, CollectionSample(60.0, pages=1))
    ledger.delete_collection("a")
    assert (ledger.versions("a"), ledger.lifecycle("a"), ledger.runs("a"), ledger.samples("a", 0, 99)) == (
        [],
        None,
        [],
        [],
    )
    assert len(ledger.versions("b")) == len(ledger.runs("b")) == len(ledger.samples("b", 0, 99)) == 1


def test_what_is_no_ledger_is_said_to_be_none(data):
    data.coordinator.write_bytes(b"no database at all, and long enough to be looked at" * 100)
    with pytest.raises(DataError, match=r"coordinator\.sqlite: cannot be used"):
        CoordinatorStore(data)


def test_seconds_are_in_memory_and_minutes_survive(ledger):
    curves = CollectionTimeSeries(ledger)
    for second in range(SECONDS_KEPT + 300):
        curves.add("a", CollectionSample(float(second), pages=second))
    assert len(curves.recent("a")) == SECONDS_KEPT
    assert [one.at for one in CollectionTimeSeries(ledger).between("a", 0, 10_000)] == [60.0 * n for n in range(20)]
    whole = curves.between("a", 0, 10_000)
    assert [one.at for one in whole] == sorted({one.at for one in whole})
    assert whole[0].at == 0.0 and whole[-1].at == SECONDS_KEPT + 299


def test_a_moment_is_noted_once(ledger):
    curves = CollectionTimeSeries(ledger)
    curves.add("a", CollectionSample(10.0, pages=1))
    curves.add("a", CollectionSample(10.0, pages=2))
    curves.add("a", CollectionSample(9.0, pages=3))
    assert curves.recent("a") == [CollectionSample(10.0, pages=1)]


def test_a_rate_is_that_of_the_last_seconds(ledger):
    curves = CollectionTimeSeries(ledger)
    for second in range(100):
        curves.add("a", CollectionSample(float(second), visits=second * 7))
    assert curves.rate("a", 100.0, 700, lambda one: one.visits) == pytest.approx(7.0)
    assert curves.rate("b", 100.0, 700, lambda one: one.visits) == 0.0


def test_a_year_of_minutes_is_read_in_a_few_points(ledger):
    with ledger.connection:
        ledger.connection.executemany(
            "INSERT INTO sample VALUES ('a', ?, ?)", ((60 * n, b'{"at":%d.0}' % (60 * n)) for n in range(5_000))
        )
    points = ledger.samples("a", 0, 60 * 5_000)
    assert SAMPLES_MAX / 2 < len(points) <= SAMPLES_MAX
