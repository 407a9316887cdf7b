"""The host that a request is for: remembered by header, and always what Starlette reads in the request's URL."""

from itertools import product

import pytest
from starlette.requests import Request

from tarrafa.server.auth.request_origin import _host_of, is_local_request

HEADERS = (
    None, b"", b"localhost", b"localhost:8080", b"LOCALHOST", b"127.0.0.1", b"127.0.0.1:80", b"[::1]", b"[::1]:8080",
    b"::1", b"evil.test", b"evil.test:80", b"localhost.evil.test", b"evil.test@localhost", b"localhost@evil.test",
    b"localhost:80:80", b"localhost:port", b"localhost/evil.test", b"evil.test/localhost", b"evil.test#localhost",
    b"evil.test?localhost", b"evil.test\\localhost", b"[", b"[::1", b"]", b" localhost", b"localhost ", b"loc\xe1lhost",
    b"localhost" + b"x" * 200, b"\x00", b"%6cocalhost",
)  # fmt: skip
PATHS = ("/", "/search.json", "", "*", "@evil.test/", "//evil.test/", "\\evil.test", ":80", "localhost", "/?q#a")
SERVERS = (("127.0.0.1", 80), ("10.0.0.1", 8080), ("::1", 80), None)


def a_request(header: bytes | None, path: str, server: tuple[str, int] | None, scheme: str = "http") -> Request:
    headers = [] if header is None else [(b"host", header)]
    scope = {"type": "http", "scheme": scheme, "server": server, "path": path, "headers": headers}
    return Request(scope | {"client": ("127.0.0.1", 4711), "query_string": b"q=1"})


def read_host(request: Request) -> str:
    try:
        return request.url.hostname or ""
    except ValueError:
        return "refused"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_remembered_host_is_that_of_the_url(scheme):
    for _ in range(2):  # the second time it is remembered
        for header, path, server in product(HEADERS, PATHS, SERVERS):
            request = a_request(header, path, server, scheme)
            try:
                found = _host_of(request)
            except ValueError:
                found = "refused"
            assert found == read_host(a_request(header, path, server, scheme)), (header, path, server)


def test_a_request_for_another_host_name_is_not_local():
    assert is_local_request(a_request(b"localhost:8080", "/", ("127.0.0.1", 8080)))
    assert is_local_request(a_request(b"[::1]:8080", "/", ("127.0.0.1", 8080)))
    assert not is_local_request(a_request(b"evil.test:8080", "/", ("127.0.0.1", 8080)))
