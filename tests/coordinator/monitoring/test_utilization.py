"""How busy machines were is told of the time of a collection's runs, and of nobody else's."""

import pytest

from tarrafa.coordinator.monitoring.utilization import UsageDuringRuns, UtilizationLog, read_usage_during_runs
from tarrafa.coordinator.store import CollectionRun, CoordinatorStore
from tarrafa.runtime.data_dir import DataDirectory

T = 60_000_000.0  # a whole minute


@pytest.fixture
def data(tmp_path):
    data = DataDirectory(tmp_path)
    data.create()
    return data


def told(found: UsageDuringRuns | None) -> dict[str, tuple[float, float]]:
    assert found is not None
    return {node: (round(used.mean or 0.0, 3), used.most) for node, used in found.nodes.items()}


def test_only_the_minutes_of_its_runs_count_and_only_nodes_that_were_heard_in_them(data):
    ledger = CoordinatorStore(data)
    use = UtilizationLog(ledger)
    for second in range(1200):
        use.note("home", 1.0 if second < 600 else 0.25, T + second)
        if second < 240:
            use.note("gone", 0.63, T + second)
    ledger.put_run("c", CollectionRun(1, T + 600, T + 780))
    ledger.put_run("c", CollectionRun(2, T + 1080))
    ledger.put_run("other", CollectionRun(1, T))
    for found in (use.during_runs("c", T + 1199), read_usage_during_runs(data, "c", T + 1199)):
        assert told(found) == {"home": (0.25, 0.25)}
        assert found is not None
        assert found.whole
    assert told(use.during_runs("other", T + 1199)) == {"home": (0.625, 1.0), "gone": (0.63, 0.63)}
    assert told(use.during_runs("other", T + 1199, since=T + 300, until=T + 500)) == {"home": (1.0, 1.0)}
    assert use.during_runs("c", T + 1199, run=3) is None
    assert use.during_runs("nobody", T + 1199) is None


def test_a_time_in_which_nobody_coordinated_is_no_whole_time(data):
    ledger = CoordinatorStore(data)
    UtilizationLog(ledger).note("home", 0.5, T)
    again = UtilizationLog(ledger)
    again.note("home", 0.7, T + 30)
    again.note("home", 0.7, T + 180)
    ledger.put_run("c", CollectionRun(1, T, T + 180))
    found = again.during_runs("c", T + 200)
    assert told(found) == {"home": (0.633, 0.7)}
    assert found is not None
    assert not found.whole


def test_what_was_heard_is_kept_soon_and_not_at_every_beat(data):
    ledger = CoordinatorStore(data)
    use = UtilizationLog(ledger)
    ledger.put_run("c", CollectionRun(1, T))
    before = ledger.connection.total_changes()
    for second in range(12):
        use.note("home", second / 100, T + second)
    assert ledger.connection.total_changes() - before == 2
    found = read_usage_during_runs(data, "c", T + 12)
    assert found is not None
    assert found.nodes["home"].count == 11


def test_where_nobody_coordinates_nobody_knows(data):
    assert read_usage_during_runs(data, "c", T) is None
