"""JSON-LD in pages: what the blocks state, whoever wrote them."""

import json
from typing import Any

import pytest
import turbohtml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import CanonicalizationAlgorithm, Dataset, RdfFormat, parse

from tarrafa.parse.rdf.nquads import IRI_LENGTH_MAX, STATEMENTS_MAX, StatementSet
from tarrafa.parse.structured.jsonld import jsonld_extractor as jsonld
from tarrafa.parse.structured.jsonld import known_contexts, plain_jsonld
from tarrafa.parse.structured.jsonld.json_repair import decode_lenient

PAGE = "http://h.test/dir/page?q=1"
SCHEMA = "http://schema.org/"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
XSD = "http://www.w3.org/2001/XMLSchema#"
OWN = {"@vocab": "http://v/"}


def block(content: Any, kind: str = "application/ld+json", more: str = "") -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    return f"<script type='{kind}' {more}>{text}</script>"


def read(markup: str, base: str = PAGE, **how: Any) -> tuple[list[str], int]:
    """The statements, without the full stop, and how many blocks were not read. Whatever was read is valid N-Quads."""
    statements = StatementSet()
    unread = jsonld.extract(turbohtml.parse(markup, positions=False), base, statements, **how)
    text = statements.to_nquads()
    assert len(list(parse(text, RdfFormat.N_QUADS))) == len(statements)
    return [line.removesuffix(" .") for line in text.splitlines()], unread


def said(content: Any, **how: Any) -> list[str]:
    statements, unread = read(block(content), **how)
    assert unread == 0
    return statements


@pytest.mark.parametrize(
    "address",
    [
        "https://schema.org", "https://schema.org/", "http://schema.org", "http://www.schema.org/", "HTTP://Schema.org/",
        "https://schema.org/docs/jsonldcontext.json", " https://schema.org ", ["https://schema.org"],
        ["https://schema.org/", {"@language": "pt"}],
    ],
)  # fmt: skip
def test_schema_org_is_known_under_every_address_that_leads_to_it(address):
    found = said({"@context": address, "@type": "Person", "url": "/ana"})
    assert found == [f"_:b0 {TYPE} <{SCHEMA}Person>", f"_:b0 <{SCHEMA}url> <http://h.test/ana>"]


@pytest.mark.parametrize(
    "address", ["schema.org", "//schema.org", "http://schema.org/Product", "http://bib.schema.org"]
)
def test_lenient_what_can_only_mean_schema_org_is_schema_org(address):
    assert said({"@context": address, "name": "Ana"}) == [f'_:b0 <{SCHEMA}name> "Ana"']


@pytest.mark.parametrize("address", ["http://schema.org.evil.test/", "http://evil.test/schema.org", "schema.orgy"])
def test_what_only_looks_like_schema_org_is_not(address):
    assert read(block({"@context": address, "name": "Ana"})) == ([], 1)


@pytest.mark.parametrize(
    ("name", "value", "term"),
    [
        ("url", "/a", "<http://h.test/a>"),
        ("sameAs", "http://x.test/a", "<http://x.test/a>"),
        ("image", "a b.jpg", "<http://h.test/dir/a%20b.jpg>"),
        ("target", "http://x.test/?q={termo}", "<http://x.test/?q=%7Btermo%7D>"),
        ("datePublished", "2026-01-02", f'"2026-01-02"^^<{SCHEMA}Date>'),
        ("startDate", "2026-01-02T10:00", f'"2026-01-02T10:00"^^<{SCHEMA}Date>'),
        ("startTime", "10:00", '"10:00"'),
        ("name", "http://x.test/", '"http://x.test/"'),
        ("genre", "http://x.test/", '"http://x.test/"'),
        ("position", 3, f'"3"^^<{XSD}integer>'),
        ("ratingValue", 4.5, f'"4.5E0"^^<{XSD}double>'),
        ("isAccessibleForFree", True, f'"true"^^<{XSD}boolean>'),
        ("dc:title", "x", '"x"'),
    ],
)
def test_schema_org_says_what_values_are(name, value, term):
    predicate = name.replace("dc:", "http://purl.org/dc/elements/1.1/") if ":" in name else SCHEMA + name
    assert said({"@context": "https://schema.org", name: value}) == [f"_:b0 <{predicate}> {term}"]


