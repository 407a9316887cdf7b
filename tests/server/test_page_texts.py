"""Two languages that say the same, and the choice between them."""

import ast
import inspect
import re
import string
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tarrafa.coordinator.node import search_peers
from tarrafa.fetch import node_client
from tarrafa.model import Status
from tarrafa.search import remote_shard, shard_wire
from tarrafa.server.page_texts import Texts, translated
from tarrafa.server.page_texts.english import ENGLISH
from tarrafa.server.page_texts.interface_language import LANGUAGES, choose
from tarrafa.server.page_texts.portuguese import PORTUGUESE
from tarrafa.server.search.params import SWITCH_PARAMS
from tarrafa.triples.entity_reader import EntityQuery, EntityReader

SOURCE = Path(__file__).parents[2] / "src" / "tarrafa"
OTHERS = [texts for texts in LANGUAGES.values() if texts is not ENGLISH]
SAME_ANYWHERE = {"results_title", "thousands", "decimal", "sentences", "troubles", "terms"}
AWAY = {
    *(f"no answer {how}" for how in ("within {} s", "({})")),
    "it has no time for us (HTTP {})",
    node_client.CLOSED,
    node_client.NO_TLS,
    node_client.TOO_LONG,
    remote_shard.UNREADABLE_RESPONSE,
    remote_shard.NOT_A_SHARD,
    remote_shard.WRONG_TOKEN,
    shard_wire.OTHER_VERSION.format(there="{}", here="{}"),
    search_peers.SILENT,
    search_peers.NOT_RUNNING,
    search_peers.NO_ADDRESS,
    search_peers.DUPLICATE_ADDRESS,
    search_peers.LOOPBACK_ONLY,
}


def placeholders(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


@pytest.mark.parametrize("texts", OTHERS, ids=lambda texts: texts.code)
def test_every_text_is_there_with_the_same_places_for_values(texts: Texts) -> None:
    for field in msgspec.structs.fields(Texts):
        ours, theirs = getattr(ENGLISH, field.name), getattr(texts, field.name)
        if isinstance(ours, str):
            assert theirs or field.name in SAME_ANYWHERE, field.name
            assert placeholders(ours) == placeholders(theirs), field.name
            if len(ours) > 12 and field.name not in SAME_ANYWHERE:
                assert ours != theirs, f"{field.name} was not translated"
        elif isinstance(ours, dict) and field.name not in SAME_ANYWHERE:
            assert set(ours) == set(theirs), field.name
            assert all(theirs.values()), field.name
        elif isinstance(ours, tuple):
            assert [row[0] for row in ours if row[0].isascii()] == [row[0] for row in theirs if row[0].isascii()]
            assert len(ours) == len(theirs), field.name


@pytest.mark.parametrize("texts", LANGUAGES.values(), ids=lambda texts: texts.code)
def test_what_can_be_switched_and_what_can_happen_has_a_name(texts: Texts) -> None:
    assert set(texts.switches) == set(texts.switch_hints) == set(SWITCH_PARAMS)
    unsaid = {Status.NOT_SENT}  # never a record
    assert {int(status) for status in Status} - unsaid == set(texts.statuses)


def sentences() -> Iterator[str]:
    """Every sentence that a `QueryError` is raised with below search/, serve/ and graph/, and where things are asked
    for, with {} for what changes."""
    asking = [Path(inspect.getfile(one)) for one in (EntityReader, EntityQuery)]
    rooms = [path for room in ("search", "server", "graph") for path in (SOURCE / room).rglob("*.py")]
    for path in [*rooms, *asking]:
        tree = ast.parse(path.read_text())
        named = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "QueryError":
                for argument in node.args:
                    yield from said(named.get(argument.id, argument) if isinstance(argument, ast.Name) else argument)


def said(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from said(node.body)
        yield from said(node.orelse)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


@pytest.mark.parametrize("texts", OTHERS, ids=lambda texts: texts.code)
def test_whatever_the_search_complains_of_can_be_said(texts: Texts) -> None:
    found = set(sentences())
    assert len(found) > 15
    assert found - set(texts.sentences) == set(), "sentences without a translation"
    assert set(texts.sentences) - found == set(), "translations of what nobody says"
    for english, theirs in texts.sentences.items():
        assert english.count("{}") == theirs.count("{}"), english


@pytest.mark.parametrize("texts", OTHERS, ids=lambda texts: texts.code)
def test_why_another_machine_does_not_answer_can_be_said(texts: Texts) -> None:
    assert set(texts.troubles) == AWAY
    for english, theirs in texts.troubles.items():
        assert english.count("{}") == theirs.count("{}"), english


def test_a_sentence_keeps_its_values():
    assert translated("no answer within 2 s", PORTUGUESE) == "nenhuma resposta em 2 s"
    told = "The search is too long: 1,500 characters, at most 1,000 are read."
    assert translated(told, PORTUGUESE) == "A busca é longa demais: 1.500 caracteres; no máximo 1.000 são lidos."
    told = "site: needs a host name such as site:example.br, not 'a{0}b\n'."
    assert "não 'a{0}b\n'." in str(translated(told, PORTUGUESE))
    assert translated("Nobody says this.", PORTUGUESE) is None
    assert translated(told, ENGLISH) is None


@pytest.mark.parametrize(
    ("chosen", "remembered", "accepted", "code"),
    [
        ("", "", "", "en"),
        ("", "", "pt-BR,pt;q=0.9,en;q=0.8", "pt"),
        ("", "", "en;q=0.5, pt;q=0.9", "pt"),
        ("", "", "PT", "pt"),
        ("", "", "de, fr;q=0.9", "en"),
        ("", "", "pt;q=0, en", "en"),
        ("", "", "pt;q=x, de", "en"),
        ("", "", "*;q=0.1" * 5000, "en"),
        ("", "pt", "en", "pt"),
        ("en", "pt", "pt", "en"),
        ("xx", "yy", "pt", "pt"),
    ],
)
def test_what_was_chosen_counts_before_what_the_browser_says(chosen, remembered, accepted, code):
    assert choose(chosen, remembered, accepted).code == code


def test_no_template_says_anything_by_itself():
    """Words between tags come from the texts; names of formats and the brand are the same everywhere."""
    allowed = re.compile(r"Tarrafa|tarrafa|JSON|CSV|RSS|Atom|pid|home|#in|#out|#hosts|[\W\d_]+")
    for path in (SOURCE / "server" / "templates").glob("*.html"):
        said = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", path.read_text(), flags=re.DOTALL)
        text = re.sub(r"<[^>]*>", "", said)
        assert [word for word in text.split() if not allowed.fullmatch(word)] == [], path.name
