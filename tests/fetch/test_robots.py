"""robots.txt: who may fetch what. Cases of RFC 9309 and of Google's parser, and our own bounds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.fetch import robots
from tarrafa.fetch.robots import HINT_LENGTH_MAX, HINTS_MAX, LINE_BYTES_MAX, ROBOTS_BYTES_MAX, SITEMAPS_MAX, parse
from tarrafa.model import Status
from tests.conformance_data import cases, requires_data

CASES = "robots_cases.json"
AGENT = "Tarrafa/0.1 (+http://example.org/bot)"


def allows(text: str | bytes, path: str, agent: str = AGENT) -> bool:
    return parse(text.encode() if isinstance(text, str) else text).allows(agent, f"http://h.test{path}")


@requires_data(CASES)
@pytest.mark.parametrize(
    ("suite", "at_least", "of"), [("google-rfc", 68, 68), ("google-only", 73, 73), ("rfc9309", 42, 42)]
)
def test_rfc9309_the_public_cases_pass(suite, at_least, of):
    ours = [case for case in cases(CASES) if case["suite"] == suite]
    wrong = [
        case["test"]
        for case in ours
        if parse(bytes.fromhex(case["robots_hex"])).allows(case["ua"], case["url"]) is not case["expect"]
    ]
    assert len(ours) == of
    assert of - len(wrong) >= at_least, wrong


@pytest.mark.parametrize(
    ("path", "allowed"), [("/path/file", False), ("/paths/file", False), ("/pathscanbelong", False),
    ("/pathtest", True), ("/path", True)]
)  # fmt: skip
def test_rfc9309_a_rule_is_a_prefix(path, allowed):
    assert allows("User-agent: *\nDisallow: /paths\nDisallow: /path/\n", path) is allowed


@pytest.mark.parametrize(
    ("agent", "allowed"),
    [
        ("tarrafa", False), ("Tarrafa/0.1", False), ("TARRAFA/2 (+http://x)", False), ("tarrafa-images", True),
        ("tarrafa images", True),
        ("mytarrafa", True), ("Mozilla/5.0 (compatible; tarrafa)", True), ("", True),
    ],
)  # fmt: skip
def test_rfc9309_a_group_is_for_the_product_that_it_names(agent, allowed):
    assert allows("User-agent: Tarrafa/9 is not welcome\nDisallow: /\n", "/", agent) is allowed


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a*", "/abc", True), ("/a*c", "/abc", True), ("/a*c", "/ab", False), ("*c", "/abc", True),
        ("/*b*d", "/abcd", True),
        ("/*d*b", "/abcd", False), ("/a$", "/a", True), ("/a$", "/ab", False), ("/a*$", "/ab", True),
        ("/*.gif$", "/x.gif", True),
        ("/*.gif$", "/x.gif?y", False), ("/*.gif$", "/x.gif.gif", True), ("/a*a$", "/a", False),
        ("/a**b", "/axb", True), ("*", "/", True),
        ("/$", "/", True), ("/a$b", "/a$b", True), ("/a$b", "/a", False), ("/%61", "/a", True),
        ("/a%2fb", "/a%2Fb", True),
        ("/a%2Fb", "/a/b", False), ("/ç", "/%c3%a7", True), ("/%C3%A7", "/ç", True), ("/a b", "/a%20b", True),
        ("/a'b", "/a%27b", True),
        ("/a%2A", "/a*", True), ("/a%2A", "/ab", False), ("/a%24", "/a$", True), ("/?q=", "/?q=1", True),
        ("a", "/a", False),
    ],
)  # fmt: skip
def test_rfc9309_patterns_match_octets(pattern, path, matches):
    assert allows(f"User-agent: *\nDisallow: {pattern}\n", path) is not matches


@pytest.mark.parametrize(
    ("rules", "path", "line"),
    [
        ("Disallow: /\nAllow: /a", "/ab", "line 3: Allow: /a"),
        ("Disallow: /a*c\nAllow: /ab", "/abc", "line 2: Disallow: /a*c"),
        ("Disallow: /a*\nAllow: /ab", "/abc", "line 3: Allow: /ab"),
        ("Allow: /a\nDisallow: /a", "/a", "line 2: Allow: /a"),
        ("Disallow: /a  # why", "/a", "line 2: Disallow: /a"),
        ("Disallow: /a", "/b", None),
        ("Disallow: /", "/robots.txt", None),
        ("Disallow: /", "/robots.txt?x", None),
        ("Disallow: /", "/robots.txt.bak", "line 2: Disallow: /"),
    ],
)
def test_rfc9309_the_longest_match_decides_and_can_be_named(rules, path, line):
    file = parse(f"User-agent: *\n{rules}\n".encode())
    assert file.deciding_line(AGENT, f"http://h.test{path}") == line
    assert file.allows(AGENT, f"http://h.test{path}") is (line is None or "Allow" in line)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User-agent: *\nCrawl-delay: 10", 10.0),
        ("User-agent: *\nCrawl-delay: 0.5 seconds", 0.5),
        ("User-agent: tarrafa\nCrawl-delay: 3\nUser-agent: *\nDisallow: /x\nCrawl-delay: 9", 3.0),
        ("User-agent: *\nCrawl-delay: 3\n\nUser-agent: tarrafa\nDisallow:", None),
        ("User-agent: *\nUser-agent: tarrafa\nDisallow: /x\nCrawl-delay: 3", 3.0),
        ("User-agent: *\nDisallow:\nCrawl-delay: 3\n\nUser-agent: tarrafa\nDisallow:", None),
        ("User-agent: tarrafa\nCrawl-delay: 3\nDisallow:\nUser-agent: tarrafa\nCrawl-delay: 7", 7.0),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: soon", None),
        ("User-agent: *\nCrawl-delay: nan", None),
        ("User-agent: *\nCrawl-delay: " + "9" * 400, None),
        ("Crawl-delay: 5", None),
    ],
)
def test_crawl_delay_is_the_longest_that_is_asked_of_us(text, expected):
    assert parse(text.encode()).crawl_delay(AGENT) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User-agent: *\nRequest-rate: 1/10s", 10.0),
        ("User-agent: *\nRequest-rate: 1/10", 10.0),
        ("User-agent: *\nRequest-rate: 30/1m", 2.0),
        ("User-agent: *\nRequest-rate: 1 / 2 H", 7200.0),
        ("User-agent: *\nRequest-rate: 1/5s 0000-0600\nRequest-rate: 1/10m 1300-1600", 600.0),
        ("User-agent: *\nRequest-rate: 1/10s\nCrawl-delay: 3", 3.0),
        ("User-agent: *\nRequest-rate: 1/10s\nUser-agent: tarrafa\nDisallow: /x", None),
        ("User-agent: *\nRequest-rate: 0/10s", None),
        ("User-agent: *\nRequest-rate: often", None),
        ("User-agent: *\nRequest-rate: 1/" + "9" * 400, 999_999.0),
        ("Request-rate: 1/10s", None),
    ],
)
def test_lenient_a_request_rate_is_a_delay_where_there_is_no_other(text, expected):
    assert parse(text.encode()).crawl_delay(AGENT) == expected


def test_hints_are_given_to_whom_they_are_for():
    text = (
        b"Host: www.h.test\nUser-agent: tarrafa\nRequest-rate: 1/10m 1300-1600\nVisit-time: 0600-0845\nDisallow: /x\n"
        b"User-agent: other\nvisit-time: 2200-2300\nDisallow:\nClean-param: ref /some/*  # a comment\nHost:\n"
    )
    everybody = ("Host: www.h.test", "Clean-param: ref /some/*")
    assert parse(text).hints(AGENT) == ("Request-rate: 1/10m 1300-1600", "Visit-time: 0600-0845", *everybody)
    assert parse(text).hints("other") == ("Visit-time: 2200-2300", *everybody)
    assert parse(text).hints("third") == everybody


def test_hints_are_few_and_short():
    hints = parse(b"User-agent: *\n" + b"".join(b"Visit-time: %d\n" % n for n in range(500)) + b"Host: a" * 90).hints(
        AGENT
    )
    assert len(hints) == HINTS_MAX
    assert max(len(hint) for hint in parse(b"Host: " + b"a" * 9_000).hints(AGENT)) < 2 * HINT_LENGTH_MAX


def test_hints_end_no_group_of_rules():
    assert not allows("User-agent: tarrafa\nVisit-time: 0600-0845\nUser-agent: other\nDisallow: /\n", "/x")


def test_rfc9309_other_records_do_not_end_a_group():
    assert not allows("User-agent: tarrafa\nCrawl-delay: 5\nUser-agent: other\nDisallow: /\n", "/x")


def test_sitemaps_belong_to_no_group():
    text = b"Sitemap: http://h.test/a.xml\nUser-agent: x\nSITEMAP: /b.xml\nDisallow: /\nSitemap:\n"
    assert parse(text).sitemaps == ("http://h.test/a.xml", "/b.xml")
    assert len(parse(b"Sitemap: http://h.test/a.xml\n" * 5_000).sitemaps) == SITEMAPS_MAX


@pytest.mark.parametrize(
    "text",
    [
        "user agent: *\ndissallow: /x", "useragent *\ndisalow /x", "User-agent:*\nDisallow:/x",
        "\ufeffUser-agent: *\nDisallow: /x",
        "User-agent: * hello\nDisallow: /x", "User-agent: *\r\rDisallow: /x", "User-agent: *\n\n\nDisallow: /x",
    ],
)  # fmt: skip
def test_lenient_what_webmasters_mean_is_obeyed(text):
    assert not allows(text, "/x") and allows(text, "/y")


def test_what_is_behind_500_kib_is_not_read():
    padding = b"#" * (ROBOTS_BYTES_MAX - 30) + b"\n"
    assert allows(padding + b"User-agent: *\n" + b"\n" * 30 + b"Disallow: /x\n", "/x")
    assert not allows(b"User-agent: *\nDisallow: /x\n" + padding * 3, "/x")


def test_a_line_is_read_up_to_its_limit():
    assert not allows(
        "User-agent: *\nDisallow: /x/".ljust(3 * LINE_BYTES_MAX, "a"), "/x/".ljust(2 * LINE_BYTES_MAX, "a")
    )


@pytest.mark.parametrize(
    "pattern", ["*a" * 5_000, "/" + "a*" * 5_000 + "b$", "/" + "*" * 10_000 + "b", "/*a*a*a*a*a*a*a*a*a*a*a*a$"]
)
def test_patterns_of_many_stars_do_not_blow_up(pattern):
    """Backtracking would not end in our lifetime."""
    assert allows(f"User-agent: *\nDisallow: {pattern}\n", "/" + "a" * 2_000 + "c")


def test_thousands_of_rules_decide_as_a_few_do():
    rules = "".join(f"Disallow: /d{number}/\nAllow: /d{number}/open\n" for number in range(5_000))
    file = parse(f"User-agent: *\n{rules}".encode())
    assert file.deciding_line(AGENT, "http://h.test/d77/x") == "line 156: Disallow: /d77/"
    assert file.deciding_line(AGENT, "http://h.test/d77/open/x") == "line 157: Allow: /d77/open"
    assert file.deciding_line(AGENT, "http://h.test/d5000/") is None


paths = st.text("/ab", max_size=5).map("/".__add__)
rule_lists = st.lists(st.tuples(st.booleans(), st.text("/ab*$", min_size=1, max_size=6)), max_size=8)


@settings(deadline=None)
@given(rule_lists, paths)
def test_the_compiled_matcher_decides_as_the_definition_does(rules, path):
    text = "User-agent: *\n" + "".join(f"{'Allow' if allow else 'Disallow'}: {pattern}\n" for allow, pattern in rules)
    matching = [(len(normal(pattern)), allow) for allow, pattern in rules if slow_match(pattern, path)]
    assert allows(text, path) is (not matching or max(matching)[1])


def normal(pattern: str) -> str:
    return pattern[:-1].replace("$", "%24") + pattern[-1]


def slow_match(pattern: str, path: str) -> bool:
    """Google's own way: the set of positions reached after each character of the pattern."""
    anchored = pattern.endswith("$")
    reached = {0}
    for character in pattern.removesuffix("$"):
        if character == "*":
            reached = set(range(min(reached), len(path) + 1)) if reached else reached
        else:
            reached = {place + 1 for place in reached if path[place : place + 1] == character}
    return bool(reached) and (not anchored or len(path) in reached)


