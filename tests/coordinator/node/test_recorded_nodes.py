"""Where other nodes answer is known to the coordinator, and to whoever reads its ledger."""

import pytest

from tarrafa.coordinator.node.node_registry import NodeRegistry
from tarrafa.coordinator.node.search_peers import GIVEN_UP_AFTER_S, RecordedNodes, read_recorded_nodes
from tarrafa.coordinator.store import open_store
from tarrafa.errors import DataError
from tarrafa.runtime.data_dir import DataDirectory
from tests.coordinator.node.sample_messages import a_beat

NOW = 1_790_000_000.0


@pytest.fixture
def data(tmp_path):
    directory = DataDirectory(tmp_path)
    directory.create()
    return directory


def test_every_node_but_our_own_is_named_with_its_address_as_soon_as_it_has_one(data):
    nodes = NodeRegistry(open_store(data), "home")
    for name, address in (("home", ""), ("one", ""), ("two", "http://10.0.0.2:1")):
        nodes.receive_heartbeat(a_beat(name, address=address), NOW)
    nodes.receive_heartbeat(a_beat("one", address="http://10.0.0.1:9"), NOW + 1)
    found = read_recorded_nodes(data)
    assert found.own == "home"
    assert {name: (beat and beat.address, heard) for name, (beat, heard) in found.nodes.items()} == {
        "home": ("", NOW), "one": ("http://10.0.0.1:9", NOW + 1), "two": ("http://10.0.0.2:1", NOW),
    }  # fmt: skip
    assert found.addresses(NOW + 30) == [("one", "http://10.0.0.1:9"), ("two", "http://10.0.0.2:1")]
    late = NOW + GIVEN_UP_AFTER_S + 0.5
    assert found.addresses(late) == [("one", "http://10.0.0.1:9"), ("two", "")], "somebody else may answer there by now"


def test_a_coordinator_of_another_name_is_the_only_own_node(data):
    ledger = open_store(data)
    NodeRegistry(ledger, "home")
    NodeRegistry(ledger, "other")
    assert read_recorded_nodes(data) == RecordedNodes("other")


def test_a_node_that_another_version_noted_is_named_all_the_same(data):
    ledger = open_store(data)
    NodeRegistry(ledger, "home").receive_heartbeat(a_beat("one"), NOW)
    ledger.execute("UPDATE node SET beat = '{}'")
    assert read_recorded_nodes(data) == RecordedNodes("home", {"one": (None, NOW)})
    assert read_recorded_nodes(data).addresses(NOW) == [("one", "")]


def test_where_nobody_coordinates_there_are_no_nodes(data):
    assert read_recorded_nodes(data) == RecordedNodes()
    open_store(data).close()  # by a version that did not know of them
    assert read_recorded_nodes(data) == RecordedNodes()
    data.coordinator.write_bytes(b"no ledger at all" * 999)
    with pytest.raises(DataError, match=r"coordinator\.sqlite: cannot be used, it is damaged"):
        read_recorded_nodes(data)
