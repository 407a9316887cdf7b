"""Jinja environment of the HTML pages: template filters for numbers, dates and URLs, views of hits, pager.

Promises: templates see only prepared values; everything in them is escaped by default; numbers, dates and marked
words look the same everywhere, as the reader's language writes them. A page of results is counted from 1. Knows
nothing of HTTP or of the source of results.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from math import prod
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup, escape

from tarrafa.crawl.explain.freshness import ChangeEstimate
from tarrafa.frontier.collection_status import shown_state
from tarrafa.i18n import Message, Translator
from tarrafa.index.text_analysis import primary_language
from tarrafa.model import Hit, SearchResult, collection_state, status_name, unkept_cause_name
from tarrafa.parse.mime_types import HTML_TYPES
from tarrafa.parse.rdf.prefixes import shorten_iri
from tarrafa.parse.url import canonical, host_name
from tarrafa.search.request import RESULT_DEPTH_MAX, ScorePart
from tarrafa.search.searcher import TermMarker
from tarrafa.search.snippet import MarkedPieces
from tarrafa.server.assets import asset_url
from tarrafa.server.entities.display import display_iri, summarize_properties, term_name, truncate
from tarrafa.server.search.params import SearchParams, address, language_name
from tarrafa.server.security_headers import safe_href

PER_PAGE = 10
LINKS_PER_PAGE = 50
PAGER_NUMBERS_SHOWN = 9  # of the numbers below the results
URL_CHARS_SHOWN = 120
HITS_PER_HOST = 2  # hits of one host on a page, after which there may be more of them
BADGES = {
    "application/pdf": "PDF", "application/rtf": "RTF", "text/rtf": "RTF", "text/plain": "TXT",
    "application/msword": "DOC", "application/vnd.ms-excel": "XLS", "application/vnd.ms-powerpoint": "PPT",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "DOCX",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "XLSX",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "PPTX",
    "application/vnd.oasis.opendocument.text": "ODT", "application/vnd.oasis.opendocument.spreadsheet": "ODS",
    "application/vnd.oasis.opendocument.presentation": "ODP",
}  # fmt: skip
BADGE_CHARS_MAX = 8
FACTOR_KINDS = frozenset({"links", "listing", "recent", "curated", "site"})  # kinds of parts of a score


@dataclass(frozen=True, slots=True)
class HitView:
    """A hit as the results show it. `more` links to more hits of its host, if there may be any; `alternates` are the
    same page in other languages of the reader.
    """

    place: int
    hit: Hit
    title: MarkedPieces
    snippet: MarkedPieces
    badge: str
    more: str
    alternates: list[tuple[str, str]]  # language and URL


@dataclass(frozen=True, slots=True)
class Pager:
    """The numbers below a list. `page` and the others count from 1; `cut`: there are more than can be reached."""

    page: int
    last: int
    cut: bool = False

    @classmethod
    def of(cls, page: int, total: int, per_page: int, most: int | None = None) -> "Pager":
        reachable = total if most is None else min(total, most)
        return cls(page, max(1, -(-reachable // per_page)), reachable < total)

    @property
    def numbers(self) -> range:
        """A window around the current page."""
        first = max(1, min(self.page - PAGER_NUMBERS_SHOWN // 2, self.last - PAGER_NUMBERS_SHOWN + 1))
        return range(first, min(self.last, first + PAGER_NUMBERS_SHOWN - 1) + 1)

    @property
    def previous(self) -> int:
        """The page before this one; the last page, beyond the end."""
        return min(self.page - 1, self.last)

    @property
    def is_near_the_limit(self) -> bool:
        return self.cut and self.last in self.numbers


def hit_views(result: SearchResult, asked: SearchParams, offset: int, languages: Sequence[str] = ()) -> list[HitView]:
    """The hits of a page of results; `languages` are those of the reader."""
    mark = TermMarker(result.query, result.expanded)
    seen: Counter[str] = Counter()
    many = Counter(hit.site for hit in result.hits)
    shown = []
    for place, hit in enumerate(result.hits, offset + 1):
        seen[hit.site] += 1
        last_of_many = many[hit.site] >= HITS_PER_HOST and seen[hit.site] == many[hit.site]
        title, snippet = mark(hit.title, hit.language), mark(hit.snippet, hit.language)
        more = _more_of_site_link(asked, hit.site) if last_of_many else ""
        shown.append(HitView(place, hit, title, snippet, type_badge(hit.type), more, _alternates(hit, languages)))
    return shown


def _alternates(hit: Hit, languages: Sequence[str]) -> list[tuple[str, str]]:
    """The page in those of these languages that the reader prefers to its own."""
    found: dict[str, str] = {}
    for code, url in hit.alternates or ():
        found.setdefault(primary_language(code), url)
    preferred = takewhile(lambda code: code != hit.language, languages)
    return [(code, found[code]) for code in preferred if code in found]


def _more_of_site_link(asked: SearchParams, site: str) -> str:
    """A link to more hits of a host; empty if there are none, or the query already names a host. The condition comes
    first: behind an open quotation mark it would be part of the phrase."""
    typed = asked.q.lower()
    if not site or not asked.q or asked.like or "site:" in typed or "host:" in typed:
        return ""
    return asked.address(q=f"site:{site} {asked.q}")


def type_badge(mime: str) -> str:
    """A short name of a type other than HTML."""
    if not mime or mime in HTML_TYPES:
        return ""
    short = mime.partition("/")[2].removeprefix("x-").upper()
    return BADGES.get(mime) or (short if len(short) <= BADGE_CHARS_MAX else mime.partition("/")[0].upper())


@dataclass(frozen=True, slots=True)
class ScoreExplanation:
    """The parts of a score: what is added up, the most first, and what the sum is multiplied by."""

    parts: list[ScorePart]
    factors: list[ScorePart]

    @classmethod
    def of(cls, parts: list[ScorePart]) -> "ScoreExplanation":
        added = [part for part in parts if part.kind not in FACTOR_KINDS]
        return cls(sorted(added, key=lambda part: -part.value), [part for part in parts if part.kind in FACTOR_KINDS])

    @property
    def sum(self) -> float:
        return sum(part.value for part in self.parts)

    @property
    def score(self) -> float:
        return (self.sum if self.parts else 1.0) * prod(part.value for part in self.factors)  # 1: only conditions


def results_pager(page: int, total: int) -> Pager:
    return Pager.of(page, total, PER_PAGE, RESULT_DEPTH_MAX)


def status_text(status: int | None, _: Translator) -> str:
    """`404 Not Found`, or what our own negative codes mean."""
    return _("never visited") if status is None else f"{status} {_.render(status_name(status))}".rstrip()


def at_least(page: ChangeEstimate, _: Translator) -> str:
    """The change rate of a page that may as well change at any faster rate."""
    often = format_change_rate(page.low, _)
    return _("{often}, or more often", often=often) if often else ""


def format_change_rate(per_day: float, _: Translator) -> str:
    """A change rate in words."""
    if per_day <= 0:
        return ""
    times = round(per_day if per_day >= 1 else 1 / per_day, 1)
    if times == 1:
        return _("about once a day")
    if per_day > 1:
        return _("about {mean} times a day", mean=_.significant(times))
    return _("about every {mean} days", mean=_.significant(times))


def host_name_of(text: str) -> str:
    """The name of a URL's, a host's or a site's host."""
    url = canonical(text if "://" in text else f"http://{text}/")
    return host_name(url) if url is not None else text


