"""Query parameters of a search, and the filter and sort menus that change them.

Promises: every choice is one parameter of the address, so that any page of results can be kept, sent, or read as a
feed; every link keeps all parameters but those that it changes. Reading the parameters never fails; an impossible value
is a `QueryError` when the search is made. A menu shows the present choice, and offers the languages of the pages.

    q         the text, as typed            lang      a language              time     day, week, month or year
    all       1: every word must be there   after     a date: from it on      before   a date: up to the day before
    natural   1: leave common words out     sort      relevance, date, links  recent   1: new pages first
    expand    1: add words that go with it  copies    1: each copy by itself  crowded  1: any number of a site
    like      a URL: only its copies        related   a URL: pages like it    collection, hl: the interface's language

Knows nothing of the search itself or of HTML.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus

import msgspec
from starlette.datastructures import QueryParams

from tarrafa.errors import QueryError
from tarrafa.i18n import Message, Translator, message
from tarrafa.search.request import SearchRequest, Sort

TIME_RANGE_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
FILTER_PARAMS = ("lang", "time", "after", "before", "collection")
VALUE_CHARS_MAX = 4_000  # of any parameter but the text, whose length the query language bounds
COLLECTION_CHARS_MAX = 100
PAGE_NUMBER_MAX = 1_000_000
LANGUAGES_SHOWN_MAX = 12
TIME_NAMES = {
    "day": message("Past day"),
    "week": message("Past week"),
    "month": message("Past month"),
    "year": message("Past year"),
}
SORT_NAMES: dict[str, Message] = {
    Sort.RELEVANCE: message("Relevance"),
    Sort.DATE: message("Newest first"),
    Sort.LINKS: message("Most linked first"),
}
SWITCH_TEXTS = {  # parameter -> label, hint
    "all": (message("All words"), message("Only pages that hold every word")),
    "natural": (
        message("Natural language"),
        message("Words that occur in more than half of the pages are ignored"),
    ),
    "expand": (
        message("Add related words"),
        message("Words that the best results have in common are searched, too"),
    ),
    "recent": (message("Prefer recent pages"), message("Of pages that match alike, the newer one comes first")),
    "copies": (message("Show every copy"), message("Pages with the same text are shown one by one")),
    "crowded": (
        message("Any number per site"),
        message("A third page of the same site keeps its place among the others"),
    ),
}
SWITCH_PARAMS = tuple(SWITCH_TEXTS)


class SearchParams(msgspec.Struct, frozen=True):
    """The parameters of a search, under their own names."""

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
        plain = dict(given.items())  # to look up each parameter in `given` took 10 us of a request
        values: dict[str, Any] = {name: _line(plain[name]) for name in TEXT_PARAMS if name in plain}
        values |= {name: plain[name] == "1" for name in SWITCH_PARAMS if name in plain}
        return cls(**values | {"q": plain.get("q", "").strip()})

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for: the first page."""
        return not self.q and not self.related

    @property
    def is_narrowed(self) -> bool:
        """Whether a filter leaves pages out."""
        return any(getattr(self, name) for name in FILTER_PARAMS)

    def filtered_text(self, today: date) -> str:
        """The text with the filters of the form in it, in the query language."""
        request = self.search_request(1, 0, today)
        filters = {"lang": request.language, "after": request.after, "before": request.before}
        chosen = " ".join(f"{name}:{value}" for name, value in filters.items() if value)
        return f"({self.q}) {chosen}" if chosen else self.q

    def search_request(self, n: int, offset: int, today: date) -> SearchRequest:
        """The request to the searcher. `time` counts back from `today`."""
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
        """A link that keeps all parameters except the changed ones."""
        return address(path, **{**msgspec.structs.asdict(self), **changed})

    def fields(self, *without: str) -> list[tuple[str, str]]:
        """Names and values for the hidden fields of a form, except those that the form has itself."""
        return [(name, value) for name, value in _non_empty(msgspec.structs.asdict(self)) if name not in without]


TEXT_PARAMS = [field.name for field in msgspec.structs.fields(SearchParams) if field.name not in SWITCH_PARAMS]