def test_only_the_terms_that_a_block_uses_are_defined():
    context = known_contexts.known_context("https://schema.org")
    assert context is not None
    assert context.restricted_to({"url", "name", "Pessoa"}) == {
        "@vocab": SCHEMA, "url": {"@id": f"{SCHEMA}url", "@type": "@id"},
    }  # fmt: skip


def test_activity_streams_are_known():
    note = {
        "@context": "https://www.w3.org/ns/activitystreams", "id": "/n/1", "type": "Note", "attributedTo": "/ana",
        "published": "2026-01-02T10:00:00Z", "contentMap": {"pt": "Olá"},
    }  # fmt: skip
    activity = "https://www.w3.org/ns/activitystreams#"
    assert said(note) == [
        f"<http://h.test/n/1> {TYPE} <{activity}Note>",
        f"<http://h.test/n/1> <{activity}attributedTo> <http://h.test/ana>",
        f'<http://h.test/n/1> <{activity}published> "2026-01-02T10:00:00Z"^^<{XSD}dateTime>',
        f'<http://h.test/n/1> <{activity}content> "Olá"@pt',
    ]


def test_lenient_a_vocabulary_may_stand_where_a_context_belongs():
    assert said({"@context": "http://xmlns.com/foaf/0.1/", "name": "Ana"}) == [
        '_:b0 <http://xmlns.com/foaf/0.1/name> "Ana"'
    ]


def test_lenient_the_slash_that_schema_org_needs_as_a_vocabulary_is_added():
    assert said({"@context": {"@vocab": "http://schema.org"}, "name": "Ana"}) == [f'_:b0 <{SCHEMA}name> "Ana"']


@pytest.mark.parametrize(
    ("content", "statements", "unread"),
    [
        ({"name": "Ana"}, [], 1),
        ({"@type": "Person", "name": "Ana"}, [], 1),
        ({"http://x/name": "Ana"}, ['_:b0 <http://x/name> "Ana"'], 0),
        ({"@type": "http://x/Person", "name": "Ana"}, [f"_:b0 {TYPE} <http://x/Person>"], 0),
        ({"a": {"@context": "https://schema.org", "name": "Ana"}}, [f'_:b1 <{SCHEMA}name> "Ana"'], 0),
        ({"http://x/a": {"@context": "https://schema.org", "name": "Ana"}},
         ["_:b0 <http://x/a> _:b1", f'_:b1 <{SCHEMA}name> "Ana"'], 0),
    ],
)  # fmt: skip
def test_of_an_unknown_context_stays_what_makes_sense_without_it(content, statements, unread):
    assert read(block({"@context": "http://nobody.test/c", **content})) == (statements, unread)


def test_beside_an_unknown_context_the_others_count():
    context = ["http://nobody.test/c", {"nome": "http://x/nome", "site": {"@type": "@id"}, "idade": "age"}]
    assert said({"@context": context, "nome": "Ana", "site": "a", "idade": 3}) == ['_:b0 <http://x/nome> "Ana"']


def test_nothing_is_imported():
    assert said({"@context": {"@vocab": "http://v/", "@import": "http://x.test/c"}, "a": 1}) == [
        f'_:b0 <http://v/a> "1"^^<{XSD}integer>'
    ]