def _format_time(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


_iso = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)Z").sub


def _short(url: str) -> str:
    return url if len(url) <= URL_CHARS_SHOWN else url[: URL_CHARS_SHOWN - 1] + "…"


def readable_url(url: str) -> str:
    """With its letters as letters: `serviços` for `servi%C3%A7os`. Signs, spaces and ASCII stay as they are."""
    return _escaped(_letters, url)


_escaped = re.compile(r"(?:%[89A-F][0-9A-F])+", re.IGNORECASE).sub


def _letters(match: re.Match[str]) -> str:
    try:
        text = bytes.fromhex(match[0].replace("%", "")).decode()
    except ValueError:
        return match[0]
    return text if text.isalnum() else match[0]


def _url_with_bold_host(url: str) -> Markup:
    """A URL with its host in bold, so that no path is mistaken for it."""
    scheme, _, rest = _short(readable_url(url)).partition("://")
    authority, slash, path = rest.partition("/")
    before, at, host = authority.rpartition("@")
    return Markup("{}<b>{}</b>{}").format(f"{scheme}://{before}{at}", host, slash + path) if host else escape(url)


def type_query(kind: str) -> str:
    """The query for pages that declare an entity of this type."""
    return f'type:"{kind}"' if "://" in kind else f"type:{kind}"


class ConstantSentences(Extension):
    """Translates sentences without values when a template is compiled, because an environment has one language. It
    saves some hundred calls a page."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        translate: Any = self.environment.globals["_"]
        return _constant_sentences(lambda found: escape(translate(found[1])), source)


_constant_sentences = re.compile(r'\{\{ _\("([^"\\]+)"\) \}\}').sub


class TemplateRenderer:
    """The templates, in one language: `_` and `ngettext` are the reader's translator. A message that a template shows
    is in that language, too.
    """

    def __init__(self, _: Translator) -> None:
        self._environment = Environment(
            loader=PackageLoader("tarrafa.server"),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[ConstantSentences],
            finalize=lambda value: _.render(value) if isinstance(value, Message) else value,
        )
        self._environment.filters |= {
            "href": safe_href,
            "number": lambda value: _.number(value, 1 if isinstance(value, float) else 0),
            "decimals": lambda value: _.number(value, 2),
            "seconds": lambda value: _.number(max(value, 0.001), 3),  # 0 would look like a mistake
            "figures": _.significant,
            "often": lambda page: (
                format_change_rate(page.changes_per_day, _) if page.high is not None else at_least(page, _)
            ),
            "host": host_name_of,
            "moment": _format_time,
            "short": _short,
            "where": _url_with_bold_host,
            "bytes": _.size,
            "percent": lambda share: _.percent(share, 0 if share >= 0.1 else 1),
            "duration": lambda value: _.span(round(value)) if value >= 1 else "0 s",
            "clock": lambda at: datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S"),
            "rate": lambda value: _.number(value, 1),
            "status": lambda status: status_text(status, _),
            "unkept_cause": lambda cause: _.render(unkept_cause_name(cause)),
            "utc": lambda text: _iso(r"\1 \2 UTC", text),
            "state": collection_state,
            "shown_state": shown_state,
            "language": lambda code: language_name(code, _),
            "term": lambda name: term_name(name, _),
            "of_kind": type_query,
            "in_short": shorten_iri,
            "plain_iri": display_iri,
            "cut": truncate,
            "picture": summarize_properties,
            "is_web": lambda iri: safe_href(iri) == iri,
        }
        self._environment.globals |= {"_": _, "ngettext": _.ngettext, "address": address, "asset": asset_url}

    def render(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(values)
