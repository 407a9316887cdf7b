"""Filter and sort menus of the search page: language, time, order, switches.

Promises: each menu shows what is chosen now, and every choice is a plain link that keeps all the others; the
languages offered are those that pages are in. Knows nothing of HTML.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tarrafa.i18n import Message, Translator, message
from tarrafa.search.request import Sort
from tarrafa.server.search.params import SearchParams

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
        message("Words that stand in more than half of the pages are not looked for"),
    ),
    "expand": (
        message("Add related words"),
        message("Words that the best results have in common are looked for too"),
    ),
    "recent": (message("Prefer recent pages"), message("Of pages that match alike, the newer one comes first")),
    "copies": (message("Show every copy"), message("Pages that say the same are shown each by itself")),
    "crowded": (
        message("Any number per site"),
        message("A third page of the same site keeps its place among the others"),
    ),
}


@dataclass(frozen=True, slots=True)
class MenuChoice:
    label: str
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class FilterMenu:
    """`is_set`: something else than what everybody gets. `has_range`: two dates can be given, too."""

    name: str
    shown: str
    choices: list[MenuChoice]
    is_set: bool
    has_range: bool = False


@dataclass(frozen=True, slots=True)
class SearchSwitch:
    """A yes or no. `name` is that of the parameter."""

    name: str
    label: str
    hint: str
    on: bool


def filter_menus(asked: SearchParams, _: Translator, languages: Iterable[str]) -> list[FilterMenu]:
    """Language, time and order. `languages` are those of the pages, the most frequent first."""
    return [_language_menu(asked, _, languages), _time_menu(asked, _), _sort_menu(asked, _)]


def search_switches(asked: SearchParams, _: Translator) -> list[SearchSwitch]:
    return [
        SearchSwitch(name, _.render(label), _.render(hint), getattr(asked, name))
        for name, (label, hint) in SWITCH_TEXTS.items()
    ]


def language_name(code: str, _: Translator) -> str:
    return _.language_name(code) or code


def _language_menu(asked: SearchParams, _: Translator, languages: Iterable[str]) -> FilterMenu:
    offered = list(languages)[:LANGUAGES_SHOWN_MAX]
    if asked.lang and asked.lang not in offered:
        offered.append(asked.lang)
    choices = [MenuChoice(_("Any language"), asked.address(lang=""), not asked.lang)]
    choices += [
        MenuChoice(language_name(code, _), asked.address(lang=code), code == asked.lang)
        for code in sorted(offered, key=lambda code: language_name(code, _).casefold())
    ]
    shown = language_name(asked.lang, _) if asked.lang else _("Any language")
    return FilterMenu(_("Language"), shown, choices, bool(asked.lang))


def _time_menu(asked: SearchParams, _: Translator) -> FilterMenu:
    dates = bool(asked.after or asked.before)
    choices = [MenuChoice(_("Any time"), asked.address(time="", after="", before=""), not dates and not asked.time)]
    choices += [
        MenuChoice(_.render(name), asked.address(time=time, after="", before=""), not dates and time == asked.time)
        for time, name in TIME_NAMES.items()
    ]
    return FilterMenu(_("Updated"), _time_shown(asked, _), choices, dates or bool(asked.time), has_range=True)


def _time_shown(asked: SearchParams, _: Translator) -> str:
    after, before = asked.after, asked.before
    if after and before:
        return _("{after} to {before}", after=after, before=before)
    if after:
        return _("Since {after}", after=after)
    if before:
        return _("Before {before}", before=before)
    return _.render(TIME_NAMES[asked.time]) if asked.time in TIME_NAMES else _("Any time")


def _sort_menu(asked: SearchParams, _: Translator) -> FilterMenu:
    now = asked.sort or Sort.RELEVANCE
    choices = [
        MenuChoice(_.render(name), asked.address(sort="" if order is Sort.RELEVANCE else order), order == now)
        for order, name in SORT_NAMES.items()
    ]
    return FilterMenu(_("Sorted by"), _.render(SORT_NAMES.get(now, now)), choices, now != Sort.RELEVANCE)
