"""Secrets are given and taken away on a page, and never shown again."""

import stat
from typing import Any

from tarrafa import credentials
from tests.server.console.coordinator_site import NAME, CoordinatorSite
from tests.server.console.example_console import ADMIN, VIEWER

AT = f"/console/c/{NAME}/secrets"
VALUE = "a-cookie-that-nobody-may-see"


def test_a_secret_is_kept_and_never_shown(furnished: CoordinatorSite) -> None:
    admin = furnished.signed_in(ADMIN)

    def send(**fields: Any) -> Any:
        return admin.form(AT, {"csrf": furnished.csrf(admin), **fields})

    added = send(action="add", hosts="a.test *.b.test", kind="header", label="X-Key", value=VALUE)
    assert added.code == 303, added.text
    assert admin.get(f"{AT}.json").json == [
        {"hosts": ["a.test", "*.b.test"], "kind": "header", "name": "X-Key", "insecure": False}
    ]
    page = admin.get(AT).text
    assert "X-Key" in page
    assert VALUE not in page
    path = credentials.credentials_path(furnished.data, NAME)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not any(VALUE in line for line in furnished.told), "nor does the audit know it"

    wrong = send(action="add", hosts="*", kind="header", label="X-Key", value=VALUE)
    assert wrong.code == 400
    assert VALUE not in wrong.text
    assert send(action="add", hosts="a.test", kind="magic", label="", value=VALUE).code == 400
    assert furnished.signed_in(VIEWER).get(AT).code == 403

    assert send(action="remove", hosts="a.test *.b.test", kind="header", label="X-Key").code == 303
    assert admin.get(f"{AT}.json").json == []


def test_programs_give_and_take_secrets_and_never_read_them(furnished: CoordinatorSite) -> None:
    program, at = furnished.program(), f"/api/v1/collections/{NAME}/secrets"
    given = {"hosts": ["a.test"], "kind": "basic", "name": "ana", "value": VALUE}
    shown = {"hosts": ["a.test"], "kind": "basic", "name": "ana", "insecure": False}
    assert program.send("POST", at, given).json == shown
    assert program.get(at).json == [shown]
    for wrong in ({**given, "hosts": ["*"]}, {**given, "kind": VALUE}, {**given, "value": VALUE + "\n"}):
        refused = program.send("POST", at, wrong)
        assert refused.code == 400
        assert VALUE not in refused.text
    assert program.ask("DELETE", f"{at}?host=b.test").code == 404
    assert program.ask("DELETE", f"{at}?host=a.test&kind=basic&name=ana").code == 204
    assert program.get(at).json == []
    assert not any(VALUE in line for line in furnished.told)
    assert program.get("/api/v1/collections/none/secrets").code == 404
