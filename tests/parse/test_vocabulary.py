"""Vocabularies: which of them a page speaks."""

import pytest
from turbohtml import parse

from tarrafa.parse.vocabulary import VOCABULARIES_MAX, vocabularies

OG, SCHEMA, FOAF = "http://ogp.me/ns#", "https://schema.org/", "http://xmlns.com/foaf/0.1/"


def json_ld(text: str) -> str:
    return f'<script type="application/ld+json">{text}</script>'


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p>nothing", ()),
        ('<meta property="og:title" content="x">', (OG,)),
        ('<html prefix="og: https://ogp.me/ns#"><meta property="og:title">', ("https://ogp.me/ns#",)),
        ('<div vocab="http://schema.org/" typeof="Person"><b property="name">', (SCHEMA,)),
        ('<div prefix="x: http://x.org/v# foaf: http://xmlns.com/foaf/0.1/" typeof="foaf:Person x:Y">',
        (FOAF, "http://x.org/v#")),
        ('<div typeof="http://purl.org/goodrelations/v1#Offering">', ("http://purl.org/goodrelations/v1#",)),
        ('<div property="name title">', ()),
        ('<div property="unknown:name">', ()),
        ('<div itemscope itemtype="http://schema.org/Person">', (SCHEMA,)),
        ('<div itemscope itemtype="https://www.schema.org/A http://data-vocabulary.org/B">',
        (SCHEMA, "http://data-vocabulary.org/")),
        (json_ld('{"@context": "https://schema.org", "@type": "Person"}'), (SCHEMA,)),
        (json_ld('[{"@context": {"@vocab": "http://schema.org/"}}, {"@context": ["http://x.org/c", {"a": "b"}]}]'),
        (SCHEMA, "http://x.org/c")),
        (json_ld('{"@type": ["http://xmlns.com/foaf/0.1/Person"]}'), (FOAF,)),
        (json_ld('{"@context": "https://schema.org", }'), ()),
        (json_ld("[" * 100_000), ()),
        (json_ld('{"@context": 5}'), ()),
        ('<script type="Application/LD+JSON">{"@context":"http://schema.org/"}</script>', (SCHEMA,)),
        ("<script type=text/javascript>{'@context': 'http://schema.org'}</script>", ()),
        ('<div itemtype="javascript:x/y" vocab="not an iri">', ()),
    ],
)  # fmt: skip
def test_the_vocabularies_of_a_page_are_found(markup, expected):
    assert vocabularies(parse(markup)) == expected


def test_their_number_is_bounded():
    markup = "".join(f'<b vocab="http://v{number}.org/">' for number in range(200))
    assert len(vocabularies(parse(markup))) == VOCABULARIES_MAX
