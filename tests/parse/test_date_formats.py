"""Dates: when sitemaps and feeds say that something changed."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.parse.date_formats import DATE_LENGTH_MAX, parse_date

NEW_YEAR_2005 = 1_104_537_600.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2005", NEW_YEAR_2005),
        ("2005-01", NEW_YEAR_2005),
        ("2005-01-01", NEW_YEAR_2005),
        ("2004-12-23T18:00:15+00:00", 1_103_824_815.0),  # the protocol's own examples
        ("2005-01-01T00:00Z", NEW_YEAR_2005),
        ("2005-01-01T00:00:00Z", NEW_YEAR_2005),
        ("2005-01-01T00:00:00.25Z", NEW_YEAR_2005 + 0.25),
        ("1997-07-16T19:20+01:00", 869_077_200.0),  # W3C's
        ("1997-07-16T19:20:30.45+01:00", 869_077_230.45),
        ("2004-12-31T21:00:00-03:00", NEW_YEAR_2005),
        ("2004-12-31T24:00:00Z", NEW_YEAR_2005),
        ("2004-12-31T23:59:60Z", NEW_YEAR_2005),
        ("9999-12-31", 253_402_214_400.0),
    ],
)
def test_w3c_datetime_in_all_its_forms(text, expected):
    assert parse_date(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        " 2005-01-01\n", "2005-1-1", "2005-01-01T00:00:00", "2005-01-01 00:00:00", "2005-01-01T00:00:00+0000",
        "2005-01-01t00:00:00z", "2005-01-01 00:00:00 UTC", "2005-01-01T05:30:00+05:30", "2004-12-31T21:00-03",
    ],
)  # fmt: skip
def test_lenient_w3c_datetime_as_the_web_writes_it(text):
    assert parse_date(text) == NEW_YEAR_2005


@pytest.mark.parametrize(
    "text",
    [
        "Sat, 01 Jan 2005 00:00:00 GMT", "Sat, 01 Jan 2005 00:00:00 +0000", "01 Jan 2005 00:00 UT",
        "1 Jan 05 00:00:00 Z",
        "Fri, 31 Dec 2004 19:00:00 EST", "Fri, 31 Dec 2004 16:00:00 PST", "Fri, 31 Dec 2004 21:00:00 -0300",
        "sat, 1 january 2005 00:00:00 gmt", "Saturday, 01-Jan-05 00:00:00 GMT", "Sat,01 Jan 2005 00:00:00 GMT",
        "Sat, 01 Jan 2005 02:00:00 +02:00", "Sat, 01 Jan 2005", "Sat, 01 Jan 2005 00:00:00 BRT (who knows)",
    ],
)  # fmt: skip
def test_rfc822_dates_of_feeds(text):
    assert parse_date(text) == NEW_YEAR_2005


def test_rfc822_two_digits_from_50_are_of_the_last_century():
    assert parse_date("1 Jan 99 00:00 GMT") == 915_148_800.0


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2005-13-01", "2005-02-30", "2005-00-10", "2005-01-01T25:00Z", "2005-01-01T00:60Z", "20", "99999",
        "2005-01-01T00:00:61Z", "2005-01-01T00:00+99:00", "0000-00-00", "0000-01-01", "01/02/2005", "2005-01-01T",
        "2005-01-01junk", "32 Jan 2005 00:00 GMT", "1 Foo 2005 00:00 GMT", "٢٠٠٥-٠١-٠١", "-2005-01-01", "1104537600",
        "2005-01-01" + " " * DATE_LENGTH_MAX + "T00:00Z", "{{ lastmod }}", "\0", "\ud800",
    ],
)  # fmt: skip
def test_nonsense_is_no_date(text):
    assert parse_date(text) == 0.0


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00", "1969-12-31", "1900-01-01", "Mon, 01 Jan 0001 00:00:00 GMT"])
def test_the_zero_of_a_program_is_no_date(text):
    assert parse_date(text) == 0.0


@settings(deadline=None)
@given(st.one_of(st.text(), st.text("0123456789-+:.TZ JanFeb,", max_size=40)))
def test_any_text_gives_a_moment(text):
    assert 0.0 <= parse_date(text) < 3e11


@settings(deadline=None)
@given(st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1)), st.integers(-1_439, 1_439))
def test_rfc3339_every_moment_survives_being_written(when, offset_minutes):
    told = when.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    assert parse_date(told.isoformat()) == pytest.approx(told.timestamp(), abs=0.001)
