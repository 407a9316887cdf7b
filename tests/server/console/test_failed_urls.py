"""What ended alike: the page about a status says what it means and what helps, and one button has it tried again."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tarrafa.coordinator.definitions.fields import collection_fields
from tarrafa.coordinator.failures import fate_of_status
from tarrafa.i18n import ENGLISH, PORTUGUESE
from tarrafa.model import STATUS_MEANING, Status
from tarrafa.server.console.failed_urls import HELP_BY_STATUS, help_with
from tarrafa.server.console.labels import STATUS_FATES
from tests.server.console.coordinator_site import CoordinatorSite, a_table
from tests.server.console.example_console import ADMIN, VIEWER

NAME, GONE = "alike", "http://www.site.test/gone"
PAGE, V1 = f"/console/c/{NAME}/status/404", f"/api/v1/collections/{NAME}"


@pytest.fixture(scope="module")
def site(furnished: CoordinatorSite) -> Iterator[CoordinatorSite]:
    """With one more collection, one link of which is dead. Whoever has something done waits until it is."""
    program = furnished.program()
    made = program.send("POST", "/api/v1/collections", {"table": a_table(furnished.web, NAME), "start": True})
    assert made.code == 201, made.text
    furnished.wait_for(NAME, "finished")
    yield furnished
    assert program.ask("DELETE", V1).code == 204


def last_line(site: CoordinatorSite) -> tuple[str, str, str, bool]:
    line = site.program().get("/api/v1/audit?n=1").json["lines"][0]
    return line["who"], line["action"], line["detail"], line["refused"]


def test_the_page_of_a_status_says_what_it_means_what_helps_and_where_it_happened(site):
    page = site.signed_in(VIEWER).get(PAGE)
    assert "the link that led there is dead" in page.text
    assert "If a site was being rebuilt when we came, retry." in page.text
    assert "/console/look?url=http%3A%2F%2Fwww.site.test%3A80%2F" in page.text
    assert "/console/look?url=http%3A%2F%2Fwww.site.test%2Fgone" in page.text
    assert "Try all of them again now" not in page.text, "a viewer has no buttons"
    portuguese = site.signed_in(ADMIN).get(PAGE, Accept_Language="pt").text
    assert "a ligação até ela é morta" in portuguese
    assert "Tentar todas de novo agora" in portuguese
    assert "visitada, não guardada" in portuguese
    assert site.program().get(f"/console/c/{NAME}/status/500").code == 404


@pytest.mark.parametrize(
    ("language", "heading", "cause"), [("en", "Not kept", "Cause"), ("pt", "Não guardadas", "Motivo")]
)
def test_the_page_of_a_collection_says_why_urls_are_not_kept(site, language, heading, cause):
    text = site.signed_in(VIEWER).get(f"/console/c/{NAME}", Accept_Language=language).text
    section = text.partition(f"<h2>{heading}</h2>")[2].partition("</section>")[0]
    assert cause in section
    rows = dict(re.findall(r'<tr data-key="([^"]+)">.*?<td class="figure">([\d,]+)', section))
    one = site.program().get(V1).json["collection"]["status"]
    assert rows == {key: str(count) for key, count in one["unkept"].items()}
    assert one["unkept"] == {"404": one["dropped"] + one["failed"] + one["excluded"]}


@pytest.mark.parametrize(
    ("status", "told"),
    [(503, "again"), (Status.ROBOTS, "unasked"), (Status.TLS_ERROR, "failed"), (301, "moved"), (200, "had"),
     (304, "had"), (404, "answered")],
)  # fmt: skip
def test_what_becomes_of_a_url_is_told_by_its_status(status, told):
    assert fate_of_status(status) == told
    assert told in STATUS_FATES


def test_programs_hear_how_many_urls_ended_so_and_where(site):
    told = site.program().get(f"{V1}/statuses/404").json
    assert (told["counted"]["count"], told["fate"], told["can_be_retried"], told["silence"]) == (
        len(samples(site)),
        "answered",
        True,
        "",
    )
    facts = told["facts"]
    assert (facts["urls"], facts["hosts"], facts["failed"], facts["whole"]) == (1, 1, 0, True)
    assert facts["first"] == facts["last"] > 0
    assert [host["key"] for host in facts["most"]] == ["http://www.site.test:80"]
    assert [(one["url"], one["state"]) for one in facts["samples"]] == [(GONE, "dropped")]
    assert site.program().get(f"{V1}/statuses/x").code == 404


def test_a_button_has_them_asked_for_again_and_a_finished_collection_goes_on(site):
    admin, before, visits = site.signed_in(ADMIN), len(site.web.times(GONE)), visits_of(site)
    made = [visit["number"] for visit in samples(site)]
    sent = admin.form(f"{PAGE}/act", {"csrf": site.csrf(admin), "action": "retry"})
    assert (sent.code, sent.headers["location"]) == (303, f"{PAGE}?retried=1")
    assert "One URL waits again" in admin.get(sent.headers["location"]).text
    assert last_line(site) == (ADMIN[0], "act on a status", "retry 404: 1 URLs", False)
    site.wait_for_visits(NAME, visits + 1)
    assert len(site.web.times(GONE)) == before + 1
    assert [visit["number"] for visit in samples(site)] == [made[0] + 1, *made]


def test_what_was_had_is_not_asked_for_again(site):
    before = len(site.web.asked)
    refused = site.program().send("POST", f"{V1}/statuses/200/actions", {"action": "retry"})
    assert refused.code == 400
    assert "would change nothing" in refused.json["detail"]
    assert site.signed_in(ADMIN).get(f"/console/c/{NAME}/status/200").text.count("/status/200/act") == 0
    assert len(site.web.asked) == before


def test_a_program_has_them_asked_for_again(site):
    visits = visits_of(site)
    told = site.program().send("POST", f"{V1}/statuses/404/actions", {"action": "retry"}).json
    assert told == {"urls": 1, "more": False}
    assert last_line(site)[:3] == ("token", "act on a status", "retry 404: 1 URLs")
    site.wait_for_visits(NAME, visits + 1)


def visits_of(site: CoordinatorSite) -> int:
    found: int = site.program().get(V1).json["collection"]["status"]["visits"]
    return found


def samples(site: CoordinatorSite) -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = site.program().get(f"{V1}/statuses/404").json["facts"]["samples"][0]["history"]
    return [dict(zip(("number", "at", "status"), visit, strict=False)) for visit in history]


# -- words -----------------------------------------------------------------------------------------------------------


def test_every_status_of_ours_has_help_of_its_own():
    assert set(STATUS_MEANING) <= set(HELP_BY_STATUS)


@pytest.mark.parametrize(("status", "words"), [(418, "does not give"), (599, "broken"), (299, "gave"), (999, "no st")])
def test_a_status_without_help_of_its_own_has_that_of_its_class(status, words):
    assert words in str(help_with(status).means)


@pytest.mark.parametrize("language", [ENGLISH, PORTUGUESE])
def test_what_helps_names_settings_that_exist(language):
    known = {name.rpartition(".")[2] for name in collection_fields()}
    said = [language.render(one) for helping in HELP_BY_STATUS.values() for one in helping]
    words = {word.strip(".,;:") for sentence in said for word in sentence.split()}
    named = {word for word in words if "_" in word}
    assert {"size_max", "allow_private"} <= named <= known


def test_a_collection_whose_roots_were_all_refused_is_shown_as_failed(furnished):
    program, table = furnished.program(), a_table(furnished.web, "refused", "http://127.0.0.1:9/", network={})
    assert program.send("POST", "/api/v1/collections", {"table": table, "start": True}).code == 201
    furnished.wait_for("refused", "finished")
    try:
        for path in ("/console", "/console/c/refused"):
            page = furnished.signed_in(VIEWER).get(path).text
            assert '<span class="state failed">failed</span>' in page, path
            assert "no root could be fetched: -14 address refused" in page
    finally:
        assert program.ask("DELETE", "/api/v1/collections/refused").code == 204
