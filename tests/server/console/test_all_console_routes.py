"""The whole console as `tarrafa node` serves it: every page, every route, every one who may not."""

import json
import logging
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import BaseRoute, Mount

from tarrafa.runtime.token import Token
from tarrafa.server.app import SiteSettings, create_app
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.console.labels import AUDIT_ACTIONS
from tarrafa.server.internal.node_endpoint import create_node_app as create_joined_app
from tests.server.console.coordinator_site import NAME, NODE, CoordinatorSite, a_table, contents
from tests.server.console.example_console import ADMIN, TOKEN, VIEWER, ConsoleClient

PARAMS = {
    "status": "200",
    "name": NAME,
    "node": NODE,
    "preset": "site",
    "moment": "20200101-000000",
    "file": "report.json",
    "number": "1",
}
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
# What would change something, if it were let in.
FORMS = {
    "/console/new": "name=evil&roots=http%3A%2F%2Fwww.site.test%2F&start=yes",
    "/console/c/{name}/edit": f"name={NAME}&roots=http%3A%2F%2Fwww.site.test%2F&scope.depth_max=1",
    "/console/new/try": "name=evil&roots=http%3A%2F%2Fwww.site.test%2F&start=yes&urls=http%3A%2F%2Fwww.site.test%2F",
    "/console/c/{name}/edit/try": f"name={NAME}&roots=http%3A%2F%2Fwww.site.test%2F&try=estimate",
    "/console/c/{name}/act": "action=delete",
    "/console/c/{name}/status/{status}/act": "action=retry",
    "/console/c/{name}/dry-run": "urls=http%3A%2F%2Fwww.site.test%2F",
    "/console/nodes/{node}/orders": "roles=worker&workers=0&paused=yes",
    "/console/look/host": f"url=http%3A%2F%2Fwww.site.test%2F&action=block&collection={NAME}",
    "/console/suggestions/switch": "on=yes",
    "/console/suggestions/decide": f"decision=accept&url=http%3A%2F%2Fa.test%2F&collection={NAME}",
    "/console/login": "name=ana&password=wrong",
    "/suggest-site": "url=http%3A%2F%2Fa.test%2F",
    "/console/c/{name}/report": "earlier=20200101-000000",
    "/console/watches": "action=add&kind=page&what=http%3A%2F%2Fa.test%2F",
    "/console/c/{name}/secrets": "action=add&hosts=a.test&kind=cookie&label=&value=x",
}
BODIES: dict[str, Any] = {
    "/collections/{name}/actions": {"action": "delete"},
    "/collections/{name}/statuses/{status}/actions": {"action": "retry"},
    "/collections/{name}/judge": {"urls": ["http://www.site.test/"]},
    "/collections/{name}/reports": {"hl": "pt"},
    "/collections/{name}/secrets": {"hosts": ["a.test"], "kind": "cookie", "name": "", "value": "x"},
    "/presets/{preset}": {"root": "www.site.test"},
    "/nodes/{node}/orders": {"workers": 0, "paused": True},
    "/hosts/actions": {"url": "www.site.test", "action": "block", "collection": NAME},
    "/suggestions": {"is_on": True},
    "/watches": {"kind": "page", "what": "http://a.test/"},
    "/suggestions/decisions": {"decision": "reject", "urls": ["http://a.test/"]},
}
# Pages that are nothing but a form: what they show, and more, is told to programs there.
FORMS_ONLY = {
    "/console/new": "/api/v1/presets",
    "/console/c/{name}/edit": "/api/v1/collections/{name}/config",
    "/console/new/try": "/api/v1/presets",
    "/console/c/{name}/edit/try": "/api/v1/collections/{name}/config",
    "/console/c/{name}/delete": "/api/v1/collections/{name}",
    "/console/look/forget": "/api/v1/look",
    "/console/login": "/api/v1/me",
    "/console/watches": "/api/v1/watches",
    "/suggest-site": "/api/v1/suggestions",
    "/api": "/api/openapi.json",
}
NO_PAGES = re.compile(r"\.json$|\.css$|/live$|-live$|/toml$|\{file:path\}$|^/metrics$|^/api/")


def filled(path: str, params: dict[str, str] = PARAMS) -> str:
    return re.sub(r"\{(\w+)(?::path)?\}", lambda found: params[found[1]], path)


