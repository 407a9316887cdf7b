"""In or out, before anything is started."""

import pytest

from tarrafa.coordinator.dry_run.dry_run import ADDRESS_REFUSED, NOT_A_URL, URLS_MAX, check_urls, unknown_before_crawl
from tarrafa.crawl.scope.collection_loader import complete_collection
from tarrafa.errors import ConfigError
from tarrafa.i18n import PORTUGUESE

COLLECTION = complete_collection(
    {
        "name": "a",
        "roots": ["http://www.a.br/"],
        "scope": {"include": ["*/news/*"], "exclude": ["*/login*"], "depth_max": 2, "pages_max": 10},
    },
    "test",
)


def test_every_line_gets_its_verdict_and_the_rule_that_decides():
    lines = [
        "www.a.br/news/x",
        "  ",
        "http://WWW.A.BR/news/login",
        "http://b.br/",
        "not a url",
        "ftp://www.a.br/",
        "www.a.br",
    ]
    found = check_urls(COLLECTION, lines, lambda url: False)
    assert [(one.canonical, one.inside, one.rule, one.what) for one in found] == [
        ("http://www.a.br/news/x", True, "host", "www.a.br"),
        ("http://www.a.br/news/login", False, "exclude", "*/login*"),
        ("http://b.br/", False, "no host", "b.br"),
        ("", False, NOT_A_URL, ""),
        ("", False, NOT_A_URL, ""),
        ("http://www.a.br/", True, "root", ""),
    ]
    assert str(found[2].sentence) == "no pattern of [scope] hosts matches b.br"
    assert PORTUGUESE.render(found[2].sentence) == "nenhum padrão de [scope] hosts corresponde a b.br"


def test_what_was_taken_down_is_out():
    assert check_urls(COLLECTION, ["www.a.br"], lambda url: True)[0].rule == "taken down"


def test_what_a_dry_run_cannot_know_is_said():
    said = " ".join(map(str, unknown_before_crawl(COLLECTION)))
    assert "robots.txt is not fetched" in said
    assert "depth_max = 2" in said
    assert "pages_max = 10" in said


@pytest.mark.parametrize(
    ("scope", "sentence"),
    [
        ({}, "RDFa, microdata, JSON-LD, with any vocabulary except Open Graph alone"),
        ({"open_graph": True}, "RDFa, microdata, JSON-LD, with any vocabulary"),
        ({"syntaxes": ["jsonld"]}, "JSON-LD, with any vocabulary"),
        ({"syntaxes": ["rdfa"], "vocabularies": ["schema", "http://a.br/x#"]}, "RDFa, with one of the vocabularies"),
    ],
)
def test_a_dry_run_says_which_structured_data_a_page_must_have(scope, sentence):
    table = {"name": "a", "roots": ["a.br"], "scope": {"keep": "structured", **scope}}
    said = " ".join(map(str, unknown_before_crawl(complete_collection(table, "test"))))
    assert f"whether a page is kept depends on its structured data: {sentence}" in said


def test_ten_thousand_lines_are_judged_and_one_more_is_refused():
    lines = [f"www.a.br/news/{number}" for number in range(URLS_MAX)]
    assert len(check_urls(COLLECTION, lines)) == URLS_MAX
    with pytest.raises(ConfigError, match="check them in parts"):
        check_urls(COLLECTION, [*lines, "www.a.br"])


@pytest.mark.parametrize(
    ("network", "inside"),
    [({}, False), ({"allow_private": True}, True), ({"connect_to": {"*": "127.0.0.1:80"}}, True)],
)
def test_an_address_that_will_certainly_be_refused_is_out(network, inside):
    roots = ["http://127.0.0.1:8000/", "http://localhost/", "http://a.localhost/", "http://[::1]/", "http://10.0.0.1/"]
    table = {"name": "a", "roots": [*roots, "http://8.8.8.8/", "www.a.br"], "network": network}
    found = check_urls(complete_collection(table, "test"), [*roots, "http://8.8.8.8/", "www.a.br"])
    assert [one.inside for one in found] == [inside] * 5 + [True, True]
    if not inside:
        assert {one.rule for one in found[:5]} == {ADDRESS_REFUSED}
        assert "[network] allow_private = true" in str(found[0].sentence)
