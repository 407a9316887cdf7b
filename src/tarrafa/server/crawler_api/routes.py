"""Routes of the crawler API (/crawl/v1): work, links, type, changes, leave.

    POST /crawl/v1/work       request visits to make
    POST /crawl/v1/links      report the links of a page
    POST /crawl/v1/type       report the result of a visit: the type of a URL, or that it is gone
    POST /crawl/v1/changes    request changed in-links of the crawler's URLs (GET with ?crawler=&after= as well)
    POST /crawl/v1/leave      leave

Promises: requests without the token are refused, and no body is read beyond its maximum (`auth/bearer_token.py`); every
error is one JSON object, {"error": a sentence}, with a code: 400, 401, 404, 405, 409, 410, 413 for errors of the
crawler, 503 for ours.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.errors import FrontierError, TarrafaError
from tarrafa.server.auth.bearer_token import BearerTokenMiddleware, read_body
from tarrafa.server.crawler_api.crawler_service import CrawlerService
from tarrafa.server.crawler_api.messages import (
    CallTooLarge,
    CrawlerApiError,
    CrawlerChangesRequest,
    CrawlerLeaveRequest,
    CrawlerLinksRequest,
    CrawlerTypeRequest,
    CrawlerWorkRequest,
    MalformedCall,
)

BODY_BYTES_MAX = 16 << 20
RETRY_AFTER_S = 5
log = logging.getLogger(__name__)

T = TypeVar("T", bound=msgspec.Struct)
CallHandler = Callable[[Any], Awaitable[msgspec.Struct]]


def create_crawler_api_app(service: CrawlerService, token: bytes) -> Starlette:
    """To be mounted at /crawl/v1."""
    posted: list[tuple[str, type[msgspec.Struct], CallHandler]] = [
        ("/work", CrawlerWorkRequest, service.work),
        ("/links", CrawlerLinksRequest, service.links),
        ("/type", CrawlerTypeRequest, service.type),
        ("/leave", CrawlerLeaveRequest, service.leave),
    ]
    routes = [Route(path, _post_handler(kind, respond), methods=["POST"]) for path, kind, respond in posted]
    routes.append(Route("/changes", _changes_handler(service), methods=["GET", "POST"]))
    kinds: tuple[type[Exception], ...] = (HTTPException, TarrafaError, ClientDisconnect, Exception)
    return Starlette(
        routes=routes,
        middleware=[Middleware(BearerTokenMiddleware, token=token, refuse=_error_json)],
        exception_handlers=dict.fromkeys(kinds, _error_response),
    )


def _post_handler(kind: type[T], respond: CallHandler) -> Callable[[Request], Awaitable[Response]]:
    decoder = msgspec.json.Decoder(kind)

    async def handle(request: Request) -> Response:
        body = await read_body(request, BODY_BYTES_MAX)
        if body is None:
            raise CallTooLarge(f"a body holds at most {BODY_BYTES_MAX:,} bytes")
        try:
            call = decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise MalformedCall(f"the body cannot be understood: {error}") from None
        return _json_response(await respond(call))

    return handle


def _changes_handler(service: CrawlerService) -> Callable[[Request], Awaitable[Response]]:
    """The one call that changes nothing is also served by GET."""
    post = _post_handler(CrawlerChangesRequest, service.changes)

    async def handle(request: Request) -> Response:
        if request.method == "POST":
            return await post(request)
        try:
            call = msgspec.convert(dict(request.query_params), CrawlerChangesRequest, strict=False)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise MalformedCall(f"the question cannot be understood: {error}") from None
        return _json_response(await service.changes(call))

    return handle


async def _error_response(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _error_json(error.status_code, f"{request.method} {request.url.path}: {error.detail}", error.headers)
    if isinstance(error, CrawlerApiError):
        return _error_json(error.code, str(error))
    if isinstance(error, ClientDisconnect):
        return _error_json(400, "the body did not come whole")
    if isinstance(error, TarrafaError):
        log.warning("%s", error)
        hint = "; where no URL server runs, `tarrafa crawl FILE` starts one" if isinstance(error, FrontierError) else ""
        return _error_json(503, f"{error}{hint}")
    log.error("unexpected", exc_info=error)
    return _error_json(500, f"something went wrong here: {type(error).__name__}")


def _error_json(code: int, sentence: str, headers: "dict[str, str] | Any" = None) -> Response:
    response = _json_response({"error": sentence}, code)
    for name, value in dict(headers or {}).items():
        response.headers[name] = value
    if code == 503:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    if code == 413:
        response.headers["Connection"] = "close"  # the rest of it is not read
    return response


def _json_response(value: object, code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), code, media_type="application/json")
