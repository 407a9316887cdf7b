"""What can go wrong below HTTP?

Promises: hosts below tls.test, whose certificates are not to be trusted, or with whom no secure connection comes about;
and one at an IPv6 address. Those who insist on a look at what is behind a bad certificate find an ordinary host. `good`
is signed by an authority that nobody knows but who was told of CA_FILE: to all others its certificate is bad too.
Knows nothing of TLS itself (tls.py): only which host does what.
"""

from pathlib import Path

from tarrafa.model import Status
from tarrafa.web.corners.pages import SPARE, kept, page, site
from tarrafa.web.corners.register import SECURE_SUFFIX, SIX_SUFFIX, Exchange, Expects, corner

CERTIFICATES = Path(__file__).parents[1] / "certificates"
CA_FILE = CERTIFICATES / "ca.pem"
KEY_FILE = CERTIFICATES / "key.pem"

_BAD = (Status.TLS_ERROR, Status.HOST_GIVEN_UP)

# Host -> the certificate that it shows, all for the same key.
SHOWN = {
    f"good{SECURE_SUFFIX}": "good.pem",
    f"self-signed{SECURE_SUFFIX}": "self-signed.pem",
    f"expired{SECURE_SUFFIX}": "expired.pem",
    f"wrong{SECURE_SUFFIX}": "wrong.pem",
}
SILENT = f"silent{SECURE_SUFFIX}"
RESET = f"reset{SECURE_SUFFIX}"
SAID = {  # instead of a ServerHello
    f"plain{SECURE_SUFFIX}": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 8\r\n\r\nsem TLS\n",
    f"noise{SECURE_SUFFIX}": bytes(range(255, -1, -1)) * 4,
}


def _refused(name: str, about: str, *statuses: int) -> None:
    """No request of a crawler that insists on certificates ever comes through."""
    root = f"https://{name}/"

    @corner(name, about, Expects({root: statuses}, requests_max=0))
    async def behind(exchange: Exchange) -> None:
        exchange.reply(page(f"Atrás de um mau certificado: {name}"))


_refused(f"self-signed{SECURE_SUFFIX}", "a certificate that its owner signed himself", *_BAD)
_refused(f"expired{SECURE_SUFFIX}", "a certificate that expired in 2021", *_BAD)
_refused(f"wrong{SECURE_SUFFIX}", "a certificate for another name", *_BAD)
_refused(SILENT, "a handshake that never begins", *_BAD, Status.TOO_SLOW, Status.SYSTEM_ERROR)
_refused(RESET, "a connection that is reset during the handshake", *_BAD, Status.SYSTEM_ERROR)
_refused(f"plain{SECURE_SUFFIX}", "plain HTTP where TLS was expected", *_BAD, Status.INVALID_RESPONSE)
_refused(f"noise{SECURE_SUFFIX}", "noise where TLS was expected", *_BAD, Status.INVALID_RESPONSE)

_GOOD = f"https://good{SECURE_SUFFIX}/"


@corner(
    f"good{SECURE_SUFFIX}",
    "a certificate by an authority of our own: good for those who were told of it",
    Expects({_GOOD: (200, *_BAD)}, requests_max=2 + SPARE, may_keep=(_GOOD,)),
)
async def good(exchange: Exchange) -> None:
    exchange.reply(page("Atrás de um bom certificado"))


site(f"www{SIX_SUFFIX}", "a host at an IPv6 address", {"/other.html": kept(page("Outra página em IPv6"))})
