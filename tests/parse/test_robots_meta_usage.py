"""Meta robots and X-Robots-Tag; and what publishers say about the use of their pages, by the drafts and as met."""

import time

import pytest

from tarrafa.model import Page, RobotsMeta, UsageStatement
from tarrafa.parse import robots_meta_usage
from tarrafa.parse.page import parse
from tarrafa.parse.robots_meta_usage import (
    TEXT_LENGTH_MAX,
    combine_robots,
    from_signal,
    from_tdm,
    reserved_uses,
    robots_from_header,
    robots_from_meta,
    usage_from_directives,
    usage_from_header,
)

NOTHING = RobotsMeta()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("robots", "noindex", RobotsMeta(noindex=True)),
        ("ROBOTS", "NoIndex,NOFOLLOW", RobotsMeta(noindex=True, nofollow=True)),
        (" robots ", "none", RobotsMeta(noindex=True, nofollow=True)),
        ("robots", "noarchive; nocache", RobotsMeta(noarchive=True)),
        ("robots", "index, follow, max-snippet:-1", NOTHING),
        ("robots", "", NOTHING),
        ("tarrafa", "noindex", RobotsMeta(noindex=True)),
        ("googlebot", "noindex", NOTHING),
        ("description", "noindex", NOTHING),
    ],
)
def test_a_meta_element_speaks_to_all_robots_or_to_one(name, content, expected):
    assert combine_robots([robots_from_meta(name, content)]) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", NOTHING),
        ("noindex, nofollow", RobotsMeta(noindex=True, nofollow=True)),
        ("NOINDEX", RobotsMeta(noindex=True)),
        ("none", RobotsMeta(noindex=True, nofollow=True)),
        ("googlebot: noindex", NOTHING),
        ("googlebot: noindex, nofollow", NOTHING),
        ("Tarrafa: noindex, nofollow", RobotsMeta(noindex=True, nofollow=True)),
        ("googlebot: noindex, tarrafa: noarchive", RobotsMeta(noarchive=True)),
        ("googlebot: noindex\nnofollow", RobotsMeta(nofollow=True)),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST, noindex", RobotsMeta(noindex=True)),
        ("max-snippet: 20, noarchive", RobotsMeta(noarchive=True)),
        ("otherbot: none\n*: noarchive", RobotsMeta(noarchive=True)),
    ],
)
def test_a_header_speaks_to_all_robots_or_to_the_one_it_names(header, expected):
    assert combine_robots([robots_from_header(header)]) == expected


def test_the_strictest_of_several_voices_wins():
    assert combine_robots([robots_from_meta("robots", "index"), robots_from_header("nofollow")]) == RobotsMeta(
        nofollow=True
    )


def test_a_robot_of_another_name_answers_to_that_name():
    assert robots_from_meta("outrobot", "noindex", agent="OutroBot") == {"noindex"}
    assert robots_from_header("tarrafa: noindex", agent="OutroBot") == frozenset()


@pytest.mark.parametrize(
    ("value", "reserved", "granted"),
    [
        ("search=yes, ai-input=no, ai-train=no", ("ai-input", "ai-train"), ("search",)),
        ("ai-train=no, search=yes, ai-input=yes", ("ai-train",), ("search", "ai-input")),
        ("search=yes,ai-train=no,use=reference", ("ai-train",), ("search",)),
        (" Search = NO ", ("search",), ()),
        ("search=maybe, ai-train=no", ("ai-train",), ()),
    ],
)
def test_contentsignals_org_yes_and_no_for_three_uses(value, reserved, granted):
    said = from_signal("robots.txt", "Content-Signal", value)
    assert said is not None
    assert (said.reserved, said.granted) == (reserved, granted)


@pytest.mark.parametrize(
    ("value", "reserved", "granted"),
    [
        ("train-ai=n", ("ai-train",), ()),
        ("train-ai=y, search=n", ("search",), ("ai-train",)),
        ("ai-use=n", ("ai-input",), ()),
        ('train-ai=n;exceptions="a, search=n"', ("ai-train",), ()),
        ("train-ai=n, train-ai=y", (), ("ai-train",)),
        ("unheard-of=n, train-ai=n", ("ai-train",), ()),
    ],
)
def test_aipref_vocab_names_are_put_into_the_same_uses(value, reserved, granted):
    said = from_signal("header", "Content-Usage", value)
    assert said is not None
    assert (said.reserved, said.granted) == (reserved, granted)