def sent(furnished: CoordinatorSite, door: GuardedRoute) -> tuple[str, str]:
    """A body that the door would understand, and its type."""
    if not door.is_for_programs:
        return FORMS.get(door.path, ""), FORM
    table = a_table(furnished.web, "evil")
    below = door.path.removeprefix("/api/v1")
    if below in ("/collections", "/estimate", "/judge"):
        return json.dumps({"table": table} | ({"urls": []} if below == "/judge" else {})), JSON
    if below == "/collections/{name}/config":
        return json.dumps({"table": {**table, "name": NAME}}), JSON
    return json.dumps(BODIES.get(below, {})), JSON


def unsafe(furnished: CoordinatorSite) -> Iterator[tuple[GuardedRoute, str, str, str]]:
    for door in furnished.console.guarded_routes:
        if door.is_unsafe:
            yield door, filled(door.path), *sent(furnished, door)


def test_every_door_that_changes_something_is_tried_here_with_a_body_that_means_something(furnished):
    for door, _, body, kind in unsafe(furnished):
        forget = door.path.endswith(("/forget", "/logout")) or door.method == "DELETE"
        assert forget or (body and (kind == FORM or json.loads(body))), f"{door.method} {door.path}"


@pytest.mark.parametrize("who", ["a stranger", "one with a wrong token", "one with a wrong cookie"])
def test_a_stranger_can_change_nothing(furnished, who):
    client = {
        "a stranger": furnished.client(),
        "one with a wrong token": furnished.client(Authorization=f"Bearer {TOKEN[:-1]}x"),
        "one with a wrong cookie": ConsoleClient(furnished.address, cookies={"tarrafa": "x" * 43}),
    }[who]
    before, tried = furnished.state(), 0
    for door, path, body, kind in unsafe(furnished):
        answer = client.ask(door.method, path, body, Content_Type=kind)
        if door.need is not AccessLevel.OPEN:
            assert answer.code == 401, (door.method, path, answer.code)
            tried += 1
        elif path == "/console/login":
            assert answer.code in (401, 429)
        else:
            assert (path, answer.code) == ("/suggest-site", 404), "it is off"
    assert tried > 20
    assert furnished.state() == before


def test_a_viewer_can_change_nothing_though_his_forms_are_his_own(furnished):
    client = furnished.signed_in(VIEWER)
    csrf = furnished.csrf(client)
    assert len(csrf) > 20
    before, harmless = furnished.state(), set()
    for door, path, body, kind in unsafe(furnished):
        if path in ("/console/logout", "/console/login"):
            continue
        answer = client.ask(door.method, path, body, Content_Type=kind, X_CSRF_Token=csrf)
        if door.need is AccessLevel.ADMIN:
            assert answer.code == 403, (door.method, path, answer.code)
        else:
            assert door.harmless
            harmless.add(f"{door.method} {path}")
            assert answer.code in (200, 404), (path, answer.text)
    assert harmless == {
        f"POST /console/c/{NAME}/dry-run", f"POST /api/v1/collections/{NAME}/judge", "POST /api/v1/judge",
        "POST /api/v1/estimate", "POST /api/v1/presets/site", "POST /suggest-site",
    }  # fmt: skip
    assert furnished.state() == before


@pytest.mark.parametrize("how", ["without what his forms bring along", "from a page elsewhere", "across sites"])
def test_an_admins_browser_changes_nothing_for_another_site(furnished, how):
    client = furnished.signed_in(ADMIN)
    own, before = furnished.csrf(client), furnished.state()
    headers = {
        "without what his forms bring along": {},
        "from a page elsewhere": {"Origin": "http://evil.test", "X_CSRF_Token": own},
        "across sites": {"Sec_Fetch_Site": "cross-site", "X_CSRF_Token": own},
    }[how]
    for door, path, body, kind in unsafe(furnished):
        if door.need is AccessLevel.ADMIN or (
            how != "without what his forms bring along" and door.need is AccessLevel.VIEWER
        ):
            answer = client.ask(door.method, path, body, Content_Type=kind, **headers)
            assert answer.code == 403, (door.method, path, answer.code)
    assert furnished.state() == before


