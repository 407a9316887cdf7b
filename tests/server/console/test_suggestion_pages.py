"""Visitors suggest sites; an admin decides; nobody learns who it was."""

from collections.abc import Iterator

import pytest

from tarrafa.coordinator.suggestions import Suggestions
from tarrafa.server.console import suggestion_pages
from tarrafa.server.rate_limit import TokenBuckets
from tests.server.console.coordinator_site import NAME, CoordinatorSite
from tests.server.console.example_console import ADMIN, ClientResponse, ConsoleClient, SteppedClock
from tests.server.console.test_redaction import a_collection

SITE = "http://www.site.test/a"  # its host is in scope already
V1 = "/api/v1/suggestions"


@pytest.fixture
def opened(furnished: CoordinatorSite) -> Iterator[CoordinatorSite]:
    """The form is open, and closed afterwards; nothing waits then."""
    program = furnished.program()
    assert program.send("PUT", V1, {"is_on": True}).json == {"is_on": True}
    yield furnished
    left = [one["url"] for one in program.get(V1).json["suggestions"]]
    if left:
        program.send("POST", f"{V1}/decisions", {"decision": "reject", "urls": left})
    program.send("PUT", V1, {"is_on": False})


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many at once, where it is not about that."""
    monkeypatch.setattr(TokenBuckets, "take", lambda self, name, cost=1.0: 0.0)


def send(client: ConsoleClient, url: str, **more: str) -> ClientResponse:
    return client.form("/suggest-site", {"url": url, "website": "", **more})


def decide(furnished: CoordinatorSite, decision: str, url: str, collection: str = NAME) -> ClientResponse:
    admin = furnished.signed_in(ADMIN)
    fields = {"decision": decision, "url": url, "collection": collection, "csrf": furnished.csrf(admin)}
    return admin.form("/console/suggestions/decide", fields)


def test_the_form_is_not_there_and_not_linked_until_an_admin_opens_it(furnished):
    stranger, admin = furnished.client(), furnished.signed_in(ADMIN)
    assert "/suggest-site" not in stranger.get("/").text
    assert stranger.get("/suggest-site").code == send(stranger, "a.br").code == 404
    switch = {"on": "yes", "csrf": furnished.csrf(admin)}
    assert admin.form("/console/suggestions/switch", switch).code == 303
    assert 'href="/suggest-site"' in stranger.get("/").text
    for language, title in (("en", "Suggest a site"), ("pt", "Sugerir um site")):
        page = stranger.get("/suggest-site", Accept_Language=language)
        assert (page.code, f"<h1>{title}</h1>" in page.text) == (200, True)
        assert "<script>" not in page.text
    assert "http" not in stranger.get("/suggest-site").headers.get("set-cookie", "")
    assert admin.form("/console/suggestions/switch", {"csrf": furnished.csrf(admin)}).code == 303
    assert stranger.get("/suggest-site").code == 404
    assert "/suggest-site" not in stranger.get("/").text


def test_a_suggestion_waits_and_nothing_of_whoever_made_it_is_kept(opened):
    stranger, lines = opened.client(User_Agent="Nobody-in-particular/1"), len(opened.told)
    for typed in ("www.new.test", "http://www.new.test/#x", "<script>alert(1)</script>"):
        answer = send(stranger, typed)
    assert answer.code == 400
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
    assert send(stranger, "www.new.test").headers["location"] == "/suggest-site?done=1"
    assert "Thank you." in stranger.get("/suggest-site?done=1", Accept_Language="en").text
    told = opened.program().get("/console/suggestions.json").json
    assert [(one["url"], one["count"]) for one in told["suggestions"]] == [("http://www.new.test/", 3)]
    assert set(told["suggestions"][0]) == {"url", "day", "count"}
    assert len(opened.told) == lines, "the audit says nothing of it"
    kept = (opened.data.root / "coordinator.sqlite").read_bytes()
    assert b"Nobody-in-particular" not in kept


def test_what_a_machine_fills_in_is_thanked_for_and_thrown_away(opened):
    assert send(opened.client(), "www.spam.test", website="x").headers["location"] == "/suggest-site?done=1"
    assert opened.program().get(V1).json["waiting"] == 0


def test_a_page_elsewhere_cannot_make_a_browser_suggest(opened):
    assert opened.client().form("/suggest-site", {"url": "a.br"}, Origin="http://evil.test").code == 403
    assert opened.program().get(V1).json["waiting"] == 0


def test_from_one_address_come_only_so_many(opened, monkeypatch):
    monkeypatch.undo()
    take, buckets = (
        TokenBuckets.take,
        TokenBuckets(suggestion_pages.SUGGESTIONS_PER_S, SteppedClock()),
    )  # however long the answers take
    monkeypatch.setattr(TokenBuckets, "take", lambda self, name, cost=1.0: take(buckets, name, cost))
    stranger = opened.client()
    codes = [send(stranger, f"www.s{n}.test").code for n in range(12)]
    assert codes == [303] * 5 + [429] * 7
    refused = send(stranger, "www.late.test")
    assert 1 <= int(refused.headers["retry-after"]) <= 1 / suggestion_pages.SUGGESTIONS_PER_S
    assert 'value="www.late.test"' in refused.text, "what was typed is not lost"


def test_an_accepted_site_is_a_root_with_a_version_and_a_line_in_the_audit(opened):
    with a_collection(opened, "growing") as program:
        before = program.get("/api/v1/collections/growing/config").json["table"]
        send(opened.client(), SITE)
        page = opened.signed_in(ADMIN).get("/console/suggestions")
        assert f'value="{SITE}"' in page.text
        assert decide(opened, "accept", SITE, "growing").code == 303
        assert program.get("/api/v1/collections/growing/config").json["table"]["roots"] == [*before["roots"], SITE]
        version = program.get("/api/v1/collections/growing/versions").json[0]
        assert (version["who"], version["changes"][0]["added"]) == (ADMIN[0], [SITE])
        line = program.get("/api/v1/audit?n=1").json["lines"][0]
        assert (line["who"], line["subject"], line["detail"]) == (ADMIN[0], "growing", f"accept: {SITE}")
        assert send(opened.client(), SITE).code == 303
        assert program.get(V1).json["waiting"] == 0, "it does not come back"


def test_what_the_collections_rules_leave_out_changes_nothing_and_still_waits(opened):
    program, url = opened.program(), "http://www.outside.test/"
    table = {"name": "narrow", "roots": ["http://www.site.test/"], "scope": {"hosts": ["*.site.test"]}}
    assert program.send("POST", "/api/v1/collections", {"table": table}).code == 201
    try:
        send(opened.client(), "www.outside.test")
        answer = decide(opened, "accept", url, "narrow")
        assert (answer.code, f"roots: {url} is out: " in answer.text) == (400, True)
        assert program.get(V1).json["waiting"] == 1
        assert len(program.get("/api/v1/collections/narrow/versions").json) == 1
        asked = {"decision": "accept", "urls": [url], "collection": "narrow"}
        assert program.send("POST", f"{V1}/decisions", asked).json["complaints"][0]["key"] == "roots"
        assert decide(opened, "accept", url, "none").code == 404
        assert decide(opened, "burn", url).code == 400
    finally:
        assert program.ask("DELETE", "/api/v1/collections/narrow").code == 204


def test_a_rejected_site_is_gone_and_programs_can_decide_too(opened):
    program = opened.program()
    for name in ("x", "y"):
        send(opened.client(), f"www.{name}.test")
    assert decide(opened, "reject", "http://www.x.test/").code == 303
    left = program.send("POST", f"{V1}/decisions", {"decision": "reject", "urls": ["http://www.y.test/"]}).json
    assert (left["waiting"], left["suggestions"]) == (0, [])
    assert Suggestions(opened.data).list_waiting().waiting == 0