@pytest.mark.parametrize(
    "value", ["", "train-ai", "train-ai=?0", "n", "yes", "search", "=n", "unheard-of=n", "\x00\xff"]
)
def test_a_statement_that_says_nothing_of_a_known_use_is_none(value):
    assert from_signal("header", "Content-Usage", value) is None


def test_noai_reserves_both_uses_of_models_and_noimageai_those_of_images_only():
    assert usage_from_directives("page", {"noai", "noimageai"}) == [
        UsageStatement("page", "noai", ("ai-input", "ai-train")),
        UsageStatement("page", "noimageai"),
    ]
    assert usage_from_directives("page", {"noindex"}) == []


@pytest.mark.parametrize(
    ("name", "value", "text", "reserved"),
    [
        ("tdm-reservation", "1", "tdm-reservation: 1", ("ai-input", "ai-train")),
        ("tdm-reservation", " 1 ", "tdm-reservation: 1", ("ai-input", "ai-train")),
        ("tdm-reservation", "0", "tdm-reservation: 0", ()),
        ("tdm-policy", "https://h.test/policy.json", "tdm-policy: https://h.test/policy.json", ()),
    ],
)
def test_tdmrep_a_reservation_of_text_and_data_mining_is_not_one_of_search(name, value, text, reserved):
    said = from_tdm("header", name, value)
    assert said is not None
    assert (said.text, said.reserved) == (text, reserved)
    assert from_tdm("header", name, "") is None
    assert from_tdm("page", "tdm-other", "1") is None


def test_rsl_a_link_to_a_licence_is_recorded_and_other_links_are_not():
    value = (
        '</style.css>; rel=preload, <https://h.test/license.xml>; rel="license"; type="application/rsl+xml", '
        '</cc>; rel=license; type="text/html", </l2>; type=application/rsl+xml; rel=license'
    )
    said = usage_from_header([("link", value)])
    assert [one.text for one in said] == ["License: https://h.test/license.xml", "License: /l2"]


def test_all_header_fields_are_read_in_their_order():
    fields = [
        ("content-signal", "ai-train=no"),
        ("content-usage", "search=y"),
        ("tdm-reservation", "1"),
        ("server", "x"),
    ]
    said = usage_from_header(fields, {"noai"})
    assert [one.text for one in said] == [
        "Content-Signal: ai-train=no",
        "Content-Usage: search=y",
        "tdm-reservation: 1",
        "noai",
    ]
    assert {one.source for one in said} == {"header"}


def test_a_page_states_its_preferences_in_meta_and_link_elements():
    markup = (
        '<meta name="robots" content="noai, noimageai"><meta name="tdm-reservation" content="1">'
        '<meta name="TDM-Policy" content="/policy"><link rel="license" type="application/rsl+xml" href="/l.xml"><p>x'
    )
    page = parse(markup.encode(), "http://h.test/", "text/html")
    assert [one.text for one in page.usage] == [
        "noai", "noimageai", "tdm-reservation: 1", "tdm-policy: /policy", "License: /l.xml",
    ]  # fmt: skip
    assert {one.source for one in page.usage} == {"page"}
    assert parse(b"<meta name=googlebot content=noai><p>x", "http://h.test/", "text/html").usage == ()


def test_aipref_vocab_the_most_restrictive_statement_counts():
    grants = UsageStatement("header", "Content-Usage: train-ai=y", (), ("ai-train",))
    reserves = UsageStatement("robots.txt", "Content-Usage: train-ai=n", ("ai-train",))
    assert reserved_uses(Page("", usage=(grants, reserves))) == {"ai-train"}
    assert reserved_uses(Page("", usage=(grants,))) == set()


def test_noindex_reserves_search():
    assert reserved_uses(Page("", robots=RobotsMeta(noindex=True))) == {"search"}


@pytest.mark.parametrize(
    "value",
    ["," * 500_000, "a=" * 500_000, '"' * 500_001, '"\\' * 300_000, "<" * 500_000, "<a>;" * 200_000,
     "<a>; rel=" + "x" * 500_000 + "application/rsl+xml", "search=no," * 100_000],
)  # fmt: skip
def test_hostile_values_cost_little_and_give_little(value):
    began = time.process_time()
    names = ("content-signal", "content-usage", "tdm-reservation", "tdm-policy", "link")
    said = usage_from_header([(name, value + "application/rsl+xml") for name in names] * 20)
    assert len(said) <= robots_meta_usage.STATEMENTS_MAX
    assert all(len(one.text) <= TEXT_LENGTH_MAX for one in said)
    assert time.process_time() - began < 0.5
