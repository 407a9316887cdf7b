"""HTTP client for other nodes of this installation: POST with a bearer token, bounded in time and size.

Promises: a response, or a one-line reason for its absence, within the time limit; nothing is read beyond its bound. The
secret goes only to the named address: no redirect is followed, no proxy is used, certificates are verified, and with
`private` it is never sent without TLS to a public address. Connections are kept and reused until `close`. If a kept
connection is dead, libcurl repeats the request, so send only requests that may arrive twice.
Knows nothing of the content of the messages. Blocking, in any number of threads.
"""

import json
import os
import threading
from typing import NamedTuple
from urllib.parse import urlsplit

import pycurl
from xxhash import xxh3_64_hexdigest

from tarrafa.errors import ConfigError, TarrafaError
from tarrafa.fetch.address_guard import is_forbidden_address
from tarrafa.fetch.certificates import ca_bundle
from tarrafa.i18n import message
from tarrafa.runtime.heartbeat import printable_text

IDLE_MAX = 16  # connections that are kept
ERROR_CHARS_MAX = 300
TOO_LONG = message("its response is too long")
CLOSED = message("the connection is closed")
NO_TLS = message(
    "without TLS a token is sent to no public address; use https://, or a private network, a VPN, or a tunnel "
    "(ssh -L 8080:localhost:8080 HOST, then http://localhost:8080)"
)


class NodeRequestFailed(TarrafaError):
    """The node does not answer; the message is one line."""


class NodeRequestRefused(NodeRequestFailed):
    """The address may not be contacted, so nothing was sent."""


class NodeHttpResponse(NamedTuple):
    """A response. `type` is its media type, `local` our own address of the connection."""

    code: int
    type: str
    body: bytes
    local: str


class NodeHttpClient:
    """A client of one node, at a checked URL. `type` is the media type of requests and responses."""

    def __init__(self, url: str, secret: bytes, type: str, limit_s: float, private: bool = False) -> None:
        self.url, self.timeout_s = url, limit_s
        self._secret, self._type, self._private = secret, type, private
        self._idle: list[pycurl.Curl] = []
        self._closed = False
        self._lock = threading.Lock()

    def post(self, path: str, body: bytes, bytes_max: int) -> NodeHttpResponse:
        """Send a POST and return the response. Raises `NodeRequestFailed`."""
        curl, taken, refused = self._taken(), bytearray(), False

        def take(part: bytes) -> int:
            taken.extend(part)
            return len(part) if len(taken) <= bytes_max else -1

        def check_address(connected: str, *_: object) -> int:
            """libcurl calls this when the connection is open and nothing has been sent yet."""
            nonlocal refused
            refused = self._private and not may_send_secret(self.url, str(connected))
            return int(pycurl.PREREQFUNC_ABORT if refused else pycurl.PREREQFUNC_OK)

        curl.setopt(pycurl.URL, f"{self.url}{path}")
        curl.setopt(pycurl.POSTFIELDS, body)
        curl.setopt(pycurl.TIMEOUT_MS, int(self.timeout_s * 1000))
        curl.setopt(pycurl.WRITEFUNCTION, take)
        curl.setopt(pycurl.PREREQFUNCTION, check_address)
        try:
            curl.perform()
        except pycurl.error as error:
            code, why = error.args
            failure = NodeRequestRefused(NO_TLS) if refused else self._failure(code, why, curl.getinfo(pycurl.OS_ERRNO))
            curl.close()
            raise failure from None
        code, local = curl.getinfo(pycurl.RESPONSE_CODE), curl.getinfo(pycurl.LOCAL_IP)
        kind = (curl.getinfo(pycurl.CONTENT_TYPE) or "").partition(";")[0].strip().lower()
        response = NodeHttpResponse(code, kind, bytes(taken), local)
        taken.clear()  # the handle keeps the data until it is used again
        self._keep(curl)
        return response

    def close(self) -> None:
        """Make no more requests. Idle connections close now, those in use after their response."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for curl in idle:
            curl.close()

    def _taken(self) -> pycurl.Curl:
        with self._lock:
            if self._closed:
                raise NodeRequestFailed(CLOSED)
            if self._idle:
                return self._idle.pop()
        return new_post_handle(self._type, self._secret)

    def _keep(self, curl: pycurl.Curl) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_MAX:
                self._idle.append(curl)
                return
        curl.close()

    def _failure(self, code: int, why: str, number: int) -> NodeRequestFailed:
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return NodeRequestFailed(message("no answer within {seconds:g} s", seconds=self.timeout_s))
        if code == pycurl.E_WRITE_ERROR:
            return NodeRequestFailed(TOO_LONG)
        if code == pycurl.E_COULDNT_CONNECT and number:  # libcurl would show the address to every visitor of our page
            why = os.strerror(number)
        return NodeRequestFailed(
            message("no answer ({why})", why=" ".join(printable_text(why, ERROR_CHARS_MAX).split()))
        )


def new_post_handle(type: str, secret: bytes) -> pycurl.Curl:
    """A handle for a POST of that type, with the secret; the caller sets the address."""
    curl = pycurl.Curl()
    headers = [f"Content-Type: {type}", f"Accept: {type}", "Expect:"]
    if secret:
        headers.append(f"Authorization: Bearer {secret.decode()}")
    curl.setopt(pycurl.HTTPHEADER, headers)
    curl.setopt(pycurl.POST, 1)
    curl.setopt(pycurl.PROXY, "")
    curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.NOSIGNAL, 1)
    if (authorities := ca_bundle()) is not None:
        curl.setopt(pycurl.CAINFO, authorities)
    return curl


def may_send_secret(url: str, connected: str) -> bool:
    """Whether the secret may be sent on a connection to this IP address."""
    return url.startswith("https:") or is_forbidden_address(connected)


def check_node_url(url: str, option: str) -> str:
    """Check the address of a node given as a command-line option; returns it without the slash at its end."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (it raises)
    except ValueError:
        parts = urlsplit("")
    if parts.username or parts.password:
        raise ConfigError(f"{option}: no password here: every user of this machine can read a command line")
    is_plain = url.isascii() and url.isprintable()
    if not is_plain or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"{option} {printable_text(url, 200)}: expected http://HOST:PORT or https://HOST")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def wire_version(*parts: object) -> str:
    """The version of a protocol between nodes: a hash of all that both ends must agree on, such as the JSON schemas of
    its structs. Descriptions in a schema are docstrings, and do not count.
    """
    return xxh3_64_hexdigest(json.dumps(_without_descriptions(parts), sort_keys=True).encode())[:8]


def _without_descriptions(part: object) -> object:
    if isinstance(part, dict):
        kept = ((key, value) for key, value in part.items() if key != "description" or not isinstance(value, str))
        return {key: _without_descriptions(value) for key, value in kept}
    return [_without_descriptions(one) for one in part] if isinstance(part, list | tuple) else part
