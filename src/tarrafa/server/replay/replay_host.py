"""The replay host name: starts the service worker of wabac.js, and gives it captures.

    /w/all/TIMESTAMPmp_/URL         an archived page, which the service worker answers; here: the page that starts it
    /capture/TIMESTAMPid_/URL       a capture, for the service worker only
    /replay_worker.js  /wabac….js   the service worker: ours, and wabac.js, which it loads
    /wabac….tgz                     wabac.js as npm has it: licence and source

Promises: a request for this host name never reaches the site (search, console, API), and no other name reaches the
replay; no cookie is read or set. Archived bytes are given to `fetch()` of this origin only, never as a page, script or
service worker, so an archived script gets no service worker of its own; nor does wabac.js without ours, which sets the
policy of archived pages. What is taken down, asks not to be shown from an archive, or is not there, is said in plain
words, also for the parts of a page.
"""

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import resources

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarrafa.captures.capture_access import CapturePayload, CaptureStore
from tarrafa.captures.cdx_params import URL_CHARS_MAX
from tarrafa.captures.memento_links import ascii_uri
from tarrafa.captures.timestamps import http_date
from tarrafa.errors import TarrafaError
from tarrafa.i18n import ENGLISH, PORTUGUESE
from tarrafa.parse.url import canonical
from tarrafa.server.captures.memento_routes import find_capture
from tarrafa.server.error_status import UnknownResource, status_and_message
from tarrafa.server.jinja_environment import TemplateRenderer
from tarrafa.server.language_negotiation import choose_language
from tarrafa.server.page_responses import NO_URL
from tarrafa.server.rate_limit import RateLimit, RateLimitMiddleware
from tarrafa.server.replay.replay_site import ARCHIVE, CONNECTIONS, WORKER_CSP, ReplaySite
from tarrafa.server.replay.wabac_package import FILE_NAME, VERSION, WabacPackage
from tarrafa.server.search.params import address
from tarrafa.server.security_headers import CSP_HEADER, HSTS_HEADER, HSTS_VALUE

SCRIPT_PATH, LICENCE_PATH, PACKAGE_PATH = f"/wabac-{VERSION}.js", f"/wabac-{VERSION}.LICENSE.md", f"/{FILE_NAME}"
BROWSER_FOLDER = "browser"
CONNECTIONS_HEADER = "Connection-Allowlist"
OUTSIDE_CSP = "default-src 'none'; style-src 'self'; frame-ancestors 'none'"
NOTHING_CSP = "sandbox; default-src 'none'; frame-ancestors 'none'"
CACHE_FOREVER = "public, max-age=31536000, immutable"
REQUESTS_A_PAGE = 30  # a page has that many parts, more or less: the rate limit is of pages
KEPT_HEADERS = ("content-language", "last-modified")
HEADER_CHARS_MAX = 300
HEADERS = {
    CSP_HEADER: NOTHING_CSP,
    CONNECTIONS_HEADER: CONNECTIONS,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # by it the service worker knows which page asks
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "cross-origin",  # the site, whose pages isolate themselves, frames this host
    "Origin-Agent-Cluster": "?1",
    "X-Robots-Tag": "noindex, nofollow",
    "Cache-Control": "no-store",
}
log = logging.getLogger(__name__)
JAVASCRIPT = "text/javascript; charset=utf-8"

_capture = re.compile(r"(?:(\d{0,14})id_/)?(https?:.+)", re.S | re.I).fullmatch
_page = re.compile(rf"{ARCHIVE}/(?:(\d{{0,14}})(?:[a-z]+_)?/)?(https?:.+)", re.S | re.I).fullmatch
_printable = re.compile(r"[^ -~]+").sub


