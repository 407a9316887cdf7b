"""Who may see and who may change, over real HTTP: strangers, viewers, admins, programs, and pages elsewhere."""

import json
import sys

import pytest
from starlette.routing import BaseRoute, Mount, Route

from tarrafa.coordinator.audit import (
    REFUSED_KEPT_MAX,
    REFUSED_PER_MINUTE_MAX,
    AuditLine,
    AuditLog,
    as_json,
    as_text,
    to_stderr,
)
from tarrafa.errors import ConfigError
from tarrafa.runtime.token import Token
from tarrafa.server.app import SiteSettings, create_app
from tarrafa.server.auth import passwords
from tarrafa.server.auth.authentication import Authenticator
from tarrafa.server.auth.request_origin import NO_PROXIES, TrustedProxies
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import RouteGuard, check_all_guarded, safe_redirect_path
from tarrafa.server.auth.sessions import IDLE_S
from tarrafa.server.console.console import Console
from tests.server.console.example_console import ADMIN, TOKEN, VIEWER, ExampleSite, SteppedClock

BEARER = f"Bearer {TOKEN}"
PROXY = TrustedProxies.parse(["127.0.0.1"])


def gates_of(routes: list[BaseRoute], before: str = "") -> list[tuple[str, RouteGuard]]:
    found = []
    for route in routes:
        if isinstance(route, Mount):
            found += gates_of(list(route.routes), before + route.path)
        elif isinstance(route, Route) and isinstance(route.endpoint, RouteGuard):
            found.append((before + route.path, route.endpoint))
    return found


def all_doors(site: ExampleSite) -> list[GuardedRoute]:
    app = create_app(site._data, SiteSettings(console=site.console))
    doors = [door for _, gate in gates_of(list(app.routes)) for door in gate.routes.values()]
    assert len(doors) >= 12
    return doors


def test_a_route_that_does_not_say_whom_it_is_for_cannot_be_mounted(data):
    async def answer(*_: object) -> None: ...

    with pytest.raises(TypeError, match="needs an access level"):
        GuardedRoute("GET", "/console/x", None, answer)  # type: ignore[arg-type]
    for need in (AccessLevel.OPEN, AccessLevel.VIEWER):
        with pytest.raises(TypeError, match="for others than admins needs a reason"):
            GuardedRoute("POST", "/console/x", need, answer)  # type: ignore[arg-type]
    for path in ("/console/x", "/api/v1/x"):
        with pytest.raises(TypeError, match=f"{path}: has no access level"):
            check_all_guarded([Route(path, answer)])
        with pytest.raises(TypeError, match=f"{path}: has no access level"):
            check_all_guarded([Mount(path[:-2], routes=[Route("/x", answer)])])
    check_all_guarded([Route("/elsewhere", answer)])
    console = Console(Authenticator(data, SteppedClock()))
    console.add(GuardedRoute("GET", "/console/audit", AccessLevel.ADMIN, answer))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="GET /console/audit: is defined twice"):
        create_app(data, SiteSettings(console=console))


@pytest.mark.parametrize("who", ["anonymous", "wrong token", "wrong session", "viewer"])
def test_nobody_but_an_admin_changes_anything(known, who):
    client = known.signed_in(VIEWER) if who == "viewer" else known.client()
    if who == "wrong token":
        client.headers["Authorization"] = f"Bearer {TOKEN}x"
    if who == "wrong session":
        client.cookies["tarrafa"] = "A" * 43
    csrf = client.csrf() if who == "viewer" else "x"
    before = known.client(Authorization=BEARER).get("/api/v1/notes").json
    for door in all_doors(known):
        path = door.path.replace("{title}", "x")
        if not door.is_unsafe:
            code = client.get(path).code
            is_enough = (
                door.need is AccessLevel.OPEN or (who == "viewer" and door.need is AccessLevel.VIEWER) or door.here
            )
            assert (code == 200) is is_enough or (path == "/console/login" and code == 303), (path, code)
        elif not door.harmless:
            body = {"title": "changed", "csrf": csrf}
            answers = [client.form(path, body), client.send(door.method, path, body, X_CSRF_Token=csrf)]
            assert {answer.code for answer in answers} <= {401, 403, 405}, path
    assert known.client(Authorization=BEARER).get("/api/v1/notes").json == before
    unsafe = {(door.method, door.path) for door in all_doors(known) if door.is_unsafe and door.harmless}
    assert unsafe == {("POST", "/console/login"), ("POST", "/console/logout")}


