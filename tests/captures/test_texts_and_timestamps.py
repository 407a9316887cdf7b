"""Timestamps, comparisons of texts, Markdown, and the heads of records: pure functions, case by case."""

import pytest

from tarrafa.captures.capture_access import CaptureText
from tarrafa.captures.cdx_params import key_range, parse_cdx_query
from tarrafa.captures.reader import Capture
from tarrafa.captures.record_heads import _status_and_mime
from tarrafa.captures.text_diff import LINES_MAX, compare_texts, to_markdown, with_context
from tarrafa.captures.timestamps import (
    earliest,
    from_http_date,
    from_typed_date,
    http_date,
    is_timestamp,
    iso_date,
    latest,
    seconds,
    timestamp_of,
)

CAPTURE = Capture("test,a)/", "20261118203000", "http://a.test/", "text/html", "200", "sha1:A", 1, 0, "f", None)


@pytest.mark.parametrize(
    ("typed", "first", "last", "moment"),
    [
        ("2026", "20260101000000", "20261231235959", "20261231235959"),
        ("202602", "20260201000000", "20260231235959", "20260228235959"),
        ("20261118", "20261118000000", "20261118235959", "20261118235959"),
        ("20261118203000", "20261118203000", "20261118203000", "20261118203000"),
        ("20261399", "20261399000000", "20261399235959", "20261231235959"),
    ],
)
def test_a_short_timestamp_is_a_period(typed, first, last, moment):
    assert (earliest(typed), latest(typed)) == (first, last)
    assert timestamp_of(seconds(typed)) == moment


def test_timestamps_are_written_as_each_standard_has_them():
    assert http_date("20261118203000") == "Wed, 18 Nov 2026 20:30:00 GMT"
    assert from_http_date("Wed, 18 Nov 2026 20:30:00 GMT") == "20261118203000"
    assert from_http_date("Wed, 18 Nov 2026 20:30:00 -0300") == "20261118233000"
    assert from_http_date("soon") is None
    assert iso_date("20261118203000") == "2026-11-18T20:30:00Z"
    assert [is_timestamp(text) for text in ("2", "20261118203000", "202611182030001", "", "2026-1", "٢٠٢٦")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("2026", "2026"), ("2026-11", "202611"), ("2026-11-18", "20261118"), ("2026-11-18T20:30:00Z", "20261118203000"),
        ("20261118203000", "20261118203000"), ("yesterday", None), ("20", None), ("2026-1", None), ("", None),
    ],
)  # fmt: skip
def test_dates_are_read_as_people_type_them(typed, found):
    assert from_typed_date(typed) == found


def test_a_comparison_says_what_came_and_went():
    found = compare_texts(["a", "b", "c", "d"], ["a", "x", "c", "d", "e"])
    assert [f"{line.kind}{line.text}" for line in found.lines] == [" a", "-b", "+x", " c", " d", "+e"]
    assert (found.removed, found.added, found.is_empty, found.is_cut) == (1, 2, False, False)
    assert compare_texts(["a"], ["a"]).is_empty


def test_a_comparison_shows_only_what_is_near_a_change():
    old = [str(number) for number in range(40)]
    new = [*old[:10], "x", *old[11:30], "y", *old[31:]]
    shown = [
        "…" if line is None else f"{line.kind}{line.text}" for line in with_context(compare_texts(old, new).lines, 1)
    ]
    assert shown == [" 9", "-10", "+x", " 11", "…", " 29", "-30", "+y", " 31"]


def test_a_comparison_of_long_texts_is_cut_and_says_so():
    lines = [f"line {number % 7}" for number in range(LINES_MAX + 10)]
    assert compare_texts(lines, lines[::-1]).is_cut


def test_markdown_has_headings_and_no_markup_of_the_page():
    text = "A title\nNews\n# no heading\n1. no list\n*a* [b](c) <d>\n\n"
    found = to_markdown(CaptureText(CAPTURE, text, "A title", headings=frozenset({"News"})))
    assert found == "# A title\n\n## News\n\n\\# no heading\n\n1\\. no list\n\n\\*a\\* \\[b\\](c) \\<d\\>\n"


@pytest.mark.parametrize(
    ("header", "status", "mime"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8", "200", "text/html"),
        (b"HTTP/1.1 404\r\ncontent-type : text/plain more", "404", "text/plain"),
        (b"HTTP/1.1 200 OK\r\nX-Content-Type: a/b\r\nServer: x", "200", None),
        (b"HTTP/1.1 200 OK\r\nContent-Type:\r\n application/pdf\r\nContent-Type: a/b", "200", "application/pdf"),
        (b"HTTP/1.1 200 OK\nContent-Type: text/css", "200", "text/css"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: \xe9/x", "200", "é/x"),
        (b"", "", None),
    ],
)
def test_status_and_type_are_read_from_the_header(header, status, mime):
    assert _status_and_mime(header) == (status, mime)


@pytest.mark.parametrize(
    ("url", "match", "inside", "outside"),
    [
        ("http://a.br/x", "exact", ["br,a)/x"], ["br,a)/x/y", "br,a)/", "br,a)/x?y"]),
        ("http://a.br/x", "prefix", ["br,a)/x", "br,a)/xy", "br,a)/x?y"], ["br,a)/w", "br,a)/y"]),
        ("http://a.br/x/", "prefix", ["br,a)/x/y"], ["br,a)/x", "br,a)/xy"]),
        ("http://a.br/", "host", ["br,a)/", "br,a)/x"], ["br,a,b)/", "br,a:81)/", "br,ab)/"]),
        ("http://a.br/x", "domain", ["br,a)/", "br,a)/y", "br,a,b)/x"], ["br,ab)/", "br,b)/"]),
        ("http://br/", "domain", ["br,a)/", "br,a,b)/"], ["com,a)/", "bra,a)/"]),
    ],
)
def test_a_match_type_is_a_range_of_keys(url, match, inside, outside):
    keys = key_range(url, match)
    assert all(keys.first <= key < keys.last for key in inside)
    assert not any(keys.first <= key < keys.last for key in outside)


def test_stars_of_a_url_are_match_types():
    assert parse_cdx_query([("url", "*.a.br")]).match == "domain"
    assert parse_cdx_query([("url", "a.br/x*")]).match == "prefix"
    assert parse_cdx_query([("url", "a.br/x*"), ("matchType", "exact")]).match == "exact"
