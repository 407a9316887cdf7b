"""Finds the headline of a page in its title: the title without the name of its site.

A title is cut at separators (`Headline - Site`, `Site » Headline`). One page alone shows where, if it states its
headline otherwise: in `og:title`, or as its first `h1` (any heading, if it has none); or if it states the site's name.
`parse/host_profile` learns the rest from many titles.
Promises: a headline is a part of the title between separators, and never empty where the title is not.
Known weakness: an `h1` that holds the site's name is taken for the headline, unless another heading is the rest of the
title, or the site's pages have shown its name.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, Self

CUTS_MAX = 3  # looked at from each end of a title
STATED_META = frozenset({"og:title", "og:site_name", "og:description", "description"})

# A dash needs spaces around it, a colon one behind it: "e-mail", "10:30", "C++: a tour". "Class (Library 1.2 API)".
_separator = re.compile(
    r"(?<= )(?:-+|–|—|::+|[/\\<>~])(?= )|[|»«·•›‹→←]+(?= )|(?<= )[|»«·•›‹→←]+|:(?= )|(?<= )\((?=[^()]+\)$)"
)


class TitleCut(NamedTuple):
    """One way to divide a title: the text before a separator, the separator, the text behind it."""

    before: str
    separator: str
    behind: str

    @property
    def is_weak(self) -> bool:
        """Whether the separator often stands inside a headline."""
        return ":" in self.separator or self.is_parenthesis

    @property
    def is_parenthesis(self) -> bool:
        """Whether the text behind the separator is in parentheses."""
        return "(" in self.separator

    @property
    def prefix(self) -> str:
        return self.before + self.separator

    @property
    def suffix(self) -> str:
        return self.separator + self.behind


class StatedTitles(NamedTuple):
    """What a page states beside its title."""

    title: str  # og:title
    h1: str
    site: str
    headings: frozenset[str]

    @classmethod
    def of(cls, stated: dict[str, str], h1: str, headings: Iterable[str]) -> Self:
        title, site = _key(stated.get("og:title", "")), _key(stated.get("og:site_name", ""))
        return cls(title, _key(h1), site, frozenset(map(_key, headings)))


def headline(title: str, stated: StatedTitles) -> str:
    """The headline, if the page shows where to cut its title; else empty."""
    cuts = [cut for cut in title_cuts(title) if not cut.is_parenthesis]  # one page: "Batman (film)" is a headline
    parts = [pair for cut in cuts for pair in ((cut.before, cut.behind), (cut.behind, cut.before))]
    for part, rest in parts:
        if stated.site and _key(rest) == stated.site:
            return part
    if stated.title == _key(title):
        return ""
    for part, _ in parts:
        if stated.title and _key(part) == stated.title != stated.site:
            return part
    candidates = {stated.h1} if stated.h1 else stated.headings
    for part, rest in parts:
        if _key(part) in candidates - {stated.site} and _key(rest) not in stated.headings:
            return part
    return ""


def title_cuts(title: str) -> list[TitleCut]:
    """The ways to divide a title in two, from the first separator on; only the outer ones of a long title."""
    found = list(_separator.finditer(title))
    if len(found) > 2 * CUTS_MAX:
        found = [*found[:CUTS_MAX], *found[-CUTS_MAX:]]
    cuts = []
    for one in found:
        before, behind = title[: one.start()].rstrip(), title[one.end() :].lstrip()
        if before and behind:
            cuts.append(TitleCut(before, title[len(before) : len(title) - len(behind)], behind))
    return cuts


def _key(text: str) -> str:
    return " ".join(text.casefold().split())