def test_the_search_stays_open_for_everybody(known):
    for path in ("/", "/help", "/healthz", "/status.json", "/api", "/api/openapi.json"):
        assert known.client().get(path).code == 200, path


def test_a_stranger_is_led_to_the_sign_in_page_and_a_program_is_told(known):
    page = known.client().get("/console/audit?before=3")
    assert (page.code, page.headers["location"]) == (303, "/console/login?next=/console/audit%3Fbefore%3D3")
    told = known.client().get("/api/v1/audit")
    assert (told.code, told.headers["content-type"]) == (401, "application/problem+json")
    assert told.headers["www-authenticate"] == "Bearer"
    assert told.json["detail"] == "Sign in first: this is not public."
    form = known.client().form("/console/notes", {"title": "x"})
    assert form.code == 401
    assert "Sign in first" in form.text
    refused = known.signed_in(VIEWER).get("/console/audit")
    assert refused.code == 403
    assert "vito may not do this" in refused.text
    portuguese = known.signed_in(VIEWER).get("/console/audit", Accept_Language="pt")
    assert "vito não pode fazer isto" in portuguese.text


def test_an_admin_signs_in_works_and_signs_out(known):
    client = known.client()
    answer = client.sign_in(*ADMIN, then="/console/audit")
    assert (answer.code, answer.headers["location"]) == (303, "/console/audit")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    secret, csrf = client.cookies["tarrafa"], client.csrf()
    assert client.form("/console/notes", {"title": "mine", "csrf": csrf}).code == 303
    assert client.send("POST", "/api/v1/notes", {"title": "by cookie"}, X_CSRF_Token=csrf).code == 201
    assert client.get("/api/v1/me").json == {"name": "ana", "role": "admin", "how": "session"}
    out = client.form("/console/logout", {"csrf": csrf})
    assert (out.code, out.headers["location"]) == (303, "/console/login?out=1")
    assert client.cookies == {}
    client.cookies["tarrafa"] = secret
    assert client.get("/api/v1/me").code == 401, "the session is over, whatever the browser keeps"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X_CSRF_Token": "0" * 64},
        {"X_CSRF_Token": "right", "Origin": "http://evil.test"},
        {"X_CSRF_Token": "right", "Origin": "null"},
        {"X_CSRF_Token": "right", "Sec_Fetch_Site": "cross-site"},
    ],
)
def test_what_a_page_elsewhere_makes_a_browser_send_is_refused(known, headers):
    client = known.signed_in(ADMIN)
    csrf = client.csrf()
    headers = {name: value.replace("right", csrf) for name, value in headers.items()}
    assert client.form("/console/notes", {"title": "evil"}, **headers).code == 403
    assert client.send("POST", "/api/v1/notes", {"title": "evil"}, **headers).code == 403
    assert client.ask("DELETE", "/api/v1/notes/x", **headers).code == 403
    assert "evil" not in client.get("/api/v1/notes").text


def test_the_form_of_another_session_does_not_fit(known):
    one, other = known.signed_in(ADMIN), known.signed_in(ADMIN)
    assert one.form("/console/notes", {"title": "x", "csrf": other.csrf()}).code == 403


def test_a_program_needs_the_token_and_nothing_else(known):
    program = known.client(Authorization=BEARER)
    assert program.send("POST", "/api/v1/notes", {"title": "by token"}).code == 201
    assert program.get("/api/v1/me").json == {"name": "token", "role": "admin", "how": "bearer"}
    assert program.ask("DELETE", "/api/v1/notes/by%20token").code == 204
    for wrong in ("Bearer ", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN} x", "Bearer é" * 900):
        assert known.client(Authorization=wrong).get("/api/v1/me").code == 401


def test_a_person_signs_in_with_the_token_by_leaving_the_name_empty(known):
    client = known.client()
    assert client.sign_in("", f"{TOKEN}x").code == 401
    assert client.sign_in("", TOKEN).code == 303
    assert client.get("/api/v1/me").json == {"name": "token", "role": "admin", "how": "session"}


