"""Domains as people type them."""

import pytest

from tarrafa.parse.domain import domain_and_parents, parse_domain


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
    assert parse_domain(typed) == name


def test_a_host_stands_below_itself_and_every_domain_above():
    assert list(domain_and_parents("www.ufmg.br.")) == ["www.ufmg.br", "ufmg.br", "br"]
    assert list(domain_and_parents("10.0.0.1")) == ["10.0.0.1"]
    assert list(domain_and_parents("[::1]")) == ["[::1]"]
    assert list(domain_and_parents("localhost")) == ["localhost"]
    deep = ".".join("x" * 40)
    first, second, *_ = domain_and_parents(deep)
    assert (first, second.count(".")) == (deep, 11)
