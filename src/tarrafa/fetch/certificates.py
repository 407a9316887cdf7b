"""TLS certificates: the CA bundle, reasons of failed verification, and hosts known to fail it.

Which authorities' file to use, and what OpenSSL's verdict on a certificate means, in few words. A collection whose
policy is `accept` takes a certificate that will not do, and is told why; `Distrust` remembers for a while which hosts
those are, so that not each of their pages costs a handshake that must fail.

pycurl's wheel carries a libcurl that was made on another distribution: its own default is
`/etc/pki/tls/certs/ca-bundle.crt`. pycurl looks into a few more places, but neither at SSL_CERT_FILE nor, on a
machine without the ca-certificates package, at anything that exists; then no https site verifies. So the file is
always named.
"""

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tarrafa.clock import boottime

SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat and its kin
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # the BSDs, macOS
)
DISTRUST_S = 300.0
DISTRUSTED_MAX = 10_000

NAME_MISMATCH = "name does not match"
REASONS = {  # OpenSSL's X509_V_ERR_*; of a name that libcurl itself compares nothing is noted but 0 or 1
    0: NAME_MISMATCH,
    1: NAME_MISMATCH,
    2: "unknown issuer",
    9: "certificate is not yet valid",
    10: "certificate has expired",
    18: "self-signed certificate",
    19: "self-signed certificate",
    20: "unknown issuer",
    21: "unknown issuer",
    23: "certificate is revoked",
    24: "invalid authority",
    26: "not made for servers",
    62: NAME_MISMATCH,
    64: NAME_MISMATCH,
    66: "key is too weak",
    67: "key is too weak",
    68: "signature is too weak",
}


def verify_error_text(verify_result: int) -> str:
    """Why a certificate does not verify."""
    return REASONS.get(verify_result, f"certificate does not verify ({verify_result})")


def ca_bundle(
    environment: Mapping[str, str] = os.environ,
    exists: Callable[[str], bool] = lambda path: Path(path).is_file(),
) -> str | None:
    """The file of authorities: SSL_CERT_FILE, else the system's, else certifi's; None: there is none."""
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
    """The hosts whose certificate would not do a moment ago, and why."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str | None], tuple[float, str]] = {}

    def reason_for(self, host: str, ca_file: str | None) -> str:
        """Why its certificate does not verify; empty: as far as we know it does."""
        until, why = self._known.get((host, ca_file), (0.0, ""))
        return why if until > self._clock() else ""

    def remember(self, host: str, ca_file: str | None, why: str) -> None:
        self._known.pop((host, ca_file), None)
        while len(self._known) >= DISTRUSTED_MAX:
            del self._known[next(iter(self._known))]
        self._known[host, ca_file] = (self._clock() + DISTRUST_S, why)
