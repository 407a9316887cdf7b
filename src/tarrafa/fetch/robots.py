"""robots.txt parser and matcher (RFC 9309): allow and disallow rules, crawl delay, sitemaps.

Promises: RFC 9309, with the leniencies of Google's parser where webmasters rely on them (missing colons, common typos,
`Allow: /x/index.html` opens `/x/`). Any bytes give rules. Matching takes at most one pass over the URL per wildcard
pattern, whatever the pattern. Pure: text in, verdict out.
Knows nothing of HTTP but what the status of a robots.txt means (RFC 9309 §2.3.1).
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from tarrafa.model import Status, UsageStatement
from tarrafa.parse.robots_meta_usage import from_licence, from_signal

ROBOTS_BYTES_MAX = 500 * 1024  # RFC 9309 §2.5: at least 500 kibibytes must be read; the rest is ignored
LINE_BYTES_MAX = 2083 * 8 - 1  # as in Google's parser: eight times the longest URL of an old browser
SITEMAPS_MAX = 1_000
HINTS_MAX, HINT_LENGTH_MAX = 50, 200
LICENCES_MAX = 4
USAGE_LINES_MAX = 200  # statements about the use of pages, in one file
AGENTS_CACHED_MAX = 16

ANY_AGENT = "*"

_AGENT, _ALLOW, _DISALLOW, _DELAY, _SITEMAP = "user-agent", "allow", "disallow", "crawl-delay", "sitemap"
_RATE, _TIME, _HOST, _CLEAN = "request-rate", "visit-time", "host", "clean-param"  # in no standard, but in use
_SIGNAL, _USAGE, _LICENCE = "content-signal", "content-usage", "license"  # see `parse/robots_meta_usage`
_KEYS = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), _AGENT),
    "allow": _ALLOW,
    **dict.fromkeys(("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), _DISALLOW),
    **dict.fromkeys(("crawl-delay", "crawldelay", "crawl delay"), _DELAY),
    **dict.fromkeys(("sitemap", "site-map"), _SITEMAP),
    **{key: key for key in (_RATE, _TIME, _HOST, _CLEAN, _SIGNAL, _USAGE, _LICENCE)},
}

# Paths and patterns are compared after `_normal`; texts that these patterns match are normal already.
_plain_url = re.compile(r"https?://[^/?#]*(/[A-Za-z0-9._~!&(),;=:@/?+|\[\]-]*)").fullmatch
_any_url = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*)?([^#]*)").match
_to_escape = re.compile(rb"%[0-9A-Fa-f]{2}|[^A-Za-z0-9._~!&(),;=:@/?+|\[\]-]")
_product = re.compile(r"[A-Za-z0-9_-]+(?=/|$| \()").match
_product_in_file = re.compile(r"[A-Za-z0-9_-]+").match
_rate = re.compile(r"(\d{1,6})\s*/\s*(\d{1,6})\s*([smh]?)", re.IGNORECASE).match
_SHOWN_LABELS = {_SIGNAL: "Content-Signal", _USAGE: "Content-Usage"}
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600}
_number = re.compile(r"\d+(?:\.\d*)?|\.\d+").match
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class RobotsRule(NamedTuple):
    """One rule line of the file."""

    allow: bool
    pattern: str  # normal form; `*` and a final `$` are still special
    line: int
    text: str

    @property
    def strength(self) -> tuple[int, bool]:
        """RFC 9309 §2.2.2: the most specific match, the one with the most octets, decides; of equals, an allow rule."""
        return len(self.pattern), self.allow


class _UsageRule(NamedTuple):
    """What the publisher says about the use of the pages whose paths match."""

    label: str
    pattern: "_Wildcard"
    statement: UsageStatement

    @property
    def length(self) -> int:
        return len(self.pattern.rule.pattern)


@dataclass(slots=True)
class _DelayGroup:
    """The delays and other requests of one group."""

    delays: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)  # as delays
    hints: list[str] = field(default_factory=list)
    usage: list[_UsageRule] = field(default_factory=list)


@dataclass(slots=True)
class _AgentGroups:
    """All rules and delays for one robot, or for all robots. Robots that a group names together share its lists."""

    rules: list[list[RobotsRule]] = field(default_factory=list)
    delay_groups: list[_DelayGroup] = field(default_factory=list)


class RobotsRules:
    """The rules of one host. `sitemaps` are the URLs announced, as written."""

    __slots__ = ("_groups", "_hints", "_licences", "_matchers", "_usage", "sitemaps", "states_usage")

    def __init__(
        self,
        groups: dict[str, _AgentGroups],
        sitemaps: tuple[str, ...],
        hints: tuple[str, ...] = (),
        usage: Sequence[_UsageRule] = (),
        licences: Sequence[UsageStatement] = (),
    ) -> None:
        self._groups = groups
        self._hints = hints
        self._usage, self._licences = usage, licences  # for all robots
        self.states_usage = bool(usage or licences) or any(  # to any robot; most files do not
            group.usage for agent in groups.values() for group in agent.delay_groups
        )
        self._matchers: dict[str, _Matcher] = {}
        self.sitemaps = sitemaps

    def allows(self, user_agent: str, url: str) -> bool:
        """Whether the robot may fetch the URL. `user_agent` is its product token, or a header that begins with it."""
        rule = self._decisive(user_agent, url)
        return rule is None or rule.allow

    def deciding_line(self, user_agent: str, url: str) -> str | None:
        """The line that allows or forbids the URL; None if no line matches, which allows it."""
        rule = self._decisive(user_agent, url)
        return None if rule is None else f"line {rule.line}: {rule.text}"

    def crawl_delay(self, user_agent: str) -> float | None:
        """The requested delay in seconds; the longest, if there are several.

        A Request-rate counts where there is no Crawl-delay, and at all times of the day: the slowest one.
        """
        groups = self._groups_for(user_agent).delay_groups
        delays = [delay for group in groups for delay in group.delays]
        return max(delays or [rate for group in groups for rate in group.rates], default=None)

    def hints(self, user_agent: str) -> tuple[str, ...]:
        """Other requests to the robot, as written: rates, times of the day, the main host, idle parameters."""
        own = (hint for group in self._groups_for(user_agent).delay_groups for hint in group.hints)
        return tuple(islice(dict.fromkeys(chain(own, self._hints)), HINTS_MAX))

    def usage(self, user_agent: str, url: str) -> list[UsageStatement]:
        """What the publisher says about the use of the URL. Of the Content-Usage rules those with the longest path
        that matches count, all of them (draft-ietf-aipref-attach, "Content-Usage Rule Semantics"); so do the
        Content-Signal rules. Licences are for everybody."""
        groups = self._groups_for(user_agent).delay_groups
        rules = [*self._usage, *(rule for group in groups for rule in group.usage)]
        if not rules:
            return list(self._licences)
        target = _target(url)
        matching = [rule for rule in rules if rule.pattern.matches(target)]
        longest = {label: max((rule.length for rule in matching if rule.label == label), default=0)
                   for label in (_SIGNAL, _USAGE)}  # fmt: skip
        return [*(rule.statement for rule in matching if rule.length == longest[rule.label]), *self._licences]

    def disallows_anything(self, user_agent: str) -> bool:
        """Whether any line forbids the robot a part of the host."""
        return any(not rule.allow for group in self._groups_for(user_agent).rules for rule in group)

    def _decisive(self, user_agent: str, url: str) -> RobotsRule | None:
        matcher = self._matchers.get(user_agent)
        if matcher is None:
            matcher = self._matcher(user_agent)
        return matcher.decisive(_target(url)) if matcher.rules else None

    def _matcher(self, user_agent: str) -> "_Matcher":
        if len(self._matchers) >= AGENTS_CACHED_MAX:
            self._matchers.clear()
        rules = [rule for group in self._groups_for(user_agent).rules for rule in group]
        matcher = self._matchers[user_agent] = _Matcher(rules)
        return matcher

    def _groups_for(self, user_agent: str) -> _AgentGroups:
        """RFC 9309 §2.2.1: all groups that name the robot, else all groups for `*`."""
        product = _product(user_agent)
        named = self._groups.get(product[0].lower()) if product else None
        return named or self._groups.get(ANY_AGENT) or _AgentGroups()


def forbids_everything_for_now(status: int) -> bool:
    """Whether nothing may be requested until the file can be read: it is unreachable, or the server fails or is busy
    (RFC 9309 §2.3.1.4). Any other status without a file, such as 404, allows everything (§2.3.1.3); of a file that is
    too large the beginning counts (§2.5)."""
    return (status < 0 and status != Status.TOO_LARGE) or status >= 500 or status == 429


def parse(text: bytes) -> RobotsRules:
    """Parse a robots.txt.

    A group of rules ends at a user-agent line after a rule; other records do not end it (RFC 9309 §2.2.4). A delay
    applies to the robots named just before it: a user-agent line after a delay begins a new group of delays.
    """
    text = text[:ROBOTS_BYTES_MAX].removeprefix(b"\xef\xbb\xbf")
    groups: dict[str, _AgentGroups] = {}
    sitemaps: list[str] = []
    hints: list[str] = []
    usage: list[_UsageRule] = []  # before the first group
    licences: dict[UsageStatement, None] = {}
    rules: list[RobotsRule] = []
    delay_group = _DelayGroup()
    has_rules = has_delays = False
    usage_lines = 0
    for number, raw in enumerate(text.splitlines(), start=1):
        key, value = _key_and_value(raw[:LINE_BYTES_MAX])
        if key == _AGENT:
            if has_rules:
                rules = []
            if has_rules or has_delays:
                delay_group = _DelayGroup()
            has_rules = has_delays = False
            _name(groups, value, rules, delay_group)
        elif key in (_ALLOW, _DISALLOW):
            has_rules = True
            rules += _rules(key == _ALLOW, value, number, f"{key.capitalize()}: {_readable(value)}")
        elif key == _DELAY:
            has_delays = True
            delay_group.delays += _seconds(_readable(value))
        elif key in (_RATE, _TIME):
            has_delays = True
            delay_group.rates += _seconds_between(_readable(value)) if key == _RATE else ()
            _hint(delay_group.hints, key, value)
        elif key in (_HOST, _CLEAN):
            _hint(hints, key, value)
        elif key in (_SIGNAL, _USAGE, _LICENCE) and usage_lines < USAGE_LINES_MAX:
            usage_lines += 1
            if key == _LICENCE:
                licences[from_licence("robots.txt", _readable(value))] = None
            else:
                has_delays = bool(groups)
                (delay_group.usage if groups else usage).extend(_usage_rules(key, value, number))
        elif key == _SITEMAP and value and len(sitemaps) < SITEMAPS_MAX:
            sitemaps.append(_readable(value))
    return RobotsRules(groups, tuple(sitemaps), tuple(hints), usage, tuple(licences)[:LICENCES_MAX])


def _key_and_value(line: bytes) -> tuple[str, bytes]:
    """The known key of a line, or empty. A missing colon is accepted if there are exactly two words."""
    line = line.partition(b"#")[0].strip()
    key, colon, value = line.partition(b":")
    if not colon:
        words = line.split()
        if len(words) != 2:
            return "", b""
        key, value = words
    return _KEYS.get(_readable(key.strip()).lower(), ""), value.strip()


def _readable(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _name(groups: dict[str, _AgentGroups], value: bytes, rules: list[RobotsRule], delay_group: _DelayGroup) -> None:
    """Apply the following rules and delays to the robot that this line names."""
    name = _readable(value)
    if name.split(maxsplit=1)[:1] == [ANY_AGENT]:
        agent = ANY_AGENT
    elif product := _product_in_file(name):
        agent = product[0].lower()
    else:
        return
    named = groups.setdefault(agent, _AgentGroups())
    if not named.rules or named.rules[-1] is not rules:
        named.rules.append(rules)
    if not named.delay_groups or named.delay_groups[-1] is not delay_group:
        named.delay_groups.append(delay_group)


def _hint(hints: list[str], key: str, value: bytes) -> None:
    if value and len(hints) < HINTS_MAX:
        hints.append(f"{key.capitalize()}: {_readable(value)[:HINT_LENGTH_MAX]}")


def _rules(allow: bool, value: bytes, line: int, text: str) -> Iterable[RobotsRule]:
    if not value:
        return
    anchored = value.endswith(b"$")
    pattern = "*".join(_normal(piece) for piece in (value[:-1] if anchored else value).split(b"*"))
    yield RobotsRule(allow, pattern + "$" if anchored else pattern, line, text)
    folder, slash, name = pattern.rpartition("/")
    if allow and slash and name.startswith("index.htm"):  # Google: the index of a folder is the folder
        yield RobotsRule(allow, f"{folder}/$", line, text)


def _usage_rules(label: str, value: bytes, line: int) -> Iterable[_UsageRule]:
    """The rule of a line; a path before the statement begins with a slash and ends at a blank."""
    path, statement = b"", value
    if value.startswith(b"/"):
        path, _, statement = value.replace(b"\t", b" ").partition(b" ")
    shown = _SHOWN_LABELS[label]
    found = from_signal("robots.txt", shown, _readable(statement), _readable(path))
    if found is not None:
        text = f"{shown}: {_readable(value)}"
        pattern = next(iter(_rules(False, path, line, text)), None) or RobotsRule(False, "", line, text)
        yield _UsageRule(label, _Wildcard(pattern), found)


def _seconds(value: str) -> list[float]:
    found = _number(value)
    seconds = float(found[0]) if found else math.inf
    return [seconds] if math.isfinite(seconds) else []


def _seconds_between(value: str) -> list[float]:
    """`1/10s` is ten seconds from one request to the next, `30/1m` two; the hours after it are ignored."""
    found = _rate(value)
    if found is None or not int(found[1]):
        return []
    return [int(found[2]) * _UNITS_S[found[3].lower()] / int(found[1])]


def _normal(octets: bytes) -> str:
    """RFC 9309 §2.2.2: compare octets, escaped where that changes nothing, in upper case; so a `*` in a URL is %2A."""
    return _to_escape.sub(_escaped, octets).decode("ascii")


def _escaped(found: re.Match[bytes]) -> bytes:
    octet = int(found[0][1:], 16) if len(found[0]) == 3 else found[0][0]
    return bytes([octet]) if octet in _UNRESERVED else b"%%%02X" % octet


def _target(url: str) -> str:
    """Path and query of a URL in normal form."""
    plain = _plain_url(url)
    if plain is not None:
        return plain[1]
    found = _any_url(url)
    target = found[1] if found else ""
    return _normal((target if target.startswith("/") else f"/{target}").encode("utf-8", "replace"))


class _Wildcard:
    """A pattern with `*` or `$`: pieces searched from left to right, without backtracking."""

    __slots__ = ("anchored", "head", "pieces", "rule", "tail")

    def __init__(self, rule: RobotsRule) -> None:
        self.rule = rule
        self.anchored = rule.pattern.endswith("$")
        head, *pieces = rule.pattern.removesuffix("$").split("*")
        self.head = head
        self.tail = pieces.pop() if self.anchored and pieces else ""
        self.pieces = [piece for piece in pieces if piece]

    def matches(self, target: str) -> bool:
        if not target.startswith(self.head):
            return False
        at = len(self.head)
        if self.anchored and "*" not in self.rule.pattern:
            return at == len(target)
        for piece in self.pieces:
            at = target.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return not self.anchored or (target.endswith(self.tail) and len(target) - len(self.tail) >= at)


class _Matcher:
    """The rules for one robot, prepared for matching.

    Most rules are plain prefixes. They are kept sorted, so a bisection finds the nearest one before the target; the
    longest prefix that matches is that one, or one of the shorter prefixes of it (`_enclosing`). The few rules with
    wildcards are tried one by one, most specific first, as long as they could still win. Known weakness: a file made of
    nothing but wildcards costs a pass for each (500 KiB of them: some 25 ms per URL).
    """

    __slots__ = ("_enclosing", "_prefixes", "_verdicts", "_wildcards", "rules")

    def __init__(self, rules: list[RobotsRule]) -> None:
        self.rules = rules
        plain: dict[str, RobotsRule] = {}
        wild: list[RobotsRule] = []
        for rule in rules:
            prefix = rule.pattern.rstrip("*")
            if "*" in prefix or rule.pattern.endswith("$"):
                wild.append(rule)
            else:
                plain[prefix] = _stronger(plain.get(prefix), rule)
        wild.sort(key=lambda rule: rule.strength, reverse=True)
        self._wildcards = [(rule.strength, _Wildcard(rule)) for rule in wild]
        self._prefixes = sorted(plain)
        self._enclosing: list[int] = []
        self._verdicts: list[RobotsRule] = []
        for place, prefix in enumerate(self._prefixes):
            outer = place - 1
            while outer >= 0 and not prefix.startswith(self._prefixes[outer]):
                outer = self._enclosing[outer]
            self._enclosing.append(outer)
            self._verdicts.append(_stronger(self._verdicts[outer] if outer >= 0 else None, plain[prefix]))

    def decisive(self, target: str) -> RobotsRule | None:
        """The rule that decides, if one matches the target."""
        if target.startswith("/robots.txt") and target[11:12] in ("", "?"):  # §2.2.2: implicitly allowed
            return None
        prefixes = self._prefixes
        place = bisect_right(prefixes, target) - 1
        while place >= 0 and not target.startswith(prefixes[place]):
            place = self._enclosing[place]
        best = self._verdicts[place] if place >= 0 else None
        if self._wildcards:
            least = best.strength if best is not None else (0, False)
            for strength, wildcard in self._wildcards:
                if strength <= least:
                    break
                if wildcard.matches(target):
                    return wildcard.rule
        return best


def _stronger(one: RobotsRule | None, other: RobotsRule) -> RobotsRule:
    return one if one is not None and one.strength >= other.strength else other