def test_another_password_another_token_and_a_removed_account_end_their_sessions(data):
    with ExampleSite(data, token=TOKEN) as site:
        site.add(ADMIN, "admin")
        site.add(VIEWER, "viewer")
        ana, vito, token = site.signed_in(ADMIN), site.signed_in(VIEWER), site.signed_in(("", TOKEN))
        assert {client.get("/api/v1/me").code for client in (ana, vito, token)} == {200}
        site.entry.accounts.set_password("ana", "another long password", site.now())
        site.entry.accounts.remove("vito")
        assert [client.get("/api/v1/me").code for client in (ana, vito, token)] == [401, 401, 200]
        kept = site.signed_in(("ana", "another long password"))
        cookies = token.cookies
    with ExampleSite(data, token=f"{TOKEN}-new") as site:
        token, known = site.client(), site.client()
        token.cookies, known.cookies = cookies, kept.cookies
        assert token.get("/api/v1/me").code == 401
        assert known.get("/api/v1/me").code == 200, "a restart signs nobody out"
        site.now.at += IDLE_S + 1
        assert known.get("/api/v1/me").code == 401


def test_wrong_names_and_wrong_passwords_are_told_alike_and_must_wait(data, monkeypatch):
    compared, really = list[str | None](), passwords.verify_password

    def counted(password: str, kept: str | None) -> bool:
        compared.append(kept)
        return really(password, kept)

    monkeypatch.setattr(passwords, "verify_password", counted)
    with ExampleSite(data) as site:
        site.add(ADMIN, "admin")
        client = site.client()
        said = []
        for name in ("ana", "nobody-here") * 2:
            answer = client.sign_in(name, "a wrong password")
            assert answer.code == 401
            said.append(answer.text.replace(name, "NAME"))
        assert len(set(said)) == 1
        assert len(compared) == 4, "a name that does not exist is compared, too"
        refused = client.sign_in(*ADMIN)
        assert (refused.code, refused.headers["retry-after"]) == (429, "1")
        site.now.at += 1
        assert client.sign_in(*ADMIN).code == 303
        assert [line.action for line in site.entry.audit.read().lines] == ["sign in"] * 6


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        ("/console/audit?before=3", "/console/audit?before=3"),
        ("/", "/"),
        ("", "/console"),
        ("//evil.test/", "/console"),
        ("/\\evil.test", "/console"),
        ("/x\\..", "/console"),
        ("https://evil.test/", "/console"),
        ("javascript:alert(1)", "/console"),
        ("/x\r\nSet-Cookie: a=b", "/console"),
        ("/console/login?next=/console/login", "/console"),
        ("/" + "x" * 5_000, "/console"),
    ],
)
def test_after_signing_in_one_stays_on_this_site(asked, there):
    assert safe_redirect_path(asked) == there


# -- this machine, other machines, proxies ---------------------------------------------------------------------------


def test_where_nobody_is_defined_those_at_this_machine_are_the_admin(data):
    with ExampleSite(data) as site:
        here = site.client()
        assert here.get("/api/v1/me").json == {"name": "local", "role": "admin", "how": "local"}
        assert here.send("POST", "/api/v1/notes", {"title": "by curl"}).code == 201
        assert here.ask("DELETE", "/api/v1/notes/by%20curl").code == 204
        assert here.form("/console/notes", {"title": "x", "csrf": here.csrf()}).code == 303
        assert here.get("/console/login").headers["location"] == "/console"
        for stranger in ({"Host": "evil.test"}, {"X-Forwarded-For": "127.0.0.1"}, {"Via": "1.1 proxy"}):
            there = site.client(**stranger)
            assert there.get("/api/v1/me").code == 401, stranger
            assert there.send("POST", "/api/v1/notes", {"title": "x"}).code == 401
            assert "tarrafa user add" in there.get("/console/login").text


def test_a_page_elsewhere_cannot_use_that_the_admin_sits_at_this_machine(data):
    with ExampleSite(data) as site:
        here = site.client()
        assert here.form("/console/notes", {"title": "x"}).code == 403, "it lacks what our own forms bring along"
        plain = here.ask("POST", "/api/v1/notes", '{"title": "x"}', Content_Type="text/plain")
        assert plain.code == 415, "what a page can send without asking first"
        assert here.send("POST", "/api/v1/notes", {"title": "x"}, Origin="http://evil.test").code == 403
        asked = here.ask("OPTIONS", "/api/v1/notes", Origin="http://evil.test", Access_Control_Request_Method="POST")
        assert asked.code == 405
        assert "access-control-allow-origin" not in asked.headers


