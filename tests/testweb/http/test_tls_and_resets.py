"""Doors below HTTP: handshakes that fail, IPv6, connections that are reset, transfers that are cut."""

import asyncio
import errno
import socket
import ssl
from pathlib import Path

import pytest

from tarrafa.errors import ListenError
from tarrafa.testweb import CA_FILE, HOSTILE_HOSTS, LoggedRequest, World, read_log, start_process
from tarrafa.testweb.hostile.unwanted_types import OFFERED_BYTES
from tarrafa.testweb.http import web_server
from tarrafa.testweb.http.connection import WebConnection
from tarrafa.testweb.http.tls_listener import server_name
from tests.testweb.http.test_request_log import wait_until_under_way
from tests.testweb.http.test_web_server import RawConnection
from tests.testweb.web_in_thread import WebInThread

WORLD = World(hosts=2, pages=4, hostile=True)
KERNEL_BYTES = 20_000_000  # what may lie in the buffers of both ends


@pytest.fixture
def web(tmp_path):
    with WebInThread(WORLD, log_path=tmp_path / "log.jsonl") as web:
        yield web


def port_of(web: WebInThread, pattern: str) -> int:
    return int(web.server.connections[pattern].rpartition(":")[2])


def knock(web: WebInThread, name: str, trusted: Path | None = CA_FILE) -> tuple[str, bytes]:
    """What a strict client sees: the reason why not, or the answer."""
    context = ssl.create_default_context(cafile=trusted)
    raw = socket.create_connection(("127.0.0.1", port_of(web, "*.tls.test")), timeout=60)
    try:
        with context.wrap_socket(raw, server_hostname=name) as secured:
            secured.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            return "", b"".join(iter(lambda: secured.recv(65536), b""))
    except ssl.SSLCertVerificationError as error:
        return error.verify_message, b""
    except (ssl.SSLError, OSError) as error:
        return str(error), b""


REFUSALS = [
    ("self-signed.tls.test", "self-signed certificate"),
    ("expired.tls.test", "certificate has expired"),
    ("wrong.tls.test", "Hostname mismatch"),
    ("plain.tls.test", "WRONG_VERSION_NUMBER"),
    ("noise.tls.test", "SSL"),
    ("reset.tls.test", "reset"),
]


@pytest.mark.parametrize(("name", "reason"), REFUSALS)
def test_no_secure_connection_comes_about(web, name, reason):
    said, answer = knock(web, name)
    assert reason in said
    assert not answer
    assert HOSTILE_HOSTS[name].expects.requests_max == 0


def test_a_good_certificate_is_good_for_those_who_know_its_authority(web, tmp_path):
    said, answer = knock(web, "good.tls.test")
    assert (said, answer[:15]) == ("", b"HTTP/1.1 200 OK")
    assert "unable to get local issuer" in knock(web, "good.tls.test", trusted=None)[0]
    web.get(f"http://127.0.0.1:{web.port}/__log__/flush")
    assert [entry.url for entry in read_log(tmp_path / "log.jsonl")] == ["https://good.tls.test/"]


def test_behind_a_bad_certificate_is_a_host_for_those_who_insist(web):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    raw = socket.create_connection(("127.0.0.1", port_of(web, "*.tls.test")), timeout=20)
    with context.wrap_socket(raw, server_hostname="expired.tls.test") as secured:
        for _ in range(2):  # the connection is kept
            secured.sendall(b"GET / HTTP/1.1\r\nHost: expired.tls.test\r\n\r\n")
            assert secured.recv(65536).startswith(b"HTTP/1.1 200 OK")


def test_the_silent_one_takes_the_connection_and_says_nothing(web):
    context = ssl.create_default_context(cafile=CA_FILE)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="silent.tls.test").do_handshake()
    hello = outgoing.read()
    assert server_name(hello) == "silent.tls.test"
    assert server_name(hello[:60]) == server_name(b"") == server_name(b"GET / HTTP/1.1\r\n\r\n") == ""
    raw = socket.create_connection(("127.0.0.1", port_of(web, "*.tls.test")))
    raw.sendall(hello[:100])  # in pieces
    raw.sendall(hello[100:])
    said, _ = knock(web, "good.tls.test")  # others are served meanwhile
    assert said == ""
    raw.setblocking(False)
    with pytest.raises(BlockingIOError):
        raw.recv(1)
    raw.close()


def test_plain_http_at_the_secure_door_gets_no_page(web):
    raw = socket.create_connection(("127.0.0.1", port_of(web, "*.tls.test")), timeout=60)
    raw.sendall(b"GET / HTTP/1.1\r\nHost: good.tls.test\r\n\r\n")
    assert b"200" not in raw.recv(100)


