"""A host is forgotten: people see what is lost before it is, and what became of it afterwards."""

from collections.abc import Iterator
from html import unescape

import pytest

from tests.server.console.coordinator_site import CoordinatorSite, a_table
from tests.server.console.example_console import ADMIN, VIEWER, ConsoleClient

HOST, URL, NAME = "http://other.test:80", "http://other.test/", "forgetful"


@pytest.fixture(scope="module")
def met(furnished: CoordinatorSite) -> Iterator[CoordinatorSite]:
    """Another collection has met a host that nobody else knows, and rests."""
    program = furnished.program()
    table = a_table(furnished.web, NAME, URL)
    assert program.send("POST", "/api/v1/collections", {"table": table, "start": True}).code == 201
    furnished.wait_for(NAME, "finished")
    yield furnished
    assert program.ask("DELETE", f"/api/v1/collections/{NAME}").code == 204


def test_what_can_be_done_in_a_collection_is_offered_where_it_met_the_host(met):
    text = met.signed_in(ADMIN).get(f"/console/look?url={URL}").text
    assert f'name="collection" value="{NAME}"' in text
    assert 'name="collection" value="small"' not in text
    assert 'value="forget"' not in text, "not by one click"
    assert met.signed_in(VIEWER).get(f"/console/look/forget?url={URL}").code == 403


def drawn(client: ConsoleClient, path: str) -> tuple[str, str]:
    english, portuguese = (client.get(path, Accept_Language=language).text for language in ("en", "pt"))
    return unescape(english), unescape(portuguese)


def test_a_host_is_forgotten_after_a_question_told_afterwards_and_met_again_in_the_next_run(met):
    ana = met.signed_in(ADMIN)
    english, portuguese = drawn(ana, f"/console/look/forget?url={URL}")
    assert f"Forget the host {HOST}?" in english
    assert f"Esquecer o host {HOST}?" in portuguese
    assert "stay in the archive and in the search" in english
    assert "continuam no arquivo e na busca" in portuguese
    assert f'<a href="/console/c/{NAME}">{NAME}</a></th><td class="figure">1</td><td class="figure">0</td>' in english
    fields = {"csrf": met.csrf(ana), "url": URL, "action": "forget"}
    done = ana.form("/console/look/host", fields)
    assert done.code == 303
    english, portuguese = drawn(ana, done.headers["location"])
    assert "Forgotten by ana at" in english
    assert "Esquecido por ana em" in portuguese
    for untrue in ("The frontier does not know", "A fronteira não conhece", "no link to it", "nenhum link"):
        assert untrue not in english + portuguese
    assert ana.get(f"/console/look/forget?url={URL}").code == 303, "there is nothing to forget"

    assert ana.form(f"/console/c/{NAME}/act", {"action": "again", "csrf": fields["csrf"]}).code == 303
    met.wait_for_visits(NAME, 2)
    assert "Forgotten by" not in drawn(ana, f"/console/look?url={URL}")[0]
    assert met.program().get(f"/api/v1/look?url={URL}").json["host"]["met_by"][0]["collection"] == NAME
