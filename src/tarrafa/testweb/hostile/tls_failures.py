"""Hostile hosts with bad certificates or failing TLS handshakes, and a host on IPv6.

Promises: hosts below tls.test with untrusted certificates or failing handshakes, and one host at an IPv6 address. A
client that ignores a bad certificate finds an ordinary host. `good` is signed by an authority that only clients with
CA_FILE trust; to all others its certificate is bad too.
Knows nothing of TLS itself (`http.tls_listener`): only which host does what.
"""

from pathlib import Path

from tarrafa.model import Status
from tarrafa.testweb.hostile.hostile_host import (
    IPV6_SUFFIX,
    TLS_SUFFIX,
    CrawlExpectation,
    HostileExchange,
    register_host,
)
from tarrafa.testweb.hostile.response_builders import SPARE, kept, page, register_site

CERTIFICATES = Path(__file__).parents[1] / "certificates"
CA_FILE = CERTIFICATES / "ca.pem"
KEY_FILE = CERTIFICATES / "key.pem"

_BAD = (Status.TLS_ERROR, Status.HOST_GIVEN_UP)

# Host: the certificate that it presents, all for the same key.
CERTIFICATE_OF_HOST = {
    f"good{TLS_SUFFIX}": "good.pem",
    f"self-signed{TLS_SUFFIX}": "self-signed.pem",
    f"expired{TLS_SUFFIX}": "expired.pem",
    f"wrong{TLS_SUFFIX}": "wrong.pem",
}
SILENT_HOST = f"silent{TLS_SUFFIX}"
RESET_HOST = f"reset{TLS_SUFFIX}"
REPLIES_WITHOUT_TLS = {  # sent instead of a ServerHello
    f"plain{TLS_SUFFIX}": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 8\r\n\r\nsem TLS\n",
    f"noise{TLS_SUFFIX}": bytes(range(255, -1, -1)) * 4,
}


def _refused(name: str, about: str, *statuses: int) -> None:
    """A crawler that verifies certificates never gets a request through."""
    root = f"https://{name}/"

    @register_host(name, about, CrawlExpectation({root: statuses}, requests_max=0))
    async def behind(exchange: HostileExchange) -> None:
        exchange.reply(page(f"Atrás de um mau certificado: {name}"))


_refused(f"self-signed{TLS_SUFFIX}", "a self-signed certificate", *_BAD)
_refused(f"expired{TLS_SUFFIX}", "a certificate that expired in 2021", *_BAD)
_refused(f"wrong{TLS_SUFFIX}", "a certificate for another name", *_BAD)
_refused(SILENT_HOST, "a handshake that never begins", *_BAD, Status.TOO_SLOW, Status.SYSTEM_ERROR)
_refused(RESET_HOST, "a connection that is reset during the handshake", *_BAD, Status.SYSTEM_ERROR)
_refused(f"plain{TLS_SUFFIX}", "plain HTTP where TLS was expected", *_BAD, Status.INVALID_RESPONSE)
_refused(f"noise{TLS_SUFFIX}", "noise where TLS was expected", *_BAD, Status.INVALID_RESPONSE)

_GOOD = f"https://good{TLS_SUFFIX}/"


@register_host(
    f"good{TLS_SUFFIX}",
    "a certificate by an authority of our own: good for clients that trust it (CA_FILE)",
    CrawlExpectation({_GOOD: (200, *_BAD)}, requests_max=2 + SPARE, may_keep=(_GOOD,)),
)
async def good(exchange: HostileExchange) -> None:
    exchange.reply(page("Atrás de um bom certificado"))


register_site(f"www{IPV6_SUFFIX}", "a host at an IPv6 address", {"/other.html": kept(page("Outra página em IPv6"))})
