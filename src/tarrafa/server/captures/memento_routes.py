"""Captures of a URL below /web/: Memento's TimeGate and TimeMaps, the text of a capture, and its bytes.

    /web/URL                    TimeGate: to the capture nearest to Accept-Datetime; without it, to the newest
    /web/TIMESTAMP/URL          the text of the nearest capture, with its versions; safe in any browser
    /web/TIMESTAMPid_/URL       its bytes, as the server meant them
    /web/timemap/link/URL       TimeMap; /web/timemap/link/2/URL its second page; /web/timemap/json/URL
    /copy?url=URL&at=DATE       for links of our own pages: replayed in a frame where there is a replay, else the text

Promises: an archived page never has the power of this site. Its bytes come with a policy that runs no script, loads
nothing and lets no page frame it, under a type that is not guessed; scripts and styles are plain text; as a part of a
page (`Sec-Fetch-Dest`) they are refused. Neither cookies nor other headers of the archived server are sent. What is
taken down is 451, what asks not to be shown from an archive (`noarchive`) is 403: `captures/capture_access` refuses
both, `server/error_status` has the numbers.
"""

import re
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tarrafa.captures.capture_access import CapturePayload, CaptureStore
from tarrafa.captures.cdx_params import URL_CHARS_MAX
from tarrafa.captures.memento_links import (
    LINK_FORMAT,
    TIMEMAP_LINKS_MAX,
    ReplayUris,
    TimeMapPage,
    ascii_uri,
    memento_links,
    original_links,
    timemap_json,
    timemap_links,
)
from tarrafa.captures.reader import Capture, RowRange, exact_range
from tarrafa.captures.timestamps import LENGTH, from_http_date, http_date
from tarrafa.errors import ConfigError, NotFound, NotReady, TarrafaError
from tarrafa.i18n import message
from tarrafa.parse.url import canonical
from tarrafa.server.captures.copy_pages import CopyPages
from tarrafa.server.error_status import RequestRefused, UnknownResource
from tarrafa.server.page_responses import NO_URL, PageResponses
from tarrafa.server.replay.replay_site import NO_REPLAY, ReplayState
from tarrafa.server.security_headers import CSP_HEADER

# `sandbox` without a word more: no script, no form, no window, an origin of its own.
RAW_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
OWN_DESTINATIONS = frozenset({"", "document", "empty"})  # of Sec-Fetch-Dest: no part of a page
ACTIVE_TYPE = re.compile(r"javascript|ecmascript|wasm|css|text/(?:jscript|livescript|vbscript)|x-shockwave|java-")
CONTENT_TYPE_CHARS_MAX = 200

_timestamp_first = re.compile(r"(\d{1,14})(id_)?/(.+)", re.S).fullmatch
_timemap_first = re.compile(r"timemap/(link|json)/(?:([1-9]\d{0,5})/)?(.+)", re.S).fullmatch
_scheme = re.compile(r"https?:/(?!/)", re.I).match
_charset = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.I).search


class RequestedUrl(NamedTuple):
    """What stands behind /web/."""

    url: str
    timestamp: str = ""
    is_raw: bool = False
    timemap: str = ""  # its form
    page: int = 1