def test_contexts_may_stand_inside():
    content = {
        "@context": [
            "https://schema.org",
            {"x": "http://x/", "dono": {"@id": "x:dono", "@context": {"name": "x:nome"}}},
        ],
        "@graph": [
            {"@id": "#a", "dono": {"name": "Ana"}, "name": "Casa"},
            {"@context": {"name": "http://y/name"}, "@id": "#b", "name": "Rua"},
        ],
    }
    assert said(content) == [
        "<http://h.test/dir/page?q=1#a> <http://x/dono> _:b0",
        '_:b0 <http://x/nome> "Ana"',
        f'<http://h.test/dir/page?q=1#a> <{SCHEMA}name> "Casa"',
        '<http://h.test/dir/page?q=1#b> <http://y/name> "Rua"',
    ]


def test_each_block_is_a_document_with_blank_nodes_of_its_own():
    markup = block({"@context": OWN, "@id": "_:x", "a": "1"}) + block([{"@context": OWN, "@id": "_:x", "a": "2"}])
    assert read(markup) == (['_:b0 <http://v/a> "1"', '_:b1 <http://v/a> "2"'], 0)


def test_a_graph_without_a_name_is_the_page():
    assert said({"@context": OWN, "@graph": [{"@id": "http://a/", "a": "1"}]}) == ['<http://a/> <http://v/a> "1"']


def test_a_graph_with_a_name_is_told():
    content = {"@context": OWN, "@id": "http://g/", "@graph": [{"@id": "http://a/", "a": "1"}]}
    assert said(content) == ['<http://a/> <http://v/a> "1" <http://g/>']


@pytest.mark.parametrize("context", ["https://schema.org", {"@vocab": SCHEMA}])
def test_json_ld_11_a_graph_in_a_list_has_a_name(context):
    content = [{"@context": context, "@graph": [{"@id": "http://a/", "name": "Ana"}]}]
    assert said(content) == [f'<http://a/> <{SCHEMA}name> "Ana" _:b0']


def test_the_base_is_the_callers():
    assert said({"@context": OWN, "@id": "", "a": "1"}, base="http://b.test/x") == [
        '<http://b.test/x> <http://v/a> "1"'
    ]


def test_without_a_base_what_is_relative_is_dropped():
    content = {"@context": {**OWN, "u": {"@type": "@id"}}, "u": ["a", "http://x/"]}
    assert said(content, base="no base") == ["_:b0 <http://v/u> <http://x/>"]


def test_a_page_gives_the_same_statements_each_time():
    markup = block({"@context": OWN, "a": [{"b": {"c": 1}}, {"b": [{"@list": [1, {"d": 2}]}]}]})
    assert read(markup) == read(markup)


@pytest.mark.parametrize(
    "kind",
    ["application/ld+json", "Application/LD+JSON", " application/ld+json ", "application/ld+json; charset=utf-8",
     "application/ld+json;profile=http://www.w3.org/ns/json-ld#compacted"],
)  # fmt: skip
def test_scripts_of_the_media_type_hold_data(kind):
    assert len(read(block({"@context": OWN, "a": 1}, kind))[0]) == 1


@pytest.mark.parametrize(
    "kind",
    ["application/json", "text/javascript", "", "application/ld+jsonx", "text/ld+json",
     "application/ld+json;profile=http://www.w3.org/ns/json-ld#context",
     "application/ld+json;profile=http://www.w3.org/ns/json-ld#frame"],
)  # fmt: skip
def test_other_scripts_do_not(kind):
    assert read(block({"@context": OWN, "a": 1}, kind)) == ([], 0)


def test_one_script_may_be_wanted_by_its_id():
    markup = block({"@context": OWN, "a": 1}, more="id=um") + block({"@context": OWN, "a": 2}, more="id=dois")
    assert read(markup, target="dois") == ([f'_:b0 <http://v/a> "2"^^<{XSD}integer>'], 0)
    assert read(markup, target="tres") == ([], 1)
    assert read("<p>", target="um") == ([], 1)


