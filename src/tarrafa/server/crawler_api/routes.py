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
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.errors import FrontierError, TarrafaError
from tarrafa.server.auth.bearer_token import create_token_app, require_body
from tarrafa.server.crawler_api.crawler_service import CrawlerService
from tarrafa.server.crawler_api.messages import (
    CrawlerApiError,
    CrawlerChangesRequest,
    CrawlerLeaveRequest,
    CrawlerLinksRequest,
    CrawlerTypeRequest,
    CrawlerWorkRequest,
    MalformedCall,
)
from tarrafa.server.page_responses import json_response

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
    return create_token_app(routes, token, _error_json, _describe)


def _post_handler(kind: type[T], respond: CallHandler) -> Callable[[Request], Awaitable[Response]]:
    decoder = msgspec.json.Decoder(kind)

    async def handle(request: Request) -> Response:
        body = await require_body(request, BODY_BYTES_MAX)
        try:
            call = decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise MalformedCall(f"the body cannot be understood: {error}") from None
        return json_response(await respond(call))

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
            raise MalformedCall(f"the request cannot be understood: {error}") from None
        return json_response(await service.changes(call))

    return handle


def _describe(error: Exception) -> tuple[int, str] | None:
    if isinstance(error, CrawlerApiError):
        return error.code, str(error)
    if isinstance(error, TarrafaError):
        log.warning("%s", error)
        hint = (
            "; where no frontier server runs, `tarrafa crawl FILE` starts one"
            if isinstance(error, FrontierError)
            else ""
        )
        return 503, f"{error}{hint}"
    return None


def _error_json(code: int, sentence: str) -> Response:
    response = json_response({"error": sentence}, code)
    if code == 503:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