class WebRoutes:
    def __init__(self, store: CaptureStore, pages: PageResponses, replay: ReplayState = NO_REPLAY) -> None:
        self._store, self._pages = store, pages
        self._copies = CopyPages(store, pages, replay)

    def routes(self) -> list[Route]:
        return [Route("/web/{rest:path}", self.web), Route("/copy", self.copy)]

    def web(self, request: Request) -> Response:
        asked = parse_web_path(request)
        if asked.timemap:
            return self._timemap(request, asked)
        if not asked.timestamp:
            return self._timegate(request, asked.url)
        found = self._find(asked.url, asked.timestamp)
        if found.timestamp != asked.timestamp:
            return self._redirect(request, found, raw=asked.is_raw)
        return self._raw(request, found) if asked.is_raw else self._text(request, found)

    def copy(self, request: Request) -> Response:
        url, at, kind = (request.query_params.get(name, "").strip() for name in ("url", "at", "as"))
        if not url:
            raise UnknownResource(NO_URL)
        if kind == "bar":
            return self._bar(request, url[:URL_CHARS_MAX], at)
        found = self._find(url[:URL_CHARS_MAX], at)
        if kind != "text" and self._copies.is_replayed(request, found):
            return self._copies.replayed(request, found)
        return self._text(request, found)

    def _bar(self, request: Request, url: str, at: str) -> Response:
        """The head of the page again, for what the frame shows now: also if that is no capture."""
        try:
            return self._copies.bar(request, self._find(url, at))
        except TarrafaError as error:
            return self._copies.bar_without_capture(request, url, error)

    def _find(self, url: str, at: str) -> Capture:
        return find_capture(self._store, url, at)

    # -- Memento ---------------------------------------------------------------------------------------------------

    def _timegate(self, request: Request, url: str) -> Response:
        wanted = request.headers.get("accept-datetime", "")
        timestamp = from_http_date(wanted) if wanted else ""
        if timestamp is None:
            raise RequestRefused(400, message("Accept-Datetime must be a date such as Wed, 18 Nov 2026 20:30:00 GMT."))
        return self._redirect(request, self._find(url, timestamp))

    def _redirect(self, request: Request, found: Capture, *, raw: bool = False) -> Response:
        headers = {"Vary": "accept-datetime", "Link": self._links(request, found)}
        return RedirectResponse(ReplayUris("", found.url).memento(found.timestamp, raw=raw), 302, headers)

    def _links(self, request: Request, found: Capture) -> str:
        uris = ReplayUris(self._pages.site_url(request), found.url)
        return memento_links(uris, self._store.reader.versions(found), found)

    def _timemap(self, request: Request, asked: RequestedUrl) -> Response:
        self._find(asked.url, "")  # taken down, or not there
        reader, keys = self._store.reader, exact_range(asked.url)
        rows = RowRange(TIMEMAP_LINKS_MAX, (asked.page - 1) * TIMEMAP_LINKS_MAX)
        found = TimeMapPage(asked.page, reader.count(keys), list(reader.scan(keys, page=rows)))
        if asked.page > found.pages:
            raise UnknownResource(message("The last page of this TimeMap is {last}.", last=str(found.pages)))
        uris = ReplayUris(self._pages.site_url(request), asked.url)
        headers = {"Link": original_links(uris)}
        if asked.timemap == "json":
            return Response(timemap_json(uris, found), media_type="application/json", headers=headers)
        return Response("".join(timemap_links(uris, found)), media_type=LINK_FORMAT, headers=headers)

    # -- a capture -------------------------------------------------------------------------------------------------

    def _raw(self, request: Request, found: Capture) -> Response:
        if request.headers.get("sec-fetch-dest", "") not in OWN_DESTINATIONS:
            raise RequestRefused(403, message("An archived copy is shown by itself, never as a part of a page."))
        payload = self._store.read(found)
        headers = raw_headers(payload) | self._memento_headers(request, found)
        code = int(found.status) if found.status.isdigit() else 200
        target = canonical(payload.head.get("location"), found.url) if 300 <= code < 400 else None
        if target is not None:
            headers["Location"] = ReplayUris("", target).memento(found.timestamp, raw=True)
            return Response(b"", 302, headers)
        return Response(payload.body, code if code in range(400, 600) else 200, headers)

    def _memento_headers(self, request: Request, found: Capture) -> dict[str, str]:
        return {"Memento-Datetime": http_date(found.timestamp), "Link": self._links(request, found)}

    def _text(self, request: Request, found: Capture) -> Response:
        response = self._copies.text(request, found)
        response.headers.update(self._memento_headers(request, found))
        return response


def find_capture(store: CaptureStore, url: str, at: str) -> Capture:
    """The nearest capture; its absence is the client's error, not the operator's."""
    try:
        return store.find_by_date(url, at)
    except NotFound:
        raise UnknownResource(message("No capture of this URL is in this archive.")) from None
    except NotReady:
        raise UnknownResource(message("There is no index of archived pages here yet.")) from None
    except ConfigError:
        sentence = message("This is no date: write 2026, 2026-11, 2026-11-18 or 20261118203000.")
        raise RequestRefused(400, sentence) from None


def parse_web_path(request: Request) -> RequestedUrl:
    """What stands behind /web/, with its escapes and its query as the client sent them."""
    raw = request.scope.get("raw_path") or request.url.path.encode()
    rest = raw.decode("latin-1").partition("/web/")[2]
    if query := request.scope.get("query_string", b"").decode("latin-1"):
        rest = f"{rest}?{query}"
    if found := _timemap_first(rest):
        return RequestedUrl(_requested_url(found[3]), timemap=found[1], page=int(found[2] or 1))
    if found := _timestamp_first(rest):
        timestamp = found[1]
        if len(timestamp) < 4 or len(timestamp) % 2:
            raise UnknownResource(message("A timestamp has 4 to {most} digits: 2026, 202611, …", most=str(LENGTH)))
        return RequestedUrl(_requested_url(found[3]), timestamp, found[2] is not None)
    return RequestedUrl(_requested_url(rest))


def _requested_url(text: str) -> str:
    """Proxies make one slash of two, and people leave out the scheme."""
    if not text or len(text) > URL_CHARS_MAX:
        raise UnknownResource(NO_URL)
    if found := _scheme(text):
        text = f"{found[0]}/{text[found.end() :]}"
    elif "://" not in text.partition("?")[0]:
        text = f"http://{text}"
    url = canonical(text)
    if url is None:
        raise UnknownResource(NO_URL)
    return url


def raw_headers(payload: CapturePayload) -> dict[str, str]:
    """Type and policy under which bytes of an archived server are sent."""
    kind = payload.head.content_type or "application/octet-stream"
    shown = "text/plain" if ACTIVE_TYPE.search(kind) else kind
    found = _charset(payload.head.get("content-type"))
    named = ascii_uri(payload.head.get("content-type")[:CONTENT_TYPE_CHARS_MAX].replace("\n", " "))
    headers = {
        "Content-Type": f"{shown}; charset={found[1]}" if found else shown,
        CSP_HEADER: RAW_POLICY,
        "X-Archive-Orig-Content-Type": named.replace("%20", " "),
    }
    if payload.encoding:
        headers["X-Archive-Orig-Content-Encoding"] = ascii_uri(payload.encoding[:CONTENT_TYPE_CHARS_MAX])
    return headers
