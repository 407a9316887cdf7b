"""What changed between two versions of a collection."""

from hypothesis import given, settings

from tarrafa.config import Collection
from tarrafa.coordinator.definitions.toml_writer import collection_to_toml, table_from_collection
from tarrafa.coordinator.definitions.version_diff import FieldChange, changed_fields
from tarrafa.crawl.scope.collection_loader import complete_collection
from tests.coordinator.definitions.collection_strategies import COLLECTIONS


def a_collection(**more: object) -> Collection:
    return complete_collection({"name": "a", "roots": ["a.br"]} | more, "test")


def test_what_changed_is_told_key_by_key_as_people_write_it():
    before = a_collection(scope={"exclude": ["*/x*", "*/y*"]}, schedule={"start": "2026-12-01"})
    after = a_collection(
        roots=["a.br", "b.br"],
        scope={"exclude": ["*/y*", "*/z*"], "depth_max": 3},
        politeness={"delay": 2, "delays": {"*.a.br": 5}},
        strategy={"weights": {"block": 1.5}},
        fetch={"feeds": False},
    )
    assert changed_fields(before, after) == [
        FieldChange("", "roots", "http://a.br/", "http://a.br/, http://b.br/", ["http://b.br/"]),
        FieldChange("scope", "exclude", "*/x*, */y*", "*/y*, */z*", ["*/z*"], ["*/x*"]),
        FieldChange("scope", "depth_max", "", "3"),
        FieldChange("politeness", "delay", "1 s", "2 s"),
        FieldChange("politeness", "delays", "", "*.a.br = 5 s", ["*.a.br = 5 s"]),
        FieldChange("fetch", "feeds", "yes", "no"),
        FieldChange("strategy", "weights.block", "10", "1.5"),
        FieldChange("schedule", "start", "2026-12-01T00:00:00", ""),
    ]


@settings(max_examples=50, deadline=None)
@given(COLLECTIONS, COLLECTIONS)
def test_two_collections_differ_exactly_when_something_changed(one, other):
    assert changed_fields(one, one) == []
    assert (
        bool(changed_fields(one, other))
        == (table_from_collection(one) != table_from_collection(other))
        == (collection_to_toml(one) != collection_to_toml(other))
    )