def test_ipv6_is_served_and_logged(web, tmp_path):
    assert list(web.server.connections) == ["*.tls.test", "*.six.test", "*.test"]
    raw = socket.create_connection(("::1", port_of(web, "*.six.test")), timeout=60)
    raw.sendall(b"GET / HTTP/1.1\r\nHost: www.six.test\r\nConnection: close\r\n\r\n")
    assert b"".join(iter(lambda: raw.recv(65536), b"")).startswith(b"HTTP/1.1 200 OK")
    web.get(f"http://127.0.0.1:{web.port}/__log__/flush")
    entry = read_log(tmp_path / "log.jsonl")[0]
    assert (entry.url, entry.address) == ("http://www.six.test/", "::1")


def test_a_machine_without_ipv6_leaves_its_corner_out_and_says_so(monkeypatch):
    bind = web_server._bind

    def refuse(address: str, port: int) -> socket.socket:
        if ":" in address:
            raise ListenError("no IPv6 here")
        return bind(address, port)

    monkeypatch.setattr(web_server, "_bind", refuse)
    with WebInThread(WORLD) as web:
        assert list(web.server.connections) == ["*.tls.test", "*.test"]
        assert web.server.left_out == ("www.six.test",)
        assert web.get("http://www.six.test/").status == 404


def test_a_process_tells_its_connections():
    with start_process(WORLD) as process:
        assert list(process.connections) == ["*.tls.test", "*.six.test", "*.test"]
        assert process.connections["*.test"] == process.connect_to
        assert set(process.hostile_hosts) == set(HOSTILE_HOSTS) - set(process.left_out)
    with start_process(World(hosts=2, pages=4)) as process:
        assert process.connections == {"*.test": process.connect_to}
        assert process.hostile_hosts == {}


def test_a_reset_is_a_reset(web):
    wire = RawConnection(web.port)
    wire.send("GET /reset.html HTTP/1.1\r\nHost: reset.corner.test\r\n\r\n")
    with pytest.raises(ConnectionResetError) as error:
        while wire.socket.recv(65536):
            pass
    assert error.value.errno == errno.ECONNRESET


@pytest.mark.parametrize("url", ["http://image.corner.test/", "http://large.corner.test/large.html"])
def test_a_transfer_that_is_cut_is_seen_in_the_log(web, tmp_path, url):
    host, _, path = url.removeprefix("http://").partition("/")
    wire = RawConnection(web.port)
    wire.send(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
    _, headers, _ = wire.receive(body=False)
    assert int(headers["content-length"]) >= OFFERED_BYTES
    wire.stream.close()
    wire.socket.close()
    assert _entry(web, tmp_path, url).bytes < KERNEL_BYTES


@pytest.mark.parametrize("name", ["endless.corner.test/endless.html", "mute.corner.test/mute.html"])
def test_what_never_ends_stops_when_the_client_goes(web, tmp_path, name):
    host, _, path = name.partition("/")
    wire = RawConnection(web.port)
    wire.send(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
    if "endless" in name:
        assert len(wire.stream.read(1_000_000)) == 1_000_000
    wait_until_under_way(web, 1)
    wire.stream.close()
    wire.socket.close()
    entry = _entry(web, tmp_path, f"http://{name}")
    assert entry.status == 0
    assert entry.bytes < KERNEL_BYTES
    wait_until_under_way(web, 0)


class Insatiable(asyncio.Transport):
    """A client that takes whatever it is given at once, and goes after a while."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def write(self, data: object) -> None:
        self.taken += 1

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: object = None) -> tuple[str, int]:
        return "127.0.0.1", 1

    def is_closing(self) -> bool:
        return False


async def test_an_endless_answer_leaves_the_server_free_even_if_the_client_takes_it_at_once():
    async with asyncio.timeout(20):
        web = web_server.WebServer(WORLD)
        connection, transport = WebConnection(web), Insatiable()
        connection.connection_made(transport)
        connection.data_received(b"GET /endless.html HTTP/1.1\r\nHost: endless.corner.test\r\n\r\n")
        for _ in range(100):
            await asyncio.sleep(0)  # turns of the loop are counted, not time
        connection.connection_lost(None)
        await asyncio.sleep(0)
        taken = transport.taken
        for _ in range(100):
            await asyncio.sleep(0)  # turns of the loop are counted, not time
        assert transport.taken == taken, "it stopped"
        assert 10 < taken < 200


def _entry(web: WebInThread, tmp_path: Path, url: str) -> LoggedRequest:
    """The log's line about a request, as soon as it is there."""
    for _ in range(5000):
        web.get(f"http://127.0.0.1:{web.port}/__log__/flush")
        for entry in read_log(tmp_path / "log.jsonl"):
            if entry.url == url:
                return entry
    raise AssertionError(f"{url} was never logged")


def test_the_certificates_are_part_of_the_package_and_the_authority_has_no_key():
    folder = CA_FILE.parent
    assert {path.name for path in folder.glob("*.pem")} == {
        "ca.pem", "good.pem", "expired.pem", "wrong.pem", "self-signed.pem", "key.pem"}  # fmt: skip
    assert [path.name for path in folder.glob("*.pem") if b"PRIVATE KEY" in path.read_bytes()] == ["key.pem"]
