"""The text of a page in parts: content, other lines, template. Nothing is lost, nothing is there twice."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.index.document_fields import LISTING_CHARS_MIN, TextParts, is_listing, text_parts
from tarrafa.model import Page

MENU, TITLE, BODY, RELATED, FOOTER = "Início\nContato", "Redes", "A rede cai.\nO mar fecha.", "Outras redes", "© Rede"
TEXT = "\n".join((MENU, TITLE, BODY, RELATED, FOOTER))


def span(*pieces: str) -> tuple[tuple[int, int], ...]:
    return tuple((TEXT.index(piece), TEXT.index(piece) + len(piece)) for piece in pieces)


def test_content_other_lines_and_template_are_told_apart():
    page = Page("u", text=TEXT, content_spans=span(BODY), template_spans=span(MENU, FOOTER))
    assert text_parts(page) == TextParts(
        f"{TITLE}\n{BODY}\n{RELATED}", BODY, f"{TITLE}\n{RELATED}", f"{MENU}\n{FOOTER}"
    )


def test_a_list_of_links_outside_the_content_is_template():
    page = Page("u", text=TEXT, content_spans=span(BODY), link_list_spans=span(RELATED))
    found = text_parts(page)
    assert (found.template, found.listed_chars) == (RELATED, len(RELATED))
    assert text_parts(Page("u", text=TEXT, content_spans=span(BODY, RELATED), link_list_spans=span(RELATED))).content


def test_what_repeats_is_template_even_inside_the_content():
    page = Page("u", text=TEXT, content_spans=span(BODY), template_spans=span("O mar fecha."))
    assert text_parts(page).content == "A rede cai."


def test_a_list_of_links_that_repeats_does_not_make_a_listing():
    spans = span(RELATED)
    assert text_parts(Page("u", text=TEXT, link_list_spans=spans, template_spans=spans)).listed_chars == 0


@pytest.mark.parametrize("spans", [(), ((0, len(TEXT)),)])
def test_without_a_template_the_own_text_is_the_whole_text(spans):
    found = text_parts(Page("u", text=TEXT, content_spans=spans))
    assert found.own == TEXT
    assert (found.content, found.other) == ((TEXT, "") if spans else ("", TEXT))


SPANS = st.lists(st.tuples(st.integers(-3, 40), st.integers(-3, 60)), max_size=4).map(tuple)


@given(st.text("ab \n", max_size=40), SPANS, SPANS, SPANS)
def test_any_spans_keep_every_letter_once(text, content, template, listed):
    found = text_parts(Page("u", text=text, content_spans=content, template_spans=template, link_list_spans=listed))
    letters = Counter("".join(text.split()))
    assert Counter("".join("".join((found.own, found.template)).split())) == letters
    assert Counter("".join("".join((found.content, found.other, found.template)).split())) == letters


@pytest.mark.parametrize(
    ("listed", "content", "expected"),
    [
        (LISTING_CHARS_MIN, 0, True),
        (LISTING_CHARS_MIN - 1, 0, False),
        (2_000, 1_000, True),
        (2_000, 2_000, False),
        (0, 0, False),
    ],
)
def test_a_page_with_little_but_links_is_a_listing(listed, content, expected):
    assert is_listing(TextParts("", "x" * content, listed_chars=listed)) is expected