MESS = [
    "\ufeff%s", "\n\n%s ;", "%s,", "<!-- %s -->", "<!--%s//-->", "//<![CDATA[\n%s\n//]]>", "/*<![CDATA[*/ %s /*]]>*/",
    "<![CDATA[%s]]>", "//<!--\n%s\n//-->", "\xa0%s\u200b", "%s}", "<!--//--><![CDATA[//><!--\n%s",
]  # fmt: skip


@pytest.mark.parametrize("mess", MESS[:-1])
def test_lenient_what_is_wrapped_around_the_json_is_taken_off(mess):
    assert said(mess % '{"@context": {"@vocab": "http://v/"}, "a": "x"}') == ['_:b0 <http://v/a> "x"']


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"a\nb\tc"', r"a\nb" "\tc"), (r'"it\'s"', "it's"), (r'"50\%"', "50%"), (r'"C:\\x\u00e9"', r"C:\\xé"),
        (r'"\u12"', "u12"), ('"x",', "x"), ('["x",\n]', "x"), ('"\x01x"', "\ufffdx"), (r'"\ud800x"', "?x"),
        ('"&quot;a&amp;b&quot;"', "&quot;a&amp;b&quot;"),
    ],
)  # fmt: skip
def test_lenient_slips_of_the_pen_are_mended(value, text):
    assert said(f'{{"@context": {{"@vocab": "http://v/"}}, "a": {value}}}') == [f'_:b0 <http://v/a> "{text}"']


def test_lenient_quotes_written_as_entities_are_quotes():
    assert said("{&quot;@context&quot;: &quot;http://schema.org&quot;, &quot;url&quot;: &quot;/a?b&amp;c&quot;}") == [
        f"_:b0 <{SCHEMA}url> <http://h.test/a?b&c>"
    ]


def test_a_term_is_known_however_its_letters_are_written():
    assert said('{"@context": "http://schema.org", "\\u0075rl": "/a"}') == [f"_:b0 <{SCHEMA}url> <http://h.test/a>"]


def test_lenient_several_objects_in_a_row_are_all_read():
    one = '{"@context": {"@vocab": "http://v/"}, "a": "%s"}'
    assert said(f"{one % 1}\n{one % 2},{one % 3}") == [f'_:b{n} <http://v/a> "{n + 1}"' for n in range(3)]


def test_lenient_a_number_that_is_none_says_nothing():
    assert said('{"@context": {"@vocab": "http://v/"}, "a": NaN, "b": -Infinity, "c": "x"}') == [
        '_:b0 <http://v/c> "x"'
    ]


@pytest.mark.parametrize(
    ("wrong", "context"),
    [
        ({"@id": 5}, OWN), ({"@id": ["a"]}, OWN), ({"@id": "x" * (IRI_LENGTH_MAX + 1)}, OWN),
        ({"@type": 5}, OWN), ({"@type": {"a": 1}}, OWN), ({"@type": [5, None]}, OWN),
        ({"@reverse": "x"}, OWN), ({"@language": 5}, OWN), ({"@index": 5}, OWN), ({"@direction": "up"}, OWN),
        ({"id": 5}, "https://schema.org"), ({"type": {"a": {}}}, "https://schema.org"),
        ({"eu": 5}, {**OWN, "eu": "@id"}), ({"b": {"@value": [1]}}, OWN), ({"@foo": "x"}, OWN),
        ({}, {**OWN, "b": 5, "": "x", "@base": 5, "@version": "2"}), ({}, [OWN, 5, {"@language": 7, "@type": "x"}]),
        ({"k" * (IRI_LENGTH_MAX + 1): 1}, OWN),
    ],
)  # fmt: skip
def test_lenient_what_is_wrong_in_a_node_costs_nothing_else(wrong, context):
    predicate = f"{SCHEMA}a" if isinstance(context, str) else "http://v/a"
    assert said({"@context": context, "a": "x", **wrong}) == [f'_:b0 <{predicate}> "x"']


