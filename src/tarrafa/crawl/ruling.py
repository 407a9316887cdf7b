"""Is this URL in or out, and which rule says so?

The same rules as `Admission` has them, asked one by one so that the one that decides can be named: for `explain`, and
for a dry run before there is anything to explain, said by `sayings`. tests/crawl/test_ruling.py holds the two
together.
Promises: pure; any number of URLs at the cost of a few patterns each.
Knows nothing of robots.txt: that is for the host to say.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from tarrafa.config import Collection, HostMatcher, url_pattern
from tarrafa.crawl.collection import Admission
from tarrafa.crawl.sayings import ENGLISH, Tongue, Value
from tarrafa.crawl.traps import endless
from tarrafa.model import Status
from tarrafa.parse.extensions import types_of
from tarrafa.parse.url import DEFAULT_PORTS, split

PATTERNS_SHOWN = 3


class Rule(StrEnum):
    """What decides."""

    ROOT = "root"
    HOST = "host"
    NO_HOST = "no host"
    EXCLUDE = "exclude"
    INCLUDE = "include"
    TYPE = "type"
    TRAP = "trap"
    TAKEN_DOWN = "taken down"
    TOO_DEEP = "too deep"
    BEYOND = "beyond"
    LED_BEYOND = "led beyond"


class Ruling(msgspec.Struct, frozen=True):
    """A verdict. `what` is what the sentence speaks of: the pattern, the host, the types."""

    inside: bool
    rule: Rule
    what: str
    sentence: str


class Rulebook:
    """The rules of one collection."""

    def __init__(
        self, collection: Collection, is_taken_down: Callable[[str], bool] = lambda url: False, say: Tongue = ENGLISH
    ) -> None:
        self._collection, self._is_taken_down, self._say = collection, is_taken_down, say
        self._admission = Admission(collection)
        hosts = collection.scope.hosts or ()
        self._exact = frozenset(hosts)
        wide = (one for one in hosts if one[0] == "*" or not one.isascii() or one != one.lower())
        self._wide = [(one, HostMatcher([one])) for one in wide]
        self._exclude = [(one, pattern) for one in collection.scope.exclude if (pattern := url_pattern([one]))]

    def ruling(self, url: str, depth: int | None = None) -> Ruling:
        """Whether the collection takes a canonical URL. No `depth`: nobody knows yet how deep it lies."""
        if self._is_taken_down(url):
            return self._rules(False, Rule.TAKEN_DOWN)
        if url in self._collection.root_set:
            return self._rules(True, Rule.ROOT)
        host, pattern = self._host(url)
        outside = self._rules(False, Rule.NO_HOST, host)
        if pattern is None and not self._collection.looks_beyond:
            return outside
        if objection := self._pattern(url) or self._looks(url) or self._depth(depth):
            return objection
        if pattern is not None:
            return self._rules(True, Rule.HOST, pattern)
        rule, languages = Rule.BEYOND if depth is None else Rule.LED_BEYOND, self._collection.scope.languages
        return self._rules(depth is not None, rule, ", ".join(languages), outside=outside.sentence)

    def _rules(self, inside: bool, rule: Rule, what: str = "", **values: Value) -> Ruling:
        return Ruling(inside, rule, what, self._say(rule.value, what=what, **values))

    def _host(self, url: str) -> tuple[str, str | None]:
        """The host as people write it, and the pattern that it belongs by: itself, or the first one that matches."""
        parts = split(url)
        port = "" if parts.port == DEFAULT_PORTS[parts.scheme] else parts.port
        named = f"{parts.host}{port and ':' + port}"
        if exact := {named, parts.host} & self._exact:
            return named, max(exact, key=len)
        return named, next((one for one, matcher in self._wide if matcher.matches(parts.host, port)), None)

    def _pattern(self, url: str) -> Ruling | None:
        excluded = next((one for one, pattern in self._exclude if pattern.match(url)), None)
        if excluded is not None:
            return self._rules(False, Rule.EXCLUDE, excluded)
        included = self._collection.included
        if included is not None and included.match(url) is None:
            return self._rules(False, Rule.INCLUDE, self._shortened(self._collection.scope.include))
        return None

    def _looks(self, url: str) -> Ruling | None:
        refusal = self._admission.refusal(url)
        if refusal == Status.TYPE_NOT_WANTED:
            return self._rules(False, Rule.TYPE, ", ".join(types_of(url)))
        return self._rules(False, Rule.TRAP, endless(url, self._say)) if refusal else None

    def _depth(self, depth: int | None) -> Ruling | None:
        limit = self._collection.scope.depth_max
        if depth is None or limit is None or depth <= limit:
            return None
        return self._rules(False, Rule.TOO_DEEP, str(depth), depth=depth, limit=limit)

    def _shortened(self, patterns: tuple[str, ...]) -> str:
        some, more = ", ".join(patterns[:PATTERNS_SHOWN]), len(patterns) - PATTERNS_SHOWN
        return self._say("and more", some=some, more=more) if more > 0 else some
