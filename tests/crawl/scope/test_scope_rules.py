"""Admission: links are judged by the scope as it is now, remembered or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.config import Collection
from tarrafa.config.sections import ScopeConfig
from tarrafa.crawl.scope import scope_rules as limits
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.model import Link, Listing, ListingEntry, Page, Status, Visit
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.takedown import TakedownSet, TakedownTarget

INSIDE, TRAP, OUTSIDE = "http://a.br/x", "http://a.br/x/x/x/x/x", "http://b.br/x"
SCOPE = ScopeConfig(hosts=("a.br",), exclude=("*/private*",))


def collection(scope: ScopeConfig = SCOPE) -> Collection:
    return Collection(name="c", roots=("http://a.br/",), scope=scope)


def visit(url: str) -> Visit:
    return Visit(1, host_id(host_key(url)), url_id(url), url, depth=1, redirects=0, number=1)


def test_a_takedown_counts_for_a_remembered_link_at_once_and_ends_at_once():
    takedowns = TakedownSet()
    admission = Admission(collection(), lambda: takedowns)
    found = []
    for urls in ((), (INSIDE,), (INSIDE, TRAP), ()):
        takedowns = TakedownSet(TakedownTarget("url", url) for url in urls)
        found.append([offer.status for url in (INSIDE, TRAP) if (offer := admission.admit(url, 1)) is not None])
    down, trap = Status.TAKEN_DOWN, Status.TRAP
    assert found == [[0, trap], [down, trap], [down, down], [0, trap]]


@pytest.mark.parametrize("url", [INSIDE, TRAP, OUTSIDE, "http://a.br/private/x", "http://a.br/x.jpg", "http://a.br/"])
@pytest.mark.parametrize("beyond", [False, True])
def test_a_remembered_link_is_judged_as_the_first_time(url, beyond):
    for scope in (SCOPE, ScopeConfig(hosts=("b.br",)), ScopeConfig(hosts=("a.br",), languages=("pt",))):
        admission = Admission(collection(scope))
        first = admission.admit(url, 3, beyond=beyond)
        assert [admission.admit(url, 3, beyond=beyond) for _ in range(2)] == [first, first]
        assert (first is not None) == (admission.may_fetch(url) if beyond else admission.is_in_scope(url))


def test_the_memory_of_links_is_bounded(monkeypatch):
    monkeypatch.setattr(limits, "URLS_REMEMBERED_MAX", 10)
    admission = Admission(collection())
    for number in range(100):
        assert admission.admit(f"http://a.br/{number}", 1)
        assert len(admission._judged) <= 10


def test_only_deeper_links_of_the_same_host_name_the_text_they_come_from():
    urls = ["http://a.br/d/", "http://a.br/d/e/f", "http://b.br/d/e/f", "https://a.br/d/e/f", "http://a.br:8080/d/e/f"]
    page = Page("http://a.br/d/x", content_id="0123456789abcdef" * 2, links=tuple(map(Link, urls)))
    everywhere = Admission(collection(ScopeConfig(hosts=("*",))))
    offers = {offer.url: offer.parent for offer in everywhere.admit_links(page, visit(page.url))}
    assert {url: bool(parent) for url, parent in offers.items()} == {url: url == urls[1] for url in offers}
    assert offers[urls[1]] == bytes.fromhex("0123456789abcdef")


@pytest.mark.parametrize("kept", [True, False])
def test_a_link_of_a_kept_page_is_marked_as_linked_and_an_entry_of_a_sitemap_is_not(kept):
    page = Page("http://a.br/x", content_id="0" * 32, links=(Link("http://a.br/y"),))
    everywhere = Admission(collection(ScopeConfig(hosts=("*",))))
    (link,) = everywhere.admit_links(page, visit(page.url), kept=kept)
    (entry,) = everywhere.admit_listing(
        Listing(entries=(ListingEntry("http://a.br/z"),)), visit("http://a.br/sitemap.xml")
    )
    assert (link.is_linked, entry.is_linked) == (kept, False)


_PATHS = ("", "x", "d/", "d/e/f", "x/x/x/x/x", "private/x", "x.jpg", "d?a=1")
_URLS = [f"{origin}/{path}" for origin in ("http://a.br", "https://a.br", "http://b.br") for path in _PATHS]


@given(
    links=st.lists(st.builds(Link, st.sampled_from(_URLS), rel=st.sampled_from(("", "nofollow", "next")))),
    taken_down=st.sets(st.sampled_from(_URLS)),
    instead=st.sampled_from(("", *_URLS)),
    scope=st.sampled_from((SCOPE, ScopeConfig(hosts=("*",)), ScopeConfig(hosts=("a.br",), languages=("pt",)))),
    kept=st.booleans(),
)
def test_all_links_of_a_page_are_admitted_as_each_of_them_alone(links, taken_down, instead, scope, kept):
    takedowns = TakedownSet(TakedownTarget("url", url) for url in taken_down)
    admission = Admission(collection(scope), lambda: takedowns)
    page = Page("http://a.br/d/x", content_id="0123456789abcdef" * 2, links=tuple(links))
    here, expected = visit(page.url), []
    for link in links:
        is_deeper = link.url.startswith("http://a.br/") and link.url.count("/") > page.url.count("/")
        above = bytes.fromhex(page.content_id[:16]) if is_deeper else b""
        offer = admission.admit(link.url, here.depth + 1, beyond=kept, parent=above, is_linked=kept)
        if link.is_followed and link.url != instead and offer is not None:
            expected.append(offer)
    assert admission.admit_links(page, here, instead, kept=kept) == expected
