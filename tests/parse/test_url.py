"""URL identity: one spelling for one place, whichever way it was found."""

from urllib.parse import urljoin

import pytest
from ada_url import URL
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tarrafa.parse import url as urls
from tarrafa.parse.url import (
    INPUT_LENGTH_MAX,
    URL_LENGTH_MAX,
    UrlIdentity,
    authority_of,
    canonical,
    domain_and_parents,
    host_id,
    host_key,
    host_name,
    name_and_port,
    parse_domain,
    split,
    url_id,
)
from tests.conformance_data import cases, requires_data

WPT = "url/urltestdata.json"
PIECES = [
    *("a", "b", "A", "0", "-", "_", "~", "*", "'", '"', "[", "]", "&", "=", "|", "^", "{", " ", "\t", "\n", "\0",
    "é", "\ud800"),
    *("/", "/", "//", ".", "..", "../", "./", "?", "#", ":", "@", "\\", "%", "%41", "%7e", "%2F", "%2e", "%zz",
    "%25", "%c3"),
    *("http:", "http://", "https://", "HTTP://", "javascript:", "h.com", "x.y", "127.0.0.1", "[::1]", ":80", ":443",
    ":x", "xn--"),
]  # fmt: skip
BASES = [
    "http://h.com/a/b/c.html", "https://x.org/", "http://h.com:8080/a/?q=1#f", "http://u:p@h.com/d/",
    "http://h.com/.x/y",
    "http://h.com/%7ea/%zz/", "about:blank", "nonsense", "file:///a/b", "http://1.2.3.4/x//y/../z",
    "http://h.com/a%2Fb/c?d/e",
]  # fmt: skip

references = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


@requires_data(WPT)
def test_whatwg_every_case_of_the_url_tests_has_the_identity_of_its_href():
    compared = 0
    for case in cases(WPT):
        if isinstance(case, str):
            continue
        expected = None if case.get("failure") else canonical(case["href"])
        assert canonical(case["input"], case["base"]) == expected, case
        if expected is None and not case.get("failure"):
            assert not case["href"].startswith(("http:", "https:")), case
        compared += expected is not None
    assert compared > 200


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("https://example.com:80/a", "https://example.com:80/a"),
        ("http://example.com/a#part", "http://example.com/a"),
        ("http://example.com/#", "http://example.com/"),
        ("http://example.com/?", "http://example.com/?"),
        ("http://user:secret@example.com/a", "http://example.com/a"),
        ("http://example.com/a/./b/../c", "http://example.com/a/c"),
        ("http://example.com/%7Ejoe/%c3%a7", "http://example.com/~joe/%C3%A7"),
        ("http://example.com/a%2Fb%2fc", "http://example.com/a%2Fb%2Fc"),
        ("http://example.com/?q=%61%2B%7e", "http://example.com/?q=a%2B~"),
        ("http://example.com/ção?ã", "http://example.com/%C3%A7%C3%A3o?%C3%A3"),
        ("http://example.com/%%34%31", "http://example.com/%%34%31"),
        ("http://example.com/100%/%c3%7e", "http://example.com/100%/%C3%7E"),
        ("http://São-João.example/", "http://xn--so-joo-3tae.example/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ("  http://example.com/a b\t\n ", "http://example.com/a%20b"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("\0http://example.com/\0a\0", "http://example.com/%00a"),
        ("http://example.com/\ud800", "http://example.com/%EF%BF%BD"),
    ],
)
def test_one_place_has_one_spelling(spelling, expected):
    assert canonical(spelling) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    "nothing",
    ["", "a", "/a", "//h/a", "#", "mailto:a@b", "javascript:x", "ftp://h/", "http://", "http://h:99999/", "http://a b"],
)  # fmt: skip
def test_what_is_no_web_address_has_no_identity(nothing):
    assert canonical(nothing) is None


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("", "http://h.com/a/b?q=1"), ("#x", "http://h.com/a/b?q=1"), ("c", "http://h.com/a/c"),
        ("?r", "http://h.com/a/b?r"),
        ("/c", "http://h.com/c"), ("//i.org/c", "http://i.org/c"), ("../c", "http://h.com/c"),
        ("../../../c", "http://h.com/c"),
        ("../", "http://h.com/"), ("..//c", "http://h.com//c"), ("./c", "http://h.com/a/c"), ("c:d", None),
        ("./c:d", "http://h.com/a/c:d"),
        ("http:c", "http://h.com/a/c"), ("https://i.org", "https://i.org/"), ("c?d=../e", "http://h.com/a/c?d=../e"),
    ],
)  # fmt: skip
def test_rfc3986_references_are_seen_from_their_base(reference, expected):
    assert canonical(reference, "http://h.com/a/b?q=1#frag") == expected


