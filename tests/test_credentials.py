"""What is shown to be let in: who may see it, where it is kept, and what is said of it."""

import json
import os
import stat
from base64 import b64encode
from pathlib import Path

import msgspec
import pytest

from tarrafa import credentials
from tarrafa.crawl.worker.fetcher import RequestCredentials, format_request, redact_response
from tarrafa.credentials import Credential, CredentialKind, CredentialSet
from tarrafa.errors import ConfigError, DataError
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, ResponseHead, header_lines
from tarrafa.runtime.data_dir import DataDirectory

VALUE = "do-not-tell-anybody-7"


@pytest.fixture
def data(tmp_path):
    directory = DataDirectory(tmp_path / "data")
    directory.create()
    return directory


def a_secret(
    *hosts: str, kind: CredentialKind = "header", name: str = "X-Key", value: str = VALUE, insecure: bool = False
) -> Credential:
    return Credential(hosts or ("a.br",), kind, name, value, insecure)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_old_secrets_are_there_until_the_new_ones_are_wholly_written(data, monkeypatch):
    credentials.write(data, "c", [a_secret()])
    before = credentials.credentials_path(data, "c").read_bytes()

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises((OSError, DataError)):
            credentials.write(data, "c", [a_secret("b.br")])
    assert credentials.credentials_path(data, "c").read_bytes() == before


def test_only_its_owner_may_read_a_file_of_secrets_whatever_the_umask(data):
    before = os.umask(0)
    try:
        credentials.add(data, "c", a_secret())
    finally:
        os.umask(before)
    assert mode_of(credentials.credentials_dir(data)) == 0o700
    assert mode_of(credentials.credentials_path(data, "c")) == 0o600
    assert credentials.read(data, "c") == [a_secret()]


def test_who_lists_or_prints_secrets_does_not_see_them(data):
    credentials.add(data, "c", a_secret("a.br", "*.b.br"))
    credentials.add(data, "c", a_secret(kind="basic", name="ana", insecure=True))
    told = [str(one) for one in credentials.list_redacted(data, "c")]
    assert told == ["header X-Key for a.br, *.b.br", "password of ana for a.br (also without TLS)"]
    redacted = credentials.list_redacted(data, "c")
    said = f"{credentials.read(data, 'c')} {redacted} {msgspec.json.encode(redacted)!r}"
    assert VALUE not in said
    assert VALUE not in repr(FetchRequest("https://a.br/", [], secret_headers=(a_secret().header_line(),)))


def test_a_secret_takes_the_place_of_the_one_for_the_same_hosts_kind_and_name(data):
    assert not credentials.add(data, "c", a_secret("a.br", "b.br"))
    assert not credentials.add(data, "c", a_secret("a.br"))
    assert credentials.add(data, "c", a_secret("B.br", "a.br", name="x-key", value="another one"))
    assert [one.value for one in credentials.read(data, "c")] == [VALUE, "another one"]


