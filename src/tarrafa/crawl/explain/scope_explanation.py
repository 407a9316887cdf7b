"""Explains the scope of a collection: names the rule that puts a URL in or out.

`ScopeExplainer` applies the same rules as `Admission`, one by one, so that the deciding rule can be named: for
`explain`, and for a dry run before the crawl. tests/crawl/explain/test_scope_explanation.py keeps the two equal.
Promises: pure; the cost of a URL is a few patterns; a reason is a message, which the reader's translator renders.
Knows nothing of robots.txt, which belongs to the host.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from tarrafa.config import Collection
from tarrafa.config.sections import HostMatcher, compile_url_patterns
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.scope.traps import trap_reason
from tarrafa.i18n import Message, message
from tarrafa.model import Status
from tarrafa.parse.mime_types import mime_types_of
from tarrafa.parse.url import authority_of, name_and_port

PATTERNS_SHOWN = 3


class ScopeRule(StrEnum):
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
    """A decision. `what` is the subject of the reason: the pattern, the host, the types."""

    inside: bool
    rule: ScopeRule
    what: str
    reason: Message


class ScopeExplainer:
    def __init__(self, collection: Collection, is_taken_down: Callable[[str], bool] = lambda url: False) -> None:
        self._collection, self._is_taken_down = collection, is_taken_down
        self._admission = Admission(collection)
        hosts = collection.scope.hosts or ()
        self._exact = frozenset(hosts)
        wide = (one for one in hosts if one[0] == "*" or not one.isascii() or one != one.lower())
        self._wide = [(one, HostMatcher([one])) for one in wide]
        self._exclude = [(one, pattern) for one in collection.scope.exclude if (pattern := compile_url_patterns([one]))]

    def decide(self, url: str, depth: int | None = None) -> ScopeDecision:
        """Whether the collection takes a canonical URL. Without `depth`, its depth is not known yet."""
        if self._is_taken_down(url):
            reason = message("it was taken down (`tarrafa takedown list`)")
            return ScopeDecision(False, ScopeRule.TAKEN_DOWN, "", reason)
        if url in self._collection.root_set:
            return ScopeDecision(True, ScopeRule.ROOT, "", message("it is a root"))
        host, pattern = self._host(url)
        if pattern is None and not self._collection.explores_outside_hosts:
            return ScopeDecision(False, ScopeRule.NO_HOST, host, _outside_reason(host))
        if objection := self._check_patterns(url) or self._check_url_shape(url) or self._check_depth(depth):
            return objection
        if pattern is not None:
            reason = message("[scope] hosts = '{pattern}' matches it", pattern=pattern)
            return ScopeDecision(True, ScopeRule.HOST, pattern, reason)
        return self._decide_beyond(host, depth)

    def _decide_beyond(self, host: str, depth: int | None) -> ScopeDecision:
        """A URL outside the hosts is fetched where a kept page links to it, and kept by its language."""
        languages, outside = ", ".join(self._collection.scope.languages), _outside_reason(host)
        if depth is None:
            reason = message(
                "{outside}; it is fetched if a kept page links to it, and kept if its language is wanted: {languages}",
                outside=outside,
                languages=languages,
            )
            return ScopeDecision(False, ScopeRule.BEYOND, languages, reason)
        reason = message(
            "{outside}; a kept page led to it, so it is fetched, and kept if its language is wanted: {languages}",
            outside=outside,
            languages=languages,
        )
        return ScopeDecision(True, ScopeRule.LED_BEYOND, languages, reason)

    def _host(self, url: str) -> tuple[str, str | None]:
        """The host as people write it, and the pattern that puts it in scope: itself, or the first pattern that
        matches."""
        named, (name, port) = authority_of(url), name_and_port(url)
        if exact := {named, name} & self._exact:
            return named, max(exact, key=len)
        return named, next((one for one, matcher in self._wide if matcher.matches(name, port)), None)

    def _check_patterns(self, url: str) -> ScopeDecision | None:
        excluded = next((one for one, pattern in self._exclude if pattern.match(url)), None)
        if excluded is not None:
            reason = message("[scope] exclude = '{pattern}' matches it", pattern=excluded)
            return ScopeDecision(False, ScopeRule.EXCLUDE, excluded, reason)
        included = self._collection.included
        if included is not None and included.match(url) is None:
            patterns = self._collection.scope.include
            some = ", ".join([*patterns[:PATTERNS_SHOWN], *(["…"] if len(patterns) > PATTERNS_SHOWN else [])])
            reason = message("no pattern of [scope] include matches it ({patterns})", patterns=some)
            return ScopeDecision(False, ScopeRule.INCLUDE, some, reason)
        return None

    def _check_url_shape(self, url: str) -> ScopeDecision | None:
        refusal = self._admission.url_refusal_status(url)
        if refusal == Status.TYPE_NOT_WANTED:
            types = ", ".join(mime_types_of(url))
            reason = message("its extension says {types}, which [scope] types does not name", types=types)
            return ScopeDecision(False, ScopeRule.TYPE, types, reason)
        trap = trap_reason(url) if refusal else None
        if trap is None:
            return None
        return ScopeDecision(False, ScopeRule.TRAP, str(trap), message("it looks like a trap: {why}", why=trap))

    def _check_depth(self, depth: int | None) -> ScopeDecision | None:
        limit = self._collection.scope.depth_max
        if depth is None or limit is None or depth <= limit:
            return None
        reason = message("its depth {depth} is beyond [scope] depth_max = {limit}", depth=depth, limit=limit)
        return ScopeDecision(False, ScopeRule.TOO_DEEP, str(depth), reason)


def _outside_reason(host: str) -> Message:
    return message("no pattern of [scope] hosts matches {host}", host=host)
