"""Host and URL patterns: matching, and the most specific pattern for a host."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


def compile_url_patterns(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """One expression for all patterns, with `*` and `?` as in file names; None if there are no patterns."""
    translated = "|".join(map(translate, patterns))
    return re.compile(translated) if translated else None


class HostMatcher:
    """Matches host patterns: `a.br` is that host, `*.br` everything below br, `a.br:8080` that port only."""

    def __init__(self, patterns: Iterable[str]) -> None:
        folded = [_ascii(pattern.lower()) for pattern in patterns]
        self._everything = "*" in folded
        self._exact = frozenset(pattern for pattern in folded if not pattern.startswith("*."))
        self._below = tuple(pattern[1:] for pattern in folded if pattern.startswith("*."))

    def matches(self, name: str, port: str) -> bool:
        """Whether a pattern matches; `port` is empty for the scheme's default."""
        with_port = f"{name}:{port}"
        if self._everything or name in self._exact or with_port in self._exact:
            return True
        return bool(self._below) and (name.endswith(self._below) or with_port.endswith(self._below))


class HostPatternTable(Generic[Kept]):
    """Values by host pattern. Of several matching patterns the most specific one counts: the host itself, then the
    nearest domain above it, each with its port before each without.
    """

    def __init__(self, table: Mapping[str, Kept]) -> None:
        self._table = {_ascii(pattern.lower()): kept for pattern, kept in table.items()}

    def best_match(self, name: str, port: str) -> Kept | None:
        return next(self.all_matches(name, port), None)

    def all_matches(self, name: str, port: str) -> Iterator[Kept]:
        """All values that match the host, the most specific first."""
        if not self._table:
            return
        for pattern in (name, *(f"*.{parent}" for parent in _parents(name))):
            for spelling in (f"{pattern}:{port}", pattern) if port else (pattern,):
                if spelling in self._table:
                    yield self._table[spelling]
        if "*" in self._table:
            yield self._table["*"]


def _parents(name: str) -> Iterator[str]:
    """The domains above a name, the nearest first."""
    while "." in name:
        name = name.partition(".")[2]
        yield name


def _ascii(pattern: str) -> str:
    """Host names as in URLs: `*.são.br` is `*.xn--so-sia.br`."""
    if pattern.isascii():
        return pattern
    try:
        return ".".join(label if label == "*" else label.encode("idna").decode() for label in pattern.split("."))
    except UnicodeError:
        return pattern
