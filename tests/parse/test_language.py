"""Languages: what the text shows, then what its author says."""

import pycld2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.parse import language
from tarrafa.parse.language import detected, normalize_tag
from tarrafa.parse.page import parse

TEXTS = {
    "pt": "A ação do município de São João não é só uma questão de opinião, mas também de orçamento.",
    "en": "The council decided yesterday that the road through the village would be repaired before winter.",
    "es": "El ayuntamiento decidió ayer que la carretera del pueblo sería reparada antes del invierno.",
    "de": "Der Gemeinderat hat gestern beschlossen, dass die Straße durch das Dorf repariert werden soll.",
    "ru": "Вчера совет решил, что дорога через деревню будет отремонтирована до зимы.",
    "ja": "昨日、議会は冬の前に村を通る道路を修理することを決定しました。",
    "he": "המועצה החליטה אתמול שהכביש העובר בכפר יתוקן לפני החורף הקרוב.",
}


def _language_of_page(text: str, declared: str) -> str:
    markup = f'<html lang="{declared}"><title></title><p>{text}</p>'
    return parse(markup.encode(), "http://h.test/", "text/html; charset=utf-8").language


@pytest.mark.parametrize("code", TEXTS)
def test_a_sentence_is_enough(code):
    assert detected(TEXTS[code]).code == code


def test_the_text_goes_before_the_attribute():
    assert _language_of_page(TEXTS["pt"], "en-US") == "pt"


@pytest.mark.parametrize("text", ["", "ok", "12345 67", "😀" * 30])
def test_the_attribute_decides_where_the_text_does_not(text):
    assert _language_of_page(text, "pt-BR") == "pt"
    assert detected(text).code == ""


def test_a_menu_of_names_does_not_hide_the_text_behind_it():
    assert detected("ABC XYZ 123 " * 60 + TEXTS["pt"] * 20).code == "pt"


@pytest.mark.parametrize(("percent", "length", "expected"), [(54, 700, "ru"), (30, 700, ""), (54, 500, "")])
def test_a_long_text_of_two_languages_is_in_the_one_it_has_most_of_if_nothing_else_says_it(
    monkeypatch, percent, length, expected
):
    found = (("RUSSIAN", "ru", percent, 700.0), ("ENGLISH", "en", 25, 1_000.0))
    monkeypatch.setattr(pycld2, "detect", lambda *_, **__: (False, length, found))
    text = "x" * length
    assert (detected(text).code, language.likely(text)) == ("", expected)
    for tag, declared in (("", expected), (' lang="pt"', "pt")):
        markup = f"<html{tag}><title>T</title><p>{text}</p>"
        assert parse(markup.encode(), "http://h.test/", "text/html").language == declared


@pytest.mark.parametrize(
    ("tag", "expected"),
    [("pt-BR", "pt"), ("en_US", "en"), ("PT", "pt"), (" es ", "es"), ("zh-Hant", "zh"), ("iw", "he"),
    ("portuguese", ""), ("", ""), ("x", "")],
)  # fmt: skip
def test_bcp47_tags_become_two_letters(tag, expected):
    assert normalize_tag(tag) == expected


@settings(deadline=None)
@given(st.text(st.characters(codec=None)), st.text(max_size=8))
def test_any_text_gives_two_letters_or_nothing(text, hint):
    assert len(detected(text + "\x00\x01\ud800\ufffe").code or normalize_tag(hint)) in (0, 2)
