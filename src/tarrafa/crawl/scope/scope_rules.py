"""Names the scope rule that puts a URL in or out of a collection.

The same rules as `Admission` has them, asked one by one so that the one that decides can be named: for `explain`, and
for a dry run before there is anything to explain, said by `sayings`. tests/crawl/scope/test_scope_rules.py holds the
two together. Promises: pure; any number of URLs at the cost of a few patterns each. Knows nothing of robots.txt: that
is for the host to say.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from tarrafa.config import Collection, HostMatcher, compile_url_patterns
from tarrafa.crawl.scope.admission import Admission
from tarrafa.crawl.scope.traps import trap_reason
from tarrafa.crawl.sentences import ENGLISH, Tongue, Value
from tarrafa.model import Status
from tarrafa.parse.mime_by_extension import mime_types_of
from tarrafa.parse.url import DEFAULT_PORTS, split

PATTERNS_SHOWN = 3


class ScopeRule(StrEnum):
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


class ScopeDecision(msgspec.Struct, frozen=True):
    """A verdict. `what` is what the sentence speaks of: the pattern, the host, the types."""

    inside: bool
    rule: ScopeRule
    what: str
    sentence: str


class ScopeRules:
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
        self._exclude = [(one, pattern) for one in collection.scope.exclude if (pattern := compile_url_patterns([one]))]

    def decide(self, url: str, depth: int | None = None) -> ScopeDecision:
        """Whether the collection takes a canonical URL. No `depth`: nobody knows yet how deep it lies."""
        if self._is_taken_down(url):
            return self._decision(False, ScopeRule.TAKEN_DOWN)
        if url in self._collection.root_set:
            return self._decision(True, ScopeRule.ROOT)
        host, pattern = self._host(url)
        outside = self._decision(False, ScopeRule.NO_HOST, host)
        if pattern is None and not self._collection.explores_outside_hosts:
            return outside
        if objection := self._check_patterns(url) or self._check_url_shape(url) or self._check_depth(depth):
            return objection
        if pattern is not None:
            return self._decision(True, ScopeRule.HOST, pattern)
        rule, languages = ScopeRule.BEYOND if depth is None else ScopeRule.LED_BEYOND, self._collection.scope.languages
        return self._decision(depth is not None, rule, ", ".join(languages), outside=outside.sentence)

    def _decision(self, inside: bool, rule: ScopeRule, what: str = "", **values: Value) -> ScopeDecision:
        return ScopeDecision(inside, rule, what, self._say(rule.value, what=what, **values))

    def _host(self, url: str) -> tuple[str, str | None]:
        """The host as people write it, and the pattern that it belongs by: itself, or the first one that matches."""
        parts = split(url)
        port = "" if parts.port == DEFAULT_PORTS[parts.scheme] else parts.port
        named = f"{parts.host}{port and ':' + port}"
        if exact := {named, parts.host} & self._exact:
            return named, max(exact, key=len)
        return named, next((one for one, matcher in self._wide if matcher.matches(parts.host, port)), None)

    def _check_patterns(self, url: str) -> ScopeDecision | None:
        excluded = next((one for one, pattern in self._exclude if pattern.match(url)), None)
        if excluded is not None:
            return self._decision(False, ScopeRule.EXCLUDE, excluded)
        included = self._collection.included
        if included is not None and included.match(url) is None:
            return self._decision(False, ScopeRule.INCLUDE, self._shortened(self._collection.scope.include))
        return None

    def _check_url_shape(self, url: str) -> ScopeDecision | None:
        refusal = self._admission.refusal_status(url)
        if refusal == Status.TYPE_NOT_WANTED:
            return self._decision(False, ScopeRule.TYPE, ", ".join(mime_types_of(url)))
        return self._decision(False, ScopeRule.TRAP, trap_reason(url, self._say)) if refusal else None

    def _check_depth(self, depth: int | None) -> ScopeDecision | None:
        limit = self._collection.scope.depth_max
        if depth is None or limit is None or depth <= limit:
            return None
        return self._decision(False, ScopeRule.TOO_DEEP, str(depth), depth=depth, limit=limit)

    def _shortened(self, patterns: tuple[str, ...]) -> str:
        some, more = ", ".join(patterns[:PATTERNS_SHOWN]), len(patterns) - PATTERNS_SHOWN
        return self._say("and more", some=some, more=more) if more > 0 else some