def test_lenient_a_value_keeps_what_is_a_values():
    values = [
        {"@value": "x", "b": 1}, {"@value": "y", "@type": 5}, {"@value": 1, "@language": "pt"},
        {"@value": "z", "@type": "http://t/", "@language": "pt"}, {"@list": ["w"], "b": 2},
    ]  # fmt: skip
    assert said({"@context": OWN, "a": values})[:4] == [
        '_:b0 <http://v/a> "x"', '_:b0 <http://v/a> "y"', f'_:b0 <http://v/a> "1"^^<{XSD}integer>',
        '_:b0 <http://v/a> "z"^^<http://t/>',
    ]  # fmt: skip


def test_an_identifier_and_its_alias_are_one():
    assert said({"@context": "https://schema.org", "@id": "/a", "id": "/b", "name": "Ana"}) == [
        f'<http://h.test/a> <{SCHEMA}name> "Ana"'
    ]


@pytest.mark.parametrize(
    "text",
    ["{", "x", "5", '"x"', "null", "<!-- {} ", "{} -->", "<!-- foo -->", '<!-- {"a": "<!-- -->"} -->', MESS[-1] % "{}",
     "var x = {};", '{"a": "b"', "{'a': 'b'}", '{"a": undefined}', "[" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000,
     '{"@context": {"a": "b:c", "b": "a:c"}, "a": 1}', '{"a": ' + "9" * 10_000 + "}"],
)  # fmt: skip
def test_what_cannot_be_read_is_counted_and_costs_nothing_else(text):
    good = block({"@context": OWN, "a": "x"})
    assert read(good + block(text) + good) == (['_:b0 <http://v/a> "x"', '_:b1 <http://v/a> "x"'], 1)


@pytest.mark.parametrize("text", ["", "  \n ", "{}", "[]", "[[], {}]"])
def test_what_says_nothing_is_not_broken(text):
    assert read(block(text)) == ([], 0)


def test_quotes_and_line_breaks_end_neither_term_nor_line():
    evil = 'x> <y> "z" .\n<a> <b> <c> .\\"'
    content = {
        "@context": {**OWN, "u": {"@type": "@id"}},
        "@id": f"http://x/{evil}",
        "u": f"http://y/{evil}",
        "a": evil,
    }
    assert len(said({**content, evil: 1, "@type": evil, "b": {"@value": evil, "@language": evil, "@type": evil}})) == 5


def nested(depth: int, inner: object, key: str = "a") -> object:
    for _ in range(depth):
        inner = {key: inner}
    return inner


