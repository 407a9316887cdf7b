"""What workers see is kept, a little of it, and nothing twice."""

from msgspec.structs import replace

from tarrafa.config import decode_collection
from tarrafa.coordinator.monitoring.monitor import NEWEST_KEPT, SAMPLES_KEPT, RecentVisits, request_s_max
from tarrafa.coordinator.node.messages import ProcessState
from tarrafa.frontier.messages import CollectionStatus
from tarrafa.runtime.heartbeat import ProcessHeartbeat, VisitSample
from tests.contract.frontier_bodies import a_collection
from tests.coordinator.node.sample_messages import a_beat


def seen(url: str, at: float, status: int = 200) -> VisitSample:
    return VisitSample(at, "c", url, status, 10, 0.1)


def told(sightings: RecentVisits, *failures: VisitSample, newest: tuple[VisitSample, ...] = ()) -> None:
    pulse = ProcessHeartbeat("w1", 7, failures=failures, newest=newest)
    process = ProcessState("w1", "worker", 7, "running", 0.0, pulse=pulse)
    sightings.add_heartbeat(replace(a_beat(), processes=(process,)))


def test_hosts_of_a_silent_node_wait_only_for_collections_that_can_have_requests_under_way():
    limits = {"running": "20s", "stopping": "40s", "over": "1h"}
    statuses = [
        CollectionStatus(name, state, "", 0, 0, 0, 0, 0, 0.0, handed_out=handed_out)
        for name, state, handed_out in (("running", "running", 0), ("stopping", "paused", 3), ("over", "finished", 0))
    ]
    definitions = [decode_collection(a_collection(name, fetch={"time_max": limits[name]})) for name in limits]
    assert [request_s_max(statuses[start:], definitions) for start in range(4)] == [40.0, 40.0, 0.0, 0.0]


def test_a_pulse_that_is_told_twice_shows_each_url_once_and_at_its_latest():
    sightings, gone = RecentVisits(), seen("http://a.br/gone", 1.0, 404)
    for _ in range(3):
        told(sightings, gone, newest=(seen("http://a.br/", 1.0),))
    told(sightings, replace(gone, at=2.0), seen("http://a.br/other", 1.5, 404))
    (group,) = sightings.failures("c")
    assert [(one.url, one.at) for one in group.seen] == [("http://a.br/gone", 2.0), ("http://a.br/other", 1.5)]
    assert [one.url for one in sightings.newest("c")] == ["http://a.br/"]


def test_only_the_latest_of_each_kind_are_kept():
    sightings = RecentVisits()
    for number in range(50):
        told(sightings, seen(f"http://a.br/{number}", number, 500), newest=(seen(f"http://a.br/p{number}", number),))
    (group,) = sightings.failures("c")
    assert [one.at for one in group.seen] == [49.0, 48.0, 47.0][:SAMPLES_KEPT]
    assert len(sightings.newest("c")) == NEWEST_KEPT
    sightings.forget("c")
    assert sightings.failures("c") == []
