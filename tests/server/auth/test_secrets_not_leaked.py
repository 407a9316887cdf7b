"""A token or a password is never in a log, a page or a process list."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.console.example_console import ADMIN, TOKEN, VIEWER, ExampleSite

PASSWORD = "a-password-of-many-letters"
MAIN = "import sys; from tarrafa.cli import main; sys.argv[0] = 'tarrafa'; main()"


def test_what_is_secret_is_in_no_page_no_log_and_no_file(data, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    secrets = {TOKEN, ADMIN[1], VIEWER[1], "another long password"}
    pages = []
    with ExampleSite(data, token=TOKEN, broken=True) as site:
        site.add(ADMIN, "admin")
        site.add(VIEWER, "viewer")
        for client in (site.client(), site.signed_in(ADMIN), site.signed_in(VIEWER), site.signed_in(("", TOKEN))):
            session = client.cookies.get("tarrafa", "")
            secrets |= {session} if session else set()
            for path in ("/console", "/console/audit", "/console/login", "/api", "/api/openapi.json", "/api/v1/audit",
                         "/api/v1/me", "/api/v1/broken", "/", "/status.json"):  # fmt: skip
                pages.append(client.get(path))
            pages += [
                client.sign_in("ana", f"{ADMIN[1]}x"),
                client.sign_in(ADMIN[1], ADMIN[1]),
                client.sign_in("", TOKEN[:-1]),
            ]
            pages.append(client.form("/console/notes", {"title": "x", "csrf": TOKEN}))
            site.now.at += 1_000
        program = site.client(Authorization=f"Bearer {TOKEN}")
        pages += [program.get("/api/v1/broken"), program.send("POST", "/api/v1/notes", {"title": 1, "x": TOKEN})]
        site.entry.accounts.set_password("ana", "another long password", site.now())
        told = "\n".join(site.told)
    shown = "\n".join(f"{page.headers}\n{page.text}" for page in pages)
    out, err = capfd.readouterr()
    kept = b"".join(path.read_bytes() for path in data.root.rglob("*") if path.is_file())
    assert len(secrets) == 7
    assert data.coordinator.exists()
    for secret in secrets:
        # The name field of a sign-in page shows what was typed there, to whoever typed it.
        assert secret not in shown.replace(f'value="{ADMIN[1]}"', ""), "a page"
        assert secret not in told, "the audit"
        assert secret not in caplog.text + out + err, "a log"
        assert secret.encode() not in kept, "a file"


def processes() -> str:
    """Everything that others on this machine can read of a process: its command line."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)


def test_a_password_is_typed_where_nobody_sees_it(data, tmp_path):
    password = f"{PASSWORD}-{os.getpid()}"  # that nobody else on this machine tries just now
    environment = os.environ | {"TARRAFA_TOKEN": TOKEN}
    command = [sys.executable, "-c", MAIN, "user", "add", "bia", "--data", str(data.root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        while "user add bia" not in processes():  # exec is not through yet
            assert process.poll() is None
        assert password not in processes()
        assert TOKEN not in processes()
        out, err = process.communicate(f"{password}\n", 60)
    assert process.returncode == 0, err
    assert "bia: added (admin)" in out
    assert password not in out + err
    refused = subprocess.run(
        [sys.executable, "-c", MAIN, "user", "add", "caio", f"--password={password}", "--data", str(data.root)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: --password: every user of this machine can read a password")
    assert password not in refused.stdout + refused.stderr


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (["add", "bia"], "", "no password given: type it when asked, or send it to standard input as one line"),
        (["add", "bia"], "short\n", "a password has 10 to 1,000 characters, not 5"),
        (["add", "../bia"], f"{PASSWORD}\n", "user '../bia': a name has letters, digits and"),
        (["password", "dora"], f"{PASSWORD}\n", "user dora: does not exist; `tarrafa user list` shows all users"),
        (["remove", "dora"], "", "user dora: does not exist; `tarrafa user list` shows all users"),
    ],
)
def test_what_is_wrong_with_an_account_is_one_line(data, monkeypatch, capsys, arguments, given, said):
    import io

    from tarrafa.cli import main

    monkeypatch.setattr(sys, "argv", ["tarrafa", "user", *arguments, "--data", str(data.root)])
    monkeypatch.setattr(sys, "stdin", io.StringIO(given))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {said}")
    assert err.count("\n") == 1
