"""Query parameters of a search request, and links that keep or change them.

Promises: every choice that a person makes is one parameter of the address, so that any page of results can be kept,
sent, or read as a feed; every link of a page keeps all of them but those that it changes. Reading them never fails;
what cannot be meant is one `QueryError` when the question is asked.

    q         the text, as typed            lang      a language              time     day, week, month or year
    all       1: every word must be there   after     a date: from it on      before   a date: up to the day before
    natural   1: leave common words out     sort      relevance, date, links  recent   1: new pages first
    expand    1: add words that go with it  copies    1: each copy by itself  crowded  1: any number of a site
    like      a URL: only its copies        related   a URL: pages like it    collection, hl (the interface's
    language)

Knows nothing of how anything is found or drawn.
"""

from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import QueryParams

from tarrafa.errors import QueryError
from tarrafa.i18n import message
from tarrafa.search.request import SearchRequest, Sort

TIME_RANGE_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
SWITCH_PARAMS = ("all", "natural", "expand", "recent", "copies", "crowded")
FILTER_PARAMS = ("lang", "time", "after", "before", "collection")
VALUE_CHARS_MAX = 4_000  # of any parameter but the text, whose length the query language bounds
COLLECTION_CHARS_MAX = 100
PAGE_NUMBER_MAX = 1_000_000


class SearchParams(msgspec.Struct, frozen=True):
    """All that the page's controls say. Names are those of the parameters."""

    q: str = ""
    all: bool = False
    natural: bool = False
    expand: bool = False
    recent: bool = False
    sort: str = ""
    lang: str = ""
    time: str = ""
    after: str = ""
    before: str = ""
    collection: str = ""
    copies: bool = False
    crowded: bool = False
    like: str = ""
    related: str = ""
    hl: str = ""

    @classmethod
    def from_query(cls, given: QueryParams) -> "SearchParams":
        values: dict[str, Any] = {name: _line(given.get(name, "")) for name in TEXT_PARAMS}
        values |= {name: given.get(name) == "1" for name in SWITCH_PARAMS}
        return cls(**values)

    @property
    def is_empty(self) -> bool:
        """Nothing to look for: the first page."""
        return not self.q and not self.related

    @property
    def is_narrowed(self) -> bool:
        """Whether something beside the words leaves pages out."""
        return any(getattr(self, name) for name in FILTER_PARAMS)

    def search_request(self, n: int, offset: int, today: date) -> SearchRequest:
        """As the searcher takes it. `today` is what *the last week* counts back from."""
        if self.sort not in ("", *Sort):
            raise QueryError(message("sort must be relevance, date or links, not {got}.", got=repr(self.sort[:40])))
        if self.time not in ("", *TIME_RANGE_DAYS):
            raise QueryError(message("time must be day, week, month or year, not {got}.", got=repr(self.time[:40])))
        since = (today - timedelta(TIME_RANGE_DAYS[self.time])).isoformat() if self.time else ""
        return SearchRequest(
            self.q, n, offset, self.collection[:COLLECTION_CHARS_MAX] or None, self.all, self.natural, self.expand,
            Sort(self.sort or Sort.RELEVANCE), self.recent, self.copies, self.like, self.crowded, self.related,
            self.lang, self.after or since, self.before,
        )  # fmt: skip

    def address(self, path: str = "/", **changed: object) -> str:
        """A link that keeps all that was chosen, except what is changed."""
        return address(path, **{**msgspec.structs.asdict(self), **changed})

    def fields(self, *without: str) -> list[tuple[str, str]]:
        """Names and values for the hidden fields of a form; those `without` are left to the form itself."""
        return [(name, value) for name, value in _non_empty(msgspec.structs.asdict(self)) if name not in without]


TEXT_PARAMS = [field.name for field in msgspec.structs.fields(SearchParams) if field.name not in SWITCH_PARAMS]


def address(path: str, **values: object) -> str:
    """A link within the site; what is empty or False is left out."""
    kept = _non_empty(values)
    return f"{path}?{urlencode(kept)}" if kept else path


def integer_param(given: QueryParams, name: str, default: int) -> int:
    """A parameter that must be a whole number, where it is given."""
    value = given.get(name, "").strip()
    if not value:
        return default
    if not (value.isascii() and value.removeprefix("-").isdigit() and len(value) < 10):
        raise QueryError(message("{name} must be a whole number, not {got}.", name=name, got=repr(value[:20])))
    return int(value)


def page_number_param(given: QueryParams, name: str) -> int:
    """A page of a list; what is no number is the first."""
    try:
        return min(max(1, integer_param(given, name, 1)), PAGE_NUMBER_MAX)
    except QueryError:
        return 1


def _non_empty(values: dict[str, object]) -> list[tuple[str, str]]:
    return [
        (name, "1" if value is True else str(value)) for name, value in values.items() if value not in (None, "", False)
    ]


def _line(text: str) -> str:
    return text.strip()[:VALUE_CHARS_MAX]
