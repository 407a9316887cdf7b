"""Sites that one may enter: what they are shown, and who else learns of it."""

import contextlib
import gzip
import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest

from tarrafa.archive.warc_reader import follow
from tarrafa.runtime.data_dir import DataDirectory
from tests.journey.crawl_journey import pids_of, tarrafa
from tests.journey.scripted_web import ScriptedResponse, ScriptedWeb, links, scripted_web

PASSWORD, SESSION, KEY = "a-password-of-mine", "0123456789abcdef0123", "key-9f8e7d6c5b4a"
BASIC = f"Basic {b64encode(f'ana:{PASSWORD}'.encode()).decode()}"
WANTED = {
    "basic.test": ("Authorization", BASIC),
    "cookie.test": ("Cookie", f"lang=pt; sid={SESSION}"),
    "key.test": ("X-Api-Key", KEY),
}


def spellings() -> list[bytes]:
    """All that would give a secret away."""
    plain = [PASSWORD, SESSION, KEY, f"ana:{PASSWORD}", f"lang=pt; sid={SESSION}"]
    packed = [b64encode(text.encode()).decode().rstrip("=") for text in plain]
    return [text.encode() for text in (*plain, *packed, *map(quote, plain))]


def given_away(content: bytes) -> list[bytes]:
    return [one for one in spellings() if one in content]


def start_crawl(data: DataDirectory, file: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl", str(file)]
    command += ["--data", str(data.root), "--workers", "1"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def answer_of(web: list[ScriptedWeb], url: str) -> ScriptedResponse | None:
    """Nobody sees anything of the three hosts, robots.txt included, who does not show what they want."""
    host, path = url.split("/", 3)[2:]
    asked = next(one.headers for one in reversed(web[0].asked) if one.url == url)
    if host in WANTED and asked.get(WANTED[host][0]) != WANTED[host][1]:
        return ScriptedResponse(code=401, headers={"WWW-Authenticate": "Basic"})
    if path == "robots.txt":
        return ScriptedResponse(b"User-agent: *\nDisallow: /forbidden\n", headers={"Content-Type": "text/plain"})
    if host == "open.test":
        return links("http://basic.test/", "http://cookie.test/", "http://key.test/", "/landing")
    if path == "away":
        return ScriptedResponse(code=302, headers={"Location": "http://open.test/landing"})
    said = links("/inside", "/away", "/forbidden")
    if host == "cookie.test":
        said.headers["Set-Cookie"] = f"sid={SESSION}; Path=/"  # as servers prolong a session
    if host == "key.test":
        said.headers["X-Echo"] = KEY
    return said


@pytest.mark.long
def test_protected_pages_come_and_nobody_else_learns_what_let_us_in(tmp_path):
    data, web = DataDirectory(tmp_path / "data"), list[ScriptedWeb]()
    where = ("--data", str(data.root))
    with scripted_web(lambda url, _: answer_of(web, url)) as served:
        web.append(served)
        for option, host, value in (
            (("--basic", "ana"), "basic.test", PASSWORD),
            (("--cookie",), "cookie.test", f"lang=pt; sid={SESSION}"),
            (("--header", "X-Api-Key"), "*.test", "not for open.test"),
            (("--header", "X-Api-Key"), "key.test", KEY),
        ):
            added = tarrafa("credentials", "add", "c", "--host", host, *option, *where, input=f"{value}\n")
            assert added.returncode == 0, added.stderr
            assert not given_away((added.stdout + added.stderr).encode())
        assert tarrafa("credentials", "remove", "c", "--host", "*.test", *where).returncode == 0
        file = served.collection(tmp_path, ["http://open.test/"])
        process = start_crawl(data, file)
        while not any("key.test" in one.url for one in served.asked):
            assert process.poll() is None, process.communicate()[1]
            for pid in [process.pid, *pids_of(process.pid)]:
                with contextlib.suppress(OSError):
                    assert not given_away(Path(f"/proc/{pid}/cmdline").read_bytes())
                    assert not given_away(Path(f"/proc/{pid}/environ").read_bytes())
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        told = [tarrafa(*words, *where) for words in (
            ("credentials", "list", "c", "--json"), ("explain", "http://key.test/"), ("status", "--json"),
        )]  # fmt: skip
    assert [one.returncode for one in told] == [0, 0, 0]
    assert not given_away("".join([said, *(one.stdout + one.stderr for one in told)]).encode())
    assert_shown_to_whom_it_is_for(served)
    kept = {entry.record.url for entry in follow(data.archive, {}) if entry.record.outcome.kept}
    inside = {f"http://{host}/{page}" for host in WANTED for page in ("", "inside")}
    assert kept == inside | {"http://open.test/", "http://open.test/landing"}
    assert_nothing_is_written_down(data)


def assert_shown_to_whom_it_is_for(served: ScriptedWeb) -> None:
    """By what the servers saw; a redirect to another host carries nothing."""
    for one in served.asked:
        host = one.url.split("/")[2]
        name, value = WANTED.get(host, ("", ""))
        secret = {key: said for key, said in one.headers.items() if key in ("Authorization", "Cookie", "X-Api-Key")}
        assert secret == ({name: value} if name else {}), one.url
    assert not [one for one in served.urls() if one.endswith("/forbidden")], "robots.txt was read behind the door"
    assert served.times("http://open.test/landing")


def assert_nothing_is_written_down(data: DataDirectory) -> None:
    archived = b""
    for folder, _, names in os.walk(data.root):
        for name in names:
            path = Path(folder, name)
            if path.parent.name == "secrets" or not path.is_file():
                continue
            content = path.read_bytes()
            content += gzip.decompress(content) if name.endswith(".gz") else b""
            assert not given_away(content), path
            archived += content if name.endswith(".warc.gz") else b""
    assert archived.count(b"X-Api-Key: (withheld)\r\n") >= 3
    assert b"Authorization: (withheld)\r\n" in archived
    assert b"Cookie: (withheld)\r\n" in archived
    assert b"Set-Cookie: sid=********************; Path=/" in archived


@pytest.mark.long
def test_another_collection_on_the_same_hosts_is_not_let_in(tmp_path):
    data, web = DataDirectory(tmp_path / "data"), list[ScriptedWeb]()
    with scripted_web(lambda url, _: answer_of(web, url)) as served:
        web.append(served)
        where = ("--data", str(data.root))
        tarrafa("credentials", "add", "c", "--host", "key.test", "--header", "X-Api-Key", *where, input=f"{KEY}\n")
        file = served.collection(tmp_path, ["http://key.test/"])
        other = tmp_path / "d.toml"
        other.write_text(file.read_text().replace('name = "c"', 'name = "d"'))
        for one in (file, other):
            _, said = start_crawl(data, one).communicate(timeout=60)
            assert not given_away(said.encode())
    records = [entry.record for entry in follow(data.archive, {})]
    statuses = {(record.collection, record.url): record.outcome.status for record in records}
    assert statuses["c", "http://key.test/"] == 200
    assert statuses["d", "http://key.test/"] == 401
