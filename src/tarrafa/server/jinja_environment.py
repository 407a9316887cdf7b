"""Jinja environment of the HTML pages: template filters for numbers, dates and URLs, views of hits, pager.

Promises: templates see only prepared values; everything in them is escaped by default; numbers, dates and marked
words look the same everywhere, as the reader's language writes them. A page of results is counted from 1. Knows
nothing of HTTP or of where answers come from.
"""

import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import floor, log10, prod
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tarrafa.i18n import translator
from tarrafa.model import Hit, SearchResult
from tarrafa.parse.rdf.entity import vocabulary_of
from tarrafa.parse.rdf.prefixes import shorten_iri
from tarrafa.parse.url import canonical, host_name
from tarrafa.search.request import RESULT_DEPTH_MAX, ScorePart
from tarrafa.search.searcher import TermMarker
from tarrafa.search.snippet import MarkedPieces
from tarrafa.server.assets import asset_url
from tarrafa.server.entities.property_summary import display_iri, summarize_properties, truncate
from tarrafa.server.page_texts import Texts, status_text, translated, trouble_text
from tarrafa.server.search.filter_menus import language_name
from tarrafa.server.search.params import SearchParams, address
from tarrafa.server.security_headers import safe_href

PER_PAGE = 10
LINKS_PER_PAGE = 50
PAGER_NUMBERS_SHOWN = 9  # of the numbers below the results
URL_CHARS_SHOWN = 120
HITS_PER_SITE = 2  # hits of one host on a page, after which there may be more of them
PLAIN_TYPES = frozenset({"", "text/html", "application/xhtml+xml"})
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
DURATION_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
BYTE_UNITS = ("B", "KB", "MB", "GB", "TB")
FACTOR_KINDS = frozenset({"links", "recent", "curated"})  # kinds of parts of a score


