"""Microdata: what the items of a page state."""

import pytest
import turbohtml
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import RdfFormat, parse

from tarrafa.parse.rdf.nquads import STATEMENTS_MAX, StatementSet
from tarrafa.parse.structured import microdata

PAGE = "http://h.test/dir/page"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
XSD = "http://www.w3.org/2001/XMLSchema#"
S = "http://schema.org/"


def said(markup: str, base: str = PAGE) -> list[str]:
    """The statements without the full stop. Whatever was read is valid N-Quads."""
    statements = StatementSet()
    microdata.extract(turbohtml.parse(markup, positions=False), base, statements)
    text = statements.to_nquads()
    assert len(list(parse(text, RdfFormat.N_QUADS))) == len(statements)
    return [line.removesuffix(" .") for line in text.splitlines()]


def thing(inner: str, more: str = "") -> str:
    return f"<div itemscope itemtype='{S}Thing' {more}>{inner}</div>"


def value(element: str) -> str | None:
    """What the property p of an item is."""
    found = [line for line in said(thing(element)) if TYPE not in line]
    assert all(line.startswith(f"_:b0 <{S}p> ") for line in found) and len(found) <= 1
    return found[0].removeprefix(f"_:b0 <{S}p> ") if found else None


@pytest.mark.parametrize(
    ("element", "term"),
    [
        ("<p itemprop=p> Ana\n<b>Silva</b></p>", r'" Ana\nSilva"'),
        ("<meta itemprop=p content=' x '>", '" x "'),
        ("<a itemprop=p href=../b>x</a>", "<http://h.test/b>"),
        ("<link itemprop=p href='http://schema.org/InStock'>", "<http://schema.org/InStock>"),
        ("<map><area itemprop=p href='#a'></map>", "<http://h.test/dir/page#a>"),
        ("<img itemprop=p src='a b.jpg'>", "<http://h.test/dir/a%20b.jpg>"),
        ("<img itemprop=p src='\n http://x.test/a\nb '>", "<http://x.test/ab>"),
        ("<audio itemprop=p src=a></audio>", "<http://h.test/dir/a>"),
        ("<video itemprop=p src=//v.test/></video>", "<http://v.test/>"),
        ("<iframe itemprop=p src='?x'></iframe>", "<http://h.test/dir/page?x>"),
        ("<object itemprop=p data=a></object>", "<http://h.test/dir/a>"),
        ("<a itemprop=p href='mailto:a@b.test'>x</a>", "<mailto:a@b.test>"),
        ("<data itemprop=p value=12>doze</data>", f'"12"^^<{XSD}integer>'),
        ("<data itemprop=p value=' -1.5e3 '>x</data>", f'"-1.5e3"^^<{XSD}double>'),
        ("<data itemprop=p value='12 kg'>x</data>", '"12 kg"'),
        ("<meter itemprop=p value=.5>x</meter>", f'".5"^^<{XSD}double>'),
        ("<meter itemprop=p>metade</meter>", '"metade"'),
        ("<span itemprop=p>12</span>", '"12"'),
    ],
)
def test_a_value_is_what_its_element_says(element, term):
    assert value(element) == term


