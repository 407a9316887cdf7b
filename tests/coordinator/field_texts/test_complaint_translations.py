"""What a form can be refused for is said in Portuguese, too."""

import ast
import re
from pathlib import Path

import pytest

from tarrafa.config import validation as checking
from tarrafa.coordinator.definitions.draft import draft_from_form, draft_from_table, draft_from_toml
from tarrafa.coordinator.definitions.form import table_from_form
from tarrafa.coordinator.field_texts.complaint_translations import PORTUGUESE, translated
from tarrafa.crawl.scope.collection_loader import complete_collection, validate_table
from tests.coordinator.definitions.test_form import BAD


@pytest.mark.parametrize(("name", "text", "told"), BAD, ids=[f"{name}={text[:20]!r}" for name, text, _ in BAD])
def test_every_complaint_of_a_form_is_translated(name, text, told):
    table, wrong = table_from_form({"name": ["a"], "roots": ["a.br"]} | {name: [text]})
    for one in [*wrong, *validate_table(table)[1]]:
        assert translated(one.message, "pt") != one.message, one.message
        assert translated(one.message, "en") == one.message


def test_so_are_those_of_drafts():
    before = complete_collection({"name": "a", "roots": ["a.br"]}, "test")
    drafts = [
        draft_from_toml("name ="),
        draft_from_table({"name": "b", "roots": ["a.br"], "identity": {"fold_case": True}}, before),
        draft_from_table(
            {"name": "a", "roots_file": "x", "network": {"ca_file": "y"}, "colour": 1, "scope": {"colour": 2}}
        ),
        draft_from_form({"colour": ["red"]}),
    ]
    said = [one.message for draft in drafts for one in draft.complaints]
    assert len(said) >= 8
    assert [message for message in said if translated(message, "pt") == message] == []


def test_a_translation_speaks_of_no_more_than_the_sentence_and_of_the_same_places():
    for english, portuguese in PORTUGUESE.items():
        assert portuguese.count("{}") <= english.count("{}"), english
        assert re.findall(r"\[\w+\]", english) == re.findall(r"\[\w+\]", portuguese), english


def test_every_sentence_of_the_checks_has_its_shape_here():
    """Read from the source: whoever adds a check adds its translation."""
    checks = ast.parse(Path(checking.__file__).read_text())
    made = [node for node in ast.walk(checks) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in made for part in node.values}
    plain = [node.value for node in ast.walk(checks) if isinstance(node, ast.Constant) and id(node) not in parts]
    said = [
        "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values) for node in made
    ]
    said += [text for text in plain if isinstance(text, str)]
    whole = {text for text in said if re.match(r"\[\w+\] .* |name: ", text)}
    assert len(whole) > 20
    assert [text for text in whole if translated(text, "pt") == text] == []