def test_no_address_knows_another_way_to_change_something(furnished):
    client, before = furnished.program(), furnished.state()
    ways: dict[str, set[str]] = {}
    for door in furnished.console.guarded_routes:
        ways.setdefault(door.path, set()).add(door.method)
    for path, methods in ways.items():
        for method in set(UNSAFE) - methods:
            answer = client.ask(method, filled(path), "{}", Content_Type=JSON)
            assert answer.code in (404, 405), (method, path, answer.code)
    assert furnished.state() == before


def test_other_machines_join_with_the_token_only(furnished):
    for client in (furnished.client(), furnished.signed_in(ADMIN)):
        for path in ("/nodes/v1/join", f"/nodes/v1/{NODE}/beat"):
            assert client.send("POST", path, {}).code == 401


# What everybody may ask from anywhere: the search and what belongs to it. All the rest is for those who are known.
SEARCH = {
    "/", "/search.json", "/search.csv", "/search.rss", "/search.atom", "/why", "/help", "/suggest", "/opensearch.xml",
    "/page", "/page.json", "/site", "/site.json", "/data", "/data.json", "/thing", "/thing.json", "/sparql", "/static",
    "/cdx", "/web/{rest:path}", "/copy", "/diff", "/watch/{token}.atom", "/watch/{token}.rss", "/healthz", "/api",
    "/api/openapi.json", "/console/login", "/suggest-site",
    "/console/report.css",  # a style sheet, and nothing else
}  # fmt: skip
ELSEWHERE = {"X-Forwarded-For": "203.0.113.9"}


def all_paths(routes: Iterable[BaseRoute], before: str = "") -> Iterator[str]:
    for route in routes:
        if isinstance(route, Mount) and route.routes:
            yield from all_paths(route.routes, before + route.path)
        else:
            yield before + str(getattr(route, "path", ""))


def everything(furnished: CoordinatorSite) -> set[str]:
    """Every address that `tarrafa node` has, whoever answers there."""
    assert furnished.home is not None
    nodes = create_joined_app(
        furnished.home.coordinator.nodes, Token(TOKEN.encode()), furnished.home.make_join_response, time.time
    )
    settings = SiteSettings(status=furnished.home.overview, console=furnished.console, nodes=nodes)
    app = create_app(furnished.data, settings)
    return set(all_paths(app.routes))


def test_from_elsewhere_a_stranger_gets_nothing_but_the_search(furnished):
    client, tried = ConsoleClient(furnished.address, ELSEWHERE), 0
    paths = everything(furnished)
    for path in sorted(map(filled, paths - SEARCH)):
        answer = client.get(path)
        led = answer.headers.get("location", "").startswith("/console/login")
        assert led or answer.code in (401, 403, 405), (path, answer.code)
        assert NAME not in answer.text.replace(path, ""), path
        tried += 1
    assert tried > 50
    assert {"/status", "/status.json", "/metrics", "/queries.json", "/console"} <= paths


def test_the_state_of_the_crawl_is_for_those_at_the_machine_and_those_who_signed_in(furnished):
    for path in ("/status", "/status.json"):
        assert NAME in furnished.client().get(path).text
        assert NAME in furnished.signed_in(VIEWER).get(path, **{"X-Forwarded-For": "203.0.113.9"}).text
        assert NAME in furnished.program().get(path, **{"X-Forwarded-For": "203.0.113.9"}).text
    stranger = ConsoleClient(furnished.address, ELSEWHERE)
    assert stranger.get("/status").headers["location"] == "/console/login?next=/status"
    assert stranger.get("/status.json").code == 401
    assert 'href="/status"' not in stranger.get("/").text
    assert 'href="/status"' in furnished.client().get("/").text


# -- pages -----------------------------------------------------------------------------------------------------------


def test_every_page_has_a_twin_for_programs(furnished):
    seen = {door.path for door in furnished.console.guarded_routes if door.method == "GET"} | {
        "/api",
        "/api/openapi.json",
    }
    pages = [path for path in seen if not NO_PAGES.search(path)]
    assert len(pages) > 10
    client = furnished.program()
    for path in pages:
        twin = FORMS_ONLY.get(path, f"{path}.json")
        assert twin in seen, f"{path} is for people only: it needs {twin}"
        asked = "?url=www.site.test" if path.startswith("/console/look") else ""
        answer = client.get(filled(twin) + asked)
        if answer.code == 404 and answer.json["detail"] == f"{NAME}: no report was made yet":
            continue
        assert (answer.code, answer.headers["content-type"]) == (200, "application/json"), twin
        assert answer.json is not None