@pytest.mark.parametrize(
    ("text", "wanted", "kind"),
    [
        ("2026-01-02", "2026-01-02", "date"),
        ("10:30", "10:30:00", "time"),
        ("10:30:15.5Z", "10:30:15.5Z", "time"),
        ("2026-01-02T10:30", "2026-01-02T10:30:00", "dateTime"),
        ("2026-01-02 10:30:15-0300", "2026-01-02T10:30:15-03:00", "dateTime"),
        (" 2026-01-02T10:30Z ", "2026-01-02T10:30:00Z", "dateTime"),
        ("2026-01", "2026-01", "gYearMonth"),
        ("2026", "2026", "gYear"),
        ("--02-29", "--02-29", "gMonthDay"),
        ("PT1H30M", "PT1H30M", "duration"),
        ("P1Y2M3DT4H5M6.7S", "P1Y2M3DT4H5M6.7S", "duration"),
        ("2026-13-02", "2026-13-02", ""),
        ("24:00", "24:00", ""),
        ("P", "P", ""),
        ("PT", "PT", ""),
        ("ontem", "ontem", ""),
    ],
)
def test_a_time_has_the_type_that_its_form_tells_and_xml_schemas_spelling(text, wanted, kind):
    term = f'"{wanted}"' + (f"^^<{XSD}{kind}>" if kind else "")
    assert value(f"<time itemprop=p datetime='{text}'>x</time>") == term
    assert value(f"<time itemprop=p>{text}</time>") == term
    assert value(f"<span itemprop=p>{text}</span>") == f'"{text}"'


def test_content_says_it_on_any_element_that_has_no_address():
    assert value("<span itemprop=p content='19.90'>R$ 19,90</span>") == '"19.90"'
    assert value("<time itemprop=p content=2026-01-02>ontem</time>") == f'"2026-01-02"^^<{XSD}date>'
    assert value("<a itemprop=p href=/a content=b>c</a>") == "<http://h.test/a>"


@pytest.mark.parametrize(
    "element", ["<meta itemprop=p>", "<img itemprop=p>", "<a itemprop=p>x</a>", "<a itemprop=p href='http://[x'>x</a>",
                "<a itemprop=p href='//[x'>x</a>"]
)  # fmt: skip
def test_what_has_no_value_says_nothing(element):
    assert value(element) is None


@pytest.mark.parametrize(
    ("markup", "term"),
    [
        ("<div lang=pt-BR>{}</div>", '"x"@pt-br'),
        ("<div lang=pt><p lang=en>{}</div>", '"x"@en'),
        ("<div lang=pt><p lang=''>{}</div>", '"x"'),
        ("<div lang='no language'>{}</div>", '"x"'),
        ("<div xml:lang=pt>{}</div>", '"x"'),
    ],
)
def test_a_text_has_the_language_that_it_stands_in(markup, term):
    assert value(markup.format("<b itemprop=p>x</b>")) == term
    assert value(markup.format("<meta itemprop=p content=x>")) == term


@pytest.mark.parametrize(
    ("types", "name", "predicate"),
    [
        (f"{S}Person", "name", f"{S}name"),
        ("https://www.schema.org/Person/Ator", "name", "https://www.schema.org/name"),
        ("http://v.test/a/Person", "name", "http://v.test/a/name"),
        ("http://v.test/a#Person", "name", "http://v.test/a#name"),
        ("http://v.test", "name", "http://v.test#name"),
        ("urn:v:Person", "name", "urn:v:Person#name"),
        (f"{S}Person http://v.test/Person", "name", f"{S}name"),
        (f"{S}Person", "http://x.test/nome", "http://x.test/nome"),
        (f"{S}Person", "a{b}", f"{S}a%7Bb%7D"),
        ("", "name", f"{PAGE}#name"),
        ("Person", "a#b", f"{PAGE}#a%23b"),
    ],
)
def test_a_property_is_of_the_vocabulary_of_its_items_first_type(types, name, predicate):
    found = said(f"<div itemscope itemtype='{types}'><b itemprop='{name}'>x</b></div>")
    assert [line for line in found if TYPE not in line] == [f'_:b0 <{predicate}> "x"']


def test_all_types_are_told():
    assert said(f"<p itemscope itemtype='{S}A http://b.test/B  relative {S}A'>") == [
        f"_:b0 {TYPE} <{S}A>", f"_:b0 {TYPE} <http://b.test/B>",
    ]  # fmt: skip