MANY = [{"k": number} for number in range(20_000)]
TERMS = {f"t{number}": f"http://x/{number}" for number in range(900)}
HOSTILE: dict[str, Any] = {
    "nested too deep": {"@context": OWN, "a": nested(500, 1)},
    "wide below deep": {"@context": OWN, "a": nested(55, MANY)},
    "lists in lists": '{"@context": {"@vocab": "http://v/"}, "a": ' + '{"@list": [' * 20_000 + "]}" * 20_000 + "}",
    "a chain of prefixes": {"@context": {f"a{n}": f"a{n + 1}:x" for n in range(30_000)}, "a0": 1},
    "prefixes that grow": {"@context": {f"a{n}": f"a{n + 1}:{'x' * 1_000}" for n in range(900)}, "a0": 1},
    "contexts in contexts": '{"@context": ' + '{"a": {"@id": "http://a", "@context": ' * 300 + "{}" + "}}" * 300 + "}",
    "contexts in lists": {"@context": [[[[[[[[[[[["https://schema.org"]]]]]]]]]]]], "name": 1},
    "a scoped context many times": {"@context": {"p": {"@id": "http://p", "@context": TERMS}}, "p": MANY},
    "many contexts": [{"@context": {"a": "http://a"}, "a": 1} for _ in range(10_000)],
    "one context many times": {"@context": ["https://schema.org"] * 10_000, "name": 1},
    "a vocabulary without end": {"@context": {"@vocab": f"http://{'x' * 500_000}/"}, "a": MANY},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_block_that_would_cost_too_much_is_not_read(name):
    assert read(block(HOSTILE[name])) == ([], 1)


LARGE: dict[str, Any] = {
    "many nodes": {"@context": "https://schema.org", "a": MANY},
    "many keys": {"@context": OWN, **{f"k{number}": number for number in range(60_000)}},
    "many types": {"@context": OWN, "@type": [f"T{number}" for number in range(50_000)]},
    "the same context in every node": {
        "@context": "https://schema.org", "a": [{"@context": "https://schema.org", **node} for node in MANY[:6_000]],
    },
    "a long list": {"@context": OWN, "a": {"@list": list(range(50_000))}},
    "a map of nodes": {
        "@context": {**OWN, "a": {"@container": "@id"}},
        "a": {f"http://x/{number}": {"k": number} for number in range(20_000)},
    },
    "reverse": {"@context": OWN, "@reverse": {"a": [{"@id": f"x:{number}"} for number in range(20_000)]}},
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_a_large_block_is_read_until_there_are_enough_statements(name):
    statements, unread = read(block(LARGE[name]))
    assert (len(statements), unread) == (STATEMENTS_MAX, 0)


@pytest.mark.parametrize("container", ["@graph", ["@graph", "@id"], ["@graph", "@index"], [["@graph"]]])
@pytest.mark.parametrize("inner", [{"@set": []}, {"@list": 1}, {"_:m": {"@set": 2.5}}, {"@graph": {"@list": "x"}}])
def test_a_container_of_graphs_does_not_end_the_process(container, inner):
    content = {"@context": {**OWN, "a": {"@container": container}}, "a": inner, "b": {"a": inner}, "c": "x"}
    read(block(content))


def test_the_deepest_that_is_read_is_read():
    levels = jsonld.NESTING_MAX - 1
    assert len(said({"@context": OWN, "a": nested(levels, 1)})) == levels + 1
    assert read(block({"@context": OWN, "a": nested(levels + 1, 1)})) == ([], 1)


def test_blocks_have_their_number_and_a_length_together():
    one = block({"@context": OWN, "a": "x"})
    statements, unread = read(one * 1_000)
    assert (len(statements), unread) == (jsonld.BLOCKS_MAX, 1_000 - jsonld.BLOCKS_MAX)
    long = block({"@context": OWN, "a": "x" * (jsonld.LENGTH_MAX // 3)})
    statements, unread = read(long * 4 + one)
    assert (len(statements), unread) == (2, 3)  # cut to the same length; the small one comes too late


def test_mending_is_linear():
    """Each would take hours if some pattern went over the text again from every place in it."""
    for text in ('"' + '\\"' * 300_000, "{" + "," * 500_000, '{"a": [' + "," * 10 + " " * 500_000, "{}" * 300_000,
                 "<!--" * 200_000, '{"a": "' + "\\" * 500_001, "&quot;" * 100_000, " " * 900_000 + "x"):  # fmt: skip
        with pytest.raises(ValueError):
            decode_lenient(text)


WORDS = st.sampled_from([
    "@context", "@id", "@type", "@value", "@language", "@graph", "@list", "@set", "@reverse", "@index", "@base",
    "@vocab", "@nest", "@none", "@json", "@included", "@container", "@direction", "@version", "@protected", "@import",
    "@propagate", "id", "type", "name", "url", "datePublished", "schema", "schema:name", "http://x/y", "_:b", "", "a b",
    "pt", "ltr", "https://schema.org", "http://nobody.test/", "#a", "http://[", "%z", 'x> "y" .\n', "\x00\ud800",
    "@foo",
])  # fmt: skip
VALUES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=30,
)


CONTAINERS = ["@list", "@set", "@language", "@index", "@id", "@type", "@graph", ["@graph", "@id"], ["@set", "@index"]]
DEFINITIONS = st.fixed_dictionaries(
    {},
    optional={
        "@id": st.sampled_from(["http://x/a", "name", "@nest", "schema:b"]),
        "@reverse": st.just("http://x/r"),
        "@container": st.sampled_from(CONTAINERS),
        "@type": st.sampled_from(["@id", "@vocab", "@json", "http://t/"]),
        "@context": st.just({"name": "http://x/name", "@vocab": "http://w/"}),
    },
)
CONTEXTS = st.sampled_from([
    "https://schema.org", OWN, ["https://schema.org", {"url": {"@container": "@language"}}]
]) | st.dictionaries(st.sampled_from(["a", "name", "url", "type", "id"]), DEFINITIONS, max_size=4).map(
    lambda terms: {**OWN, **terms}
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(VALUES, CONTEXTS)
@example({"@language": "a", "name": {"@value": "x", "@language": "a"}}, OWN)
@example({"name": {"@value": "x", "@type": "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"}}, OWN)
def test_whatever_a_block_holds_its_statements_are_valid(value, context):
    read(block({"@context": context, "a": value}) + block(json.dumps(value)))


ADDRESSES = [
    "", "#a", "/p/q", "/p/../q", "//h/x", "a/b", "?q", "http://x/a b{c}", "https://x/?d=e#f", "http://[bad", "schema:x",
    "mailto:a@b", "_:b", "@id", "Person", "HTTP://X/", "/a#b?c",
]  # fmt: skip
SCALARS = st.sampled_from(ADDRESSES) | st.floats(-1e18, 1e18) | st.integers() | st.booleans() | st.none() | st.text()
PLAIN = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "url", "image", "datePublished", "sameAs", "a b", "é", "time", "price"]),
            inner,
            max_size=4,
        ).flatmap(
            lambda node: st.fixed_dictionaries(
                {name: st.just(value) for name, value in node.items()},
                optional={
                    "@id": st.sampled_from(ADDRESSES),
                    "@type": st.sampled_from(["Person", "http://t/x", ["A", "B"], "schema:P", []]),
                },
            )
        )
    ),
    max_leaves=20,
)


