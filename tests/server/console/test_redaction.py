"""What a collection is, as those see it who may not change it; and what is too long to be shown."""

import gzip
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tarrafa.coordinator.definitions.form import LIST_SHOWN_MAX
from tests.server.console.coordinator_site import CoordinatorSite, a_table, contents
from tests.server.console.example_console import ADMIN, VIEWER, ClientResponse, ConsoleClient
from tests.server.console.test_all_console_routes import PARAMS, filled

SECRET = "T0/B0/a-token-in-a-path"
HOOK = f"http://127.0.0.1:9/hook/{SECRET}"  # nobody listens there
SHOWN = "http://127.0.0.1:9/…"
FOR_ADMINS = {
    "/console/c/{name}/edit", "/console/c/{name}/toml", "/api/v1/collections/{name}/config",
    "/api/v1/collections/{name}/config.toml",
}  # fmt: skip


@contextmanager
def a_collection(site: CoordinatorSite, name: str, start: bool = False, **more: Any) -> Iterator[ConsoleClient]:
    """One more, for a while; a program that may do everything with it."""
    program = site.program()
    table = a_table(site.web, name) | more
    made = program.send("POST", "/api/v1/collections", {"table": table, "start": start})
    assert made.code == 201, made.text
    try:
        yield program
    finally:
        assert program.ask("DELETE", f"/api/v1/collections/{name}").code == 204


def pages_of(site: CoordinatorSite, name: str) -> list[tuple[str, str]]:
    """Every address there is, for that collection."""
    doors = [
        door.path for door in site.console.guarded_routes if door.method == "GET" and not door.path.endswith("live")
    ]
    others = ["/", "/status", "/status.json", "/metrics", "/search.json?q=site", "/page?url=http://www.site.test/",
              "/console/look?url=www.site.test", "/api/v1/look?url=www.site.test"]  # fmt: skip
    named = PARAMS | {"name": name}
    return [*((path, filled(path, named)) for path in doors), *((path, path) for path in others)]


def holds(answer: ClientResponse) -> bool:
    return SECRET in answer.text or SECRET in str(answer.headers)


def test_the_token_in_a_webhook_is_for_those_only_who_may_change_it(furnished, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    notify = {"webhook": HOOK, "events": ["started", "finished", "failed"]}
    with a_collection(furnished, "told", start=True, notify=notify) as program:
        furnished.wait_for("told", "finished")
        edited = {"table": a_table(furnished.web, "told", notify={"webhook": f"{HOOK}?key=2"})}
        answers = [program.send("PUT", "/api/v1/collections/told/config", edited)]
        assert answers[0].code == 200
        for wrong in (f"gopher://127.0.0.1/{SECRET}", f"127.0.0.1/{SECRET}", SHOWN):
            edited = {"table": a_table(furnished.web, "told", notify={"webhook": wrong})}
            answers.append(program.send("PUT", "/api/v1/collections/told/config", edited))
            assert (answers[-1].code, answers[-1].json["complaints"][0]["key"]) == (400, "webhook")
        assert not any(map(holds, answers))
        for client in (furnished.client(), furnished.signed_in(VIEWER)):
            assert [path for path, address in pages_of(furnished, "told") if holds(client.get(address))] == []
        admin = furnished.signed_in(ADMIN)
        assert {path for path, address in pages_of(furnished, "told") if holds(admin.get(address))} == FOR_ADMINS
        assert holds(admin.get("/console/new?copy=told"))
        viewer = furnished.signed_in(VIEWER)
        for path in ("/console/c/told/toml", "/api/v1/collections/told/config", "/console/c/told/versions"):
            assert SHOWN in viewer.get(path).text, path
    out, err = capfd.readouterr()
    logs = [held.decode(errors="replace") for held in contents(furnished.data.root, ".log").values()]
    assert SECRET not in "".join([*furnished.told, *logs, caplog.text, out, err])
    archived = b"".join(map(unpacked, furnished.data.archive.glob("*.warc.gz")))
    assert b'"name":"told"' in archived
    assert SECRET.encode() not in archived


def unpacked(path: Any) -> bytes:
    """Of a file that is still written to, what is there."""
    found = b""
    try:
        with gzip.open(path) as file:
            while some := file.read(1 << 16):
                found += some
    except EOFError:
        pass
    return found


def fields_of(page: str, *names: str) -> dict[str, str]:
    return {name: (re.search(rf'name="{name}" value="([^"]*)"', page) or ["", ""])[1] for name in names}


@pytest.fixture
def long(furnished):
    """A collection with more roots than a form shows."""
    roots = [f"http://www.site-{number}.test/" for number in range(LIST_SHOWN_MAX + 1)]
    with a_collection(furnished, "long", roots=roots):
        yield roots


def config_of(site: CoordinatorSite, name: str) -> dict[str, Any]:
    found: dict[str, Any] = site.program().get(f"/api/v1/collections/{name}/config").json["table"]
    return found


def test_a_list_that_is_too_long_for_a_form_stays_as_it_is_unless_it_is_replaced(furnished, long):
    admin = furnished.signed_in(ADMIN)
    page = admin.get("/console/c/long/edit").text
    assert "1,001 entries are too many for a form" in page
    assert ("http://www.site-9.test/" in page, "http://www.site-10.test/" in page) == (True, False)
    assert "… and 991 more" in page
    sent = fields_of(page, "csrf", "revision", "kept") | {"name": "long", "roots": ""}
    assert sent["kept"] == "roots"
    wrong = admin.form("/console/c/long/edit", sent | {"scope.depth_max": "-1"})
    assert (wrong.code, "must be 0 or more" in wrong.text, "… and 991 more" in wrong.text) == (400, True, True)
    assert admin.form("/console/c/long/edit", sent | {"scope.exclude": "*/calendar/*"}).code == 303
    assert config_of(furnished, "long") == {
        "name": "long", "roots": long, "scope": {"exclude": ["*/calendar/*"]},
    }  # fmt: skip
    sent |= {"revision": "", "roots": "http://www.other.test/"}
    assert admin.form("/console/c/long/edit", sent).code == 303
    assert config_of(furnished, "long")["roots"] == ["http://www.other.test/"]
    stale = admin.form("/console/c/long/edit", sent | {"roots": ""})
    assert (stale.code, "no longer exists; load the form again" in stale.text) == (400, True)


def test_a_copy_has_the_long_lists_of_what_it_is_a_copy_of(furnished, long):
    admin = furnished.signed_in(ADMIN)
    page = admin.get("/console/new?copy=long").text
    sent = fields_of(page, "csrf", "kept", "copy") | {"name": "long-2", "roots": ""}
    assert (sent["copy"], sent["kept"]) == ("long", "roots")
    wrong = admin.form("/console/new", sent | {"name": "Not A Name"})
    assert (wrong.code, fields_of(wrong.text, "copy")) == (400, {"copy": "long"})
    assert admin.form("/console/new", sent).code == 303
    try:
        assert config_of(furnished, "long-2")["roots"] == long
    finally:
        assert furnished.program().ask("DELETE", "/api/v1/collections/long-2").code == 204