def test_an_item_inside_is_a_value_and_an_untyped_one_has_the_vocabulary_around_it():
    markup = thing("<div itemprop='p q' itemscope><b itemprop=name>Ana</b></div>")
    assert said(markup) == [
        f"_:b0 {TYPE} <{S}Thing>", f"_:b0 <{S}p> _:b1", f"_:b0 <{S}q> _:b1", f'_:b1 <{S}name> "Ana"',
    ]  # fmt: skip


def test_an_item_without_a_property_inside_another_stands_for_itself():
    assert said(thing(f"<p itemscope itemtype='{S}Person'><b itemprop=name>Ana</b></p>")) == [
        f"_:b0 {TYPE} <{S}Thing>", f"_:b1 {TYPE} <{S}Person>", f'_:b1 <{S}name> "Ana"',
    ]  # fmt: skip


def test_an_item_has_the_name_that_it_gives_itself():
    assert said(thing("<b itemprop=p>x</b>", "itemid=../eu")) == [
        f"<http://h.test/eu> {TYPE} <{S}Thing>", f'<http://h.test/eu> <{S}p> "x"',
    ]  # fmt: skip


def test_a_property_inside_a_property_is_the_items():
    assert said("<p itemscope><b itemprop='http://a/'>x<i itemprop='http://b/'>y</i></b></p>") == [
        '_:b0 <http://a/> "xy"', '_:b0 <http://b/> "y"',
    ]  # fmt: skip


@pytest.mark.parametrize("markup", ["<b itemprop=p>x</b>", "<p itemprop=p itemscope><b itemprop=q>x</b></p>", "<p>x"])
def test_what_belongs_to_no_item_says_nothing(markup):
    assert said(markup) == []


def test_an_additional_type_is_a_type():
    assert f"_:b0 {TYPE} <http://x.test/T>" in said(thing("<link itemprop=additionalType href='http://x.test/T'>"))
    assert len(said(thing("<b itemprop=additionalType>T</b>"))) == 2


def test_a_reverse_property_is_told_of_its_value():
    assert said(thing("<link itemprop-reverse=p href=/a><meta itemprop-reverse=p content=x>"))[1:] == [
        f"<http://h.test/a> <{S}p> _:b0"
    ]


def test_itemref_adds_what_stands_elsewhere():
    markup = thing("", "itemref='b nowhere a b'") + (
        "<p id=a><b itemprop=p>1</b><i id=c itemprop=p>2</i></p><b id=b itemprop=p>3</b><b id=b itemprop=p>4</b>"
    )
    assert said(markup)[1:] == [f'_:b0 <{S}p> "{number}"' for number in (3, 1, 2)]


def test_what_is_named_twice_is_said_once_and_an_item_shared_is_one():
    markup = (
        f"<div itemscope itemtype='{S}A' itemref=x></div><div itemscope itemtype='{S}B' itemref='x'></div>"
        "<p id=x itemprop=p itemscope itemref=y><b id=y itemprop=q>1</b></p>"
    )
    assert said(markup) == [
        f"_:b0 {TYPE} <{S}A>", f"_:b0 <{S}p> _:b1", f'_:b1 <{S}q> "1"', f"_:b2 {TYPE} <{S}B>", f"_:b2 <{S}p> _:b1",
    ]  # fmt: skip


def test_what_an_itemref_names_still_belongs_to_the_item_around_it():
    markup = thing("<p id=a><b itemprop=p>1</b></p>") + thing("", "itemref=a")
    assert [line for line in said(markup) if TYPE not in line] == [f'_:b0 <{S}p> "1"', f'_:b1 <{S}p> "1"']


def test_a_ring_of_items_is_told_once_around():
    markup = thing("", "itemref=i0") + "".join(
        f"<p id=i{number} itemprop=p itemscope itemref=i{(number + 1) % 5}></p>" for number in range(5)
    )
    assert said(markup)[1:] == [f"_:b{number} <{S}p> _:b{number + 1}" for number in range(5)] + [f"_:b5 <{S}p> _:b1"]