def test_a_base_that_is_no_url_gives_nothing_even_to_absolute_links():
    assert canonical("http://h.com/", "nonsense") is None


@settings(deadline=None)
@given(references, st.sampled_from([None, *BASES]))
@example("/a#" + "x" * INPUT_LENGTH_MAX, BASES[0])
@example("../" * 900 + "x", BASES[0])
@example("/" + "x" * URL_LENGTH_MAX, BASES[0])
@example("http://h.com/" + "x" * URL_LENGTH_MAX, None)
def test_the_fast_paths_give_what_the_slow_path_gives(reference, base):
    assert canonical(reference, base) == urls._parse_with_ada(reference, urls.NO_BASE if base is None else base)


@settings(deadline=None)
@given(
    st.sampled_from(["", "http://", "https://", "http:", "/", "./", "../", "?", "#", " ", "\t?", "a"]),
    references,
    st.sampled_from(["http://h.com/a/b/", "http://h.com/", "http://h.com/%C3%A7/", "http://h.com/%7e/", "ftp://h/"]),
)
@example("http:", "?q", "http://h.com/a/b/")
@example("\t?", "q", "http://h.com/a/b/")
@example("", "a #", "http://h.com/a/b/")
def test_a_reference_remembered_from_one_page_is_right_on_every_page_of_its_folder(start, rest, folder):
    urls.base_url_of.cache_clear()
    urls._references_of.cache_clear()
    for page in ("x.html", "", "y?q=1", "y?q=2", "z%zz", "%7e", "x.html#f"):
        for reference in (start + rest, f"{start}{rest}#one", f"{start}{rest}#two"):
            assert canonical(reference, folder + page) == urls._parse_with_ada(reference, folder + page)


@pytest.mark.parametrize("reference", ["http://b.test/x", "HTTP://B.test/x", "http://b.test/a b", "https://b.test"])
@pytest.mark.parametrize(
    "base", ["http://a.test/", "https://b.test/folder/", "http://b.test/x?y", "nonsense", "about:blank"]
)
def test_an_absolute_reference_that_is_remembered_is_joined_as_if_it_were_new(reference, base):
    urls._absolute.clear()
    new = [urls.canonical(reference + rest, base) for rest in ("", "#part")]
    for _ in range(2):
        urls.canonical(reference, "http://c.test/")
        assert [urls.canonical(reference + rest, base) for rest in ("", "#part")] == new


def test_a_bounded_number_of_absolute_references_is_remembered():
    for number in range(urls.ABSOLUTE_REMEMBERED_MAX + 10):
        urls.canonical(f"http://b.test/{number}", "http://a.test/")
    assert len(urls._absolute) <= urls.ABSOLUTE_REMEMBERED_MAX


def test_few_references_of_few_folders_are_remembered():
    for number in range(2 * urls.FOLDERS_REMEMBERED_MAX):
        base = urls.base_url_of(f"http://h.com/{number}/")
    for number in range(2 * urls.REFERENCES_REMEMBERED_MAX):
        base.join(f"{number}.html")
    base.join("x" * URL_LENGTH_MAX)
    assert len(base.remembered) == urls.REFERENCES_REMEMBERED_MAX
    assert urls._references_of.cache_info().currsize == urls.FOLDERS_REMEMBERED_MAX


@settings(deadline=None)
@given(references, st.sampled_from(BASES))
def test_whatwg_a_reference_is_joined_as_the_url_api_joins_it(reference, base):
    try:
        expected = canonical(URL(reference.encode("utf-8", "replace").decode(), base).href)
    except ValueError:
        expected = None
    assert canonical(reference.encode("utf-8", "replace").decode(), base) == expected


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b.c", "..", ".", "~d", "e;f=1"]), min_size=1, max_size=6),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", "?q=1", "?../x"]),
)
def test_rfc3986_plain_paths_are_joined_as_another_library_joins_them(segments, start, end, query):
    reference = start + "/".join(segments) + end + query
    base = "http://h.com/x/y/z/page"
    assert canonical(reference, base) == canonical(urljoin(base, reference)) == urljoin(base, reference)


