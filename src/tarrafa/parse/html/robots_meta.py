"""Reads the robots meta element and the X-Robots-Tag header: noindex, nofollow, noarchive.

Promises: `<meta name="robots">` and `X-Robots-Tag` as the big search engines read them; what is addressed to another
robot is not for us, and where several voices speak to us the strictest wins.
Knows nothing of robots.txt, which says what may be fetched; this says what may be done with what was.
"""

import re
from collections.abc import Iterable

from tarrafa.model import RobotsMeta

AGENT = "tarrafa"  # the name that we answer to, besides "robots"
DIRECTIVES_LENGTH_MAX = 4_096  # characters of one meta element, or of all X-Robots-Tag headers

# Directives that have a value after a colon, as `googlebot: noindex` has a directive after a name.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})

_separator = re.compile(r"[\s,;]+")

NO_RESTRICTIONS = RobotsMeta()


def from_meta(name: str, content: str, agent: str = AGENT) -> frozenset[str]:
    """The directives of one meta element, if it speaks to us."""
    if name.strip().lower() not in ("robots", agent.lower()):
        return frozenset()
    return frozenset(_separator.split(content[:DIRECTIVES_LENGTH_MAX].lower()))


def from_header(value: str, agent: str = AGENT) -> frozenset[str]:
    """The directives of X-Robots-Tag that speak to us.

    Several headers are joined by line breaks (or by commas, as HTTP allows; then a robot's name, once said, holds to
    the end, for nobody can tell any more where its header ended).
    """
    ours = set()
    for line in value[:DIRECTIVES_LENGTH_MAX].lower().splitlines():
        to_us = True
        for part in line.split(","):
            name, colon, directive = part.partition(":")
            if colon and name.strip() not in _VALUED:
                to_us = name.strip() in ("robots", "*", agent.lower())
            if to_us:
                ours.update((directive if colon else part).split())
    return frozenset(ours)


def combine(voices: Iterable[frozenset[str]]) -> RobotsMeta:
    """What all of them together ask."""
    asked = frozenset().union(*voices)
    if not asked:
        return NO_RESTRICTIONS
    none = "none" in asked
    return RobotsMeta(
        noindex=none or "noindex" in asked,
        nofollow=none or "nofollow" in asked,
        noarchive="noarchive" in asked or "nocache" in asked,
    )