def test_quotes_and_line_breaks_end_neither_term_nor_line():
    evil = "x> <y> &quot;z&quot; .\n<a> <b> <c> .\\"
    markup = f'<p itemscope itemtype="http://t/{evil}" itemid="http://i/{evil}" lang="{evil}">'
    markup += f'<a itemprop="http://p/{evil}" href="http://h/{evil}"></a><b itemprop=p>{evil}</b></p>'
    assert len(said(markup)) > 5


COUNT = 2_000
NAMES = " ".join(f"i{number}" for number in range(COUNT))


def test_items_that_all_name_the_same_elements_are_told_until_there_are_enough_statements():
    elements = "".join(f"<b id=i{number} itemprop=p{number}>x</b>" for number in range(COUNT))
    assert len(said(elements + thing("", f"itemref='{NAMES}'") * COUNT)) == STATEMENTS_MAX


@pytest.mark.parametrize("element", ["<p id=i{}></p>", "<p id=i{}><b itemprop='http://a/'>x</b>"])
def test_items_that_name_many_elements_in_vain_are_not_gone_through_for_ever(element):
    elements = "".join(element.format(number) for number in range(COUNT))
    assert len(said(f"{elements}{'</p>' * COUNT}" + f"<p itemscope itemref='{NAMES}'></p>" * COUNT)) < STATEMENTS_MAX


@pytest.mark.parametrize(
    ("markup", "count"),
    [
        ("<div itemscope>" * 100_000, 0),
        ("<div itemscope itemprop='http://p/'>" * 100_000, 0),
        ("<div itemscope>" + "<div itemscope itemprop='http://p/'>" * 100_000, STATEMENTS_MAX),
        ("<div itemscope>" + "<div itemprop='http://p/'>x" * 100_000, None),
        ("<div itemscope " + " ".join(f"a{number}=1" for number in range(100_000)) + "><b itemprop='http://p/'>x", 1),
        (f"<b id=a itemprop='{'http://p/ ' * 100_000}'>x</b>" + "<p itemscope itemref=a></p>" * 2_000, 2_000),
        (f"<b id=a itemscope='{'x' * 999_999}' itemprop='http://p/'></b>" + "<p itemscope itemref=a>" * 2_000, 2_000),
        (f"<p itemscope itemtype='http://{'x' * 1_000_000}/T'>" + "<b itemprop=p>x</b>" * 20_000, 1),
        (f"<p itemscope itemid='{'x' * 1_000_000}'><b itemprop='http://p/'>x</b>", 1),
    ],
    ids=["items", "orphans", "items in items", "texts in texts", "attributes", "names", "scopes", "types", "itemid"],
)  # fmt: skip
def test_however_much_there_is_of_something_it_costs_little(markup, count):
    found = said(markup)
    assert len(found) == count if count is not None else 0 < len(found) <= microdata.TEXTS_NESTED_MAX


ATTRIBUTES = [
    "itemscope", "itemprop", "itemtype", "itemid", "itemref", "itemprop-reverse", "id", "href", "content", "lang",
]  # fmt: skip
WORDS = ["", "a", "b", "a b", "http://x/y", "x y\n", "<>", "pt", "http://[", "2026-01-02", "#"]
SAID = st.lists(st.tuples(st.sampled_from(ATTRIBUTES), st.sampled_from(WORDS) | st.text(max_size=6)), max_size=4)
TAGS = st.sampled_from(["div", "a", "meta", "time", "data", "/div", "img", "p"])


def written(tag: str, attributes: list[tuple[str, str]]) -> str:
    return " ".join([f"<{tag}", *(name + '="' + text.replace('"', "&quot;") + '"' for name, text in attributes)]) + ">t"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.builds(written, TAGS, SAID), max_size=25),
    st.sampled_from([PAGE, "", "no base", "about:blank", "http://x/<>#a"]),
)
def test_whatever_a_page_holds_its_statements_are_valid(elements, base):
    said("".join(elements), base)
