"""RDFa: what a page states, rule by rule, and what it cannot do to us."""

from collections import Counter
from typing import Any

import pyoxigraph
import pytest
import turbohtml
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.parse.rdf.nquads import LITERAL_LENGTH_MAX, STATEMENTS_MAX, StatementSet
from tarrafa.parse.structured.extraction import parse_xhtml
from tarrafa.parse.structured.rdfa import rdfa_extractor as rdfa
from tarrafa.parse.structured.rdfa.curie import PREFIXES_MAX, TERMS_MAX
from tarrafa.parse.structured.rdfa.initial_context import HostLanguage
from tarrafa.parse.structured.rdfa.literals import NESTED_MAX
from tarrafa.parse.structured.rdfa.processor import ATTEMPTS_MAX

PAGE = "http://e.example/d/page"
PREFIXES = """
@base <http://e.example/d/page> .
@prefix dc: <http://purl.org/dc/terms/> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> .
@prefix og: <http://ogp.me/ns#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfa: <http://www.w3.org/ns/rdfa#> .
@prefix s: <http://schema.org/> .
@prefix xhv: <http://www.w3.org/1999/xhtml/vocab#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""


def read(markup: str, host: HostLanguage = "html", base: str = PAGE) -> StatementSet:
    document = turbohtml.parse(markup, positions=False) if host == "html" else parse_xhtml(markup)
    assert document is not None
    statements = StatementSet()
    rdfa.extract(document, base, statements, host)
    return statements


def graph(text: str, syntax: pyoxigraph.RdfFormat = pyoxigraph.RdfFormat.N_QUADS) -> set[str]:
    """The statements, strictly read; blank nodes have the same names wherever the graphs are the same."""
    quads = pyoxigraph.parse(text.encode(), format=syntax)
    dataset = pyoxigraph.Dataset(pyoxigraph.Quad(quad.subject, quad.predicate, quad.object) for quad in quads)
    dataset.canonicalize(pyoxigraph.CanonicalizationAlgorithm.UNSTABLE)
    return set(map(str, dataset))


def stated(markup: str, host: HostLanguage = "html", base: str = PAGE) -> set[str]:
    return graph(read(markup, host, base).to_nquads())


def turtle(text: str) -> set[str]:
    return graph(PREFIXES + text, pyoxigraph.RdfFormat.TURTLE)


def count(markup: str, host: HostLanguage = "html") -> int:
    """How many statements; all of them valid."""
    statements = read(markup, host)
    assert len(list(pyoxigraph.parse(statements.to_nquads().encode(), format=pyoxigraph.RdfFormat.N_QUADS))) == len(
        statements
    )
    return len(statements)


RULES = {
    "a page without RDFa states nothing": (
        "<p>a <a href=x rel='nofollow noopener'>b</a> <link rel=stylesheet href=a.css><meta name=x content=y>",
        "",
    ),
    "open graph is about the page": (
        '<head><meta property="og:title" content="T"><meta property="og:image" content="/i.png"></head>',
        '<> og:title "T"; og:image "/i.png" .',
    ),
    "a property that nobody declared is an IRI of its own": (
        '<meta property="article:author" content="A">',
        '<> <article:author> "A" .',
    ),
    "a word without a vocabulary states nothing": ('<p property="name">A</p>', ""),
    "a vocabulary is used, and gives a meaning to words": (
        '<div vocab="http://schema.org/" typeof="Person"><b property="name">A</b></div>',
        '<> rdfa:usesVocabulary s: . [] a s:Person; s:name "A" .',
    ),
    "an empty vocabulary takes the meaning away again": (
        '<div vocab="http://schema.org/"><div vocab="" ><b property="name">A</b></div><i property="name">B</i></div>',
        '<> rdfa:usesVocabulary s: ; s:name "B" .',
    ),
    "words of links mean something under a vocabulary only": (
        '<a rel="next" href="2"></a><div vocab="http://schema.org/"><a rel="next" href="2"></a></div>',
        "<> rdfa:usesVocabulary s: ; s:next <2> .",
    ),
    "license needs no vocabulary, in any letters": ('<a rel="nofollow License" href="l">', "<> xhv:license <l> ."),
    "a prefix is in force inside its element, in any letters": (
        '<div prefix="X: http://x.example/"><b property="x:a">1</b></div><b property="x:a">2</b>',
        '<> <http://x.example/a> "1"; <x:a> "2" .',
    ),
    "prefixes of xmlns are heard, and @prefix is stronger": (
        '<div xmlns:a="http://a.example/" xmlns:b="http://no.example/" prefix="b: http://b.example/">'
        '<b property="a:x b:y">1</b></div>',
        '<> <http://a.example/x> "1"; <http://b.example/y> "1" .',
    ),
    "a prefix attribute that lacks a space spoils only that prefix": (
        '<div prefix="og:http://wrong.example/ z: http://z.example/"><b property="og:a z:b">1</b></div>',
        '<> og:a "1"; <http://z.example/b> "1" .',
    ),
    "about, resource, href and src name the subject, in this order": (
        '<p about="a" resource="r" property="og:x" content="1"><p resource="r" href="h" property="og:x" content="2">'
        '<p href="h" src="s" property="og:x" content="3"><p src="s" property="og:x" content="4">',
        '<a> og:x "1" . <r> og:x "2" . <h> og:x "3" . <s> og:x "4" .',
    ),
    "a property takes a resource for its value": (
        '<a property="og:x" href="h">t</a><img property="og:x" src="s"><p property="og:x" resource="[og:r]">t</p>',
        "<> og:x <h>, <s>, og:r .",
    ),
    "a plain link around it names the subject": ('<a href="h"><b property="og:x">1</b></a>', '<h> og:x "1" .'),
    "a property with a type opens a thing": (
        '<div typeof="og:A"><div property="og:b" typeof="og:B"><i property="og:c">1</i></div></div>',
        '[] a og:A; og:b [ a og:B; og:c "1" ] .',
    ),
    "several types and properties are all stated": (
        '<p typeof="og:A og:B"><b property="og:c og:d">1</b></p>',
        '[] a og:A, og:B; og:c "1"; og:d "1" .',
    ),
    "rel and rev point there and back": (
        '<a about="a" rel="og:x" rev="og:y" href="b"></a>',
        "<a> og:x <b> . <b> og:y <a> .",
    ),
    "a hanging rel is completed by all things below": (
        '<div rel="og:x"><a href="a"></a><p><b about="b"></b></p><i typeof="og:T"></i></div>',
        "<> og:x <a>, <b>, [ a og:T ] .",
    ),
    "a hanging rel with a property below makes a thing without a name": (
        '<div rel="og:x"><b property="og:y">1</b><b property="og:z">2</b></div>',
        '<> og:x [ og:y "1"; og:z "2" ] .',
    ),
    "a hanging rel that nobody completes states nothing": ('<div rel="og:x"><b>1</b></div>', ""),
    "a hanging rev is completed the other way": ('<div rev="og:x"><a href="a"></a></div>', "<a> og:x <> ."),
    "words of HTML's own rel do not count beside a property": (
        '<div vocab="http://schema.org/"><a property="url" rel="nofollow og:x" href="h">t</a></div>',
        '<> rdfa:usesVocabulary s: ; og:x <h> ; s:url "t" .',
    ),
    "content is stronger than text, and language goes with both": (
        '<p lang="pt"><b property="og:a" content="C">t</b><b property="og:b">t</b><b lang="" property="og:c">t</b></p>',
        '<> og:a "C"@pt; og:b "t"@pt; og:c "t" .',
    ),
    "an old page's xml:lang counts where there is no lang": (
        '<p xml:lang="en" property="og:a">t</p><p lang="pt" xml:lang="en" property="og:b">t</p>',
        '<> og:a "t"@en; og:b "t"@pt .',
    ),
    "a datatype replaces the language": (
        '<p lang="pt" property="og:a" datatype="xsd:integer">5</p>',
        '<> og:a "5"^^xsd:integer .',
    ),
    "white space in a text is kept": ("<p property='og:a'> a\n b </p>", '<> og:a " a\\n b " .'),
    "times are typed by how they look": (
        '<time property="og:a" datetime="2026-11-16">x</time><time property="og:a">12:30</time>'
        '<time property="og:a" datetime="2026-11-16T10:00-03:00"></time>'
        '<time property="og:a" datetime="2026-11"></time><time property="og:a" datetime="2026"></time>'
        '<time property="og:a" datetime="P1DT2H"></time>'
        '<time property="og:a">soon</time>',
        '<> og:a "2026-11-16"^^xsd:date, "12:30"^^xsd:time, "2026-11-16T10:00-03:00"^^xsd:dateTime, '
        '"2026-11"^^xsd:gYearMonth, "2026"^^xsd:gYear, "P1DT2H"^^xsd:duration, "soon" .',
    ),
    "a data element says its value": ('<data property="og:a" value="5">five</data>', '<> og:a "5" .'),
    "markup is a literal when asked for": (
        '<p property="og:a" datatype="rdf:HTML">a <b>b</b></p>',
        '<> og:a "a <b>b</b>"^^rdf:HTML .',
    ),
    "lists gather what stands in order": (
        '<p property="og:a" inlist>1</p><a rel="og:a" inlist href="x"></a><p property="og:a" inlist>2</p>',
        '<> og:a ("1" <x> "2") .',
    ),
    "a list of a hanging rel takes what is below, or is empty": (
        '<div about="a" rel="og:a" inlist><a href="x"></a><a href="y"></a></div><p about="b" rel="og:b" inlist></p>',
        "<a> og:a (<x> <y>) . <b> og:b () .",
    ),
    "lists belong to the thing that they are about": (
        '<div rel="og:r" resource="b"><p property="og:a" inlist>1</p><p property="og:a" inlist>2</p></div>',
        '<> og:r <b> . <b> og:a ("1" "2") .',
    ),
    "what is called the same blank node is one": (
        '<p about="_:a" property="og:x">1</p><p about="[_:a]" property="og:x">2</p>',
        '[] og:x "1", "2" .',
    ),
    "a safe CURIE that means nothing is not there": (
        '<p about="[none:x]" property="og:x">1</p>',
        '<> og:x "1" .',
    ),
    "what no IRI can name is a thing without a name, and not the page": (
        '<p about="http://[" property="og:x">1</p><p about="http://["><b property="og:y">2</b></p>'
        f'<p about="{"x" * 3000}" property="og:z">3</p><a rel="og:r" href="http://["></a>',
        '<> og:r _:a . _:a og:x "1"; og:y "2" . [] og:z "3" .',
    ),
    "blank nodes are no predicates": ('<p property="_:x">1</p><a rel="_:x" href="h">', ""),
    "head and body speak of the page": (
        '<html><head property="og:a" content="1"></head><body typeof="og:T"><p property="og:b">2</p></body></html>',
        '<> og:a "1"; a og:T; og:b "2" .',
    ),
    "patterns are copied and forgotten": (
        '<div resource="#a" typeof="og:T"><link property="rdfa:copy" href="#p"></div>'
        '<div resource="#p" typeof="rdfa:Pattern"><b property="og:x">1</b><link property="rdfa:copy" href="#q"></div>'
        '<div resource="#q" typeof="rdfa:Pattern"><b property="og:y">2</b></div>',
        '<#a> a og:T; og:x "1"; og:y "2" .',
    ),
    "a pattern that nobody copies stays": (
        '<div resource="#p" typeof="rdfa:Pattern"><b property="og:x">1</b></div>',
        '<#p> a rdfa:Pattern; og:x "1" .',
    ),
    "nothing in a template is stated": ('<template><p property="og:x">1</p></template><p property="og:x">2</p>',
        '<> og:x "2" .',
    ),
    "roles are ARIA's in HTML": ('<div id="a" role="main">x</div>', ""),
    "IRIs stay as they are written": (
        '<p about="ção?a=b#ü" property="og:x">1</p><p about="http://É.example/%7e" property="og:x">2</p>',
        '<ção?a=b#ü> og:x "1" . <http://É.example/%7e> og:x "2" .',
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_rdfa_in_html(rule):
    markup, expected = RULES[rule]
    assert stated(f"<!DOCTYPE html>{markup}") == turtle(expected)


XHTML = '<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml">{}</html>'
XHTML1 = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML+RDFa 1.1//EN" "x.dtd"><html>{}</html>'


@pytest.mark.parametrize(
    ("host", "document", "markup", "expected"),
    [
        ("xhtml", XHTML, '<body xml:lang="pt" lang="en"><p property="og:x">&eacute;</p></body>', '<> og:x "é"@pt .'),
        ("xhtml", XHTML, '<p property="og:x">a<![CDATA[ <b> ]]>&lt;</p>', '<> og:x "a <b> <" .'),
        ("xhtml", XHTML, '<link rel="next" href="2"/>', ""),
        ("xhtml", XHTML1, '<link rel="Next" href="2"/>', "<> xhv:next <2> ."),
        ("xhtml", XHTML, '<time property="og:x">2026</time>', '<> og:x "2026"^^xsd:gYear .'),
        ("xhtml", XHTML1, '<time property="og:x">2026</time>', '<> og:x "2026" .'),
        ("xhtml", XHTML, '<div id="m" role="main"/>', "<#m> xhv:role xhv:main ."),
        ("xhtml", XHTML,
            '<p prefix="a: http://a.example/" property="og:x" datatype="rdf:XMLLiteral">1<b id="i">&amp;</b></p>',
            '<> og:x "1<b id=\\"i\\" xmlns=\\"http://www.w3.org/1999/xhtml\\" xmlns:a=\\"http://a.example/\\">&amp;</b>"'
            "^^rdf:XMLLiteral ."),
        ("xml", "<doc>{}</doc>", '<head xml:base="http://b.example/" lang="pt" about="a" property="og:x">1</head>',
            '<http://b.example/a> og:x "1" .'),
        ("xml", '<doc xml:base="http://b.example/c/">{}</doc>',
            '<a property="og:x">1</a><a about="d" property="og:x">2</a>',
            '<http://b.example/c/> og:x "1" . <http://b.example/c/d> og:x "2" .'),
    ],
)  # fmt: skip
def test_rdfa_in_xhtml_and_xml(host, document, markup, expected):
    assert stated(document.format(markup), host) == turtle(expected)


@pytest.mark.parametrize(
    "markup",
    ["<a>", "<a b=1/>", "<a>&nosuch;</a>", "x", "", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "<a>\x00</a>"],
)
def test_what_is_not_well_formed_is_no_xhtml(markup):
    assert parse_xhtml(markup) is None


def test_the_base_is_what_relative_references_are_seen_from():
    found = stated('<p about="../a" property="og:x">1</p><p property="og:x">2</p>', base="http://b.example/c/d/e#f")
    assert found == turtle('<http://b.example/c/a> og:x "1" . <http://b.example/c/d/e> og:x "2" .')


@pytest.mark.parametrize("base", ["", "no base", "http://["])
def test_a_page_that_lies_nowhere_is_a_thing_without_a_name(base):
    found = stated('<p property="og:x">1</p><p about="a" property="og:x">2</p>', base=base)
    assert found == turtle('[] og:x "1" . [] og:x "2" .')


def test_markup_as_xml_is_well_formed_whatever_the_tree_holds():
    body = '<p a"b=1 <c=2 o:p=3 on-x=4><o:p>x</o:p><svg><path d=1 /></svg><!-- a--b --></p>&<br>'
    (statement,) = pyoxigraph.parse(
        read(f'<div property="og:x" datatype="rdf:XMLLiteral">{body}</div>').to_nquads().encode(),
        format=pyoxigraph.RdfFormat.N_QUADS,
    )
    written = parse_xhtml(f"<a>{statement.object.value}</a>")
    assert written is not None
    assert [element.tag for element in written.iter_elements()] == ["a", "p", "svg", "path", "br"]
    assert written.select("a")[0].text == "x&"


DEEP, MANY = 100_000, 2_000
HOSTILE: dict[str, tuple[HostLanguage, str, int | None]] = {
    "deep, all hanging": ("html", '<div rel="og:x">' * (DEEP // 4), None),
    "deep, all typed and hanging": ("html", '<div rel="og:x" typeof="og:y">' * (DEEP // 4), STATEMENTS_MAX),
    "deep XML, all hanging": ("xhtml", '<div rel="og:x">' * DEEP + "</div>" * DEEP, STATEMENTS_MAX),
    "deep XML, a text in all": ("xhtml", '<div property="og:x">' * DEEP + "a" + "</div>" * DEEP, 1),
    "deep, a vocabulary each": ("html",
        "".join(f'<p vocab="http://x/{n}#" property="x">' for n in range(DEEP // 4)), None),
    "markup in markup": ("html", '<div property="og:x" datatype="rdf:XMLLiteral">' * (DEEP // 4), None),
    "rel times children": ("html", f'<p rel="{" ".join(f"og:{n}" for n in range(MANY))}">'
        + "".join(f"<a href={n}></a>" for n in range(MANY)), STATEMENTS_MAX),
    "rel times children, always the same": ("html", f'<p rel="{" ".join(f"og:{n}" for n in range(MANY))}">'
        + "<a href=x></a>" * MANY, TERMS_MAX),
    "lists times children": ("html", f'<p inlist rel="{" ".join(f"og:{n}" for n in range(MANY))}">'
        + "<a href=x></a>" * MANY, STATEMENTS_MAX),
    "300,000 attributes": ("html", f'<p property="og:x" {" ".join(f"a{n}=x" for n in range(300_000))}>x', 1),
    "a prefix attribute of megabytes": ("html",
        f'<p prefix="{"".join(f"a{n}: http://x/{n} " for n in range(200_000))}" property="a1:x">x', 1),
    "a prefix without end": ("html", f'<p prefix="a: http://x/{"y" * 3_000_000}" property="a:x og:x">x', 2),
    "100,000 words": ("html", f'<p property="{" ".join(f"og:{n}" for n in range(100_000))}">x', TERMS_MAX),
    "a pattern copied by all": ("html",
        "".join(f'<p resource="#{n}" typeof="og:a"><link property="rdfa:copy" href="#p">' for n in range(10_000))
        + f'<p resource="#p" typeof="rdfa:Pattern">{"".join(f"<b property=og:{n}>y</b>" for n in range(100))}',
        STATEMENTS_MAX),
    "patterns in a ring": ("html", '<p resource="#a"><link property="rdfa:copy" href="#p0">'
        + "".join(f'<p resource="#p{n}" typeof="rdfa:Pattern"><link property="rdfa:copy" href="#p{(n + 1) % 500}">'
        f"<b property=og:{n}>y</b>" for n in range(500)), 500),
    "texts without end": ("html", "".join(f'<p property="og:{n}">{"x" * 40_000}</p>' for n in range(200)), None),
}  # fmt: skip


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_page_states_a_bounded_number_of_valid_statements(attack):
    host, markup, expected = HOSTILE[attack]
    found = count(markup, host)
    assert found <= STATEMENTS_MAX if expected is None else found == expected


def test_prefixes_declared_again_and_again_are_heard_up_to_a_maximum():
    deep = "".join(f'<div prefix="a{n}: http://x/{n}#" property="a{n}:x" content="{n}">' for n in range(500))
    predicates = {line.split()[1] for line in read(deep).to_nquads().splitlines()}
    assert "<http://x/0#x>" in predicates
    assert "<a499:x>" in predicates  # as if nobody had declared it
    assert len([name for name in predicates if name.startswith("<http://x/")]) == PREFIXES_MAX


def test_a_literal_inside_many_others_is_not_read_again():
    nested = "".join(f'<div property="og:x{n}">' for n in range(3 * NESTED_MAX)) + "a"
    assert count(nested) == NESTED_MAX


def test_a_long_text_is_cut_and_a_long_number_is_dropped():
    long = "9" * (LITERAL_LENGTH_MAX + 1)
    (line,) = (
        read(f"<p property=og:x>{long}</p><p property=og:y datatype=xsd:integer>{long}</p>").to_nquads().splitlines()
    )
    assert line == f'<{PAGE}> <http://ogp.me/ns#x> "{long[:LITERAL_LENGTH_MAX]}" .'


def test_the_same_statement_made_without_end_is_stated_once():
    assert count('<i property="og:x">x</i>' * (2 * ATTEMPTS_MAX)) == 1


@pytest.mark.parametrize(
    "rubbish",
    ['a"b', "a\nb", "a> . <b", "a\\", "{a}", "a b", "\x7f", "http://[", "%", "%zz", "\ud800", "_:a> .", "_:", ":", "::",
     "[", "[]", "[[a]]", "//", "http:", "javascript:alert('x')", "\ufffe", "a^b`c|d", "x" * 5_000, "tag:é", "¿:¿"],
)  # fmt: skip
def test_no_rubbish_in_an_attribute_can_leave_its_term(rubbish):
    value = rubbish.replace("&", "&amp;").replace('"', "&quot;")
    for name in (
        "about",
        "resource",
        "href",
        "src",
        "typeof",
        "property",
        "rel",
        "vocab",
        "datatype",
        "lang",
        "content",
    ):
        for others in ('property="og:x"', 'rel="og:x"', 'rel="og:x" typeof="og:y" inlist', 'typeof="og:T"'):
            count(f'<div {name}="{value}" {others}>a<b property="og:x n">b</b></div>')
    count(f'<div prefix="a: {value} b: {value}" xmlns:c="{value}"><b property="a:x b:y c:z">1</b></div>')


VALUES = [
    "",
    "a",
    "og:x",
    "og:x og:y",
    "_:b",
    "[_:b]",
    "[]",
    "#f",
    "../x",
    "http://x/y",
    "license",
    "x y",
    "p: http://p/",
    "pt",
    "rdf:XMLLiteral",
    "rdf:HTML",
    "rdf:langString",
    "xsd:date",
    "rdfa:copy",
    "rdfa:Pattern",
    '"',
    "\n",
    "<",
    "é",
    "\\",
    ">",
]
NAMES = ["about", "resource", "href", "src", "typeof", "property", "rel", "rev", "inlist", "vocab", "prefix", "lang",
         "content", "datatype", "datetime", "xml:lang", "xmlns:q", "role", "id", "xml:base"]  # fmt: skip
ATTRIBUTES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES) | st.text(max_size=8), max_size=5)
ELEMENTS = st.recursive(
    st.text(max_size=5),
    lambda inside: st.tuples(
        st.sampled_from(["div", "p", "a", "time", "meta", "svg", "head"]), ATTRIBUTES, st.lists(inside, max_size=3)
    ),
    max_leaves=12,
)


def written(node: Any) -> str:
    if isinstance(node, str):
        return escaped(node)
    tag, attributes, children = node
    attributes = "".join(f' {name}="{escaped(value)}"' for name, value in attributes.items())
    return f"<{tag}{attributes}>{''.join(map(written, children))}</{tag}>"


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


@given(ELEMENTS)
@settings(max_examples=120, deadline=None)
def test_any_markup_states_valid_statements(node):
    markup = written(node)
    count(markup)
    if (document := parse_xhtml(markup)) is not None:
        for host in ("xhtml", "xml"):
            statements = StatementSet()
            rdfa.extract(document, PAGE, statements, host)
            graph(statements.to_nquads())


@given(ELEMENTS)
@settings(max_examples=100, deadline=None)
def test_looking_only_where_something_is_stated_finds_what_looking_everywhere_finds(node):
    hanging = '<p about="http://away.example/" rel="og:away"></p>'  # whoever meets it must look everywhere
    for markup in (written(node), f'<div vocab="">{written(node)}</div>'):
        assert stated(markup) == stated(f"{markup}<div>{hanging}</div>")


@given(st.text(alphabet="<>=\"' abct/:[]_", max_size=60))
@settings(max_examples=100, deadline=None)
def test_broken_markup_breaks_nothing(rubbish):
    count(f'<div property="og:x" about={rubbish}><b property={rubbish}>x</b>')


def test_half_a_character_in_a_name_costs_that_element_only():
    markup = '<p c\ud800=1 property="og:x">1</p><p property="og:y" datatype="rdf:XMLLiteral"><b d\ud800=2>2</b></p>'
    (line,) = read(markup).to_nquads().splitlines()
    assert "<b xmlns=" in line


def test_statements_come_in_the_order_of_the_page_and_once():
    lines = read('<b property="og:b">1</b><b property="og:a">2</b><b property="og:b">1</b>').to_nquads().splitlines()
    assert [line.split()[1] for line in lines] == ["<http://ogp.me/ns#b>", "<http://ogp.me/ns#a>"]
    assert max(Counter(lines).values()) == 1
