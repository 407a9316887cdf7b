"""How is an answer drawn?

Promises: templates see only prepared values; everything in them is escaped by default; numbers, dates and marked words
look the same everywhere. A page of results is counted from 1.
Knows nothing of HTTP or of where answers come from.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from tarrafa.model import Hit, SearchResult
from tarrafa.search.question import DEPTH_MAX
from tarrafa.search.searcher import Marker
from tarrafa.search.snippet import Pieces
from tarrafa.serve.shields import safe_href
from tarrafa.serve.texts import ENGLISH, Texts, status_text

PER_PAGE = 10
LINKS_PER_PAGE = 50
PAGES_SHOWN = 9  # of the numbers below the results
URL_CHARS_SHOWN = 120


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit as the results show it."""

    place: int
    hit: Hit
    title: Pieces
    snippet: Pieces


@dataclass(frozen=True, slots=True)
class Pager:
    """The numbers below a list. `page` and the others count from 1."""

    page: int
    last: int

    @classmethod
    def of(cls, page: int, total: int, per_page: int, most: int | None = None) -> "Pager":
        reachable = total if most is None else min(total, most)
        return cls(page, max(1, -(-reachable // per_page)))

    @property
    def numbers(self) -> range:
        """A window around where we are."""
        first = max(1, min(self.page - PAGES_SHOWN // 2, self.last - PAGES_SHOWN + 1))
        return range(first, min(self.last, first + PAGES_SHOWN - 1) + 1)

    @property
    def previous(self) -> int:
        """The page before this one; the last, for those who went beyond the end."""
        return min(self.page - 1, self.last)


def shown_hits(result: SearchResult, offset: int) -> list[ShownHit]:
    mark = Marker(result.query)
    return [
        ShownHit(place, hit, mark(hit.title, hit.language), mark(hit.snippet, hit.language))
        for place, hit in enumerate(result.hits, offset + 1)
    ]


def results_pager(page: int, total: int) -> Pager:
    return Pager.of(page, total, PER_PAGE, DEPTH_MAX)


def address(path: str, **values: object) -> str:
    """A link within the site; what is empty or False is left out."""
    kept = {name: value for name, value in values.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(kept)}" if kept else path


def _number(value: float) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _moment(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _short(url: str) -> str:
    return url if len(url) <= URL_CHARS_SHOWN else url[: URL_CHARS_SHOWN - 1] + "…"


class Drawing:
    """The templates, in one language."""

    def __init__(self, texts: Texts = ENGLISH) -> None:
        self.texts = texts
        self._environment = Environment(
            loader=PackageLoader("tarrafa.serve"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "href": safe_href,
            "number": _number,
            "seconds": _seconds,
            "moment": _moment,
            "short": _short,
            "status": lambda status: status_text(status, texts),
        }
        self._environment.globals |= {"t": texts, "address": address}

    def draw(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(values)
