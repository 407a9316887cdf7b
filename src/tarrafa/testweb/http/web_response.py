"""Computes the HTTP response of a host of the synthetic Web: status, headers, validators, body.

Promises: a pure function of world, host, form, request and time. ETag and Last-Modified change exactly when the page
does, and a conditional request (RFC 9110 section 13) for an unchanged page gets 304.
Knows nothing of sockets, logs or real time.
"""

from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus

import msgspec

from tarrafa.testweb.render.binary_files import file_body
from tarrafa.testweb.render.compression import accepts_coding, coding_of_host, compress_body, encode_chunks, is_chunked
from tarrafa.testweb.render.page_html import render_page
from tarrafa.testweb.render.robots_sitemaps import robots_txt, sitemap
from tarrafa.testweb.world.change_model import PageVersion, version_at
from tarrafa.testweb.world.hosts import UrlForm, WebHost, World
from tarrafa.testweb.world.prose import PARAGRAPHS
from tarrafa.testweb.world.resources import (
    CHARSETS,
    FILE_TYPES,
    PageAttributes,
    Resource,
    ResourceKind,
    file_extension,
    link_target,
    page_attributes,
    path_of,
    redirect_target,
    resolve,
)
from tarrafa.testweb.world.url_variants import canonical_url

STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
PLAIN = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"


class WebRequest(msgspec.Struct, gc=False):
    """A parsed request."""

    method: str
    target: str
    authority: str = ""
    agent: str = ""
    if_none_match: str = ""
    if_modified_since: str = ""
    keep_alive: bool = True
    accept_encoding: str = ""
    cookie: str = ""


class WebResponse(msgspec.Struct, gc=False):
    """A response. `headers` are lines; the server adds Date, Connection, Content-Length and Transfer-Encoding."""

    status: int
    body: bytes = b""
    headers: str = ""
    chunked: bool = False

    def encode(self, now: float, keep_alive: bool, with_body: bool = True) -> bytes:
        """The bytes on the wire."""
        length = "" if self.status == 304 else f"Content-Length: {len(self.body)}\r\n"
        if self.chunked:
            length = "Transfer-Encoding: chunked\r\n"
        ending = "\r\n" if keep_alive else "Connection: close\r\n\r\n"
        head = f"{STATUS_LINES[self.status]}Date: {http_date(int(now))}\r\n{self.headers}{length}{ending}"
        if not with_body:
            return head.encode("latin-1")
        return head.encode("latin-1") + (encode_chunks(self.body) if self.chunked else self.body)


def typed(status: int, content_type: str, body: bytes) -> WebResponse:
    return WebResponse(status, body, f"Content-Type: {content_type}\r\n")


def http_date(moment: int) -> str:
    days, seconds = divmod(moment, 86_400)
    return f"{_day(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d} GMT"


@lru_cache(maxsize=1 << 12)
def _day(days: int) -> str:
    return formatdate(days * 86_400, usegmt=True)[:16]


def make_response(world: World, no: int, form: UrlForm, request: WebRequest, now: float) -> WebResponse:
    """The response of host `no` at `now`."""
    if request.method not in ("GET", "HEAD"):
        return WebResponse(405, b"", "Allow: GET, HEAD\r\n")
    host = world.host(no)
    resource = resolve(world, no, request.target)
    if resource is None:
        return _missing_response(host, 404)
    if resource.kind is ResourceKind.PAGE or resource.kind is ResourceKind.PRINT:
        return _page_response(world, resource, form, request, now)
    if resource.kind is ResourceKind.FILE:
        return _file_response(world, resource)
    if resource.kind is ResourceKind.SITEMAP:
        return typed(200, "application/xml", sitemap(world, host, resource.n, form, now))
    return _small_response(world, host, resource, form)


def _small_response(world: World, host: WebHost, resource: Resource, form: UrlForm) -> WebResponse:
    if resource.kind is ResourceKind.GONE:
        return _missing_response(host, gone_status(host))
    if resource.kind is ResourceKind.ROBOTS:
        text = robots_txt(world, host, form)
        return typed(200, PLAIN, text) if text is not None else _missing_response(host, 404)
    return _redirect_response(world, resource, form)