@settings(deadline=None)
@given(st.binary(max_size=400), st.text(), st.text())
def test_any_bytes_give_rules_and_any_url_a_verdict(text, agent, url):
    file = parse(b"User-agent: *\nDisallow: /" + text)
    assert file.allows(agent, url) in (True, False)
    assert (file.crawl_delay(agent) or 0) >= 0
    assert isinstance(robots.parse(text).sitemaps, tuple)
    assert len(robots.parse(text).hints(agent)) <= HINTS_MAX


@pytest.mark.parametrize(
    ("text", "forbids"),
    [("", False), ("User-agent: *\nDisallow:\n", False), ("User-agent: *\nAllow: /\n", False),
     ("User-agent: *\nDisallow: /x\n", True), ("User-agent: other\nDisallow: /\n", False),
     ("User-agent: tarrafa\nAllow: /\n\nUser-agent: *\nDisallow: /\n", False)],
)  # fmt: skip
def test_whether_anything_at_all_is_forbidden_to_us(text, forbids):
    assert parse(text.encode()).disallows_anything(AGENT) is forbids


@pytest.mark.parametrize(
    ("status", "forbidden"),
    [
        (200, False), (404, False), (403, False), (401, False), (429, True), (500, True), (503, True),
        (Status.TOO_LARGE, False), (Status.TOO_SLOW, True), (Status.SYSTEM_ERROR, True),
    ],
)  # fmt: skip
def test_rfc9309_a_file_that_cannot_be_read_forbids_everything_for_now(status, forbidden):
    assert robots.forbids_everything_for_now(status) == forbidden