@settings(deadline=None)
@given(references, references, st.sampled_from(BASES))
def test_a_base_by_any_of_its_spellings_gives_the_same(base, reference, first):
    absolute = canonical(base, first)
    if absolute is not None:
        same = canonical(reference, absolute)
        assert canonical(reference, absolute + "#fragment") == same
        assert canonical(reference, absolute.replace("http", "HTTP", 1)) == same
        assert canonical(reference, absolute.replace("://", "://u:p@", 1)) == same


@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(urls._UPPER)), max_size=8).map("".join), st.sampled_from(["", "%", "%zz", "x"]))
def test_rfc3986_escapes_are_in_their_normal_form(escapes, stray):
    found = canonical(f"http://h.com/?{escapes}{stray}")
    assert found is not None
    table = urls._NORMAL if "%" not in stray else urls._UPPER
    normal = "".join(table[escapes[at : at + 3]] for at in range(0, len(escapes), 3))
    assert found == f"http://h.com/?{normal}{stray}"


@settings(deadline=None)
@given(st.one_of(references, st.text()), st.sampled_from([None, *BASES]))
def test_canonical_is_idempotent_from_any_base(reference, base):
    found = canonical(reference, base)
    if found is not None:
        assert canonical(found) == found
        assert canonical(found, "https://elsewhere.org/x/") == found
        assert found.isascii() and len(found) <= URL_LENGTH_MAX and "#" not in found


@pytest.mark.parametrize("length", [URL_LENGTH_MAX + 1, INPUT_LENGTH_MAX + 1, 1_000_000])
def test_urls_longer_than_the_limit_are_refused(length):
    assert canonical("http://h.com/".ljust(length, "x")) is None
    assert canonical("/".ljust(length, "x"), "http://h.com/") is None
    assert canonical("/".ljust(length, "é"), "http://h.com/") is None


def test_the_longest_url_is_still_one():
    longest = "http://h.com/".ljust(URL_LENGTH_MAX, "x")
    assert canonical(longest) == canonical(longest + "#fragment") == longest


def test_ids_are_stable_for_ever():
    """They are keys on disk: a change here means a new data version."""
    assert url_id("http://example.com/").hex() == "42663426682770e605cd77c9b152d153"
    assert host_id("http://example.com:80") == -7114374561340560343
    assert host_id("https://example.com:443") == -6206344409315275369


@pytest.mark.parametrize(
    ("url", "key", "name", "target"),
    [
        ("http://example.com/a?b", "http://example.com:80", "example.com", "/a?b"),
        ("https://example.com/", "https://example.com:443", "example.com", "/"),
        ("http://127.0.0.1:8090/x", "http://127.0.0.1:8090", "127.0.0.1", "/x"),
        ("http://[::1]/", "http://[::1]:80", "[::1]", "/"),
        ("https://[::1]:8443/y/z", "https://[::1]:8443", "[::1]", "/y/z"),
    ],
)
def test_a_host_is_scheme_name_and_port(url, key, name, target):
    assert (host_key(url), host_name(url), split(url).target) == (key, name, target)


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://example.com/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("https://example.com:80/", "example.com:80"),
        ("https://[::1]/", "[::1]"),
        ("https://[::1]:8443/", "[::1]:8443"),
    ],
)
def test_an_authority_names_a_port_only_if_it_is_not_that_of_the_scheme(url, authority):
    assert authority_of(url) == authority
    assert ":".join(filter(None, name_and_port(url))) == authority


@settings(deadline=None)
@given(st.text())
def test_host_ids_fit_a_signed_column(key):
    assert -(1 << 63) <= host_id(key.encode("utf-8", "replace").decode()) < 1 << 63


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (UrlIdentity(), "http://h.com/A/%C3%A7B//?Q=X/"),
        (UrlIdentity(fold_case=True), "http://h.com/a/%C3%A7b//?Q=X/"),
        (UrlIdentity(strip_slash=True), "http://h.com/A/%C3%A7B?Q=X/"),
        (UrlIdentity(fold_case=True, strip_slash=True), "http://h.com/a/%C3%A7b?Q=X/"),
    ],
)
def test_a_collection_may_fold_case_and_strip_slashes_of_paths_only(identity, expected):
    found = identity.canonicalize("/A/çB//?Q=X/", "http://h.com/")
    assert found == expected == identity.fold(expected) == identity.canonicalize(expected)
    assert identity.canonicalize("http://h.com/") == "http://h.com/"
    assert identity.canonicalize("mailto:x") is None


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