@dataclass(frozen=True, slots=True)
class HitView:
    """A hit as the results show it. `more` leads to the others of its host, where there may be some."""

    place: int
    hit: Hit
    title: MarkedPieces
    snippet: MarkedPieces
    badge: str
    more: str


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
        """A window around where we are."""
        first = max(1, min(self.page - PAGER_NUMBERS_SHOWN // 2, self.last - PAGER_NUMBERS_SHOWN + 1))
        return range(first, min(self.last, first + PAGER_NUMBERS_SHOWN - 1) + 1)

    @property
    def previous(self) -> int:
        """The page before this one; the last, for those who went beyond the end."""
        return min(self.page - 1, self.last)

    @property
    def is_near_the_limit(self) -> bool:
        return self.cut and self.last in self.numbers


def hit_views(result: SearchResult, asked: SearchParams, offset: int) -> list[HitView]:
    mark = TermMarker(result.query, result.expanded)
    seen: Counter[str] = Counter()
    many = Counter(hit.site for hit in result.hits)
    shown = []
    for place, hit in enumerate(result.hits, offset + 1):
        seen[hit.site] += 1
        last_of_many = many[hit.site] >= HITS_PER_SITE and seen[hit.site] == many[hit.site]
        title, snippet = mark(hit.title, hit.language), mark(hit.snippet, hit.language)
        more = _more_of_site_link(asked, hit.site) if last_of_many else ""
        shown.append(HitView(place, hit, title, snippet, type_badge(hit.type), more))
    return shown


def _more_of_site_link(asked: SearchParams, site: str) -> str:
    """A link to more of a host; none where there is nothing more to be had, or the text names a host already. The
    condition comes first: behind an open quotation mark it would be a part of the phrase."""
    typed = asked.q.lower()
    if not site or not asked.q or asked.like or "site:" in typed or "host:" in typed:
        return ""
    return asked.address(q=f"site:{site} {asked.q}")


def type_badge(mime: str) -> str:
    """A short name for what is no ordinary page."""
    if mime in PLAIN_TYPES:
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
        return self.sum * prod(part.value for part in self.factors)


def results_pager(page: int, total: int) -> Pager:
    return Pager.of(page, total, PER_PAGE, RESULT_DEPTH_MAX)


def format_number(value: float, texts: Texts) -> str:
    text = f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
    return _localize_number(text, texts)


def format_seconds(value: float, texts: Texts) -> str:
    """To the millisecond; nothing takes none."""
    value = max(value, 0.001)
    return _localize_number(f"{value:.3f}", texts)


def _localize_number(text: str, texts: Texts) -> str:
    """English separators as this language writes them."""
    return text.translate({ord(","): texts.thousands, ord("."): texts.decimal})


def format_significant(value: float, texts: Texts) -> str:
    """Three digits that matter: 0.00123, 1.23, 1,230."""
    digits = max(0, 2 - floor(log10(abs(value)))) if value else 0
    text = f"{value:,.{min(digits, 9)}f}"
    return _localize_number(text.rstrip("0").rstrip(".") if "." in text else text, texts)


def format_bytes(value: float, texts: Texts) -> str:
    """So many bytes: 1.2 MB."""
    unit = "B"
    for unit in BYTE_UNITS:
        if value < 1000:
            break
        value /= 1000 if unit != BYTE_UNITS[-1] else 1
    return f"{_localize_number(f'{value:,.{0 if unit == BYTE_UNITS[0] or value >= 100 else 1}f}', texts)} {unit}"


def format_percent(share: float, texts: Texts) -> str:
    return f"{_localize_number(f'{share * 100:.{0 if share >= 0.1 else 1}f}', texts)} %"


def format_duration(seconds_left: float) -> str:
    """In the two largest units of which there are some: 3 h 20 min."""
    whole = round(seconds_left)
    for (size, unit), (smaller, below) in pairwise((*DURATION_UNITS, (1, "s"))):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def format_change_rate(per_day: float, texts: Texts) -> str:
    """A rate of change as people say it."""
    if per_day >= 1:
        return texts.changes_a_day.format(count=format_significant(round(per_day, 1), texts))
    return texts.changes_every.format(days=format_significant(round(1 / per_day, 1), texts)) if per_day > 0 else ""


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
    """A URL with its host set off, so that nobody takes a path for one."""
    scheme, _, rest = _short(readable_url(url)).partition("://")
    authority, slash, path = rest.partition("/")
    before, at, host = authority.rpartition("@")
    return Markup("{}<b>{}</b>{}").format(f"{scheme}://{before}{at}", host, slash + path) if host else escape(url)


def term_name(name: str, texts: Texts) -> str:
    """What a class or property is called: by its own name, its words apart, where we have no better one."""
    own = name[len(vocabulary_of(name)) :].rpartition(":")[2]
    first, *others = _words_of_a_name(own) or [name]
    return texts.terms.get(own) or " ".join([first, *map(str.lower, others)])


_words_of_a_name = re.compile(r"[A-Z]*[^A-Z\s_.]+|[A-Z]+").findall


def type_query(kind: str) -> str:
    """The search for pages that declare such a thing; none where it cannot be said."""
    return f'type:"{kind}"' if "://" in kind else f"type:{kind}"


class TemplateRenderer:
    """The templates, in one language."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self._environment = Environment(
            loader=PackageLoader("tarrafa.server"),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "href": safe_href,
            "number": lambda value: format_number(value, texts),
            "decimals": lambda value: _localize_number(f"{value:,.2f}", texts),
            "seconds": lambda value: format_seconds(value, texts),
            "figures": lambda value: format_significant(value, texts),
            "often": lambda per_day: format_change_rate(per_day, texts),
            "host": host_name_of,
            "moment": _format_time,
            "short": _short,
            "where": _url_with_bold_host,
            "bytes": lambda value: format_bytes(value, texts),
            "percent": lambda value: format_percent(value, texts),
            "duration": format_duration,
            "clock": lambda at: datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S"),
            "rate": lambda value: _localize_number(f"{value:,.1f}", texts),
            "status": lambda status: status_text(status, texts),
            "utc": lambda text: _iso(r"\1 \2 UTC", text),
            "trouble": lambda trouble: trouble_text(trouble, texts),
            "language": lambda code: language_name(code, texts),
            "term": lambda name: term_name(name, texts),
            "of_kind": type_query,
            "in_short": shorten_iri,
            "plain_iri": display_iri,
            "cut": truncate,
            "picture": summarize_properties,
            "is_web": lambda iri: safe_href(iri) == iri,
            "said": lambda sentence: translated(sentence, texts) or sentence,
        }
        _ = translator(texts.code)
        self._environment.globals |= {
            "_": _,
            "ngettext": _.ngettext,
            "t": texts,
            "address": address,
            "asset": asset_url,
        }

    def render(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(values)
