"""Endpoint by which other nodes search this node's index shard (POST /shard).

    POST /shard/VERSION/METHOD    see search/remote_shard.py

Promises: if there is a token, requests without it are refused; if there is none, requests from a page in a browser are
refused; a request that is invalid, too long or of another version is refused in one sentence and changes nothing. The
event loop never waits for a disk. Knows nothing of tantivy or of ranking.
"""

import logging

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.errors import DataError, QueryError, TarrafaError
from tarrafa.i18n import Message
from tarrafa.runtime.token import Token
from tarrafa.search import remote_shard
from tarrafa.search.remote_shard import CONTENT_TYPE, DECODE_ERRORS, METHODS, REQUEST_BYTES_MAX, VERSION, one_line
from tarrafa.search.request import SearchRequest, Shard
from tarrafa.server.auth.bearer_token import BearerTokenMiddleware, read_body

log = logging.getLogger(__name__)


def create_shard_app(shard: Shard, token: Token) -> Starlette:
    """To be mounted at `remote_shard.PATH`."""

    async def handle(request: Request) -> Response:
        version, name = request.path_params["version"], request.path_params["method"]
        if version != VERSION:
            return _message_response(remote_shard.STATUS_OTHER_VERSION, remote_shard.other_version(VERSION, version))
        method = METHODS.get(name)
        if method is None or request.headers.get("content-type") != CONTENT_TYPE:  # a browser's form has other types
            return _message_response(404, f"a shard answers {', '.join(METHODS)}, asked as {CONTENT_TYPE}")
        body = await read_body(request, REQUEST_BYTES_MAX)
        if body is None:
            return _message_response(
                remote_shard.STATUS_TOO_LONG, f"a question holds at most {REQUEST_BYTES_MAX:,} bytes"
            )
        try:
            arguments = method.arguments.decode(body)
        except DECODE_ERRORS as error:
            return _message_response(remote_shard.STATUS_BAD_QUERY, f"the question cannot be understood: {error}")
        for argument in arguments:
            if isinstance(argument, SearchRequest):
                argument.check()
        return _packed_response(await run_in_threadpool(getattr(shard, name), *arguments))

    kinds: tuple[type[Exception], ...] = (HTTPException, TarrafaError, ClientDisconnect, Exception)
    return Starlette(
        routes=[Route("/{version}/{method}", handle, methods=["POST"])],
        middleware=[Middleware(BearerTokenMiddleware, token=token.secret, refuse=_message_response)] if token else [],
        exception_handlers=dict.fromkeys(kinds, _error_response),
    )


async def _error_response(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _message_response(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    if isinstance(error, QueryError):
        return _message_response(remote_shard.STATUS_BAD_QUERY, error.message)
    if isinstance(error, ClientDisconnect):
        return _message_response(remote_shard.STATUS_BAD_QUERY, "the question did not come whole")
    if isinstance(error, DataError):
        log.warning("%s", error)
        return _message_response(remote_shard.STATUS_INDEX_ERROR, error.message)
    log.error("unexpected", exc_info=error)
    return _message_response(500, f"something went wrong there: {type(error).__name__}")


def _message_response(code: int, reason: Message | str) -> Response:
    response = _packed_response(one_line(reason) if isinstance(reason, str) else reason, code)
    if code == remote_shard.STATUS_TOO_LONG:
        response.headers["Connection"] = "close"  # the rest of it is not read
    return response


def _packed_response(value: object, code: int = 200) -> Response:
    return Response(remote_shard.encode(value), code, media_type=CONTENT_TYPE)
