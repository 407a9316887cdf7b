"""What holds for every machine of ours that another one asks; who answers there is hostile in the tests of those who
ask (coordinate/test_calling.py, search/test_remote.py)."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from tarrafa.errors import ConfigError
from tarrafa.fetch.node_client import (
    IDLE_MAX,
    NodeHttpClient,
    NodeRequestFailed,
    check_node_url,
    may_send_secret,
    wire_version,
)

SECRET = b"a secret of many letters"
WAIT_S = 30.0


class Echo(ThreadingHTTPServer):
    """Says what it was told; `lines` are the connections that are open, `most` so many at once were asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Echoing)
        self.change = threading.Condition()
        self.lines = self.made = 0
        self.together: threading.Barrier | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def wait_for_lines(self, wanted: int) -> bool:
        with self.change:
            return self.change.wait_for(lambda: self.lines == wanted, WAIT_S)


class _Echoing(BaseHTTPRequestHandler):
    server: Echo
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self._count(1)

    def finish(self) -> None:
        super().finish()
        self._count(-1)

    def _count(self, more: int) -> None:
        with self.server.change:
            self.server.lines += more
            self.server.made += max(0, more)
            self.server.change.notify_all()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.together is not None:
            self.server.together.wait(WAIT_S)
        self.send_response(200)
        self.send_header("Content-Type", "Text/Plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def echo():
    with Echo() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def a_peer(server: Echo) -> NodeHttpClient:
    return NodeHttpClient(server.url, SECRET, "text/plain", WAIT_S)


def test_one_connection_serves_many_questions_until_it_is_closed(echo):
    peer = a_peer(echo)
    for number in range(5):
        answer = peer.post("/x", b"%d" % number, 100)
        assert (answer.code, answer.type, answer.body, answer.local) == (200, "text/plain", b"%d" % number, "127.0.0.1")
    assert (echo.made, echo.lines) == (1, 1)
    peer.close()
    assert echo.wait_for_lines(0)
    with pytest.raises(NodeRequestFailed, match="the connection is closed"):
        peer.post("/x", b"", 100)


def test_those_who_ask_at_once_have_a_connection_each_and_only_some_are_kept(echo):
    peer, many = a_peer(echo), IDLE_MAX + 4
    echo.together = threading.Barrier(many)
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(peer.post("/", b"%d" % n, 100).body)) for n in range(many)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(found, key=int) == [b"%d" % n for n in range(many)]
    assert echo.wait_for_lines(IDLE_MAX)
    peer.close()
    assert echo.wait_for_lines(0)


def test_a_connection_that_is_in_use_when_we_close_ends_with_its_answer(echo):
    peer, echo.together = a_peer(echo), threading.Barrier(2)
    found: list[bytes] = []
    asking = threading.Thread(target=lambda: found.append(peer.post("/", b"late", 100).body))
    asking.start()
    assert echo.wait_for_lines(1)
    peer.close()
    echo.together.wait(WAIT_S)
    asking.join(WAIT_S)
    assert found == [b"late"]
    assert echo.wait_for_lines(0)


def test_nobody_there_is_said_without_saying_where():
    with pytest.raises(NodeRequestFailed, match=r"^no answer \(Connection refused\)$"):
        NodeHttpClient("http://127.0.0.1:9", SECRET, "text/plain", WAIT_S).post("/", b"", 100)


def test_what_is_too_long_is_not_taken(echo):
    peer = a_peer(echo)
    assert len(peer.post("/", b"x" * 1000, 1000).body) == 1000
    with pytest.raises(NodeRequestFailed, match="too long"):
        peer.post("/", b"x" * 1001, 1000)
    peer.close()


@pytest.mark.parametrize(
    ("url", "address", "may"),
    [
        ("http://h", "127.0.0.1", True),
        ("http://h", "10.1.2.3", True),
        ("http://h", "::1", True),
        ("http://h", "fd00::1", True),
        ("http://h", "fe80::1%eth0", True),
        ("http://h", "8.8.8.8", False),
        ("http://h", "::ffff:8.8.8.8", False),
        ("http://h", "2001:4860:4860::8888", False),
        ("https://h", "8.8.8.8", True),
    ],
)
def test_a_secret_is_said_without_tls_on_private_networks_only(url, address, may):
    assert may_send_secret(url, address) is may


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://h", "http://h"),
        ("http://h:8080/", "http://h:8080"),
        ("HTTP://H:80/below//", "http://H:80/below"),
        ("https://[::1]:9/", "https://[::1]:9"),
    ],
)
def test_an_address_has_one_spelling(url, address):
    assert check_node_url(url, "--x") == address


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "h:80", "//a", "ftp://a", "http://", "http://a:port", "http://a:99999", "http://a/?q=1", "http://a#b",
        "http://á.br", "http://a\n.br", "http://[::1", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_what_is_no_address_is_said(url):
    with pytest.raises(ConfigError, match=r"^--x .*expected http://HOST:PORT or https://HOST$") as caught:
        check_node_url(url, "--x")
    assert str(caught.value).isprintable()


def test_a_password_does_not_belong_on_a_command_line():
    with pytest.raises(ConfigError, match="no password") as caught:
        check_node_url("http://ana:secret@a.br/", "--x")
    assert "secret" not in str(caught.value)


def test_the_version_of_a_wire_format_depends_on_its_structs_and_not_on_their_docstrings():
    def version(docstring: str, kind: type, field: str = "description") -> str:
        struct = msgspec.defstruct("Thing", [(field, kind)], namespace={"__doc__": docstring})
        return wire_version(msgspec.json.schema(tuple[struct, int]), [("row", "u8")])  # type: ignore[valid-type]

    assert version("A thing.", str) == version("Another sentence.", str)
    assert version("A thing.", str) != version("A thing.", int)
    assert version("A thing.", str) != version("A thing.", str, "text")
    assert wire_version({"a": "description"}) != wire_version({"a": "text"})
    assert wire_version({"description": "a"}) == wire_version({})
