"""Sites: the registrable domain, and what stands in for it."""

import pytest

from tarrafa.errors import ConfigError
from tarrafa.parse import public_suffix
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.runtime.public_suffix_list import bundled_suffix_list

LIST = """
// a comment
com
uk
co.uk
br
com.br
*.ck
!www.ck
github.io
рф
"""


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("www.example.com", "example.com"), ("example.com", "example.com"), ("a.b.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"), ("com", "com"), ("localhost", "localhost"), ("127.0.0.1", "127.0.0.1"), ("[::1]", "[::1]"),
        ("joe.github.io", "joe.github.io"), ("www.joe.github.io", "joe.github.io"), ("x.y.ck", "x.y.ck"),
        ("www.ck", "www.ck"),
        ("a.b.unlisted", "b.unlisted"), ("www.example.com.", "example.com"),
        ("a.xn--e1afmkfd.xn--p1ai", "xn--e1afmkfd.xn--p1ai"),
        ("h0001.br.test", "h0001.br.test"), ("a.h0001.br.test", "h0001.br.test"), ("br.test", "br.test"), ("", ""),
        ("a..b", "a..b"),
    ],
)  # fmt: skip
def test_a_site_is_the_registrable_domain(host, expected):
    assert PublicSuffixes(LIST, ["br.test"]).site(host) == expected


def test_without_the_extra_suffix_the_test_hosts_are_one_site():
    assert PublicSuffixes(LIST).site("h0001.br.test") == "br.test"


@pytest.mark.parametrize("wrong", ["", ".", "br test", "http://br", "a/b", "a..b", "x" * 80])
def test_a_suffix_that_cannot_be_one_is_refused(wrong):
    with pytest.raises(ConfigError, match="suffixes"):
        PublicSuffixes(LIST, [wrong])


def test_the_cache_stays_bounded(monkeypatch):
    monkeypatch.setattr(public_suffix, "SITES_CACHED_MAX", 10)
    suffixes = PublicSuffixes(LIST)
    for number in range(100):
        assert suffixes.site(f"www.h{number}.com") == f"h{number}.com"
    assert len(suffixes._sites) <= 10


def test_the_bundled_list_knows_the_country_codes():
    assert PublicSuffixes(bundled_suffix_list()).site("www.camara.leg.br") == "camara.leg.br"