# -- usage preferences -------------------------------------------------------------------------------------------------


def said(text: str, path: str, agent: str = "tarrafa") -> list[str]:
    return [one.text for one in parse(text.encode()).usage(agent, f"http://h.test{path}")]


# The example of draft-ietf-aipref-attach.
AIPREF = """User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
"""


@pytest.mark.parametrize(
    ("agent", "path", "expected"),
    [
        ("tarrafa", "/test", ["Content-Usage: train-ai=n"]),
        ("tarrafa", "/ai-ok/test", ["Content-Usage: /ai-ok/ train-ai=y"]),
        ("ExampleBot", "/test", ["Content-Usage: train-ai=y"]),
    ],
)
def test_aipref_attach_the_rule_with_the_longest_path_of_our_group_counts(agent, path, expected):
    assert said(AIPREF, path, agent) == expected


def test_aipref_attach_rules_with_the_same_path_all_count():
    text = "User-agent: *\nContent-Usage: /a train-ai=y\nContent-Usage:/a\ttrain-ai=n, search=y # both\n"
    assert said(text, "/ab") == ["Content-Usage: /a train-ai=y", "Content-Usage: /a train-ai=n, search=y"]
    assert said(text, "/b") == []


def test_aipref_attach_paths_have_the_wildcards_of_other_rules():
    text = "User-agent: *\nContent-Usage: /*.pdf$ train-ai=n\nContent-Usage: /caf%C3%A9 search=n"
    assert said(text, "/a/b.pdf") == ["Content-Usage: /*.pdf$ train-ai=n"]
    assert said(text, "/a/b.pdf?x") == []
    assert said(text, "/café/1") == ["Content-Usage: /caf%C3%A9 search=n"]


