"""One validation for all doors."""

import pytest

from tarrafa.config import Collection
from tarrafa.coordinator.definitions.draft import (
    draft_from_form,
    draft_from_table,
    draft_from_toml,
)
from tarrafa.coordinator.definitions.form import form_from_collection
from tarrafa.crawl.scope.collection_loader import complete_collection
from tarrafa.i18n import PORTUGUESE

PLAIN = {"name": "a", "roots": ["a.br"]}


def a_collection(**more: object) -> Collection:
    return complete_collection(PLAIN | more, "test")


def test_the_same_mistake_is_told_in_the_same_words_at_every_door():
    said = [
        draft_from_form({"name": ["a"], "roots": ["a.br"], "scope.depth_max": ["-1"]}).complaints,
        draft_from_toml('name = "a"\nroots = ["a.br"]\n[scope]\ndepth_max = -1').complaints,
        draft_from_table(PLAIN | {"scope": {"depth_max": -1}}).complaints,
    ]
    assert said[0] == said[1] == said[2]
    assert str(said[0][0].message) == "[scope] depth_max must be 0 or more, got -1"


def test_a_form_that_cannot_be_read_makes_no_collection_and_the_rest_is_judged_all_the_same():
    draft = draft_from_form({"name": ["A"], "roots": ["a.br"], "politeness.delays": ["x"]})
    assert draft.collection is None
    assert [one.key for one in draft.complaints] == ["delays", "name"]


@pytest.mark.parametrize("text", ["name = ", "x = " + "[" * 5_000, "\x00", "a" * 100])
def test_a_text_that_is_no_toml_is_refused_in_one_line(text):
    draft = draft_from_toml(text)
    assert draft.collection is None
    assert str(draft.complaints[0].message).startswith("not valid TOML")


def test_name_and_identity_of_a_collection_that_is_there_are_fixed():
    before = a_collection()
    draft = draft_from_form(form_from_collection(before) | {"name": ["b"], "identity.fold_case": ["yes"]}, before)
    assert [(one.section, one.key) for one in draft.complaints] == [("", "name"), ("identity", "fold_case")]
    assert draft_from_form(form_from_collection(before) | {"scope.depth_max": ["2"]}, before).collection is not None


def test_complaints_about_drafts_are_rendered_in_portuguese():
    before = complete_collection({"name": "a", "roots": ["a.br"]}, "test")
    found = [
        draft_from_toml("name ="),
        draft_from_table({"name": "b", "roots": ["a.br"], "identity": {"fold_case": True}}, before),
        draft_from_table(
            {"name": "a", "roots_file": "x", "network": {"ca_file": "y"}, "colour": 1, "scope": {"colour": 2}}
        ),
        draft_from_form({"colour": ["red"]}),
    ]
    said = [one.message for draft in found for one in draft.complaints]
    assert len(said) >= 8
    assert [str(one) for one in said if PORTUGUESE.render(one) == str(one)] == []
