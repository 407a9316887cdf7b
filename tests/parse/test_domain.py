"""Domains as people type them."""

import pytest

from tarrafa.parse.domain import above, domain


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("ufmg.br", "ufmg.br"),
        (" www.UFMG.br. ", "www.ufmg.br"),
        ("https://ufmg.br/", "ufmg.br"),
        ("são.br", "xn--so-sia.br"),
        ("br", "br"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]", "[::1]"),
        ("", None),
        (".", None),
        ("*.br", None),
        ("a b", None),
        ("a.br/x", None),
        ("a.br:80", None),
        ("me@a.br", None),
        ("site:a.br", None),
        ("a" * 300, None),
    ],
)
def test_a_name_is_as_urls_have_it_or_none(typed, name):
    assert domain(typed) == name


def test_a_host_stands_below_itself_and_every_domain_above():
    assert list(above("www.ufmg.br.")) == ["www.ufmg.br", "ufmg.br", "br"]
    assert list(above("10.0.0.1")) == ["10.0.0.1"]
    assert list(above("[::1]")) == ["[::1]"]
    assert list(above("localhost")) == ["localhost"]
    deep = ".".join("x" * 40)
    first, second, *_ = above(deep)
    assert (first, second.count(".")) == (deep, 11)
