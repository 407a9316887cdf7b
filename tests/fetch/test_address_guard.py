"""The guard as a whole: from a URL to a socket that is never opened."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pycurl
import pytest

from tarrafa.fetch.address_guard import is_forbidden_address
from tarrafa.fetch.dns import DnsResolver
from tarrafa.fetch.http_client import HttpClient, Transfer
from tarrafa.fetch.http_message import FetchRequest
from tarrafa.model import Status
from tarrafa.parse.url import canonical, host_name
from tests.fetch.fake_name_server import a_name_server
from tests.fetch.raw_server import AUTHORITY, RawServer, a_server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

INSIDE_4 = {
    "0.0.0.0": "this network", "0.1.2.3": "this network", "10.1.2.3": "private", "100.64.0.1": "shared",
    "100.127.255.255": "shared", "100.100.100.200": "Alibaba's metadata", "127.0.0.1": "loopback",
    "127.255.255.254": "loopback", "168.63.129.16": "Azure's services", "169.254.169.254": "metadata",
    "172.16.0.1": "private", "172.31.255.255": "private", "192.0.0.1": "assignments", "192.0.0.9": "assignments",
    "192.0.0.192": "Oracle's metadata", "192.0.2.1": "examples", "192.88.99.1": "6to4 relays",
    "192.168.1.1": "private", "198.18.0.1": "benchmarks", "198.19.255.255": "benchmarks",
    "198.51.100.1": "examples", "203.0.113.1": "examples", "224.0.0.1": "multicast",
    "239.255.255.255": "multicast", "240.0.0.1": "reserved", "255.255.255.255": "broadcast",
}  # fmt: skip
INSIDE_6 = {
    "::": "unspecified", "::1": "loopback", "::7f00:1": "IPv4-compatible", "::8.8.8.8": "IPv4-compatible",
    "::ffff:127.0.0.1": "IPv4-mapped", "::ffff:10.0.0.1": "IPv4-mapped", "::ffff:0:127.0.0.1": "IPv4-translated",
    "64:ff9b::7f00:1": "NAT64", "64:ff9b::10.0.0.1": "NAT64", "64:ff9b:1::8.8.8.8": "local NAT64",
    "64:ff9b:1:ffff::1": "local NAT64", "100::1": "discarded", "2001::1": "Teredo",
    "2001:0:808:808::8f7f:fffe": "Teredo", "2001:2::1": "benchmarks", "2001:10::1": "ORCHID",
    "2001:20::1": "ORCHIDv2", "2001:db8::1": "examples", "2002:7f00:1::": "6to4", "2002:a00:1::1": "6to4",
    "2002:c0a8:101::1": "6to4", "2606:4700::5efe:10.0.0.1": "ISATAP", "2606:4700::200:5efe:127.0.0.1": "ISATAP",
    "3fff::1": "examples", "4000::1": "not assigned", "5f00::1": "segment routing", "fc00::1": "unique local",
    "fd00:ec2::254": "Amazon's metadata", "fd20:ce::254": "Google's metadata", "fe80::1": "link-local",
    "fe80::1%eth0": "with a zone", "2606:4700::1111%eth0": "with a zone", "fec0::1": "site-local",
    "ff02::1": "multicast", "ff0e::1": "multicast",
}  # fmt: skip
OUTSIDE = [
    "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
    "168.63.129.17", "169.253.255.255", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.1",
    "192.167.255.255", "198.17.255.255", "198.20.0.0", "200.160.2.3", "223.255.255.255", "2606:4700::1111",
    "2001:4860:4860::8888", "2804:14c::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
    "2606:4700::5efe:8.8.8.8",
]  # fmt: skip


@pytest.mark.parametrize("address", [*INSIDE_4, *INSIDE_6])
def test_addresses_that_are_not_on_the_public_internet_are_forbidden(address):
    assert is_forbidden_address(address)


@pytest.mark.parametrize("address", INSIDE_4)
def test_so_they_are_inside_an_ipv6_address(address):
    assert is_forbidden_address(f"::ffff:{address}")
    assert is_forbidden_address(f"64:ff9b::{address}")


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_allowed(address):
    assert not is_forbidden_address(address)


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.1", "0x7f.1", "2130706433", "1.2.3.4.5", "[::1]", " 8.8.8.8", "８.8.8.8"]
)
def test_what_is_no_address_is_forbidden(text):
    assert is_forbidden_address(text)


class Watched(HttpClient):
    """A client that remembers where it would have connected to, and connects nowhere."""

    def __init__(self) -> None:
        super().__init__(10)
        self.reached_for: list[str] = []

    def _prepare(self, curl: pycurl.Curl, transfer: Transfer) -> None:
        super()._prepare(curl, transfer)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._no_socket)

    def _no_socket(self, _purpose: int, address: tuple[int, int, int, tuple[str, int]]) -> int:
        self.reached_for.append(address[3][0])
        return int(pycurl.SOCKET_BAD)


async def visit(client: HttpClient, resolver: DnsResolver, url: str) -> int:
    """As a worker goes about it."""
    normal = canonical(url)
    if normal is None:
        return 0
    answer = await resolver.resolve(host_name(normal), allow_private=False)
    if answer.address is None:
        return Status.ADDRESS_REFUSED if answer.refused else Status.NAME_UNKNOWN
    return (await client.fetch(FetchRequest(normal, [], address=answer.address))).status


FORBIDDEN_URLS = [
    "http://0/", "http://0.0.0.0/", "http://127.1/", "http://127.0.0.1./", "http://2130706433/", "http://0x7f000001/",
    "http://0177.0.0.1/", "http://017700000001/", "http://0x7F.1/", "http://0300.0250.1.1/", "http://１２７.0.0.1/",
    "http://①②⑦.0.0.1/", "http://127。0。0。1/", "http://%31%32%37.0.0.1/", "http://user:secret@127.0.0.1/",
    "http://8.8.8.8@127.0.0.1/", "http:127.0.0.1/", "http:///127.0.0.1/", "http://127.0.0.1\\@8.8.8.8/",
    "https://127.0.0.1:443/", "http://127.0.0.1:22/", "http://[::1]/", "http://[::]/", "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[0:0:0:0:0:ffff:a00:1]/", "http://[fd00::1]/",
    "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://[fe80::1]/", "http://localhost/",
    "http://localhost./", "http://LOCALHOST/", "http://ⓛocalhost/", "http://a.localhost/", "http://169.254.169.254/",
    "http://[fec0::1]/", "http://inside.test/", "http://inside.test./", "http://INSIDE.test/", "http://alias.test/",
    "http://mapped.test/", "http://six.test/", "http://metadata.test/latest/meta-data/",
]  # fmt: skip
NAMES = {
    "inside.test": ["10.0.0.1"], "alias.test": ["hop.test"], "hop.test": ["127.0.0.1"],
    "metadata.test": ["169.254.169.254"], "mapped.test": ["::ffff:127.0.0.1"], "six.test": ["::1", "fe80::1"],
}  # fmt: skip


async def test_no_socket_is_ever_opened_for_a_url_that_leads_inside():
    async with a_name_server(NAMES) as names:
        resolver, client = DnsResolver([f"127.0.0.1:{names.port}"]), Watched()
        found = {url: await visit(client, resolver, url) for url in FORBIDDEN_URLS}
        await resolver.close()
        client.close()
        assert found == dict.fromkeys(FORBIDDEN_URLS, Status.ADDRESS_REFUSED)
        assert client.reached_for == []


@pytest.mark.parametrize("url", ["http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://256.0.0.1/"])
def test_what_is_no_host_is_no_url(url):
    assert canonical(url) is None


async def test_the_address_that_was_vetted_is_the_only_one_that_is_reached_for():
    """The name leads to loopback from the second time on; libcurl is never told to look."""

    async with a_name_server({"rebound.test": ["8.8.8.8"]}, {"rebound.test": ["127.0.0.1"]}) as names:
        resolver, client = DnsResolver([f"127.0.0.1:{names.port}"]), Watched()
        for url in ("http://rebound.test/", "https://rebound.test:8443/", "http://rebound.test/again"):
            assert await visit(client, resolver, url) == Status.SYSTEM_ERROR
        await resolver.close()
        client.close()
        assert client.reached_for == ["8.8.8.8"] * 3


async def test_without_a_vetted_address_nothing_is_fetched():
    client = Watched()
    response = await client.fetch(FetchRequest("http://localhost/", []))
    client.close()
    assert (response.status, client.reached_for) == (Status.ADDRESS_REFUSED, [])


@asynccontextmanager
async def client_and_server(*answers: bytes, certificate: str = "") -> AsyncIterator[tuple[HttpClient, RawServer]]:
    async with a_server(*(answers or [OK] * 5), keep=True, certificate=certificate) as server:
        client = HttpClient(10)
        yield client, server
        client.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_an_environment_proxy_is_never_asked(scheme, monkeypatch):
    async with a_server(OK) as proxy, a_server(OK, certificate="good" if scheme == "https" else "") as server:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy.place}/")
        monkeypatch.setenv("NO_PROXY", "nothing.test")
        client = HttpClient(10)
        response = await client.fetch(FetchRequest(f"{scheme}://a.test/", [], server.place, ca_file=AUTHORITY))
        client.close()
        assert (response.status, proxy.connections) == (200, 0)


async def test_no_password_is_taken_from_a_netrc(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine a.test login me password secret\ndefault login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))

    async with client_and_server() as (client, server):
        await client.fetch(FetchRequest("http://a.test/", [], server.place))
    assert b"authorization" not in server.requests[0].lower()


async def test_nothing_that_a_server_says_is_remembered_for_the_next_request():
    """Neither cookies, nor where it says that it also is (Alt-Svc), nor that it wants TLS (HSTS), nor where we were."""
    tell = (
        b'HTTP/1.1 200 OK\r\nSet-Cookie: id=1; Path=/; Domain=a.test\r\nAlt-Svc: h1="127.0.0.1:9"; ma=3600\r\n'
        b"Strict-Transport-Security: max-age=3600\r\nRefresh: 0; url=/next\r\nContent-Length: 5\r\n\r\nhello"
    )

    async with client_and_server(tell, tell, certificate="good") as (client, server):
        for url in ("https://a.test/one", "https://a.test/two"):
            response = await client.fetch(FetchRequest(url, [], server.place, ca_file=AUTHORITY))
            assert (response.status, response.address) == (200, "127.0.0.1")
        async with a_server(OK) as plain:
            assert (await client.fetch(FetchRequest("http://a.test/three", [], plain.place))).status == 200
            assert plain.requests[0].startswith(b"GET /three ")
    assert server.connections == 1
    for word in (b"cookie", b"referer", b"upgrade", b"authorization"):
        assert word not in b"".join(server.requests).lower()


async def test_ipv6_is_fetched_from_by_name_and_by_address():
    try:
        opened = a_server(OK, OK, host="::1")
        server = await opened.__aenter__()
    except OSError:
        pytest.skip("no IPv6 here")
    client = HttpClient(10)
    for url, request in (
        ("name", FetchRequest("http://a.test/", [], server.place)),
        ("address", FetchRequest(f"http://[::1]:{server.port}/", [], address="0:0:0:0:0:0:0:1")),
    ):
        response = await client.fetch(request)
        assert (url, response.status, response.address) == (url, 200, "::1")
    client.close()
    await opened.__aexit__(None, None, None)
    assert f"Host: [::1]:{server.port}\r\n".encode() in server.requests[1]


async def test_the_host_is_asked_for_by_its_ascii_name():
    async with client_and_server() as (client, server):
        await client.fetch(FetchRequest(str(canonical("http://São.test:8080/é")), [], server.place))
    assert server.requests[0].startswith(b"GET /%C3%A9 HTTP/1.1\r\nHost: xn--so-sia.test:8080\r\n")
