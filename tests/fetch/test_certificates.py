"""Certificates: whom we believe, what we accept, and that nobody gets the connection of somebody less careful."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tarrafa.fetch.certificates import DISTRUST_S, DISTRUSTED_MAX, DistrustedHosts, ca_bundle, verify_error
from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import FetchRequest
from tarrafa.fetch.transfer_limits import BandwidthLimiter
from tarrafa.model import Status
from tarrafa.parse.url import canonical
from tests.fetch.raw_server import AUTHORITY, CERTIFICATES, RawServer, a_server

SOMEBODY_ELSE = str(CERTIFICATES / "self_signed.pem")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@asynccontextmanager
async def client_and_server(
    certificate: str, may_send: Callable[[], bool] = lambda: True
) -> AsyncIterator[tuple[HttpClient, RawServer]]:
    async with a_server(*[OK] * 9, keep=True, certificate=certificate) as server:
        client = HttpClient(10, may_send)
        yield client, server
        client.close()


def strict(server: RawServer, host: str = "a.test", ca_file: str | None = AUTHORITY) -> FetchRequest:
    return FetchRequest(f"https://{host}/", [], server.place, ca_file=ca_file)


def accept(server: RawServer, host: str = "a.test", ca_file: str | None = AUTHORITY) -> FetchRequest:
    return FetchRequest(f"https://{host}/", [], server.place, ca_file=ca_file, tls="accept")


async def test_a_certificate_of_an_authority_that_we_believe_will_do():
    async with client_and_server("good") as (client, server):
        for request in (strict(server), accept(server), strict(server, "b.test")):
            response = await client.fetch(request)
            assert (response.status, response.tls, response.raw_body) == (200, "", b"hello")
    assert server.names == ["a.test", "b.test"]


BAD = [
    ("expired", "a.test", AUTHORITY, "certificate has expired"),
    ("self_signed", "a.test", AUTHORITY, "self-signed certificate"),
    ("good", "c.test", AUTHORITY, "name does not match"),
    ("good", "a.test", SOMEBODY_ELSE, "unknown issuer"),
]


@pytest.mark.parametrize(("certificate", "host", "ca_file", "why"), BAD)
async def test_strict_sends_nothing_where_the_certificate_will_not_do(certificate, host, ca_file, why):
    async with client_and_server(certificate) as (client, server):
        response = await client.fetch(strict(server, host, ca_file))
        assert (response.status, str(response.tls), response.raw_head) == (Status.TLS_ERROR, why, b"")
    assert server.requests == []


@pytest.mark.parametrize(("certificate", "host", "ca_file", "why"), BAD)
async def test_accept_takes_it_all_the_same_with_one_request_and_says_why(certificate, host, ca_file, why):
    async with client_and_server(certificate) as (client, server):
        response = await client.fetch(accept(server, host, ca_file))
        assert (response.status, str(response.tls), response.raw_body) == (200, why, b"hello")
    assert len(server.requests) == 1
    assert server.names == [host, host]


async def test_accept_does_not_try_in_vain_for_every_page():
    async with client_and_server("self_signed") as (client, server):
        for _ in range(3):
            assert str((await client.fetch(accept(server))).tls) == "self-signed certificate"
    assert (len(server.requests), len(server.names)) == (3, 2)


async def test_a_connection_that_was_not_verified_is_never_used_by_the_strict():
    async with client_and_server("self_signed") as (client, server):
        found = [(await client.fetch(request(server))).status for request in (accept, strict, accept, strict)]
        assert found == [200, Status.TLS_ERROR, 200, Status.TLS_ERROR]
    assert len(server.requests) == 2


async def test_a_verified_connection_serves_only_those_who_believe_the_same_authorities():
    async with client_and_server("good") as (client, server):
        assert (await client.fetch(strict(server))).status == 200
        assert (await client.fetch(strict(server, ca_file=SOMEBODY_ELSE))).status == Status.TLS_ERROR
        assert (await client.fetch(strict(server))).status == 200
    assert len(server.requests) == 2


async def test_a_connection_that_was_not_verified_is_not_used_by_a_careful_request_that_would_accept():
    """What was distrusted under other authorities is verified again under ours."""

    async with client_and_server("good") as (client, server):
        assert str((await client.fetch(accept(server, ca_file=SOMEBODY_ELSE))).tls) == "unknown issuer"
        assert (await client.fetch(accept(server))).tls == ""
    assert len(server.requests) == 2


async def test_the_fence_is_asked_on_the_second_connection_too():
    async with client_and_server("self_signed", may_send=lambda: False) as (client, server):
        assert (await client.fetch(accept(server))).status == Status.NOT_SENT
    assert server.requests == []


async def test_the_second_connection_goes_to_the_vetted_address_too(monkeypatch):
    monkeypatch.setattr("tarrafa.fetch.http_client.same_address", lambda one, other: False)

    async with client_and_server("good") as (client, server):
        url = f"https://127.0.0.1:{server.port}/"
        response = await client.fetch(FetchRequest(url, [], address="127.0.0.1", ca_file=AUTHORITY, tls="accept"))
        assert response.status == Status.ADDRESS_REFUSED
    assert server.requests == []


@pytest.mark.parametrize("policy", ["strict", "accept"])
async def test_what_is_no_tls_is_accepted_by_nobody(policy):
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    client = HttpClient(10)
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    response = await client.fetch(FetchRequest("https://a.test/", [], place, tls=policy, ca_file=AUTHORITY))
    client.close()
    server.close()
    assert (response.status, response.tls) == (Status.TLS_ERROR, "")


@pytest.mark.parametrize("policy", ["strict", "accept"])
async def test_authorities_that_cannot_be_read_are_our_fault_and_accept_nobody(policy, tmp_path):
    async with client_and_server("good") as (client, server):
        request = FetchRequest("https://a.test/", [], server.place, tls=policy, ca_file=str(tmp_path / "missing.pem"))
        response = await client.fetch(request)
        assert (response.status, response.tls) == (Status.TLS_ERROR, "")
        assert "missing.pem" in str(response.error)
    assert server.requests == []


@pytest.mark.parametrize(("url", "name"), [("https://são.test/", "xn--so-sia.test"), ("https://A.test./", "a.test")])
async def test_the_name_that_is_asked_for_is_the_ascii_one(url, name):
    async with client_and_server("good") as (client, server):
        response = await client.fetch(FetchRequest(str(canonical(url)), [], server.place, ca_file=AUTHORITY))
        assert (response.status, response.address) == (200, "127.0.0.1")
    assert server.names == [name]
    assert server.requests[0].startswith(b"GET / HTTP/1.1\r\nHost: " + name.encode())


async def test_lenient_a_server_that_leaves_without_good_bye_has_said_what_it_said():
    async def leave(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await writer.drain()
        raw = writer.get_extra_info("socket")
        with socket.socket(fileno=socket.dup(raw.fileno())) as connection:
            connection.shutdown(socket.SHUT_RDWR)

    async with a_server(leave, certificate="good") as server:
        client = HttpClient(10)
        response = await client.fetch(strict(server))
        client.close()
    assert (response.status, response.raw_body) == (200, b"hello")


async def test_a_valve_holds_tls_back_as_well():
    body = b"x" * 60_000

    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + body
    async with a_server(answer, certificate="good") as server:
        client = HttpClient(10)
        request = strict(server)
        request.limiter = BandwidthLimiter(200_000.0, burst=0.0)
        response = await client.fetch(request)
        client.close()
    assert (response.status, response.raw_body) == (200, body)
    assert response.elapsed_s > 0.15


def test_authorities_are_those_that_somebody_names_or_the_systems():
    debian, red_hat = "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"
    assert ca_bundle({"SSL_CERT_FILE": "/mine.pem"}, lambda path: True) == "/mine.pem"
    assert ca_bundle({}, lambda path: True) == debian
    assert ca_bundle({"SSL_CERT_FILE": ""}, lambda path: path == red_hat) == red_hat


def test_without_any_bundle_certifis_is_taken_if_it_is_installed(monkeypatch):
    class Certifi:
        @staticmethod
        def where() -> str:
            return "/certifi.pem"

    monkeypatch.setitem(__import__("sys").modules, "certifi", Certifi)
    assert ca_bundle({}, lambda path: False) == "/certifi.pem"
    monkeypatch.setitem(__import__("sys").modules, "certifi", None)
    assert ca_bundle({}, lambda path: False) is None


async def test_the_environments_authorities_are_believed(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", AUTHORITY)

    async with client_and_server("good") as (client, server):
        assert (await client.fetch(strict(server, ca_file=None))).status == 200


def test_distrust_is_forgotten_after_a_while_and_never_too_much():
    now = 100.0
    distrust = DistrustedHosts(lambda: now)
    distrust.remember("https://a.test:443", None, "self-signed certificate")
    assert distrust.reason_for("https://a.test:443", None) == "self-signed certificate"
    assert distrust.reason_for("https://a.test:443", AUTHORITY) == ""
    now += DISTRUST_S
    assert distrust.reason_for("https://a.test:443", None) == ""
    for number in range(DISTRUSTED_MAX + 5):
        distrust.remember(f"https://{number}.test:443", None, "why")
    assert distrust.reason_for("https://4.test:443", None) == ""
    assert distrust.reason_for("https://5.test:443", None) == "why"


def test_a_verdict_without_a_name_is_still_told():
    assert str(verify_error(99)) == "certificate does not verify (99)"