def test_contentsignals_org_a_signal_belongs_to_its_group_and_other_rules_stay_as_they_are():
    text = "User-agent: *\nContent-Signal: search=yes, ai-train=no\nAllow: /\n\nUser-agent: bad\nDisallow: /\n"
    assert said(text, "/") == ["Content-Signal: search=yes, ai-train=no"]
    assert said(text, "/", "bad") == []
    assert not parse(text.encode()).allows("bad", "http://h.test/")
    stacked = "User-agent: a\nUser-agent: b\nContent-Signal: ai-train=no\nUser-agent: c\nDisallow: /x\n"
    assert [said(stacked, "/", agent) for agent in "abc"] == [["Content-Signal: ai-train=no"]] * 2 + [[]]


def test_lenient_a_statement_before_the_first_group_is_for_all_robots():
    text = "Content-Signal: ai-train=no\n\nUser-agent: tarrafa\nAllow: /\n"
    assert said(text, "/") == said(text, "/", "other") == ["Content-Signal: ai-train=no"]


def test_rsl_a_licence_is_for_all_robots_wherever_it_stands():
    text = "User-agent: other\nLicense: https://h.test/license.xml\nDisallow: /\n"
    assert said(text, "/") == ["License: https://h.test/license.xml"]
    assert said("License: a\n" * 9, "/") == ["License: a"]


def test_a_file_without_preferences_has_none_and_a_hostile_one_few():
    assert said("User-agent: *\nDisallow: /x\n", "/") == []
    many = "User-agent: *\n" + "".join(f"Content-Usage: /{'*' * 50}{number} train-ai=n\n" for number in range(9_000))
    assert len(said(many, "/" + "1" * 2_000)) <= robots.USAGE_LINES_MAX
