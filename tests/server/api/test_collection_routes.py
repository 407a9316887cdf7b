"""What programs do with a real console: the same as people, by the same rules."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tarrafa.report import plots, report_builder
from tests.server.console.coordinator_site import NAME, NODE, CoordinatorSite, a_table

V1 = "/api/v1"
AT = f"{V1}/collections/{NAME}"


@pytest.fixture(scope="module")
def program(furnished: CoordinatorSite) -> Any:
    return furnished.program()


@contextmanager
def one_more(furnished: CoordinatorSite, program: Any, name: str) -> Iterator[str]:
    """A collection that waits to be started, and is gone afterwards."""
    made = program.send("POST", f"{V1}/collections", {"table": a_table(furnished.web, name)})
    assert made.code == 201, made.text
    assert made.json["state"] in ("ready", "waiting")
    yield name
    if program.get(f"{V1}/collections/{name}").code == 200:
        program.send("POST", f"{V1}/collections/{name}/actions", {"action": "pause"})
        assert program.ask("DELETE", f"{V1}/collections/{name}").code == 204


@pytest.fixture
def spare(furnished: CoordinatorSite, program: Any) -> Any:
    with one_more(furnished, program, "spare") as name:
        yield name


@pytest.fixture
def planned(furnished: CoordinatorSite, program: Any) -> Any:
    with one_more(furnished, program, "planned") as name:
        yield name


@pytest.fixture
def limited(furnished: CoordinatorSite, program: Any) -> Any:
    with one_more(furnished, program, "limited") as name:
        yield name


def test_a_collection_is_seen_with_its_numbers_its_runs_and_who_wrote_it(program):
    told = program.get(f"{V1}/collections").json
    assert [one["name"] for one in told["collections"]] == [NAME]
    one = program.get(AT).json
    assert (one["collection"]["state"], one["collection"]["status"]["fetched"]) == ("finished", 3)
    assert [row["status"] for row in one["collection"]["statuses"]] == [200, 404]
    (run,) = program.get(f"{AT}/runs").json
    assert (run["state"], run["pages"]) == ("finished", 3)
    (version,) = program.get(f"{AT}/versions").json
    assert (version["number"], version["who"], version["changes"]) == (1, "token", [])
    samples = program.get(f"{AT}/samples").json
    assert samples[-1]["pages"] == 3
    assert program.get(f"{AT}/samples?since={samples[-1]['at'] + 0.001}&until={samples[-1]['at'] + 0.002}").json == []
    assert program.get(f"{AT}/upcoming").json == {"times": [], "deadline": None}


def test_what_is_read_as_a_table_or_as_a_file_can_be_written_back_and_changes_nothing(program):
    table, toml = program.get(f"{AT}/config").json["table"], program.get(f"{AT}/config.toml")
    assert toml.headers["content-type"] == "application/toml"
    assert program.send("PUT", f"{AT}/config", {"table": table}).json == {"name": NAME, "changes": []}
    assert program.send("PUT", f"{AT}/config", {"toml": toml.text}).json == {"name": NAME, "changes": []}
    assert len(program.get(f"{AT}/versions").json) == 1


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ({"table": {"name": "A b", "roots": [], "scope": {"depth_max": -1}}},
         [("", "name"), ("", "roots"), ("scope", "depth_max")]),
        ({"table": {"name": "x", "roots": ["a.br"], "strange": 1}}, [("", "strange")]),
        ({"table": {"name": "x", "roots": ["a.br"], "scope": {"size_max": "9" * 400}}}, [("scope", "size_max")]),
        ({"table": {"name": "x", "roots_file": "/etc/passwd"}}, [("", "roots_file")]),
        ({"toml": "name = "}, [("", "")]),
        ({"table": {"name": NAME, "roots": ["a.br"]}}, [("", "name")]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_new_collection_is_told_at_each_key_and_changes_nothing(furnished, program, body, places):
    before = furnished.state()
    answer = program.send("POST", f"{V1}/collections", body)
    assert answer.code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    told = {(one["section"], one["key"]) for one in answer.json["complaints"]}
    assert told >= set(places), answer.text
    assert all(one["message"] for one in answer.json["complaints"])
    assert furnished.state() == before


@pytest.mark.parametrize("body", [{}, {"table": {}, "toml": ""}, {"tabel": {}}, []])
def test_a_definition_is_a_table_or_a_text(program, body):
    answer = program.send("POST", f"{V1}/collections", body)
    assert answer.code == 400
    assert "complaints" not in answer.json


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"action": "sécret `x` - at `"}, "Invalid body: Invalid enum value - at `$.action`."),
        ({"action": "stop", "acton": 1}, "Invalid body: Object contains unknown field `acton`."),
        ({"a secret": 1}, "Invalid body: Object contains unknown field `…`."),
        ({"sécret` - at `$": 1}, None),
    ],
)
def test_what_is_wrong_is_told_without_what_was_sent(program, body, detail):
    answer = program.send("POST", f"{AT}/actions", body)
    assert answer.code == 400
    assert "cret" not in answer.json["detail"]
    assert detail in (None, answer.json["detail"])


def test_a_collection_is_created_edited_started_stopped_and_deleted(furnished, program, spare):
    at = f"{V1}/collections/{spare}"
    table = program.get(f"{at}/config").json["table"]
    table["scope"] = {"exclude": ["*/b"], "depth_max": 3}
    edited = program.send("PUT", f"{at}/config", {"table": table}).json
    assert {(one["section"], one["key"]) for one in edited["changes"]} == {("scope", "exclude"), ("scope", "depth_max")}
    assert [one["number"] for one in program.get(f"{at}/versions").json] == [2, 1]
    assert program.send("PUT", f"{at}/config", {"table": {**table, "name": "other"}}).json["complaints"]
    refused = program.send("POST", f"{at}/actions", {"action": "pause"})
    assert (refused.code, refused.json["detail"].partition(":")[0]) == (400, "spare is ready")
    started = program.send("POST", f"{at}/actions", {"action": "start"}).json
    assert started == {"name": spare, "action": "start", "state": "running"}
    furnished.wait_for(spare, "finished")
    assert program.get(at).json["collection"]["status"]["fetched"] == 2, "one is excluded"
    assert program.send("POST", f"{at}/actions", {"action": "delete"}).json["state"] == ""
    assert program.get(at).code == 404
    actions = [(line["subject"], line["detail"]) for line in program.get(f"{V1}/audit?n=10").json["lines"]]
    assert (spare, "[scope] exclude; [scope] depth_max") in actions
    assert (spare, "delete") in actions


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None), ("GET", "/config", None), ("GET", "/config.toml", None), ("PUT", "/config", {"table": {}}),
        ("GET", "/samples", None), ("GET", "/runs", None), ("GET", "/versions", None), ("GET", "/upcoming", None),
        ("GET", "/estimate", None), ("GET", "/report", None), ("GET", "/reports", None), ("POST", "/reports", {}),
        ("POST", "/actions", {"action": "start"}),
        ("POST", "/judge", {"urls": []}), ("DELETE", "", None),
    ],
)  # fmt: skip
def test_a_collection_that_nobody_knows_is_404(program, method, path, body):
    answer = program.ask(method, f"{V1}/collections/n%7Bo%7D{path}", json.dumps(body), Content_Type="application/json")
    assert (answer.code, answer.json["detail"]) == (404, "no collection is named 'n{o}'")


def test_urls_are_judged_and_the_work_is_estimated_before_anything_exists(furnished, program):
    urls = {"urls": ["http://www.site.test/x", "http://else.test/", "nothing at all"]}
    judged = program.send("POST", f"{AT}/judge", urls).json
    assert [(one["inside"], one["rule"]) for one in judged["verdicts"]][::2] == [(True, "host"), (False, "no url")]
    assert not judged["verdicts"][1]["inside"]
    assert judged["unknown"]
    table = a_table(furnished.web, "draft", scope={"pages_max": 7})
    again = program.send("POST", f"{V1}/judge", {"table": table, **urls}).json
    assert [one["inside"] for one in again["verdicts"]] == [True, False, False]
    assert program.get(f"{AT}/estimate").json["pages"]["likely"] > 0
    assert program.send("POST", f"{V1}/estimate", {"table": table}).json["pages"]["likely"] <= 7
    assert program.send("POST", f"{V1}/estimate", {"table": {}}).json["complaints"]
    assert [one["name"] for one in program.get(f"{V1}/collections").json["collections"]] == [NAME]


def test_a_preset_is_made_for_a_wish_and_can_be_created_as_it_is(program):
    names = [one["name"] for one in program.get(f"{V1}/presets?hl=pt").json]
    wish = {"root": "www.site.test", "name": "p", "contact": "a@site.test"}
    for name in names:
        made = program.send("POST", f"{V1}/presets/{name}?hl=pt", wish).json
        assert made["complaints"] == [], name
        assert made["table"]["roots"] == ["http://www.site.test/"]
        assert program.send("POST", f"{V1}/judge", {"toml": made["toml"], "urls": []}).code == 200
    assert program.send("POST", f"{V1}/presets/none", wish).code == 404
    assert program.send("POST", f"{V1}/presets/site", {"root": "//"}).code == 400


def test_a_node_hears_its_orders_and_is_not_forgotten_while_it_lives(program):
    assert [one["node"]["name"] for one in program.get(f"{V1}/nodes").json["nodes"]] == [NODE]
    orders = program.send("PUT", f"{V1}/nodes/{NODE}/orders", {"hosts_at_once": 50, "cpu": 0.9}).json
    assert (orders["hosts_at_once"], orders["cpu"]) == (50, 0.9)
    assert program.get(f"{V1}/nodes/{NODE}").json["node"]["orders"]["number"] == orders["number"]
    wrongs: list[dict[str, Any]] = [
        {"roles": []}, {"roles": ["king"]}, {"workers": 65}, {"bandwidth": 1}, {"cpu": 0}, {"hosts": 1},
    ]  # fmt: skip
    for wrong in wrongs:
        assert program.send("PUT", f"{V1}/nodes/{NODE}/orders", wrong).code == 400, wrong
    assert program.send("PUT", f"{V1}/nodes/{NODE}/orders", {}).json["number"] == orders["number"] + 1
    assert program.ask("DELETE", f"{V1}/nodes/{NODE}").code == 400
    for method, path in (("GET", "none"), ("DELETE", "none"), ("PUT", "none/orders")):
        assert program.send(method, f"{V1}/nodes/{path}", {}).code == 404


def test_a_url_is_looked_up_and_its_host_blocked_slowed_retried_and_forgotten(program, spare):
    told = program.get(f"{V1}/look?url=www.site.test&collection={NAME}").json
    assert (told["url"], told["collections"][0]["state"]) == ("http://www.site.test/", "fetched")
    assert program.get(f"{V1}/look?url=%20").code == 400
    asked = {"url": "http://www.site.test/x", "collection": spare}
    for action in ("retry", "block", "slow", "block"):
        assert program.send("POST", f"{V1}/hosts/actions", {**asked, "action": action, "delay": "9 s"}).code == 204
    table = program.get(f"{V1}/collections/{spare}/config").json["table"]
    assert table["scope"]["exclude"] == ["http*://www.site.test/*"]
    assert table["politeness"]["delays"] == {"www.site.test": "9 s"}
    other = {**asked, "url": "www.other.test", "action": "forget"}
    assert program.send("POST", f"{V1}/hosts/actions", other).code == 204
    for wrong, code in (({"delay": "soon"}, 400), ({"delay": "9 days"}, 400), ({"collection": "none"}, 404),
                        ({"url": "?"}, 400), ({"action": "burn"}, 400)):  # fmt: skip
        assert program.send("POST", f"{V1}/hosts/actions", {**asked, "action": "slow", **wrong}).code == code, wrong


def test_a_report_is_made_when_asked_one_at_a_time_and_stays(furnished, program, monkeypatch):
    begun, go_on, real, threads = (
        threading.Event(),
        threading.Event(),
        report_builder.build_report,
        list[threading.Thread](),
    )

    def held(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        begun.set()
        assert go_on.wait(30)
        return real(*arguments, **options, search=False)

    monkeypatch.setattr("tarrafa.report.report_store.build_report", held)
    monkeypatch.setattr(plots, "can_draw", lambda: False)  # they take seconds
    assert program.get(f"{AT}/report").json["detail"] == "small: no report was made yet"
    assert program.send("POST", f"{AT}/reports", {}).code == 202
    assert begun.wait(30)
    second = program.send("POST", f"{AT}/reports", {})
    assert program.get(f"{AT}/reports").json == {"moments": [], "making": {"share": 0.0, "trouble": ""}}
    go_on.set()
    threads[0].join(60)
    assert second.code == 503
    assert int(second.headers["retry-after"]) > 0
    told = program.get(f"{AT}/reports").json
    assert (len(told["moments"]), told["making"]) == (1, None)
    for path in (f"{AT}/report", f"{AT}/report?at={told['moments'][0]}", f"/console/c/{NAME}/report.json"):
        assert program.get(path).json["work"]["documents"] == 3
    assert program.get(f"{AT}/report?at=20200101-000000").code == 404
    assert program.get(f"{AT}/report?at=../../x").code == 400


def test_a_schedule_is_paused_between_its_runs_and_the_list_says_when_it_runs_next(furnished, program, planned):
    at = f"{V1}/collections/{planned}"
    table = program.get(f"{at}/config").json["table"]
    program.send("PUT", f"{at}/config", {"table": {**table, "schedule": {"every": "7 days"}}})
    program.send("POST", f"{at}/actions", {"action": "start"})
    furnished.wait_for(planned, "finished")
    (row,) = re.findall(rf'<tr data-key="{planned}">.*?</tr>', program.get("/console").text, re.DOTALL)
    assert "next run" in row
    paused = program.send("POST", f"{at}/actions", {"action": "pause"}).json
    assert paused == {"name": planned, "action": "pause", "state": "paused"}
    told = program.get(at).json["collection"]
    assert (told["actions"], told["next"]) == (["resume", "delete"], None)
    (row,) = re.findall(rf'<tr data-key="{planned}">.*?</tr>', program.get("/console").text, re.DOTALL)
    assert "its schedule is paused until it is resumed" in row
    assert "next run" not in row
    assert program.send("POST", f"{at}/actions", {"action": "resume"}).json["state"] == "finished"
    assert program.get(at).json["collection"]["reason"] == "everything in reach was visited"


def test_a_limit_that_is_raised_by_an_edit_lets_a_finished_collection_go_on(furnished, program, limited):
    at = f"{V1}/collections/{limited}"
    table = program.get(f"{at}/config").json["table"]
    program.send("PUT", f"{at}/config", {"table": {**table, "scope": {"pages_max": 1}}})
    program.send("POST", f"{at}/actions", {"action": "start"})
    furnished.wait_for(limited, "finished")
    told = program.get(at).json["collection"]
    assert (told["reason"], told["status"]["fetched"]) == ("pages_max = 1 was reached", 1)
    program.send("PUT", f"{at}/config", {"table": {**table, "scope": {"exclude": ["*/b"]}}})
    furnished.wait_for_visits(limited, told["status"]["visits"] + 1)
    told = program.get(at).json["collection"]
    assert (told["reason"], told["status"]["pending"]) == ("everything in reach was visited", 0)
    table["scope"] = {"exclude": ["*/b", "*/c"]}
    program.send("PUT", f"{at}/config", {"table": table})
    furnished.wait_for_visits(limited, told["status"]["visits"] + 1)  # what was out is judged once more
    assert program.get(at).json["collection"]["status"]["pending"] == 0, "nothing waits in vain"
