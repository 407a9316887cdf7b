"""What stands in a form is tried before it is saved: nothing is changed, and nothing typed is lost."""

import re
from html import unescape

import pytest

from tests.server.console.coordinator_site import NAME, CoordinatorSite
from tests.server.console.example_console import ADMIN, ClientResponse

ROOT = "http://www.site.test/"
URLS = f"{ROOT}a\n{ROOT}private/x\nhttp://elsewhere.test/"


def verdicts(page: str) -> list[str]:
    return re.findall(r'<span class="(in|out)">', page)


def value_of(page: str, name: str) -> str:
    field = re.search(rf'<(?:textarea|input)[^>]* name="{re.escape(name)}"[^>]*>([^<]*)', page)
    assert field is not None, name
    written = re.search(r' value="([^"]*)"', field[0])
    return unescape(written[1] if written else field[1])


def tried(site: CoordinatorSite, path: str, typed: dict[str, str]) -> ClientResponse:
    admin = site.signed_in(ADMIN)
    return admin.form(path, typed | {"csrf": site.csrf(admin)})


@pytest.mark.parametrize("path", ["/console/new", f"/console/c/{NAME}/edit"])
def test_an_exclusion_is_tried_before_it_is_saved(furnished: CoordinatorSite, path: str) -> None:
    before = furnished.state()
    typed = {"name": "" if path.endswith("new") else NAME, "roots": ROOT, "scope.exclude": "*/private/*", "urls": URLS}
    answer = tried(furnished, f"{path}/try", typed | {"try": "judge", "revision": "7"})
    assert (answer.code, verdicts(answer.text)) == (200, ["in", "out", "out"])
    assert {name: value_of(answer.text, name) for name in typed} == typed
    assert f'action="{path}"' in answer.text
    if "edit" in path:
        assert value_of(answer.text, "revision") == "7", "somebody else's change is noticed still"
    assert furnished.state() == before


@pytest.mark.parametrize(("language", "said"), [("en", "unknown hosts: 1"), ("pt", "servidores desconhecidos: 1")])
def test_how_much_it_would_be_is_told_in_the_form(furnished: CoordinatorSite, language: str, said: str) -> None:
    before = furnished.state()
    typed = {"name": "later", "roots": "http://never.test/", "scope.pages_max": "77", "try": "estimate"}
    answer = tried(furnished, f"/console/new/try?hl={language}", typed)
    assert answer.code == 200
    assert said in answer.text
    assert (value_of(answer.text, "name"), value_of(answer.text, "scope.pages_max")) == ("later", "77")
    assert f'formaction="/console/new/try?hl={language}#try"' in answer.text
    assert furnished.state() == before


def test_what_is_wrong_is_told_at_its_field_and_linked_from_above(furnished: CoordinatorSite) -> None:
    typed = {"name": "later", "roots": ROOT, "scope.depth_max": "-1", "scope.pages_max": "many", "try": "estimate"}
    for path in ("/console/new/try", "/console/new"):
        answer = tried(furnished, path, typed)
        assert answer.code == 400
        for name in ("scope-depth_max", "scope-pages_max"):
            assert f'<a href="#f-{name}">' in answer.text
            assert f'id="f-{name}-wrong"' in answer.text
        assert value_of(answer.text, "scope.pages_max") == "many"
