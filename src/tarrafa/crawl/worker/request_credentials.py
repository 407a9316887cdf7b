"""Adds credentials (headers, cookies, passwords) to a request and redacts them in the response.

Every request passes here before it is sent: pages, robots.txt and sitemaps. A site that requires credentials requires
them for its robots.txt too. A redirect to another host is a request of its own, and is checked anew.
Promises: secret credentials go out over TLS only, to a server with a valid certificate, whatever the collection accepts
otherwise; or to this very machine, where `connect_to` leads there.
"""

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address

from tarrafa.credentials import Credential, CredentialCache, mask_response_head
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, parse_head
from tarrafa.parse.url import name_and_port
from tarrafa.runtime.data_dir import DataDirectory


class RequestCredentials:
    """The credentials of a data directory, for requests."""

    def __init__(self, data: DataDirectory) -> None:
        self._ring = CredentialCache(data)

    def attach(self, request: FetchRequest, collection: str) -> list[Credential]:
        """Add the credentials that the host may see to a request; returns them."""
        is_tls = request.url.startswith("https:")
        private = is_tls or _is_loopback(request.connect_to)
        shown = self._ring.for_collection(collection).for_host(*name_and_port(request.url), private=private)
        request.secret_headers = tuple(secret.header_line() for secret in shown)
        if is_tls and any(not secret.insecure for secret in shown):
            request.tls = "strict"
        return shown


def _is_loopback(connect_to: str | None) -> bool:
    """Whether a host is reached at this machine."""
    if connect_to is None:
        return False
    return ip_address(connect_to.rpartition(":")[0].removeprefix("[").removesuffix("]")).is_loopback


def redact_response(response: FetchResponse, shown: Sequence[Credential]) -> FetchResponse:
    """A response with the credentials redacted, as it may be parsed and archived."""
    if not shown or not response.raw_head:
        return response
    head = mask_response_head(response.raw_head, shown)
    return replace(response, raw_head=head, head=parse_head(head) or response.head)