class ReplayRoutes:
    """The routes. Without a package, the start page says that there is no replay."""

    def __init__(self, replay: ReplaySite, store: CaptureStore, package: WabacPackage | None) -> None:
        self._replay, self._store, self._package = replay, store, package
        self._renderers = {one.code: TemplateRenderer(one) for one in (ENGLISH, PORTUGUESE)}
        settings = {"wabac": SCRIPT_PATH, "policy": replay.archived_page_csp(), "archive": ARCHIVE}
        settings |= {"connections": CONNECTIONS, "home": replay.framed_by[0]}
        self._worker = f"const SETTINGS = {json.dumps(settings)};\n".encode() + browser_file("replay_worker.js")

    def routes(self) -> list[Route]:
        routes = [
            Route("/w/{rest:path}", self.start),
            Route("/capture/{rest:path}", self.capture),
            Route("/replay_start.{kind}", self.start_part),
            Route("/robots.txt", self.robots),
        ]
        if self._package is not None:
            routes += [
                Route("/replay_worker.js", self.worker),
                Route(SCRIPT_PATH, self.script),
                Route(LICENCE_PATH, self.licence),
                Route(PACKAGE_PATH, self.source),
            ]
        return routes

    # -- what starts the replay ------------------------------------------------------------------------------------

    def start(self, request: Request) -> Response:
        """An archived page in a tab of its own could leave the archive: it is shown by the site, in the frame."""
        if request.headers.get("sec-fetch-dest") == "document":
            return self._outside(request)
        has_replay = self._package is not None
        html = self._render(request, "replay_start.html", has_replay=has_replay)
        return Response(html, 200, {CSP_HEADER: self._replay.start_csp()}, "text/html")

    def _outside(self, request: Request) -> Response:
        """A page that goes on by itself: it is not bound to this host, as what an archived page opens may be."""
        url, timestamp = _requested(request, "/w/", _page)
        home = self._replay.framed_by[0]
        html = self._render(request, "replay_outside.html", target=home + address("/copy", url=url, at=timestamp))
        return Response(
            html, 200, {CSP_HEADER: OUTSIDE_CSP, CONNECTIONS_HEADER: f'(response-origin "{home}/*")'}, "text/html"
        )

    def start_part(self, request: Request) -> Response:
        kinds = {"js": JAVASCRIPT, "css": "text/css; charset=utf-8"}
        kind = request.path_params["kind"]
        if kind not in kinds or is_service_worker(request):
            raise HTTPException(404)
        return Response(browser_file(f"replay_start.{kind}"), media_type=kinds[kind])

    def worker(self, request: Request) -> Response:
        return Response(self._worker, 200, {CSP_HEADER: WORKER_CSP, "Cache-Control": "no-cache"}, JAVASCRIPT)

    def script(self, request: Request) -> Response:
        """wabac.js, for our service worker to load: by itself it would let archived pages choose their policy."""
        assert self._package is not None
        if is_service_worker(request) or request.headers.get("sec-fetch-dest", "script") != "script":
            raise HTTPException(403)
        headers = {"Cache-Control": CACHE_FOREVER, "Vary": "Accept-Encoding", "Link": f'<{PACKAGE_PATH}>; rel="source"'}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self._package.script_gzip, 200, headers | {"Content-Encoding": "gzip"}, JAVASCRIPT)
        return Response(self._package.script, 200, headers, JAVASCRIPT)

    def licence(self, request: Request) -> Response:
        assert self._package is not None
        return Response(self._package.licence, media_type="text/plain")

    def source(self, request: Request) -> Response:
        assert self._package is not None
        headers = {"Content-Disposition": f"attachment; filename={FILE_NAME}"}
        return Response(self._package.package, 200, headers, "application/gzip")

    def robots(self, request: Request) -> Response:
        return PlainTextResponse("User-agent: *\nDisallow: /\n")

    # -- captures --------------------------------------------------------------------------------------------------

    def capture(self, request: Request) -> Response:
        """A capture as wabac.js expects it: the archived status in a header of its own, beside which the status of this
        response is 200. wabac.js would put words of its own, in English, in the place of an error."""
        if request.headers.get("sec-fetch-dest") != "empty" or request.headers.get("sec-fetch-site") != "same-origin":
            raise HTTPException(403)
        try:
            url, timestamp = _requested(request, "/capture/", _capture)
            found = find_capture(self._store, url, timestamp)
            payload = self._store.read(found)
        except TarrafaError as error:
            return self._not_shown(request, error)
        headers = archived_headers(payload, found.url) | {"Memento-Datetime": http_date(found.timestamp)}
        return Response(payload.body, 200, headers)

    def _not_shown(self, request: Request, error: TarrafaError) -> Response:
        translator = choose_language("", "", request.headers.get("accept-language", ""))
        code, sentence, _ = status_and_message(error, translator)
        html = self._render(request, "replay_missing.html", sentence=sentence)
        return Response(html, 200, {"X-Redirect-Status": str(code)}, "text/html")

    def _render(self, request: Request, template: str, **values: object) -> str:
        translator = choose_language("", "", request.headers.get("accept-language", ""))
        return self._renderers[translator.code].render(template, **values)


