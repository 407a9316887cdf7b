"""Adds security headers (CSP, HSTS, no-sniff) to every response; allows only http(s) links.

Promises: every response carries a policy under which only our own style sheet and script are loaded or run (that of the
SPARQL editor allows one more style, by its hash), no referrer is sent to linked pages, and no content type is guessed;
only http and https URLs become links; a redirect stays on this site. Knows nothing of the content.
"""

from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The one style that YASGUI 4.6.2 writes into the page by itself, for the columns of its table; and no other.
YASGUI_STYLE = "'sha256-zCK2EVMoPc04mRF/g5CotUvxbJPWS+8V0b+s9ptqQIk='"
EDITOR_CSP = CONTENT_SECURITY_POLICY.replace("style-src 'self'", f"style-src 'self' {YASGUI_STYLE}")
CSP_HEADER = "Content-Security-Policy"
OVERRIDABLE_HEADERS = frozenset({CSP_HEADER, "Referrer-Policy"})  # where a page may have one of its own
HSTS_HEADER = "Strict-Transport-Security"
HSTS_VALUE = "max-age=31536000"  # this host only, without its subdomains
HEADERS = {
    CSP_HEADER: CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeadersMiddleware:
    """Adds the headers to every response, errors included. `secure`: the public URL is https."""

    def __init__(self, app: ASGIApp, secure: bool = False) -> None:
        always = {name: value for name, value in HEADERS.items() if name not in OVERRIDABLE_HEADERS}
        always |= {HSTS_HEADER: HSTS_VALUE} if secure else {}
        default = {name: HEADERS[name] for name in OVERRIDABLE_HEADERS} | {"Cache-Control": "no-cache"}
        self._app, self._always, self._default = app, _raw(always), _raw(default)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def shielded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = self._with_security(message.get("headers", ()))
            await send(message)

        await self._app(scope, receive, shielded)

    def _with_security(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        own = [(name.lower(), value) for name, value in headers]
        own = [one for one in own if one[0] not in self._always]
        kept = [(name, _own_path(value) if name == b"location" else value) for name, value in own]
        given = {name for name, _ in kept}
        return [*kept, *self._always.items(), *(one for one in self._default.items() if one[0] not in given)]


def _raw(headers: dict[str, str]) -> dict[bytes, bytes]:
    return {name.lower().encode(): value.encode() for name, value in headers.items()}


def _own_path(location: bytes) -> bytes:
    """A redirect without scheme and host: Starlette repeats the Host header, in which a client may write any name."""
    return location if location[:1] == b"/" else b"/" + location.partition(b"://")[2].partition(b"/")[2].lstrip(b"/\\")


def safe_href(url: str) -> str:
    """The URL if it may be a link, else one that leads nowhere."""
    return url if url.startswith(("http://", "https://")) else "about:blank"
