"""Filter and sort menus of the search page: language, time, order, switches.

Promises: each menu shows what is chosen now, and every choice is a plain link that keeps all the others; the
languages offered are those that pages are in. Knows nothing of HTML.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tarrafa.search.request import Sort
from tarrafa.server.page_texts import Texts
from tarrafa.server.search.params import SWITCH_PARAMS, TIME_RANGE_DAYS, SearchParams

LANGUAGES_SHOWN_MAX = 12


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


def filter_menus(asked: SearchParams, texts: Texts, languages: Iterable[str]) -> list[FilterMenu]:
    """Language, time and order. `languages` are those of the pages, the most frequent first."""
    return [_language_menu(asked, texts, languages), _time_menu(asked, texts), _sort_menu(asked, texts)]


def search_switches(asked: SearchParams, texts: Texts) -> list[SearchSwitch]:
    return [
        SearchSwitch(name, texts.switches[name], texts.switch_hints[name], getattr(asked, name))
        for name in SWITCH_PARAMS
    ]


def language_name(code: str, texts: Texts) -> str:
    return texts.languages.get(code, code)


def _language_menu(asked: SearchParams, texts: Texts, languages: Iterable[str]) -> FilterMenu:
    offered = list(languages)[:LANGUAGES_SHOWN_MAX]
    if asked.lang and asked.lang not in offered:
        offered.append(asked.lang)
    choices = [MenuChoice(texts.any_language, asked.address(lang=""), not asked.lang)]
    choices += [
        MenuChoice(language_name(code, texts), asked.address(lang=code), code == asked.lang)
        for code in sorted(offered, key=lambda code: language_name(code, texts).casefold())
    ]
    shown = language_name(asked.lang, texts) if asked.lang else texts.any_language
    return FilterMenu(texts.language_menu, shown, choices, bool(asked.lang))


def _time_menu(asked: SearchParams, texts: Texts) -> FilterMenu:
    dates = bool(asked.after or asked.before)
    choices = [MenuChoice(texts.any_time, asked.address(time="", after="", before=""), not dates and not asked.time)]
    choices += [
        MenuChoice(texts.times[name], asked.address(time=name, after="", before=""), not dates and name == asked.time)
        for name in TIME_RANGE_DAYS
    ]
    return FilterMenu(texts.time_menu, _time_shown(asked, texts), choices, dates or bool(asked.time), has_range=True)


def _time_shown(asked: SearchParams, texts: Texts) -> str:
    after, before = asked.after, asked.before
    if after and before:
        return texts.range_between.format(after=after, before=before)
    if after:
        return texts.range_since.format(after=after)
    if before:
        return texts.range_until.format(before=before)
    return texts.times.get(asked.time, texts.any_time)


def _sort_menu(asked: SearchParams, texts: Texts) -> FilterMenu:
    now = asked.sort or Sort.RELEVANCE
    choices = [
        MenuChoice(texts.sorts[order], asked.address(sort="" if order is Sort.RELEVANCE else order), order == now)
        for order in Sort
    ]
    return FilterMenu(texts.sort_menu, texts.sorts.get(now, now), choices, now != Sort.RELEVANCE)
