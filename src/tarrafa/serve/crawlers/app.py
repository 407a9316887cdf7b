"""Which address answers what, and to whom?

    POST /crawl/v1/work       give me work
    POST /crawl/v1/links      here are new links and who points to them
    POST /crawl/v1/type       this URL is of that type (or gone)
    POST /crawl/v1/changes    what changed in the in-links of what is mine? (GET with ?crawler=&after= as well)
    POST /crawl/v1/leave      I am leaving

Promises: nobody without the token gets an answer, and no body is read beyond its bound (`guard`); whatever goes wrong
is one JSON object, {"error": a sentence}, with the code that says whose turn it is: 400, 401, 404, 405, 409, 410, 413
the crawler's, 503 ours.
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
from tarrafa.serve.crawlers.facade import Facade
from tarrafa.serve.crawlers.refusals import Malformed, Refusal, TooLarge
from tarrafa.serve.crawlers.shapes import ChangesAsked, LeaveAsked, LinksAsked, TypeAsked, WorkAsked
from tarrafa.serve.guard import Guard, body_of

BODY_BYTES_MAX = 16 << 20
RETRY_AFTER_S = 5
log = logging.getLogger(__name__)

T = TypeVar("T", bound=msgspec.Struct)
Answer = Callable[[Any], Awaitable[msgspec.Struct]]


def create_app(facade: Facade, token: bytes) -> Starlette:
    """To be mounted at /crawl/v1."""
    posted: list[tuple[str, type[msgspec.Struct], Answer]] = [
        ("/work", WorkAsked, facade.work),
        ("/links", LinksAsked, facade.links),
        ("/type", TypeAsked, facade.type),
        ("/leave", LeaveAsked, facade.leave),
    ]
    routes = [Route(path, _conversation(kind, answer), methods=["POST"]) for path, kind, answer in posted]
    routes.append(Route("/changes", _changes(facade), methods=["GET", "POST"]))
    kinds: tuple[type[Exception], ...] = (HTTPException, TarrafaError, ClientDisconnect, Exception)
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token, refuse=_refused)],
        exception_handlers=dict.fromkeys(kinds, _trouble),
    )


def _conversation(kind: type[T], answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    decoder = msgspec.json.Decoder(kind)

    async def converse(request: Request) -> Response:
        body = await _body(request)
        try:
            asked = decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise Malformed(f"the body cannot be understood: {error}") from None
        return _json(await answer(asked))

    return converse


def _changes(facade: Facade) -> Callable[[Request], Awaitable[Response]]:
    """The one question that changes nothing may be asked by GET, too."""
    post = _conversation(ChangesAsked, facade.changes)

    async def converse(request: Request) -> Response:
        if request.method == "POST":
            return await post(request)
        try:
            asked = msgspec.convert(dict(request.query_params), ChangesAsked, strict=False)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise Malformed(f"the question cannot be understood: {error}") from None
        return _json(await facade.changes(asked))

    return converse


async def _body(request: Request) -> bytes:
    body = await body_of(request, BODY_BYTES_MAX)
    if body is None:
        raise TooLarge(f"a body holds at most {BODY_BYTES_MAX:,} bytes")
    return body


async def _trouble(request: Request, error: Exception) -> Response:
    """Every error ends here."""
    if isinstance(error, HTTPException):
        return _refused(error.status_code, f"{request.method} {request.url.path}: {error.detail}", error.headers)
    if isinstance(error, Refusal):
        return _refused(error.code, str(error))
    if isinstance(error, ClientDisconnect):
        return _refused(400, "the body did not come whole")
    if isinstance(error, TarrafaError):
        log.warning("%s", error)
        hint = "; where no URL server runs, `tarrafa crawl FILE` starts one" if isinstance(error, FrontierError) else ""
        return _refused(503, f"{error}{hint}")
    log.error("unexpected", exc_info=error)
    return _refused(500, f"something went wrong here: {type(error).__name__}")


def _refused(code: int, sentence: str, headers: "dict[str, str] | Any" = None) -> Response:
    response = _json({"error": sentence}, code)
    for name, value in dict(headers or {}).items():
        response.headers[name] = value
    if code == 503:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    if code == 413:
        response.headers["Connection"] = "close"  # the rest of it is not read
    return response


def _json(value: object, code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), code, media_type="application/json")
