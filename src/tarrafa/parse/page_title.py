"""Finds the headline of a page in its title: the title without the name of its site.

A title is cut at separators (`Headline - Site`, `Site » Headline`). One page alone shows where, if it states its
headline otherwise: in `og:title`, or as its first `h1` (any heading, if it has none); or if it states the site's name.
The rest is learned from many titles of a host: what many of them begin or end with is the site's name (`SiteAffixes`,
kept in the profile of the host).
Promises: a headline is a part of the title between separators, and never empty where the title is not.
Known weakness: an `h1` that holds the site's name is taken for the headline, unless another heading is the rest of the
title, or the site's pages have shown its name.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, Self, TypeVar

CUTS_MAX = 3  # looked at from each end of a title
AFFIXES_MAX, AFFIX_LENGTH_MAX = 48, 100
AFFIX_TITLES_MIN, AFFIX_SHARE_MIN, WEAK_AFFIX_SHARE_MIN = 4, 0.3, 0.6  # weak: behind a colon
STATED_META = frozenset({"og:title", "og:site_name", "og:description", "description"})

# A dash needs spaces around it, a colon one behind it: "e-mail", "10:30", "C++: a tour". "Class (Library 1.2 API)".
_separator = re.compile(
    r"(?<= )(?:-+|–|—|::+|[/\\<>~])(?= )|[|»«·•›‹→←]+(?= )|(?<= )[|»«·•›‹→←]+|:(?= )|(?<= )\((?=[^()]+\)$)"
)
_word = re.compile(r"\w")

K = TypeVar("K")


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


class SiteAffixes:
    """The beginnings and ends that the titles of a host share: beginnings end with a separator, ends begin with one."""

    def __init__(self, titles: int, affixes: dict[str, int]) -> None:
        self.titles, self._affixes = titles, affixes

    def count(self, title: str) -> None:
        self.titles += 1
        for affix in {text for cut in title_cuts(title) for text in (cut.prefix, cut.suffix)}:
            if len(affix) <= AFFIX_LENGTH_MAX:
                self._affixes[affix] = self._affixes.get(affix, 0) + 1
        keep_most_frequent(self._affixes, 2 * AFFIXES_MAX, 4 * AFFIXES_MAX)

    def halve(self) -> None:
        self.titles //= 2
        self._affixes = halved(self._affixes)

    def most_frequent(self) -> dict[str, int]:
        affixes = dict(self._affixes)
        keep_most_frequent(affixes, AFFIXES_MAX)
        return affixes

    def headline(self, title: str, stated: str) -> str:
        """The title without the affixes that many titles of the host have, or what the page itself shows."""
        cuts = title_cuts(title) if self.titles >= AFFIX_TITLES_MIN else []
        prefixes = [cut for cut in reversed(cuts) if not cut.is_parenthesis and self._is_common(cut.prefix, cut)]
        suffixes = [cut for cut in cuts if self._is_common(cut.suffix, cut)]
        prefix, suffix = (found[0] if found else None for found in (prefixes, suffixes))
        if prefix is None and suffix is None:
            return stated
        start = len(prefix.prefix) if prefix is not None else 0
        end = len(suffix.before) if suffix is not None else len(title)
        if prefix is not None and suffix is not None and not _word.search(title[start:end]):
            if self._affixes[prefix.prefix] >= self._affixes[suffix.suffix]:
                end = len(title)
            else:
                start = 0
        found = title[start:end]
        if not _word.search(found):
            return stated
        return stated if stated and stated in found else found

    def _is_common(self, affix: str, cut: TitleCut) -> bool:
        share = WEAK_AFFIX_SHARE_MIN if cut.is_weak else AFFIX_SHARE_MIN
        return self._affixes.get(affix, 0) >= max(AFFIX_TITLES_MIN, share * self.titles)


def halved(counts: dict[K, int]) -> dict[K, int]:
    return {key: number // 2 for key, number in counts.items() if number > 1}


def keep_most_frequent(counts: dict[K, int], most: int, above: int = 0) -> None:
    """Forget the other entries; of equals, the older ones. With up to `above` entries nothing is forgotten."""
    if len(counts) > max(most, above):
        newest = list(counts.items())[::-1]
        kept = sorted(newest, key=lambda item: -item[1])[:most]
        counts.clear()
        counts.update(reversed(kept))


def _key(text: str) -> str:
    return " ".join(text.casefold().split())
