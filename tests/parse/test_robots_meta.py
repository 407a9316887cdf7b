"""Meta robots and X-Robots-Tag: who is spoken to, and what is asked."""

import pytest

from tarrafa.model import RobotsMeta
from tarrafa.parse.robots_meta import combine, from_header, from_meta

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
    assert combine([from_meta(name, content)]) == expected


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
    assert combine([from_header(header)]) == expected


def test_the_strictest_of_several_voices_wins():
    assert combine([from_meta("robots", "index"), from_header("nofollow")]) == RobotsMeta(nofollow=True)


def test_a_robot_of_another_name_answers_to_that_name():
    assert from_meta("outrobot", "noindex", agent="OutroBot") == {"noindex"}
    assert from_header("tarrafa: noindex", agent="OutroBot") == frozenset()
