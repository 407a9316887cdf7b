"""TLS certificates: the CA bundle, reasons of failed verification, and hosts known to fail it.

A collection whose policy is `accept` accepts a certificate that does not verify, and learns the reason.
`DistrustedHosts` remembers such hosts for a while, so that not every page of theirs costs a handshake that must fail.

The CA bundle is always passed explicitly. pycurl's wheel carries a libcurl that was built on another distribution; it
finds neither SSL_CERT_FILE nor, on a machine without the ca-certificates package, any file that exists.
"""

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tarrafa.clock import boottime
from tarrafa.i18n import Message, message

SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat and derivatives
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # the BSDs, macOS
)
DISTRUST_S = 300.0
DISTRUSTED_MAX = 10_000

NAME_MISMATCH = message("name does not match")
REASONS = {  # OpenSSL's X509_V_ERR_*; for a name that libcurl itself compares, only 0 or 1 is known
    0: NAME_MISMATCH,
    1: NAME_MISMATCH,
    2: message("unknown issuer"),
    9: message("certificate is not yet valid"),
    10: message("certificate has expired"),
    18: message("self-signed certificate"),
    19: message("self-signed certificate"),
    20: message("unknown issuer"),
    21: message("unknown issuer"),
    23: message("certificate is revoked"),
    24: message("invalid authority"),
    26: message("not made for servers"),
    62: NAME_MISMATCH,
    64: NAME_MISMATCH,
    66: message("key is too weak"),
    67: message("key is too weak"),
    68: message("signature is too weak"),
}


def verify_error(verify_result: int) -> Message:
    """Why a certificate does not verify."""
    return REASONS.get(verify_result) or message("certificate does not verify ({code})", code=str(verify_result))


def ca_bundle(
    environment: Mapping[str, str] = os.environ,
    exists: Callable[[str], bool] = lambda path: Path(path).is_file(),
) -> str | None:
    """The CA bundle: SSL_CERT_FILE, else the system's, else certifi's; None if there is none."""
    named = environment.get("SSL_CERT_FILE")
    if named:
        return named
    return next((path for path in SYSTEM_BUNDLES if exists(path)), None) or _certifi()


def _certifi() -> str | None:
    try:
        where: str = importlib.import_module("certifi").where()
    except ImportError:
        return None
    return where


class DistrustedHosts:
    """The hosts whose certificate recently failed to verify, and why."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str | None], tuple[float, Message | str]] = {}

    def reason_for(self, host: str, ca_file: str | None) -> Message | str:
        """Why the host's certificate does not verify; empty if no failure is known."""
        until, why = self._known.get((host, ca_file), (0.0, ""))
        return why if until > self._clock() else ""

    def remember(self, host: str, ca_file: str | None, why: Message | str) -> None:
        self._known.pop((host, ca_file), None)
        while len(self._known) >= DISTRUSTED_MAX:
            del self._known[next(iter(self._known))]
        self._known[host, ca_file] = (self._clock() + DISTRUST_S, why)
