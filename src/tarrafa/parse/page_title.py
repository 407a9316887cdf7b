"""Finds the headline of a page in its title: the title without the name of its site.

A title is cut at separators (`Headline - Site`, `Site » Headline`). One page alone shows where, if it states its
headline otherwise: in `og:title`, or as its first `h1`; or if it states the site's name. `parse/host_profile` learns
the rest from many titles.
Promises: a headline is a part of the title between separators, and never empty where the title is not.
Known weakness: an `h1` that holds the site's name is taken for the headline, unless another heading is the rest of the
title, or the site's pages have shown its name.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, Self

CUTS_MAX = 3  # looked at from each end of a title
STATED_META = frozenset({"og:title", "og:site_name", "og:description", "description"})

# A dash needs spaces around it, a colon one behind it: "e-mail", "10:30", "C++: a tour".
_separator = re.compile(r"\s*[|»«·•›‹→←~]+\s+|\s+[|»«·•›‹→←~]+\s*|\s+(?:-+|–|—|::+|/|\\|<|>)\s+|:\s+|\s+:\s*")
_word = re.compile(r"\w")


class TitleCut(NamedTuple):
    """One way to divide a title: the text before a separator, the separator, the text behind it."""

    before: str
    separator: str
    behind: str

    @property
    def is_weak(self) -> bool:
        """Whether the separator often stands inside a headline."""
        return ":" in self.separator

    @property
    def prefix(self) -> str:
        return self.before + self.separator

    @property
    def suffix(self) -> str:
        return self.separator + self.behind


class StatedTitles(NamedTuple):
    """What a page states beside its title."""

    titles: tuple[str, ...] = ()  # of the page: og:title, h1
    site: str = ""
    headings: frozenset[str] = frozenset()

    @classmethod
    def of(cls, stated: dict[str, str], h1: str, headings: Iterable[str]) -> Self:
        titles = (_key(one) for one in (stated.get("og:title", ""), h1) if one)
        return cls(tuple(titles), _key(stated.get("og:site_name", "")), frozenset(map(_key, headings)))


def headline(title: str, stated: StatedTitles) -> str:
    """The headline, if the page shows where to cut its title; else empty."""
    if not stated.titles and not stated.site:
        return ""
    cuts = title_cuts(title)
    if not cuts or _key(title) in stated.titles[:1]:
        return ""
    for cut in cuts:
        if stated.site and _key(cut.behind) == stated.site and _word.search(cut.before):
            return cut.before
        if stated.site and _key(cut.before) == stated.site and _word.search(cut.behind):
            return cut.behind
    for wanted in stated.titles:
        for cut in cuts:
            for part, rest in ((cut.before, cut.behind), (cut.behind, cut.before)):
                if _key(part) == wanted != stated.site and _key(rest) not in stated.headings:
                    return part
    return ""


def title_cuts(title: str) -> list[TitleCut]:
    """The ways to divide a title in two, from the first separator on; only the outer ones of a long title."""
    found = list(_separator.finditer(title))
    if len(found) > 2 * CUTS_MAX:
        found = [*found[:CUTS_MAX], *found[-CUTS_MAX:]]
    return [
        TitleCut(title[: one.start()], one[0], title[one.end() :])
        for one in found
        if one.start() and one.end() < len(title)
    ]


def _key(text: str) -> str:
    return " ".join(text.casefold().split())
