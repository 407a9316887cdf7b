"""What is said of a URL is said alike in both languages."""

import ast
import string
from pathlib import Path

import pytest

from tarrafa.crawl import sentences
from tarrafa.crawl.explain.explain import breadth_turn_text, passed_over_reason
from tarrafa.crawl.scope.scope_rules import ScopeRule, ScopeRules
from tarrafa.crawl.scope.traps import trap_reason
from tarrafa.crawl.sentences import ENGLISH, NOUNS, PORTUGUESE, SENTENCES, STATES, tongue
from tests.crawl.explain.test_breadth_order import BEST, OTHER, site, url
from tests.crawl.scope.test_scope_rules import a_collection

CRAWL = Path(sentences.__file__).parent
SAME = {"again", "h", "min", "s"}  # nothing in them is of one language


def placeholders(text: str) -> list[tuple[str, str]]:
    return sorted((name, spec or "") for _, name, spec, _ in string.Formatter().parse(text) if name is not None)


@pytest.mark.parametrize("key", SENTENCES)
def test_both_languages_say_the_same_values(key):
    said = SENTENCES[key]
    assert placeholders(said.en) == placeholders(said.pt)
    assert (said.en == said.pt) is (key in SAME)


def test_what_is_said_is_in_the_table_and_what_is_in_the_table_is_said():
    used = {rule.value for rule in ScopeRule} | {"no url", "listed", "heard"}  # by the name of a rule, of a stage
    for path in CRAWL.rglob("*.py"):
        if path.name != "sentences.py":
            tree = ast.walk(ast.parse(path.read_text()))
            strings = {str(node.value) for node in tree if isinstance(node, ast.Constant)}
            used |= strings & set(SENTENCES)
    assert set(SENTENCES) == used


def test_numbers_and_nouns_are_written_as_each_language_writes_them():
    assert ENGLISH("mentioned", site="a.br", mentions=1) == "a.br was mentioned 1 time"
    assert PORTUGUESE("mentioned", site="a.br", mentions=1) == "a.br foi mencionado 1 vez"
    assert ENGLISH("mentioned", site="a.br", mentions=12_345) == "a.br was mentioned 12,345 times"
    assert PORTUGUESE("mentioned", site="a.br", mentions=12_345) == "a.br foi mencionado 12.345 vezes"
    assert PORTUGUESE("days", count=2.5) == "2,5 dias"
    assert all(len(forms) == 2 for forms in NOUNS.values())


def test_what_a_value_holds_is_no_part_of_a_sentence():
    evil = "{site.__class__} {0} {"
    for say in (ENGLISH, PORTUGUESE):
        assert evil in say("include", what=evil)


def test_a_state_or_a_language_that_nobody_knows_is_said_as_it_is():
    assert PORTUGUESE.state("paused") == "pausada"
    assert [PORTUGUESE.state("odd"), tongue("fr").code] == ["odd", "en"]
    assert all(said.en == name for name, said in STATES.items())


def test_rules_traps_and_walks_are_explained_in_portuguese():
    rulebook = ScopeRules(a_collection(depth_max=3, languages=["pt"]), say=PORTUGUESE)
    assert rulebook.decide("http://www.a.br/").sentence == "é uma raiz"
    assert rulebook.decide("http://www.a.br/news/1", 4).sentence == (
        "sua profundidade 4 passa de [scope] depth_max = 3"
    )
    assert rulebook.decide("http://far.org/news/1", 2).sentence == (
        "nenhum padrão de [scope] hosts corresponde a far.org; uma página guardada levou a ela, por isso é buscada,"
        " e guardada se está em: pt"
    )
    assert trap_reason("http://a.br/x/x/x/x", PORTUGUESE) == "/x se repete mais de 2 vezes"
    assert (
        breadth_turn_text(url(BEST, site("chosen", walked=2)), "já", PORTUGUESE)
        == "já: é a página 3 da caminhada por a.br"
    )
    assert "1 página até agora" in breadth_turn_text(url(OTHER, site("chosen", walked=1)), "já", PORTUGUESE)
    assert passed_over_reason(site("over", walked=1, links=1), PORTUGUESE) == (
        "não nesta execução: a caminhada por a.br terminou: sua única página tinha 1 ligação para outros sites,"
        " 2 levariam adiante"
    )
