"""Which versions stay, by the rule of a collection."""

import pytest

from tarrafa.crawl.compaction.retention_rule import VersionSighting, kept_versions

# Version A is seen in January and again in March, B between them, C is an error in April.
SEEN = [
    VersionSighting(20260105000000, "A", True),
    VersionSighting(20260120000000, "B", True),
    VersionSighting(20260301000000, "A", True),
    VersionSighting(20260315235959, "D", True),
    VersionSighting(20260401120000, "C", False),
]


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("all", "ABCD"),
        ("last 1", "CD"),  # D is what the index has
        ("last 2", "CD"),
        ("last 3", "ACD"),
        ("last 9", "ABCD"),
        ("one per year", "CD"),
        ("one per month", "BCD"),
        ("one per week", "ABCD"),
        ("one per day", "ABCD"),
    ],
)
def test_a_rule_keeps_versions_by_when_they_were_last_seen(rule, kept):
    assert kept_versions(rule, SEEN) == set(kept)


def test_a_version_that_was_there_at_the_end_of_a_month_stays_although_it_is_older():
    seen = [VersionSighting(20260101000000, "A", True), VersionSighting(20260131000000, "A", True)]
    later = [VersionSighting(20260210000000, "B", True), VersionSighting(20260211000000, "E", True)]
    assert kept_versions("one per month", seen + later) == {"A", "E"}


def test_a_date_that_does_not_exist_is_a_period_of_its_own():
    seen = [VersionSighting(at, at, True) for at in (0, 20261399000000, 20270101000000)]
    assert kept_versions("one per week", seen) == {0, 20261399000000, 20270101000000}