def canonical(statements: StatementSet) -> Dataset:
    dataset = Dataset(parse(statements.to_nquads(), RdfFormat.N_QUADS))
    dataset.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return dataset


@settings(max_examples=60, deadline=None)
@given(PLAIN, st.sampled_from(["https://schema.org", "https://www.w3.org/ns/activitystreams"]), st.booleans())
@example(4.173424101887011e16, "https://schema.org", False)
def test_a_plain_block_is_told_as_the_parser_tells_it(value, context, grouped):
    content = {"@context": context, "@graph": [{"a": value}]} if grouped else {"@context": context, "a": value}
    quickly, slowly = StatementSet(), StatementSet()
    if plain_jsonld.extract_plain_block(content, PAGE) is not None:
        assert jsonld.JsonLdReader(PAGE, quickly).read_block(0, content) and jsonld.JsonLdReader(
            PAGE, slowly
        ).parse_block(0, content)
        assert canonical(quickly) == canonical(slowly)


def test_what_pages_mostly_hold_is_plain():
    product = {
        "@context": "https://schema.org", "@type": ["Product"], "@id": "#p", "name": "Camisa", "image": ["/a.jpg"],
        "offers": {"@type": "Offer", "price": 19.9, "availability": "https://schema.org/InStock", "url": "http://x/"},
        "datePublished": "2026-01-02", "isPartOf": {"@id": "http://h.test/#site"}, "sku": None,
    }  # fmt: skip
    for content in (product, [product, product], {"@context": "https://schema.org", "@graph": [{"@type": "Thing"}]}):
        assert plain_jsonld.extract_plain_block(content, PAGE)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('{}[]",:\\/@ \n<!->&;au1é\ud800'), max_size=60) | st.text(max_size=60))
def test_whatever_a_script_holds_it_is_read_or_counted(text):
    read(block(text))