def test_a_host_is_taken_away_and_what_is_for_nobody_goes_with_the_file(data):
    credentials.add(data, "c", a_secret("a.br", "b.br"))
    credentials.add(data, "c", a_secret("a.br", kind="cookie", name=""))
    assert credentials.remove(data, "c", "x.br") == 0
    assert credentials.remove(data, "c", "a.br", "header", "x-KEY") == 1
    assert [one.hosts for one in credentials.list_redacted(data, "c")] == [("b.br",), ("a.br",)]
    assert credentials.remove(data, "c", "a.br") == 1
    assert credentials.remove(data, "c", "b.br") == 1
    assert not credentials.credentials_path(data, "c").exists()
    assert credentials.collections_with_credentials(data) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (a_secret("*"), "would be every host"),
        (a_secret("http://a.br/"), "is no pattern"),
        (a_secret(name="a b"), "no header name"),
        (a_secret(name="Host"), "set by the crawler"),
        (a_secret(name="user-agent"), "set by the crawler"),
        (a_secret(name="Proxy-Authorization"), "set by the crawler"),
        (a_secret(value=""), "empty"),
        (a_secret(value="a\r\nX-Other: b"), "one line"),
        (a_secret(value="x" * 8_001), "at most 8,000 characters"),
        (a_secret(value="ação"), "plain ASCII"),
        (a_secret(value=" x"), "begins or ends"),
        (a_secret(kind="basic", name="a:b"), "contain a colon"),
        (a_secret(kind="basic", name=""), "must not be empty"),
    ],
)
def test_a_secret_that_cannot_be_meant_is_refused_in_one_line_without_being_told(data, wrong, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        credentials.add(data, "c", wrong)
    assert not wrong.value or wrong.value not in str(refusal.value)
    assert not credentials.credentials_path(data, "c").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"no json " + VALUE.encode(),
        json.dumps({"a": VALUE}).encode(),
        json.dumps([{"hosts": ["a.br"], "kind": "header", "name": VALUE, "value": 7}]).encode(),
        json.dumps([{"hosts": ["*"], "kind": "header", "name": "X", "value": VALUE}]).encode(),
        json.dumps([{"hosts": ["a.br"], "kind": "header", "name": "X", "value": VALUE, VALUE: 1}]).encode(),
        json.dumps([{"hosts": ["a.br"], "kind": "cookie", "name": "", "value": VALUE}] * 201).encode(),
        b'["\xff' + VALUE.encode(),
        b"[" * 100_000,
    ],
)
def test_a_file_that_makes_no_sense_is_refused_without_showing_what_is_in_it(data, content):
    credentials.add(data, "c", a_secret())
    credentials.credentials_path(data, "c").write_bytes(content)
    with pytest.raises(DataError) as refusal:
        credentials.read(data, "c")
    assert VALUE not in str(refusal.value)


def test_a_file_that_others_may_read_is_refused(data):
    credentials.add(data, "c", a_secret())
    credentials.credentials_path(data, "c").chmod(0o640)
    with pytest.raises(DataError, match="other users may read it"):
        credentials.read(data, "c")


@pytest.mark.parametrize("name", ["../c", "a/b", "", "C", ".hidden", "x" * 64])
def test_no_name_leads_out_of_the_folder(data, name):
    with pytest.raises(ConfigError, match="begins with a-z or 0-9"):
        credentials.credentials_path(data, name)


def test_another_machine_has_what_the_bundle_has_and_nothing_else(data, tmp_path):
    credentials.add(data, "c", a_secret())
    credentials.add(data, "d", a_secret(kind="basic", name="josé", value="senha é"))
    other = DataDirectory(tmp_path / "other")
    other.create()
    credentials.add(other, "old", a_secret())
    credentials.import_bundle(other, credentials.export_bundle(data))
    assert credentials.collections_with_credentials(other) == ["c", "d"]
    assert credentials.read(other, "d") == credentials.read(data, "d")
    assert mode_of(credentials.credentials_path(other, "d")) == 0o600
    for nonsense in (b"", b'{"../c": []}', b'{"c": [{"hosts": ["*"], "kind": "cookie", "name": "", "value": "x"}]}'):
        with pytest.raises((ConfigError, DataError)):
            credentials.import_bundle(other, nonsense)
    assert credentials.collections_with_credentials(other) == ["c", "d"]
    credentials.import_bundle(other, credentials.export_bundle(DataDirectory(tmp_path / "empty")))
    assert credentials.collections_with_credentials(other) == []


def shown(keys: CredentialSet, name: str, port: str = "", *, private: bool = True) -> dict[str, str]:
    return dict(secret.header_line() for secret in keys.for_host(name, port, private=private))


