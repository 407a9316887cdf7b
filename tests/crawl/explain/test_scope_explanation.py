"""The rule that is named is the rule that decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.config import Collection
from tarrafa.crawl.explain.scope_explanation import ScopeExplainer, ScopeRule
from tarrafa.crawl.scope.collection_loader import complete_collection
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.i18n import PORTUGUESE

SCOPE = {
    "hosts": ["www.a.br", "*.b.br", "c.br:8080"],
    "include": ["*/news/*", "http://*.b.br/*", "*:8080/*"],
    "exclude": ["*/login*", "*?*session=*"],
}


def a_collection(**scope: object) -> Collection:
    table = {"name": "a", "roots": ["http://www.a.br/", "http://z.br/x"], "scope": SCOPE | scope}
    return complete_collection({**table, "network": {"suffixes": ["br"]}}, "test")


@pytest.mark.parametrize(
    ("url", "depth", "inside", "rule", "told"),
    [
        ("http://www.a.br/", None, True, ScopeRule.ROOT, "it is a root"),
        ("http://z.br/x", None, True, ScopeRule.ROOT, "it is a root"),
        ("http://www.a.br/news/1", None, True, ScopeRule.HOST, "[scope] hosts = 'www.a.br' matches it"),
        ("https://x.y.b.br/news/", None, True, ScopeRule.HOST, "[scope] hosts = '*.b.br' matches it"),
        ("http://c.br:8080/", None, True, ScopeRule.HOST, "[scope] hosts = 'c.br:8080' matches it"),
        ("http://c.br/", None, False, ScopeRule.NO_HOST, "no pattern of [scope] hosts matches c.br"),
        ("http://z.br/y", None, False, ScopeRule.NO_HOST, "no pattern of [scope] hosts matches z.br"),
        ("http://www.a.br/news/login", None, False, ScopeRule.EXCLUDE, "[scope] exclude = '*/login*' matches it"),
        (
            "http://www.a.br/other",
            None,
            False,
            ScopeRule.INCLUDE,
            "no pattern of [scope] include matches it (*/news/*, ",
        ),
        ("http://www.a.br/news/a.jpg", None, False, ScopeRule.TYPE, "its extension says image/jpeg"),
        ("http://www.a.br/news/a/a/a/a", None, False, ScopeRule.TRAP, "it looks like a trap: /a is repeated"),
        ("http://www.a.br/news/1", 4, False, ScopeRule.TOO_DEEP, "its depth 4 is beyond [scope] depth_max = 3"),
        ("http://x.b.br/gone", None, False, ScopeRule.TAKEN_DOWN, "it was taken down"),
    ],
)
def test_each_rule_is_named_where_it_decides(url, depth, inside, rule, told):
    found = ScopeExplainer(a_collection(depth_max=3), lambda one: one.endswith("/gone")).decide(url, depth)
    assert (found.inside, found.rule) == (inside, rule)
    assert told in str(found.reason)


def test_beyond_the_hosts_a_language_speaks_for_a_page_unless_a_pattern_leaves_it_out():
    rulebook = ScopeExplainer(a_collection(languages=["pt"]))
    assert rulebook.decide("http://far.org/news/1").rule == ScopeRule.BEYOND
    assert rulebook.decide("http://far.org/news/1", 2).rule == ScopeRule.LED_BEYOND
    assert rulebook.decide("http://far.org/other", 2).rule == ScopeRule.INCLUDE


@pytest.mark.parametrize(
    ("url", "depth", "told"),
    [
        ("http://www.a.br/", None, "é uma raiz"),
        ("http://www.a.br/news/1", 4, "sua profundidade 4 passa de [scope] depth_max = 3"),
        ("http://www.a.br/news/a/a/a/a", 1, "parece uma armadilha: /a se repete mais de 2 vezes"),
        ("http://far.org/news/1", 2, "nenhum padrão de [scope] hosts corresponde a far.org; uma página guardada levou a"
         " ela, por isso é buscada, e guardada se está em: pt"),
    ],
)  # fmt: skip
def test_a_reason_is_rendered_in_the_language_of_its_reader(url, depth, told):
    found = ScopeExplainer(a_collection(depth_max=3, languages=["pt"])).decide(url, depth)
    assert PORTUGUESE.render(found.reason) == told


def test_a_pattern_is_no_part_of_a_sentence():
    evil = "http://{pattern.__class__}/{0}*"
    found = ScopeExplainer(a_collection(exclude=[evil])).decide("http://www.a.br/news/1")
    assert found.inside
    found = ScopeExplainer(a_collection(include=[evil])).decide("http://www.a.br/news/1")
    assert evil in str(found.reason)
    assert evil in PORTUGUESE.render(found.reason)


def test_of_many_patterns_the_first_are_named():
    found = ScopeExplainer(a_collection(include=[f"*/{n}/*" for n in range(5)])).decide("http://www.a.br/x")
    assert str(found.reason) == "no pattern of [scope] include matches it (*/0/*, */1/*, */2/*, …)"


PATHS = st.sampled_from(["", "news/", "news/1", "login", "news/login", "a/a/a/a", "news/x.jpg", "x?session=1", "x"])
HOSTS = st.sampled_from(["www.a.br", "a.br", "x.b.br", "b.br", "c.br:8080", "c.br", "z.br", "far.org"])


@given(
    st.sampled_from(["http", "https"]),
    HOSTS,
    PATHS,
    st.lists(st.sampled_from(["*/news/*", "http://*", "*a*"]), max_size=2),
    st.booleans(),
)
def test_the_ruling_is_what_the_crawl_itself_would_do(scheme, host, path, include, beyond):
    collection = a_collection(include=include, languages=["pt"] if beyond else [])
    url, admission = f"{scheme}://{host}/{path}", Admission(collection)
    ruling = ScopeExplainer(collection).decide(url, 1)
    if ruling.rule == ScopeRule.ROOT:
        assert url in collection.roots
        return
    offer = admission.admit(url, 1, beyond=True)
    assert (
        ruling.inside
        == (offer is not None and offer.status == 0)
        == (admission.may_fetch(url) and not admission.url_refusal_status(url))
    )