def _requested(request: Request, before: str, parse: Callable[[str], re.Match[str] | None]) -> tuple[str, str]:
    """URL and timestamp behind a part of the path, with the escapes and the query of the URL as they were sent."""
    raw = request.scope.get("raw_path") or request.url.path.encode()
    rest = raw.decode("latin-1").partition(before)[2]
    if query := request.scope.get("query_string", b"").decode("latin-1"):
        rest = f"{rest}?{query}"
    found = parse(rest)
    url = canonical(found[2]) if found is not None and len(found[2]) <= URL_CHARS_MAX else None
    if found is None or url is None:
        raise UnknownResource(NO_URL)
    return url, found[1] or ""


def archived_headers(payload: CapturePayload, url: str) -> dict[str, str]:
    """What of an archived header a replayed page may see: no cookies, no policies, nothing that leads elsewhere."""
    head = payload.head
    headers = {name: _printable(" ", head.get(name))[:HEADER_CHARS_MAX] for name in KEPT_HEADERS if head.get(name)}
    if kind := _printable(" ", head.get("content-type"))[:HEADER_CHARS_MAX].strip():
        headers["Content-Type"] = kind
    code = head.code if 200 <= head.code <= 599 else 200
    headers["X-Redirect-Status"] = str(code)
    target = canonical(head.get("location"), url) if 300 <= code < 400 else None
    if target is not None:
        headers["X-Orig-Location"] = ascii_uri(target)
    return headers


def is_service_worker(request: Request) -> bool:
    """Whether a browser wants this file as a service worker (Service Workers, "Service-Worker" header)."""
    return "service-worker" in request.headers or request.headers.get("sec-fetch-dest") == "serviceworker"


def browser_file(name: str) -> bytes:
    return resources.files(__package__).joinpath(BROWSER_FOLDER, name).read_bytes()


async def _error_response(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    if isinstance(error, UnknownResource):
        code = 404
    elif code == 500:
        log.error("replay", exc_info=error)
    return PlainTextResponse({404: "not found\n", 403: "refused\n"}.get(code, "error\n"), code)


class _ReplayHeadersMiddleware:
    """Adds `HEADERS` to every response that has none of its own."""

    def __init__(self, app: ASGIApp, secure: bool) -> None:
        self._app, self._secure = app, secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def shielded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if self._secure:
                    headers[HSTS_HEADER] = HSTS_VALUE
            await send(message)

        await self._app(scope, receive, shielded)


def create_replay_app(
    replay: ReplaySite, store: CaptureStore, package: WabacPackage | None, rate: RateLimit | None
) -> Starlette:
    """Everything that the replay host name serves."""
    middleware = [Middleware(_ReplayHeadersMiddleware, secure=replay.origin.startswith("https://"))]
    if rate is not None:
        of_parts = replace(rate, per_s=rate.per_s * REQUESTS_A_PAGE)
        middleware.append(Middleware(RateLimitMiddleware, limit=of_parts, exempt=lambda request: False))
    kinds: tuple[type[Exception], ...] = (HTTPException, TarrafaError, Exception)
    routes = ReplayRoutes(replay, store, package).routes()
    return Starlette(routes=routes, middleware=middleware, exception_handlers=dict.fromkeys(kinds, _error_response))


class HostNameMiddleware:
    """Gives requests for the replay host name to the replay, and all others to the site."""

    def __init__(self, app: ASGIApp, replay: ASGIApp, name: str) -> None:
        self._app, self._replay, self._name = app, replay, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_replay = scope["type"] == "http" and requested_name(scope) == self._name
        await (self._replay if is_replay else self._app)(scope, receive, send)


def requested_name(scope: Scope) -> str:
    """The host name of a request, without port."""
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    return host.partition(":")[0].strip().rstrip(".").lower()