def all_pages(furnished: CoordinatorSite) -> list[str]:
    doors = [door for door in furnished.console.guarded_routes if door.method == "GET"]
    paths = [filled(door.path) for door in doors if not door.path.endswith(("live", "/report"))]
    search = ["/", "/?q=site", "/status", "/status.json", "/help", "/data", "/sparql", "/healthz", "/queries.json",
              "/search.json?q=site", "/page?url=http://www.site.test/", "/api", "/api/openapi.json"]  # fmt: skip
    return [*paths, *search, "/console/look?url=www.site.test", "/api/v1/look?url=www.site.test", "/none",
            "/console/c/none", "/console/new?preset=site&root=www.site.test", f"/console/new?copy={NAME}"]  # fmt: skip


@pytest.mark.parametrize("language", ["en", "pt"])
def test_every_page_is_drawn_for_those_who_may_see_it(furnished, language):
    clients = [(furnished.client(), AccessLevel.OPEN), (furnished.signed_in(VIEWER), AccessLevel.VIEWER),
               (furnished.signed_in(ADMIN), AccessLevel.ADMIN)]  # fmt: skip
    for door in furnished.console.guarded_routes:
        if door.method != "GET" or door.path.endswith(("live", "/report", "/api/v1/look")):
            continue
        path = filled(door.path)
        for client, role in clients:
            answer = client.get(path, Accept_Language=language)
            if role < door.need and door.here:
                assert answer.code == 200, "whoever sits at this machine may see the numbers"
            elif role < door.need:
                assert answer.code in (401, 403) or "/console/login" in answer.headers.get("location", ""), path
                assert NAME not in answer.text.replace(path, ""), path
            elif path == "/suggest-site" or path.endswith(("/look.json", "/report.json")):
                assert answer.code in (404, 400, 200)  # it is off; of which URL?; none was made
            else:
                assert answer.code in (200, 303), (path, answer.text[:500])
                if "html" in answer.headers.get("content-type", ""):
                    assert f'<html lang="{language}">' in answer.text
                    assert "<script>" not in answer.text
                    assert " style=" not in answer.text
                    assert " onclick" not in answer.text


def command_lines() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_what_is_secret_is_in_no_page_no_log_and_no_process_list(furnished, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    clients = [furnished.client(), furnished.signed_in(VIEWER), furnished.signed_in(ADMIN),
               furnished.signed_in(("", TOKEN)), furnished.program()]  # fmt: skip
    sessions = {client.cookies["tarrafa"] for client in clients if client.cookies}
    secrets = {TOKEN, ADMIN[1], VIEWER[1], *sessions}
    assert len(secrets) == 6
    shown = []
    for client in clients:
        for path in all_pages(furnished):
            answer = client.get(path)
            shown.append((path, f"{answer.headers}\n{answer.text}"))
    program = furnished.program()
    for door, path, _, kind in unsafe(furnished):
        if door.method != "DELETE" and kind == JSON:  # what cannot be understood is not repeated
            for wrong in ({TOKEN: TOKEN}, {"action": TOKEN, "decision": TOKEN, "kind": TOKEN, "hl": TOKEN}):
                answer = program.ask(door.method, path, json.dumps(wrong), Content_Type=kind)
                assert answer.code == 400, path
                shown.append((path, answer.text))
    listed, (out, err) = command_lines(), capfd.readouterr()
    assert f"--data {furnished.data.root}" in listed or str(furnished.data.root) in listed, "its children are seen"
    told = "\n".join(furnished.told)
    logs = b"\n".join(contents(furnished.data.root, ".log").values()).decode(errors="replace")
    for secret in secrets:
        for path, text in shown:
            assert secret not in text, path
        assert secret not in told + caplog.text + out + err + logs, "a log"
        assert secret not in listed, "a process list"
    kept = contents(furnished.data.root)
    assert kept
    assert not [path for path, held in kept.items() if any(secret.encode() in held for secret in secrets)], "a file"
    assert (furnished.data.root / "coordinator.sqlite").stat().st_mode & 0o777 == 0o600


def test_every_action_of_the_audit_can_be_translated(furnished):
    done = {door.action for door in furnished.console.guarded_routes if door.is_unsafe and door.audited}
    assert done == {action.text for action in AUDIT_ACTIONS}