def test_once_somebody_is_known_those_at_this_machine_sign_in_too(data):
    with ExampleSite(data) as site:
        assert site.client().get("/api/v1/me").code == 200
        site.add(VIEWER, "viewer")
        assert site.client().get("/api/v1/me").code == 401
        site.entry.accounts.remove(VIEWER[0])
        assert site.client().get("/api/v1/me").code == 200


@pytest.mark.parametrize("proxies", [NO_PROXIES, PROXY])
def test_listening_to_other_machines_needs_somebody_who_can_be_known(data, proxies):
    host = "127.0.0.1" if proxies else "0.0.0.0"
    entry = Authenticator(data, SteppedClock(), proxies=proxies)
    with pytest.raises(
        ConfigError, match=r"an account or token is needed: `tarrafa user add NAME`, or a token"
    ) as raised:
        entry.check_listen_address(host)
    assert "\n" not in str(raised.value)
    token = Token(b"a token of many letters")
    Authenticator(data, SteppedClock(), token, proxies=proxies).check_listen_address(host)
    Authenticator(data, SteppedClock()).check_listen_address("127.0.0.1")
    entry.accounts.add(*("ana", "admin", "a long password", 1.0))
    entry.check_listen_address(host)


def test_behind_a_proxy_nobody_is_at_this_machine(data):
    with ExampleSite(data, token=TOKEN, proxies=PROXY) as site:
        for path in ("/status.json", "/queries.json", "/metrics"):
            assert site.client().get(path).code in (401, 403), path
        assert site.client().get("/api/v1/me").code == 401


def test_by_https_the_cookie_is_of_this_host_alone_and_browsers_stay_with_https(data):
    with ExampleSite(data, public="https://search.br") as site:
        site.add(ADMIN, "admin")
        client = site.client(Origin="https://search.br", Host="search.br")
        answer = client.sign_in(*ADMIN)
        assert answer.code == 303
        assert answer.headers["set-cookie"].startswith("__Host-tarrafa=")
        assert "Secure" in answer.headers["set-cookie"]
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        assert client.get("/api/v1/me").json["name"] == "ana"


