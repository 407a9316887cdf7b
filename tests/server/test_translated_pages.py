"""The public pages are translated: no words outside the translator, and errors are messages."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarrafa.crawl.supervisor.supervisor import STOPPED_REASON
from tarrafa.errors import QueryError
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import ENGLISH, PORTUGUESE, from_text, message, to_text
from tarrafa.model import STATUS_MEANING, Status, host_trouble
from tarrafa.search.query_parser import parse
from tarrafa.search.request import Sort
from tarrafa.server.entities.facets import COMPARISON_NAMES
from tarrafa.server.entities.params import OPERATORS
from tarrafa.server.search.params import SORT_NAMES, SWITCH_PARAMS, SWITCH_TEXTS, TIME_NAMES, TIME_RANGE_DAYS
from tarrafa.triples.entity_query import EntityQuery
from tarrafa.triples.entity_reader import EntityReader
from tests.server.conftest import RunningSite

SOURCE = Path(__file__).parents[2] / "src" / "tarrafa"
ERRORS_FOR_READERS = {"QueryError", "ShardUnavailable", "UnknownResource", "Forbidden"}


def test_whatever_can_be_chosen_or_happen_has_a_name():
    assert set(SWITCH_TEXTS) == set(SWITCH_PARAMS)
    assert set(TIME_NAMES) == set(TIME_RANGE_DAYS)
    assert set(SORT_NAMES) == set(Sort)
    assert set(COMPARISON_NAMES) == set(OPERATORS)
    unsaid = {Status.NOT_SENT}  # never a record
    assert set(Status) - unsaid == set(STATUS_MEANING)


def untranslatable_errors(path: Path) -> Iterator[str]:
    """Errors that are raised with words of their own instead of a message."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS_FOR_READERS:
            words = [part for part in node.args if isinstance(part, ast.Constant | ast.JoinedStr | ast.BinOp)]
            if words:
                yield f"{path.name}:{node.lineno}"


def test_whatever_the_search_complains_of_is_a_message():
    readers = [Path(inspect.getfile(one)) for one in (EntityReader, EntityQuery)]
    rooms = [path for room in ("search", "server", "graph") for path in (SOURCE / room).rglob("*.py")]
    assert [found for path in [*rooms, *readers] for found in untranslatable_errors(path)] == []


def test_a_complaint_keeps_its_values_in_another_language():
    with pytest.raises(QueryError, match=r"1,500 characters, at most 1,000 are read\.$") as raised:
        parse("a" * 1500, all_words=False)
    said = PORTUGUESE.render(raised.value.message)
    assert said == "A busca é longa demais: 1.500 caracteres; no máximo 1.000 são lidos."
    with pytest.raises(QueryError) as raised:
        parse("lang:a{0}b", all_words=False)
    assert "não 'a{0}b'." in PORTUGUESE.render(raised.value.message)


@pytest.mark.parametrize(
    ("status", "error", "subject", "english", "portuguese"),
    [
        (-11, message("connection refused"), "", "communication error: connection refused",
         "erro de comunicação: conexão recusada"),
        (-10, "", "robots.txt", "robots.txt: too slow", "robots.txt: lenta demais"),
        (503, "", "robots.txt", "robots.txt: 503 Service Unavailable", "robots.txt: 503 Serviço indisponível"),
        (599, "", "", "599", "599"),
        (-11, "{part0} {x}", "", "communication error: {part0} {x}", "erro de comunicação: {part0} {x}"),
    ],
)  # fmt: skip
def test_why_a_host_cannot_be_visited_is_said_in_the_language_of_the_reader(
    status, error, subject, english, portuguese
):
    trouble = host_trouble(status, error, subject)
    stored = from_text(to_text(trouble))
    assert ENGLISH.render(stored) == english
    assert PORTUGUESE.render(stored) == portuguese


def test_no_template_has_words_outside_the_translator():
    """Names of formats and the brand are the same everywhere."""
    allowed = re.compile(r"Tarrafa|tarrafa|JSON|CSV|RSS|Atom|SPARQL|TimeMap|pid|home|replay|#in|#out|#hosts|[\W\d_]+")
    for path in (SOURCE / "server" / "templates").glob("*.html"):
        said = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", path.read_text(), flags=re.DOTALL)
        text = re.sub(r"<[^>]*>", "", said)
        assert [word for word in text.split() if not allowed.fullmatch(word)] == [], path.name


def test_the_state_of_a_crawl_and_its_reason_are_in_the_language_of_the_reader(small):
    async def paused() -> FrontierOverview:
        return FrontierOverview([CollectionStatus("small", "paused", STOPPED_REASON, 1, 1, 1, 0, 1, 0.0)], [])

    with RunningSite(small, paused) as site:
        text = site.get("/status?hl=pt")[1]
    assert "pausada" in text
    assert PORTUGUESE.render(STOPPED_REASON).partition(";")[0] in text
    assert "paused" not in text
