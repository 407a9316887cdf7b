"""Reads the robots meta element and the X-Robots-Tag header: noindex, nofollow, noarchive.

Promises: `<meta name="robots">` and `X-Robots-Tag` are read as the big search engines read them. Directives addressed
to another robot are ignored. Where several directives apply, the strictest one wins.
Knows nothing of robots.txt. robots.txt decides what may be fetched; these directives decide what may be done with a
fetched page.
"""

import re
from collections.abc import Iterable

from tarrafa.model import RobotsMeta

AGENT = "tarrafa"  # our robot name, besides "robots"
DIRECTIVES_LENGTH_MAX = 4_096  # characters of one meta element, or of all X-Robots-Tag headers

# Directives that have a value after a colon, as `googlebot: noindex` has a directive after a name.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})

_separator = re.compile(r"[\s,;]+")

NO_RESTRICTIONS = RobotsMeta()


def from_meta(name: str, content: str, agent: str = AGENT) -> frozenset[str]:
    """The directives of one meta element, if it addresses all robots or `agent`."""
    if name.strip().lower() not in ("robots", agent.lower()):
        return frozenset()
    return frozenset(_separator.split(content[:DIRECTIVES_LENGTH_MAX].lower()))


def from_header(value: str, agent: str = AGENT) -> frozenset[str]:
    """The directives of X-Robots-Tag that address all robots or `agent`.

    Several headers are joined by line breaks, or by commas, as HTTP allows. After a join by commas a robot's name holds
    until the end, because the end of its header can no longer be found.
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


def combine(sources: Iterable[frozenset[str]]) -> RobotsMeta:
    """All directives together."""
    directives = frozenset().union(*sources)
    if not directives:
        return NO_RESTRICTIONS
    none = "none" in directives
    return RobotsMeta(
        noindex=none or "noindex" in directives,
        nofollow=none or "nofollow" in directives,
        noarchive="noarchive" in directives or "nocache" in directives,
    )
