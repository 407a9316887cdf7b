"""What a request asks for: every choice is a parameter, and every link keeps what it does not change."""

from datetime import date

import pytest
from starlette.datastructures import QueryParams

from tarrafa.errors import QueryError
from tarrafa.i18n import ENGLISH
from tarrafa.search.request import SearchRequest, Sort
from tarrafa.server.search.params import (
    SearchParams,
    address,
    filter_menus,
    integer_param,
    page_number_param,
    search_switches,
)

TODAY = date(2026, 11, 16)
EVERYTHING = (
    "q=a%26b&all=1&natural=1&expand=1&recent=1&sort=date&lang=pt&after=2026-01-01&before=2026-02"
    "&collection=c&copies=1&crowded=1&like=http%3A%2F%2Fa%2F&related=http%3A%2F%2Fb%2F&hl=pt"
)


def asked(text: str) -> SearchParams:
    return SearchParams.from_query(QueryParams(text))


def test_every_choice_reaches_the_question():
    found = asked(EVERYTHING).search_request(7, 14, TODAY)
    assert found == SearchRequest(
        "a&b", 7, 14, "c", all_words=True, natural=True, expand=True, sort=Sort.DATE, recent=True, copies=True,
        like="http://a/", crowded=True, related="http://b/", language="pt", after="2026-01-01", before="2026-02",
    )  # fmt: skip


def test_nothing_chosen_is_the_plain_question():
    assert asked("q=rede").search_request(10, 0, TODAY) == SearchRequest("rede")


@pytest.mark.parametrize(
    ("time", "after"), [("day", "2026-11-15"), ("week", "2026-11-09"), ("month", "2026-10-17"), ("year", "2025-11-16")]
)
def test_the_last_week_counts_back_from_today(time, after):
    assert asked(f"q=x&time={time}").search_request(10, 0, TODAY).after == after


def test_a_date_counts_more_than_the_last_week():
    assert asked("q=x&time=week&after=2020").search_request(10, 0, TODAY).after == "2020"


@pytest.mark.parametrize("wrong", ["sort=best", "time=hour", "sort=Date"])
def test_what_cannot_be_chosen_is_one_sentence(wrong):
    with pytest.raises(QueryError, match="must be"):
        asked(f"q=x&{wrong}").search_request(10, 0, TODAY)


def test_a_link_keeps_everything_that_it_does_not_change():
    link = asked(EVERYTHING).address("/search.csv", sort="", page=3)
    assert link.startswith("/search.csv?")
    assert asked(link.partition("?")[2]) == SearchParams.from_query(QueryParams(EVERYTHING.replace("&sort=date", "")))
    assert link.endswith("&page=3")


def test_hidden_fields_say_the_same_as_links():
    given = asked(EVERYTHING)
    assert address("/", **dict(given.fields())) == given.address("/")
    assert "lang" not in dict(given.fields("lang"))


def test_parameters_are_bounded_and_trimmed():
    given = asked(f"q=++rede++&like={'x' * 9000}&all=yes")
    assert (given.q, len(given.like), given.all) == ("rede", 4000, False)


def test_numbers_are_whole_or_one_sentence():
    assert integer_param(QueryParams("n=5"), "n", 10) == 5
    assert integer_param(QueryParams("n=-5"), "n", 10) == -5
    assert integer_param(QueryParams(""), "n", 10) == 10
    for bad in ("x", "1.5", "9999999999", "١"):
        with pytest.raises(QueryError, match="n must be a whole number"):
            integer_param(QueryParams({"n": bad}), "n", 10)
        assert page_number_param(QueryParams({"page": bad}), "page") == 1


def test_menus_show_what_is_chosen_and_offer_the_rest():
    language, time, sort = filter_menus(asked("q=x&lang=pt&sort=links&page=3"), ENGLISH, ["pt", "en", "gn"])
    assert (language.shown, language.is_set) == ("Portuguese", True)
    assert [choice.label for choice in language.choices] == ["Any language", "English", "Guarani", "Portuguese"]
    assert [choice.href for choice in language.choices][:2] == ["/?q=x&sort=links", "/?q=x&sort=links&lang=en"]
    assert [choice.label for choice in language.choices if choice.chosen] == ["Portuguese"]
    assert (time.shown, time.is_set, time.has_range) == ("Any time", False, True)
    assert (sort.shown, [choice.chosen for choice in sort.choices]) == ("Most linked first", [False, False, True])


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ("time=week", "Past week"),
        ("after=2026-01", "Since 2026-01"),
        ("before=2026-02", "Before 2026-02"),
        ("after=2026-01&before=2026-02", "2026-01 to 2026-02"),
    ],
)
def test_the_menu_of_times_says_which(chosen, shown):
    assert filter_menus(asked(f"q=x&{chosen}"), ENGLISH, [])[1].shown == shown


def test_a_language_that_no_page_is_in_can_still_be_turned_off():
    labels = [choice.label for choice in filter_menus(asked("q=x&lang=xx"), ENGLISH, ["pt"])[0].choices]
    assert labels == ["Any language", "Portuguese", "xx"]


def test_switches_are_on_or_off():
    on = [one.name for one in search_switches(asked("q=x&recent=1&copies=1"), ENGLISH) if one.on]
    assert on == ["recent", "copies"]