def test_pages_of_the_console_are_not_kept_and_run_nothing_but_our_own_script(known):
    assert "strict-transport-security" not in known.client().get("/").headers
    for path in ("/console/login", "/api", "/api/openapi.json"):
        headers = known.client().get(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-embedder-policy"] == "require-corp"
        assert headers["x-frame-options"] == "DENY"


def test_whoever_sits_here_may_look_at_numbers_where_a_door_says_so(data):
    async def answer(*_: object) -> None: ...

    for method, need in (("POST", AccessLevel.ADMIN), ("GET", AccessLevel.ADMIN)):
        with pytest.raises(TypeError, match="only a safe method for viewers"):
            GuardedRoute(method, "/metrics", need, answer, here=True)  # type: ignore[arg-type]
    with ExampleSite(data, token=TOKEN) as site:
        assert site.client().get("/metrics").text == "local"
        assert site.client(Authorization=BEARER).get("/metrics").text == "token"
        refused = site.client(X_Forwarded_For="192.0.2.1").get("/metrics")
        assert (refused.code, refused.headers["content-type"]) == (401, "application/problem+json")
        assert site.client(Host="evil.test").get("/metrics").code == 401


def test_who_starts_it_hears_that_passwords_would_cross_the_network_in_the_clear(data):
    assert "--public-url https://" in Authenticator(data, SteppedClock()).advice("0.0.0.0")
    assert Authenticator(data, SteppedClock()).advice("127.0.0.1") == ""
    assert Authenticator(data, SteppedClock(), public="https://search.br").advice("0.0.0.0") == ""


# -- who did what ----------------------------------------------------------------------------------------------------


def test_every_change_and_every_refusal_leaves_a_line(data):
    with ExampleSite(data, token=TOKEN) as site:
        site.add(ADMIN, "admin")
        site.add(VIEWER, "viewer")
        program = site.client(Authorization=BEARER)
        program.send("POST", "/api/v1/notes", {"title": "one"})
        program.send("POST", "/api/v1/notes", {"title": ""})
        program.ask("DELETE", "/api/v1/notes/one")
        site.client().ask("DELETE", "/api/v1/notes/two")
        client = site.client()
        client.sign_in("ana", "a wrong password")
        client.sign_in("a password in the wrong field", "x")
        client.sign_in(*ADMIN)
        client.form("/console/notes", {"title": "three", "csrf": client.csrf()})
        client.form("/console/notes", {"title": "", "csrf": client.csrf()})
        client.form("/console/logout", {"csrf": client.csrf()})
        program.get("/api/v1/notes")
        lines = program.get("/api/v1/audit?n=100").json["lines"]
        told = [(line["who"], line["action"], line["subject"], line["refused"]) for line in reversed(lines)]
        stranger = "nobody (127.0.0.1)"
        assert told == [
            ("token", "POST /api/v1/notes", "one", False),
            ("token", "POST /api/v1/notes", "", True),
            ("token", "take a note away", "one", False),
            (stranger, "take a note away", "two", True),
            (stranger, "sign in", "ana", True),
            (stranger, "sign in", "", True),
            ("ana", "sign in", "ana", False),
            ("ana", "leave a note", "three", False),
            ("ana", "leave a note", "", True),
            ("ana", "sign out", "ana", False),
        ]
        assert "title" in lines[-2]["detail"], "what was wrong"
        assert [json.loads(line)["number"] for line in site.told] == list(range(1, 11))
        page = site.signed_in(ADMIN).get("/console/audit")
        assert page.text.count("take a note away") == 2
        assert ">refused<" in page.text


def test_the_audit_is_read_in_pages_and_narrowed(data):
    audit = AuditLog(data, SteppedClock(), lambda line: None)
    assert audit.read().lines == []
    for number in range(33):
        audit.record("ana" if number % 2 else "bia", "act", f"s{number % 3}", "d")
    numbers, before = [], 0
    while True:
        page = audit.read(before, 10)
        numbers += [line.number for line in page.lines]
        if not page.next:
            break
        before = page.next
    assert numbers == list(range(33, 0, -1))
    assert {line.who for line in audit.read(who="ana").lines} == {"ana"}
    assert {line.subject for line in audit.read(subject="s1").lines} == {"s1"}
    assert len(audit.read(n=10**9).lines) == 33


def test_a_flood_of_refusals_pushes_nothing_out_and_costs_few_lines(data):
    now, told = SteppedClock(), list[str]()
    audit = AuditLog(data, now, lambda line: told.append(as_json(line)))
    audit.record("ana", "act")
    for _ in range(1_000):
        audit.record("nobody", "sign in", refused=True)
    assert len(told) == 1 + REFUSED_PER_MINUTE_MAX
    now.at += 60
    audit.record("nobody", "sign in", "x", "401", refused=True)
    more = 1_000 - REFUSED_PER_MINUTE_MAX
    assert str(audit.read(n=1).lines[0].detail) == f"401; {more} more were refused, without a line"
    assert audit.read(who="ana").lines[0].action == "act"
    assert REFUSED_KEPT_MAX < 10**6


def test_whatever_a_stranger_types_stays_one_line(data):
    told = list[str]()
    audit = AuditLog(data, SteppedClock(), lambda line: told.append(as_text(line)))
    audit.record("x\n{}", "a\x1b[31m", "y" * 10_000, "\u202e" * 5_000)
    (line,) = audit.read().lines
    assert (line.who, line.action) == ("x\ufffd{}", "a\ufffd[31m")
    assert len(line.subject) == 500
    assert "\n" not in told[0]
    assert data.coordinator.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("is_terminal", "shown"),
    [
        (True, "ana: start, news (refused)\n"),
        (False, '{"number":7,"at":0.0,"who":"ana","action":"start","subject":"news","detail":"","refused":true}\n'),
    ],
)
def test_a_person_at_a_terminal_reads_a_sentence_and_a_program_json(monkeypatch, capsys, is_terminal, shown):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    to_stderr(AuditLine(7, 0.0, "ana", "start", "news", "", refused=True))
    assert capsys.readouterr().err.endswith(shown)
