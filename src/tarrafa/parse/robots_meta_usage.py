"""Reads the robots meta element and the X-Robots-Tag header (noindex, nofollow, noarchive), and usage preferences: what
publishers say about the use of their pages for search, as input of AI models, to train AI models.

Robots directives are read as the big search engines read them; those that are addressed to another robot are ignored.
Where several directives apply, the strictest one wins. robots.txt (`fetch.robots`) decides what may be fetched; these
directives decide what may be done with a fetched page.

Usage preferences come from robots.txt, from header fields and from the page itself:
- `Content-Signal: search=yes, ai-input=no, ai-train=no` (contentsignals.org; robots.txt, also as a header field);
- `Content-Usage: train-ai=n, search=y` (draft-ietf-aipref-attach and -vocab, a dictionary of RFC 9651; header field,
  and in robots.txt with a path before it: `/path train-ai=n`). Its names are other ones: `train-ai` is `ai-train`,
  `ai-use` is `ai-input`;
- `noai` in a robots meta element or X-Robots-Tag: neither input nor training; `noimageai`: the same of the images;
- `tdm-reservation: 1`, a header field or meta element (TDMRep, W3C Community Group): text and data mining is reserved,
  which is input and training, not search; `tdm-policy` says where a licence is to be had;
- RSL: `License: URL` in robots.txt, or a link with rel=license and type application/rsl+xml: its URL is recorded, the
  terms behind it are not fetched.
Promises: pure; any text gives directives and statements. Of directives DIRECTIVES_LENGTH_MAX characters are read; there
are at most STATEMENTS_MAX statements of TEXT_LENGTH_MAX characters. A use is reserved if any statement reserves it,
whatever the others grant (aipref-vocab, "Combining Preferences"); `noindex` reserves search.
Known weakness: `.well-known/tdmrep.json` is not requested; images are not kept, so that nothing obeys `noimageai`.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal, get_args

from tarrafa.model import Page, RobotsMeta, UsageSource, UsageStatement

AGENT = "tarrafa"  # our robot name, besides "robots"
DIRECTIVES_LENGTH_MAX = 4_096  # characters of one meta element, or of all X-Robots-Tag headers

# Directives that have a value after a colon, as `googlebot: noindex` has a directive after a name.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})

_separator = re.compile(r"[\s,;]+")

NO_RESTRICTIONS = RobotsMeta()

Use = Literal["search", "ai-input", "ai-train"]
USES: Final[tuple[Use, ...]] = get_args(Use)
TEXT_LENGTH_MAX = 300
STATEMENTS_MAX = 16  # of one page
RSL_TYPE = "application/rsl+xml"
TDM_RESERVATION, TDM_POLICY = "tdm-reservation", "tdm-policy"

_NAMES: dict[str, Use] = {
    "search": "search",
    "ai-input": "ai-input",
    "ai-use": "ai-input",
    "ai-train": "ai-train",
    "train-ai": "ai-train",
    "train-genai": "ai-train",  # aipref-vocab until 04
}
_VALUES = {"yes": True, "y": True, "no": False, "n": False}
_AI: tuple[Use, ...] = ("ai-input", "ai-train")
_SIGNALS = {"content-signal": "Content-Signal", "content-usage": "Content-Usage"}
USAGE_FIELDS = frozenset({*_SIGNALS, TDM_RESERVATION, TDM_POLICY, "x-robots-tag", "link"})
_quoted = re.compile(r'"(?:[^"\\]|\\.)*"')
_link_value = re.compile(r"<([^<>]*)>((?:\s*;\s*[\w-]+\s*=\s*(?:\"[^\"]*\"|[^\s;,\"]+))*)").finditer
_link_parameter = re.compile(r";\s*([\w-]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))").findall


# -- robots directives -------------------------------------------------------------------------------------------------


def robots_from_meta(name: str, content: str, agent: str = AGENT) -> frozenset[str]:
    """The directives of one meta element, if it addresses all robots or `agent`."""
    if name.strip().lower() not in ("robots", agent.lower()):
        return frozenset()
    return frozenset(_separator.split(content[:DIRECTIVES_LENGTH_MAX].lower()))


def robots_from_header(value: str, agent: str = AGENT) -> frozenset[str]:
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


def combine_robots(sources: Iterable[frozenset[str]]) -> RobotsMeta:
    """All robots directives together."""
    directives = frozenset().union(*sources)
    if not directives:
        return NO_RESTRICTIONS
    none = "none" in directives
    return RobotsMeta(
        noindex=none or "noindex" in directives,
        nofollow=none or "nofollow" in directives,
        noarchive="noarchive" in directives or "nocache" in directives,
    )


# -- usage preferences -------------------------------------------------------------------------------------------------


def from_signal(source: UsageSource, label: str, value: str, place: str = "") -> UsageStatement | None:
    """The statement of a Content-Signal or Content-Usage; None if it says nothing about a use that is known here.
    `place`: the path before it, in robots.txt."""
    value = _quoted.sub('""', value[:TEXT_LENGTH_MAX])
    said: dict[Use, bool] = {}
    for part in value.lower().split(","):
        name, _, answer = part.partition(";")[0].partition("=")
        use, grants = _NAMES.get(name.strip()), _VALUES.get(answer.strip())
        if use is not None and grants is not None:  # of a repeated member the last one counts (RFC 9651 section 3.2)
            said[use] = grants
    if not said:
        return None
    text = f"{label}: {place} {value.strip()}" if place else f"{label}: {value.strip()}"
    reserved, granted = (tuple(use for use in USES if said.get(use) is grants) for grants in (False, True))
    return UsageStatement(source, _printable(text), reserved, granted)


def usage_from_directives(source: UsageSource, directives: Iterable[str]) -> list[UsageStatement]:
    """`noai` and `noimageai` among the directives for robots."""
    found = [UsageStatement(source, "noai", _AI)] if "noai" in directives else []
    return [*found, UsageStatement(source, "noimageai")] if "noimageai" in directives else found


def from_tdm(source: UsageSource, name: str, value: str) -> UsageStatement | None:
    """A TDM reservation or the address of its policy; None for anything else. 0 is no reservation."""
    value = value[:TEXT_LENGTH_MAX].strip()
    if name == TDM_RESERVATION and value in ("0", "1"):
        return UsageStatement(source, f"{name}: {value}", _AI if value == "1" else (), () if value == "1" else _AI)
    return UsageStatement(source, _printable(f"{name}: {value}")) if name == TDM_POLICY and value else None


def from_licence(source: UsageSource, url: str) -> UsageStatement:
    """Where the terms of an RSL licence are; they are not read."""
    return UsageStatement(source, _printable(f"License: {url.strip()}"))


def usage_from_header(fields: Iterable[tuple[str, str]], directives: Iterable[str] = ()) -> list[UsageStatement]:
    """The statements of a response, whose names are in lower case; `directives`: of its X-Robots-Tag, for us."""
    found: list[UsageStatement | None] = []
    for name, value in fields:
        if name in _SIGNALS:
            found.append(from_signal("header", _SIGNALS[name], value))
        elif name == "link" and RSL_TYPE in value:
            found += [from_licence("header", url) for url in _rsl_links(value)]
        elif name in (TDM_RESERVATION, TDM_POLICY):
            found.append(from_tdm("header", name, value))
    return [*filter(None, found), *usage_from_directives("header", directives)][:STATEMENTS_MAX]


def _rsl_links(value: str) -> Iterable[str]:
    """The targets of a Link field (RFC 8288) that are RSL licences."""
    for link in _link_value(value[: 10 * TEXT_LENGTH_MAX]):
        parameters = {name.lower(): (quoted or plain).lower() for name, quoted, plain in _link_parameter(link[2])}
        if "license" in parameters.get("rel", "").split() and parameters.get("type") == RSL_TYPE:
            yield link[1]


def combine_usage(*sources: Iterable[UsageStatement]) -> tuple[UsageStatement, ...]:
    """All statements about a page, each once."""
    return tuple(dict.fromkeys(one for source in sources for one in source))[:STATEMENTS_MAX]


def reserved_uses(page: Page) -> frozenset[str]:
    """The uses that are reserved: the most restrictive statement counts."""
    if not page.usage and not page.robots.noindex:
        return frozenset()
    reserved = {use for one in page.usage for use in one.reserved}
    return frozenset(reserved | {"search"} if page.robots.noindex else reserved)


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text[:TEXT_LENGTH_MAX]))
