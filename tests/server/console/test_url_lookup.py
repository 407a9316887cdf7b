"""What about this URL? The page says what `tarrafa explain` says, in the reader's language."""

from html import unescape

import pytest

from tests.server.console.coordinator_site import NAME, CoordinatorSite
from tests.server.console.example_console import VIEWER

ROOT, GONE, FAR = "http://www.site.test/", "http://www.site.test/gone", "http://elsewhere.test/x"


def looked_up(furnished: CoordinatorSite, url: str, language: str) -> str:
    return unescape(furnished.signed_in(VIEWER).get(f"/console/look?url={url}", Accept_Language=language).text)


@pytest.mark.parametrize(
    ("url", "english", "portuguese"),
    [
        (ROOT, "it is a root", "é uma raiz"),
        (ROOT, "not planned: it was visited, and this collection makes no revisits",
         "não prevista: foi visitada, e esta coleção não faz revisitas"),
        (ROOT, "<dd>kept · ", "<dd>guardada · "),
        (GONE, "visited, not kept", "visitada, não guardada"),
        (FAR, "no pattern of [scope] hosts matches elsewhere.test",
         "nenhum padrão de [scope] hosts corresponde a elsewhere.test"),
        (FAR, "it is out of scope, and links to it are not followed",
         "está fora do escopo, e links para ela não são seguidos"),
        ("%20ftp:", "This is no URL and no host", "Isto não é URL nem host"),
    ],
)  # fmt: skip
def test_a_page_is_explained_in_both_languages(furnished, url, english, portuguese):
    assert english in looked_up(furnished, url, "en")
    assert portuguese in looked_up(furnished, url, "pt")
    assert english not in looked_up(furnished, url, "pt")


def test_from_a_page_one_comes_to_what_ended_like_it(furnished):
    assert f'<a href="/console/c/{NAME}/status/404">404 Not Found</a>' in looked_up(furnished, GONE, "en")


def test_programs_hear_english_whatever_their_language(furnished):
    told = furnished.program().get(f"/console/look.json?url={ROOT}", Accept_Language="pt").json
    assert told["collections"][0]["rule"] == "it is a root"