def address(path: str, **values: object) -> str:
    """A link within the site; empty and False values are left out."""
    kept = [f"{_quoted(name)}={_quoted(value)}" for name, value in _non_empty(values)]
    return f"{path}?{'&'.join(kept)}" if kept else path


@lru_cache(1_000)
def _quoted(text: str) -> str:
    """A page of results has seventy links with the same query in them."""
    return quote_plus(text)


def integer_param(given: QueryParams, name: str, default: int) -> int:
    """A parameter that must be a whole number, if it is given."""
    value = given.get(name, "").strip()
    if not value:
        return default
    if not (value.isascii() and value.removeprefix("-").isdigit() and len(value) < 10):
        raise QueryError(message("{name} must be a whole number, not {got}.", name=name, got=repr(value[:20])))
    return int(value)


def page_number_param(given: QueryParams, name: str) -> int:
    """The number of a page of a list; anything else than a number is the first."""
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


# -- menus -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MenuChoice:
    label: str
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class FilterMenu:
    """`is_set`: not the default. `has_range`: two dates can be given, too."""

    name: str
    shown: str
    choices: list[MenuChoice]
    is_set: bool
    has_range: bool = False


@dataclass(frozen=True, slots=True)
class SearchSwitch:
    """An option that is on or off. `name` is that of the parameter."""

    name: str
    label: str
    hint: str
    on: bool


def filter_menus(params: SearchParams, _: Translator, languages: Iterable[str]) -> list[FilterMenu]:
    """The menus of language, time and order. `languages` are those of the pages, the most frequent first."""
    return [_language_menu(params, _, languages), _time_menu(params, _), _sort_menu(params, _)]


def search_switches(params: SearchParams, _: Translator) -> list[SearchSwitch]:
    return [
        SearchSwitch(name, _.render(label), _.render(hint), getattr(params, name))
        for name, (label, hint) in SWITCH_TEXTS.items()
    ]


def language_name(code: str, _: Translator) -> str:
    return _.language_name(code) or code


def _language_menu(params: SearchParams, _: Translator, languages: Iterable[str]) -> FilterMenu:
    offered = list(languages)[:LANGUAGES_SHOWN_MAX]
    if params.lang and params.lang not in offered:
        offered.append(params.lang)
    names = {"": _("Any language")} | {code: language_name(code, _) for code in offered}
    choices = [
        MenuChoice(name, params.address(lang=code), code == params.lang)
        for code, name in sorted(names.items(), key=lambda one: (one[0] != "", one[1].casefold()))
    ]
    shown = names[params.lang]
    return FilterMenu(_("Language"), shown, choices, bool(params.lang))


def _time_menu(params: SearchParams, _: Translator) -> FilterMenu:
    dates = bool(params.after or params.before)
    choices = [MenuChoice(_("Any time"), params.address(time="", after="", before=""), not dates and not params.time)]
    choices += [
        MenuChoice(_.render(name), params.address(time=time, after="", before=""), not dates and time == params.time)
        for time, name in TIME_NAMES.items()
    ]
    return FilterMenu(_("Date"), _time_shown(params, _), choices, dates or bool(params.time), has_range=True)


def _time_shown(params: SearchParams, _: Translator) -> str:
    after, before = params.after, params.before
    if after and before:
        return _("{after} to {before}", after=after, before=before)
    if after:
        return _("Since {after}", after=after)
    if before:
        return _("Before {before}", before=before)
    return _.render(TIME_NAMES[params.time]) if params.time in TIME_NAMES else _("Any time")


def _sort_menu(params: SearchParams, _: Translator) -> FilterMenu:
    now = params.sort or Sort.RELEVANCE
    choices = [
        MenuChoice(_.render(name), params.address(sort="" if order is Sort.RELEVANCE else order), order == now)
        for order, name in SORT_NAMES.items()
    ]
    return FilterMenu(_("Sorted by"), _.render(SORT_NAMES.get(now, now)), choices, now != Sort.RELEVANCE)
