"""Any string is a search or one sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.errors import QueryError
from tarrafa.search.query_parser import QueryFilter, QueryGroup, QueryNode, QueryPrefix, QueryText, Sign, parse

SIGNS = {Sign.SHOULD: "", Sign.MUST: "+", Sign.MUST_NOT: "-"}


def said(node: QueryNode) -> str:
    """A query in one notation: what was read of it."""
    if isinstance(node, QueryText):
        return node.text if " " not in node.text else f'"{node.text}"'
    if isinstance(node, QueryPrefix):
        return f"{node.text}*"
    if isinstance(node, QueryFilter):
        return f"{node.field}:{node.value}"
    return "(" + " ".join(SIGNS[sign] + said(part) for sign, part in node.parts) + ")"


CASES = {
    "rede de pesca": "(rede de pesca)",
    "+rede -pesca mar": "(+rede -pesca mar)",
    '"rede de pesca" mar': '("rede de pesca" mar)',
    '+"a b" -"c d"': '(+"a b" -"c d")',
    '"nunca fechada': '("nunca fechada")',
    "“aspas curvas”": '("aspas curvas")',
    'meio"de frase"fim': '(meio "de frase" fim)',
    "rede site:UFMG.br": "(rede +site:ufmg.br)",
    "rede -host:www.a.br lang:pt-BR": "(rede -host:www.a.br +lang:pt)",
    "site:https://www.a.br/x/y": "(+site:www.a.br)",
    "site:informação.br": "(+site:xn--informao-xza3b.br)",
    'SITE:"a.br"': "(+site:a.br)",
    "guarda-chuva c++ a+b": "(guarda-chuva c++ a+b)",
    "http://a.br/x": "(http://a.br/x)",
    "+ - mar + -": "(mar)",
    "--mar rede": "(--mar rede)",
    "a OR b c": "((a b) c)",
    "a | b": "((a b))",
    "OR a OR OR b OR": "((a b))",
    "a OR (b +c) OR d": "((a (b +c) d))",
    "+(a OR b) -(c d)": "(+(a b) -(c d))",
    "(a)": "(a)",
    "((((a": "(a)",
    "a) b )": "(a b)",
    "() a (+)": "(a)",
    "f(x)": "(f x)",
    "site:a.br OR site:b.br mar": "(+(site:a.br site:b.br) mar)",
    "site:a.br OR mar": "((site:a.br mar))",
    "-(site:a.br OR site:b.br) mar": "(-(site:a.br site:b.br) mar)",
    "pesc* +mar*": "(pesc* +mar*)",
    "guarda-ch*": "((+guarda +ch*))",
    '"a*"': "(a*)",
    'inurl:peixes intitle:"mar alto"': "(+inurl:peixes +intitle:mar alto)",
    "filetype:PDF filetype:.Doc filetype:Text/HTML": "(+filetype:pdf +filetype:doc +filetype:text/html)",
    "after:2026 before:2026-02 -after:2026-02-03": "(+after:1767225600 +before:1769904000 -after:1770076800)",
    "link:A.br/x#y": "(+link:http://a.br/x)",
    "type:schema:Person -type:Event silva": "(+type:https://schema.org/person -type::event silva)",
    "type:schema: TYPE:foaf:Person": "(+type:https://schema.org/ +type:http://xmlns.com/foaf/0.1/person)",
    'type:"http://www.schema.org/Event" x': "(+type:https://schema.org/event x)",
    "type:schema:Event>=2026-1-5 type:Event<2026": "(+type:https://schema.org/event >=2026-01-05 +type::event <2026)",
    "ORDEM OR": "(ORDEM)",
    "nada:aqui": "(nada:aqui)",
}


@pytest.mark.parametrize("text", CASES)
def test_what_a_search_says(text):
    assert said(parse(text)) == CASES[text]


ALL_WORDS = {
    'rede "de pesca" -mar': '(+rede +"de pesca" -mar)',
    "a OR b c": "(+(a b) +c)",
    "(a b) OR c": "(+((+a +b) c))",
    "a* lang:pt": "(+a* +lang:pt)",
}


@pytest.mark.parametrize("text", ALL_WORDS)
def test_all_words_makes_plain_words_necessary(text):
    assert said(parse(text.replace("a*", "ab*"), all_words=True)) == ALL_WORDS[text].replace("a*", "ab*")


REFUSED = {
    "": "at least one word",
    "  \t": "at least one word",
    "!!! ???": "at least one word",
    '""': "at least one word",
    "-rede": "leave out",
    "(-rede) mar": "leave out in a pair of parentheses",
    "a OR -b": "OR joins things to look for",
    "(" * 12 + "a": "parentheses inside each other",
    "x c*": "at least 2 letters",
    "before:ontem x": "before: needs a date",
    "after:2026-02-30 x": "after: needs a date",
    "after:99999999 x": "after: needs a date",
    "filetype:a/b/c x": "filetype: needs a type",
    "inurl:// x": "inurl: needs a word",
    "intitle: x": "intitle: needs a word",
    "link:http:// x": "link: needs a URL",
    "type: x": "type: needs a class",
    "type:a/b x": "type: needs a class",
    "type:schema:Event>ontem x": "type: needs a class",
    "type:nobody:Person silva": "does not know the prefix",
    "-site:a.br": "leave out",
    "rede site:": "site: needs a host name",
    "rede site:a.br/x": "site: takes a host name alone, as in site:a.br; for a part of it, add inurl:",
    "rede host: x": "host: needs a host name",
    "site:a..b^": "site: needs a host name",
    "lang:português": "lang: needs a language code",
    "x" * 1001: "too long",
    "x " * 51: "too many parts",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_asked_is_said_in_one_sentence(text):
    with pytest.raises(QueryError, match=REFUSED[text]) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@given(st.text(), st.booleans())
def test_any_string_is_a_query_or_a_sentence(text, all_words):
    try:
        query = parse(text, all_words)
    except QueryError as error:
        assert str(error).endswith(".")
    else:
        assert any(sign is not Sign.MUST_NOT for sign, _ in query.parts)
        assert not any(isinstance(node, QueryGroup) and not node.parts for _, node in query.parts)


ANYTHING = st.lists(
    st.sampled_from(["rede", "mar", "+", "-", "(", ")", '"', " ", " OR ", "|", "site:", "a.br", "*", "inurl:", "link:"])
)


@given(ANYTHING.map("".join), st.booleans())
def test_what_was_read_says_the_same_when_it_is_read_again(text, all_words):
    try:
        query = parse(text, all_words)
    except QueryError:
        return
    for word in query.texts:
        assert parse(f'"{word}"').texts == [word]
