"""Titles: the headline without the name of the site, as one page shows it."""

import pytest

from tarrafa.parse.page import DESCRIPTION_LENGTH_MAX, parse
from tarrafa.parse.page_title import StatedTitles, headline, title_cuts


def page_headline(title: str, head: str = "", body: str = "") -> str:
    markup = f"<!DOCTYPE html><title>{title}</title>{head}<body>{body}<p>Um texto.</p>"
    return parse(markup.encode(), "http://blog.test/a", "text/html; charset=utf-8").headline


@pytest.mark.parametrize(
    ("title", "head", "body", "expected"),
    [
        ("Alien, o oitavo - Meu Blog", "", "<h1>Alien, o oitavo</h1>", "Alien, o oitavo"),
        ("Meu Blog: Alien", '<meta property="og:title" content="Alien">', "<h1>Meu Blog</h1>", "Alien"),
        ("Meu Blog » Alien", '<meta property="og:title" content="alien">', "", "Alien"),
        ("Alien | Filmes | Meu Blog", '<meta property="og:title" content="Alien | Filmes">', "", "Alien | Filmes"),
        ("Alien – Meu Blog", '<meta property="og:site_name" content="Meu Blog">', "", "Alien"),
        ("Meu Blog · Alien", '<meta property="og:site_name" content="Meu Blog">', "<h1>Meu Blog</h1>", "Alien"),
        ("Alien - Meu Blog", '<meta property="og:title" content="Alien - Meu Blog">', "", ""),
        (
            "Alien - Meu Blog",
            '<meta property="og:title" content="Alien - Meu Blog"><meta property="og:site_name" content="Meu Blog">',
            "", "Alien",
        ),
        ("Alien - Meu Blog", "", "", ""),
        ("Meu Blog - Alien", "", "<h1>Meu Blog</h1><h2>Alien</h2>", ""),
        ("Meu Blog » Alien", "", "<h2>Alien</h2><h3>Links</h3>", "Alien"),
        ("Meu Blog » Alien", "", "<h2>Meu Blog</h2><h2>Alien</h2>", ""),
        ("Meu Blog", '<meta property="og:site_name" content="Meu Blog">', "<h1>Meu Blog</h1>", ""),
        ("e-mail e Wi-Fi às 10:30", "", "<h1>e-mail e Wi</h1>", ""),
        ("Batman (filme)", "", "<h1>Batman</h1>", ""),
        ("Meu Blog - ", '<meta property="og:site_name" content="Meu Blog">', "", ""),
        ("", "", "<h1>Alien</h1>", ""),
    ],
)  # fmt: skip
def test_a_title_is_cut_where_the_page_states_headline_or_site(title, head, body, expected):
    assert page_headline(title, head, body) == expected


def test_a_title_has_few_cuts_and_each_gives_it_back():
    for title in ("a - b", "a | b : c", "x: y", "|a|", " - ", "col·lecció", "A » B", "a (b)", "a - " * 40 + "z"):
        cuts = title_cuts(title)
        assert len(cuts) <= 6
        for cut in cuts:
            assert cut.before + cut.separator + cut.behind == title
            assert cut.before
            assert cut.behind


def test_a_headline_of_a_bare_title_is_unknown():
    assert headline("Alien", StatedTitles.of({"og:title": "Alien"}, "Alien", ["Alien"])) == ""


def test_the_description_is_one_bounded_line():
    markup = (
        '<title>T</title><meta name="Description" content="Uma \n resenha"><meta property="og:description" content="b">'
    )
    assert parse(markup.encode(), "http://h.test/", "text/html").description == "Uma resenha"
    markup = f'<title>T</title><meta property="og:description" content="{"b" * 2000}">'
    assert parse(markup.encode(), "http://h.test/", "text/html").description == "b" * DESCRIPTION_LENGTH_MAX
    assert parse(b"<title>T</title>", "http://h.test/", "text/html").description == ""
