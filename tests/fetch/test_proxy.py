"""Through a proxy: it finds the host, and learns of a request no more than it must."""

import pytest

from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.model import Status
from tests.fetch.fake_proxy import Proxy, a_proxy
from tests.fetch.raw_server import AUTHORITY, RawServer, a_server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
SECRET = ("X-Key", "do-not-tell-the-proxy")


async def fetched(url: str, scheme: str, certificate: str = "") -> tuple[FetchResponse, RawServer, Proxy]:
    async with (
        a_server(OK, certificate=certificate) as server,
        a_proxy(server.host, server.port, socks=scheme == "socks5h") as proxy,
    ):
        client = HttpClient(10)
        request = FetchRequest(url, [("User-Agent", "Tarrafa")], proxy=f"{scheme}://127.0.0.1:{proxy.port}")
        request.secret_headers, request.ca_file = (SECRET,), AUTHORITY
        response = await client.fetch(request)
        client.close()
        return response, server, proxy


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
@pytest.mark.parametrize("certificate", ["", "good"])
async def test_a_page_comes_through_a_proxy_that_was_told_the_name_of_its_host(scheme, certificate):
    url = f"{'https' if certificate else 'http'}://a.test/x"
    response, server, proxy = await fetched(url, scheme, certificate)
    assert (response.status, response.raw_body) == (200, b"hello"), response.error
    assert response.raw_head == OK.removesuffix(b"hello"), "nothing of what the proxy said"
    assert response.address == "", "nobody here knows it"
    assert b"X-Key: do-not-tell-the-proxy\r\n" in server.requests[0]
    assert b"a.test" in proxy.told[0]
    if certificate:
        assert server.names == ["a.test"]
        assert b"do-not-tell" not in b"".join(proxy.told)


async def test_a_proxy_that_is_not_there_is_an_outcome():
    client = HttpClient(10)
    response = await client.fetch(FetchRequest("http://a.test/", [], proxy="http://127.0.0.1:1"))
    client.close()
    assert response.status == Status.SYSTEM_ERROR
