"""Whatever arrives, it is a collection or a list of complaints."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarrafa.config import COMPLAINTS_MAX
from tarrafa.coordinator.definitions.draft import draft_from_form, draft_from_table, draft_from_toml
from tarrafa.coordinator.definitions.fields import collection_fields
from tarrafa.crawl.scope.collection_loader import complete_collection
from tarrafa.errors import ConfigError
from tests.coordinator.definitions.collection_strategies import TABLES

ANYTHING = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["1s", "5 MB", "a.br", "*"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)
STEPS = sorted(
    {step for name in collection_fields() for step in name.split(".")} | {"ca_file", "roots_file", "x`y", ""}
)


@ANYTHING
@given(TABLES, st.lists(st.tuples(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3), VALUES), max_size=4))
def test_a_table_has_complaints_exactly_when_it_is_refused(table, changes):
    for path, value in changes:
        held = table
        for step in path[:-1]:
            inner = held.get(step)
            held[step] = held = dict(inner) if isinstance(inner, dict) else {}
        held[path[-1]] = value
    draft = draft_from_table(table)
    try:
        expected = complete_collection(table, "test")
    except ConfigError as error:
        assert draft.collection is None
        assert 0 < len(draft.complaints) <= COMPLAINTS_MAX
        assert all(line.startswith("test: ") for line in str(error).split("\n")), "each thing in one line"
        assert all("\n" not in str(one.message) for one in draft.complaints)
    else:
        assert draft.collection == expected


TYPED = st.one_of(
    st.text(max_size=30), st.sampled_from(['"', '"x', '"\\ud800"', "a = 1s", '"a" = 1s', "1e999", "-", "٣"])
)


@ANYTHING
@given(st.dictionaries(st.sampled_from([*collection_fields(), "x"]), st.lists(TYPED, max_size=3), max_size=8))
def test_a_form_with_anything_in_it_is_answered(form):
    draft = draft_from_form(form)
    assert (draft.collection is None) == bool(draft.complaints)


@ANYTHING
@given(st.text(max_size=60))
def test_a_text_with_anything_in_it_is_answered(text):
    assert draft_from_toml(text).complaints