def gone_status(host: WebHost) -> int:
    return 410 if host.no % 3 == 0 else 404


def validators(host: WebHost, resource: Resource, bits: int, at: PageVersion) -> tuple[str, str]:
    """ETag and Last-Modified; both empty on a host that sends none."""
    if not host.validators:
        return "", ""
    return f'"{bits >> 96:x}-{resource.kind[:2]}{at.number}"', http_date(at.since)


def _page_response(world: World, resource: Resource, form: UrlForm, request: WebRequest, now: float) -> WebResponse:
    no, n = resource.no, resource.n
    about = page_attributes(world, no, n)
    at = version_at(world, no, n, about.changes_per_day, now)
    etag, modified = validators(world.host(no), resource, link_target(world, no, n).bits, at)
    lines = f"ETag: {etag}\r\nLast-Modified: {modified}\r\n" if etag else ""
    if etag and _unchanged(request, etag, at.since):
        return WebResponse(304, b"", lines)
    codec, announced, _ = CHARSETS[about.charset]
    body = render_page(world, resource, form, about, at).encode(codec, "xmlcharrefreplace")
    charset = f"; charset={announced}" if announced else ""
    headers = f"Content-Type: text/html{charset}\r\n{lines}{_robots_tag(about)}"
    return _encode_body(WebResponse(200, body, headers), no, request)


def _encode_body(answer: WebResponse, no: int, request: WebRequest) -> WebResponse:
    """Apply the host's content coding; chunks only on a persistent connection, because HTTP/1.0 knows neither."""
    how = coding_of_host(no)
    if how:
        answer.headers += "Vary: Accept-Encoding\r\n"
        if accepts_coding(request.accept_encoding, how):
            answer.headers += f"Content-Encoding: {how}\r\n"
            answer.body = compress_body(answer.body, how)
    answer.chunked = request.keep_alive and is_chunked(no)
    return answer


def _robots_tag(about: PageAttributes) -> str:
    directives = about.robots_directives if about.by_header else []
    return f"X-Robots-Tag: {', '.join(directives)}\r\n" if directives else ""


def _unchanged(request: WebRequest, etag: str, since: int) -> bool:
    """RFC 9110 section 13.2.2: If-Modified-Since counts only without If-None-Match."""
    if request.if_none_match:
        offered = [tag.strip().removeprefix("W/") for tag in request.if_none_match.split(",")]
        return etag in offered or "*" in offered
    if not request.if_modified_since:
        return False
    try:
        return since <= parsedate_to_datetime(request.if_modified_since).timestamp()
    except ValueError:
        return False


def _file_response(world: World, resource: Resource) -> WebResponse:
    its = link_target(world, resource.no, resource.n)
    prose = world.host(resource.no).prose
    extension = file_extension(its.bits)
    text = f"{its.title}\n\n{prose.paragraphs[its.bits >> 40 & (PARAGRAPHS - 1)]}\n"
    return typed(200, FILE_TYPES[extension], file_body(extension, text, its.bits >> 20))


def _redirect_response(world: World, resource: Resource, form: UrlForm) -> WebResponse:
    """Some hosts write a full Location, some leave out their own name (RFC 9110 section 10.2.2)."""
    status, to = redirect_target(world, resource)
    target = path_of(world, to)
    whole = canonical_url(world, form, to.no, target)
    location = target if to.no == resource.no and resource.no % 2 else whole
    answer = typed(status, HTML, f'<a href="{whole}">{whole}</a>\n'.encode())
    answer.headers += f"Location: {location}\r\n"
    return answer


def _missing_response(host: WebHost, status: int) -> WebResponse:
    words = host.prose.interface
    text = f"<!DOCTYPE html><html lang={host.locale}><title>{status}</title><h1>{words.missing}</h1></html>\n"
    return typed(status, HTML, text.encode())
