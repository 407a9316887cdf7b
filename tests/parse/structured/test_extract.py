"""What a page states in all three syntaxes, by the library's door and as a part of a page."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import RdfFormat
from pyoxigraph import parse as parse_rdf

from tarrafa.model import SyntaxUse
from tarrafa.parse.page import parse
from tarrafa.parse.rdf import nquads
from tarrafa.parse.rdf.entity import VOCABULARIES_MAX, collect_entities
from tarrafa.parse.rdf.nquads import parse_nquads
from tarrafa.parse.structured import extract, extraction
from tarrafa.testweb.render.schema_org import WRITERS, make_entity

URL = "http://a.br/pasta/x.html"
HTML = "text/html; charset=utf-8"
ALL = (
    '<div vocab="http://schema.org/" resource="#a" typeof="Person"><b property="name">Ana</b></div>'
    '<div itemscope itemtype="http://schema.org/Person" itemid="#b"><b itemprop="name">Bia</b></div>'
    '<script type="application/ld+json">{"@context":"https://schema.org","@id":"#c","@type":"Person","name":"Clara"}'
    "</script><script type='application/ld+json'>{nada</script>"
)


def names(text: str) -> list[str]:
    return [said.object for said in parse_nquads(text) if said.predicate.endswith("schema.org/name>")]


def test_all_three_syntaxes_are_read_as_one():
    text = extract(ALL.encode(), URL, HTML)
    assert sorted(names(text)) == ['"Ana"', '"Bia"', '"Clara"']
    assert {said.subject for said in parse_nquads(text)} == {f"<{URL}>", f"<{URL}#a>", f"<{URL}#b>", f"<{URL}#c>"}
    assert len(list(parse_rdf(text, RdfFormat.N_QUADS))) == len(text.strip().split("\n"))


@pytest.mark.parametrize(("only", "name"), [("rdfa", '"Ana"'), ("microdata", '"Bia"'), ("jsonld", '"Clara"')])
def test_one_of_them_may_be_asked_for(only, name):
    assert names(extract(ALL.encode(), URL, HTML, only=only)) == [name]


def test_a_page_has_its_statements_vocabularies_and_what_could_not_be_read():
    page = parse(ALL.encode(), URL, HTML)
    assert page.statements == extract(ALL.encode(), URL, HTML)
    assert page.vocabularies == ("https://schema.org/",)
    assert page.unread == 1
    assert parse(b"<p>nada", URL, HTML).statements == ""


@pytest.mark.parametrize("syntax", sorted(WRITERS))
def test_a_page_with_more_statements_than_are_kept_says_so(syntax, monkeypatch):
    content = WRITERS[syntax](make_entity(1, "Um título", 7)).encode()
    whole = parse(content, URL, HTML)
    count = whole.statements.count("\n")
    assert not whole.cut_statements
    for most, cut in ((count, False), (count - 1, True)):
        monkeypatch.setattr(nquads, "STATEMENTS_MAX", most)
        page = parse(content, URL, HTML)
        assert (page.statements.count("\n"), page.cut_statements) == (most, cut)


@pytest.mark.parametrize("luck", range(3))
def test_a_thing_is_the_same_thing_in_each_syntax(luck):
    told = []
    for write in WRITERS.values():
        found = collect_entities(parse_nquads(extract(write(make_entity(luck, "Um título", 7)).encode(), URL, HTML)))
        told.append([
            (one.classes, [(name, term.partition("^^")[0].partition(" ")[0]) for name, term in one.properties])
            for one in found if one.classes
        ])  # fmt: skip
    assert len(told[0]) > 1
    assert [sorted(map(str, one)) for one in told] == [sorted(map(str, told[0]))] * 3


def test_a_fragment_names_the_block_that_is_meant():
    blocks = "".join(
        f'<script id="{name}" type="application/ld+json">{{"http://schema.org/name": "{name}"}}</script>'
        for name in ("a", "b")
    ).encode()
    assert names(extract(blocks, f"{URL}#b", HTML)) == ['"b"']
    assert names(extract(blocks, f"{URL}#top", HTML)) == ['"a"', '"b"'], "it is a place on the page"
    assert extract(blocks, f"{URL}#top", HTML, only="jsonld") == ""


def test_references_are_seen_from_the_base_of_the_page():
    markup = b'<base href="/outra/"><a property="http://schema.org/url" href="y">y</a>'
    assert "<http://a.br/outra/> <http://schema.org/url> <http://a.br/outra/y> ." in extract(markup, URL, HTML)


XHTML = (
    '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml" xmlns:dc="http://purl.org/dc/terms/">'
    "<head><title>x</title></head><body><p property='dc:title'>Redes&nbsp;e mar</p>%s</body></html>"
)


@pytest.mark.parametrize("broken", ["", "<p>unclosed"])
def test_xhtml_is_read_as_xml_or_as_html_where_it_is_broken(broken):
    body = (XHTML % broken).encode()
    for text in (extract(body, URL, "application/xhtml+xml"), parse(body, URL, "application/xhtml+xml").statements):
        assert f'<{URL}> <http://purl.org/dc/terms/title> "Redes\u00a0e mar" .' in text


VOCABULARIES = {
    '<meta property="og:title" content="x">': ("http://ogp.me/ns#",),
    '<div prefix="foaf: http://xmlns.com/foaf/0.1/"><a property="foaf:name">x</a></div>': (
        "http://xmlns.com/foaf/0.1/",
    ),
    '<link rel="next" href="/2"><link rel="stylesheet" href="/s.css"><a rel="nofollow" href="/">x</a>': (),
    '<div vocab="http://schema.org/"></div>': (),
    '<div itemscope itemtype="http://example.org/x#T"><a itemprop="p">x</a></div>': ("http://example.org/x#",),
}


@pytest.mark.parametrize("markup", VOCABULARIES)
def test_the_vocabularies_of_a_page_are_those_it_says_something_in(markup):
    assert parse(markup.encode(), URL, HTML).vocabularies == VOCABULARIES[markup]


def test_each_syntax_has_its_vocabularies_also_where_another_says_the_same():
    same = (
        '<div vocab="http://schema.org/" resource="#a"><b property="name">Ana</b></div>'
        '<div itemscope itemid="#a" itemtype="http://schema.org/Thing"><b itemprop="name">Ana</b></div>'
        '<script type="application/ld+json">{"@id":"#a","http://xmlns.com/foaf/0.1/name":"Ana"}</script>'
    )
    page = parse(same.encode(), URL, HTML)
    assert page.syntaxes == (
        SyntaxUse("rdfa", ("https://schema.org/",)),
        SyntaxUse("microdata", ("https://schema.org/",)),
        SyntaxUse("jsonld", ("http://xmlns.com/foaf/0.1/",)),
    )
    assert page.vocabularies == ("https://schema.org/", "http://xmlns.com/foaf/0.1/")


def test_vocabularies_are_bounded():
    markup = "".join(f'<meta property="http://v{number}.br/#p" content="x">' for number in range(3 * VOCABULARIES_MAX))
    assert len(parse(markup.encode(), URL, HTML).vocabularies) == VOCABULARIES_MAX


def test_what_is_no_page_states_nothing(monkeypatch):
    assert parse(b"\x00\x01", URL, "image/png").statements == ""
    monkeypatch.setattr(extraction, "BODY_BYTES_MAX", 10)
    assert extract(ALL.encode(), URL, HTML) == ""


def test_cdata_sections_of_xhtml_are_text_and_one_that_never_ends_spoils_no_time():
    xhtml, said = "application/xhtml+xml", '<p xmlns="http://www.w3.org/1999/xhtml" property="og:title">{}</p>'
    for inside, text in (("<![CDATA[a<b>]]>c<![CDATA[&amp;]]>", "a<b>c&amp;"), ("a]]&gt;b", "a]]>b")):
        assert f'"{text}"' in extract(said.format(inside).encode(), URL, xhtml)
    assert extract(("<![CDATA[" * 200_000).encode(), URL, xhtml) == ""  # 1.8 MB: a pattern would take minutes


META_ATTRIBUTES = [
    "property=og:title", "property='og:title dc:title'", "property=title", "property='_:x og:type'",
    "property", "property=''",
    "property=https://x.org/p", "property=OG:Image", "content=Um", "content='a \"b\" \\ ç'", "content=''",
    "content", "name=d",
    "lang=en", "about=#x", "resource=#y", "datatype=xsd:date", "typeof=og:Thing", "rel=dc:x", "rev=dc:y", "rel=license",
    "href=z", "id=i", "class='a b'", "itemprop=n", "vocab=http://schema.org/", "prefix='og: http://other/'", "inlist",
    "xmlns:og=http://third/", "datetime=2020", "\ud800=x",
]  # fmt: skip
ROOTS = ["", "<html lang=pt-BR>", "<html xml:lang=en>", "<html lang='' xml:lang=en>", "<html prefix='og: http://p/#'>",
         "<html xmlns:og=http://x/#>", "<html typeof=x:Y>", "<html lang=' pt '><head lang=fr>", "<head about=#h>",
         "<html vocab=http://v/>", "<base href=/b/>", "<body>", "<html lang=pt class=a data-x=1>"]  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(ROOTS),
    st.lists(st.lists(st.sampled_from(META_ATTRIBUTES), max_size=4).map(" ".join), max_size=5),
    st.sampled_from(
        ["", "<p property=og:x>Um</p>", "<link rel=license href=l>", "<a rev=dc:x href=l>", "<div itemscope>"]
    ),
)
@example("", ["property=og:title content=Um"] * 70, "")
@example("", ["property='" + "og:a " * 200 + "' content=Um"], "")
@example("", [f"property=og:title content={'x' * 40_000}"], "")
def test_the_short_way_of_meta_elements_states_what_the_rdfa_processor_states(root, metas, rest):
    markup = root + "".join(f"<meta {attributes}>" for attributes in metas) + rest
    body = markup.encode("utf-8", "surrogatepass")
    page = parse(body, URL, HTML)
    assert page.statements == extract(body, URL, HTML, only="rdfa")
    uses = [use for use in page.syntaxes if use.syntax == "rdfa"]
    assert bool(page.statements) or not uses
    assert page.vocabularies == (uses[0].vocabularies if uses else ())