def test_a_host_sees_what_is_for_it_and_of_one_header_what_is_most_exactly_for_it():
    keys = CredentialSet([
        a_secret("*.a.br", value="for all"),
        a_secret("www.a.br", value="for one"),
        a_secret("www.a.br", kind="cookie", name="", value="s=1"),
        a_secret("www.a.br:8443", kind="basic", name="ana", value="é"),
    ])  # fmt: skip
    assert shown(keys, "b.br") == shown(keys, "a.br") == shown(keys, "www.a.br.evil.com") == {}
    assert shown(keys, "x.y.a.br") == {"X-Key": "for all"}
    assert shown(keys, "www.a.br") == {"X-Key": "for one", "Cookie": "s=1"}
    basic = b64encode("ana:é".encode()).decode()
    assert shown(keys, "www.a.br", "8443") == {"X-Key": "for one", "Cookie": "s=1", "Authorization": f"Basic {basic}"}


@pytest.mark.parametrize(
    ("url", "connect_to", "insecure", "is_shown"),
    [
        ("https://a.br/", None, False, True),
        ("https://a.br:8443/", None, False, True),
        ("http://a.br/", None, False, False),
        ("http://a.br/", None, True, True),
        ("http://a.br/", "127.0.0.1:8090", False, True),
        ("http://a.br/", "[::1]:8090", False, True),
        ("http://a.br/", "192.0.2.1:80", False, False),
        ("https://b.br/", None, True, False),
    ],
)
def test_what_must_not_be_overheard_goes_over_tls_or_stays_on_this_machine(data, url, connect_to, insecure, is_shown):
    credentials.add(data, "c", a_secret(insecure=insecure))
    request = FetchRequest(url, [("User-Agent", "Tarrafa")], connect_to=connect_to, tls="accept")
    entrance = RequestCredentials(data)
    assert bool(entrance.attach(request, "other")) is False
    assert request.secret_headers == ()
    assert bool(entrance.attach(request, "c")) is is_shown
    assert (VALUE.encode() in b"".join(header_lines(request))) is is_shown
    assert VALUE.encode() not in format_request(request), "what is archived"
    if is_shown:
        assert b"\r\nX-Key: (withheld)\r\n" in format_request(request)
        wants_tls = url.startswith("https") and not insecure
        assert request.tls == ("strict" if wants_tls else "accept"), "nobody knows who has no good certificate"


def test_workers_hear_of_a_changed_file_and_keep_to_the_last_good_one(data, monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr(credentials, "boottime", lambda: now[0])
    ring = credentials.CredentialCache(data)

    def seen() -> list[str]:
        now[0] += credentials.RELOAD_EVERY_S
        return [secret.value for secret in ring.for_collection("c").for_host("a.br", "", private=True)]

    assert seen() == []
    credentials.add(data, "c", a_secret())
    assert ring.for_collection("c").for_host("a.br", "", private=True) == [], "it was looked at a moment ago"
    assert seen() == [VALUE]
    credentials.credentials_path(data, "c").write_text(f"[{VALUE}")
    assert seen() == [VALUE]
    assert seen() == [VALUE]
    assert len(caplog.records) == 1, "said once"
    assert VALUE not in caplog.text
    credentials.write(data, "c", [a_secret(value="a new one")])
    assert seen() == ["a new one"]
    credentials.credentials_path(data, "c").unlink()
    assert seen() == []


def test_what_a_server_repeats_in_its_header_is_not_kept():
    cookie = a_secret(kind="cookie", name="", value="lang=pt; sid=0123456789abcdef")
    basic = a_secret(kind="basic", name="ana")
    sent = basic.header_line()[1].split()[1]
    head = (
        "HTTP/1.1 302 Found\r\nSet-Cookie: sid=rotated; Path=/\r\nset-cookie: nameless\r\n"
        f"Location: /x?sid=0123456789abcdef&lang=pt\r\nX-Echo: {sent} {VALUE}\r\n\r\n"
    ).encode()
    response = redact_response(FetchResponse(302, ResponseHead(302, ()), head, b"body"), [cookie, basic])
    assert len(response.raw_head) == len(head)
    kept = response.raw_head.decode()
    assert not [word for word in ("0123456789abcdef", "rotated", "nameless", sent, VALUE) if word in kept]
    assert "Set-Cookie: sid=*******; Path=/\r\n" in kept
    assert response.head.get("location") == "/x?sid=****************&lang=pt"
    assert redact_response(response, []) is response
