"""What explain says of a URL where the order is breadth."""

import pytest

from tarrafa.crawl.explain.explain import breadth_turn, is_passed_over, passed_over_reason
from tarrafa.frontier.messages import SiteFacts, UrlFacts
from tarrafa.i18n import PORTUGUESE, message

BEST, OTHER = "http://a.br/", "http://a.br/x"
MENTIONED, BEGINS = "a.br was mentioned 7 times", "the walk then begins with"
IN_TABLE = f"when its site is chosen: {MENTIONED} and waits in the table of 12 sites; {BEGINS}"


def site(stage: str, mentions: int = 7, walked: int = 0, links: int = 0, vain: int = 0) -> SiteFacts:
    return SiteFacts("a.br", stage, mentions, BEST if stage != "over" else "", walked, links, vain, table=12)


def url(text: str, where: SiteFacts | None, state: str = "pending") -> UrlFacts:
    return UrlFacts("c", text, state, "page", 1, 0, 0, None, None, 0.0, None, 0, None, None, site=where)


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        (BEST, None, "soon"),
        (BEST, site("listed"), f"{IN_TABLE} this URL"),
        (OTHER, site("listed"), f"{IN_TABLE} {BEST}"),
        (OTHER, site("heard"),
         f"when its site comes into the table of 12 sites and is chosen: {MENTIONED}; {BEGINS} {BEST}"),
        (BEST, site("chosen", walked=2), "soon: it is page 3 of the walk through a.br"),
        (OTHER, site("chosen", walked=1), "if the walk through a.br gets there: 1 page so far, the next is http://a.br/;"
         " it goes on after page i while 2^i links lead to other sites"),
    ],
)  # fmt: skip
def test_when_the_turn_of_a_url_comes(text, where, told):
    assert str(breadth_turn(url(text, where), message("soon"))) == told


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (site("over", walked=1, links=1), "its only page had 1 link to other sites, 2 would lead on"),
        (site("over", walked=3, links=5), "the last of its 3 pages had 5 links to other sites, 8 would lead on"),
        (site("over", walked=1, links=9, vain=5), "5 visits brought no page"),
        (site("over", walked=1, links=9), "after 1 page nothing more of it waited"),
        (site("over"), "it was visited before the order became breadth, or could not be"),
    ],
)
def test_why_a_url_was_passed_over(where, told):
    assert str(passed_over_reason(where)) == f"not in this run: the walk through a.br is over: {told}"


def test_the_turn_of_a_url_is_told_in_portuguese_with_its_own_plurals():
    first, second = site("chosen", walked=2), site("chosen", walked=1)
    assert PORTUGUESE.render(breadth_turn(url(BEST, first), message("now"))) == (
        "agora: é a página 3 da caminhada por a.br"
    )
    assert "1 página até agora" in PORTUGUESE.render(breadth_turn(url(OTHER, second), message("now")))
    mentioned = site("listed", mentions=12_345)
    assert "a.br foi mencionado 12.345 vezes" in PORTUGUESE.render(breadth_turn(url(OTHER, mentioned), message("now")))
    assert PORTUGUESE.render(passed_over_reason(site("over", walked=1, links=1))) == (
        "não nesta execução: a caminhada por a.br terminou: sua única página tinha 1 ligação para outros sites,"
        " 2 levariam adiante"
    )


@pytest.mark.parametrize(
    ("where", "state", "expected"),
    [(site("over"), "pending", True), (site("over"), "fetched", False), (site("chosen"), "pending", False)],
)
def test_only_what_waits_on_a_site_that_was_walked_is_passed_over(where, state, expected):
    assert is_passed_over(url(OTHER, where, state)) is expected
