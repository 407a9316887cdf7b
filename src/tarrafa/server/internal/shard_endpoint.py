"""Endpoint by which other nodes search this node's index shard (POST /shard).

    POST /shard/VERSION/METHOD[?parts=1,4]    see search/remote_shard.py

Promises: if there is a token, requests without it are refused; if there is none, requests from a page in a browser are
refused; a request that is invalid, too long or of another version is refused in one sentence and changes nothing. The
event loop never waits for a disk. Knows nothing of tantivy or of ranking.
"""

import logging

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.errors import DataError, QueryError
from tarrafa.i18n import Message
from tarrafa.runtime.token import Token
from tarrafa.search import remote_shard
from tarrafa.search.remote_shard import CONTENT_TYPE, DECODE_ERRORS, METHODS, REQUEST_BYTES_MAX, VERSION, one_line
from tarrafa.search.request import OwnedShard, SearchRequest
from tarrafa.server.auth.bearer_token import create_token_app, require_body

log = logging.getLogger(__name__)


def create_shard_app(shard: OwnedShard, token: Token) -> Starlette:
    """To be mounted at `remote_shard.PATH`."""

    async def handle(request: Request) -> Response:
        version, name = request.path_params["version"], request.path_params["method"]
        if version != VERSION:
            return _message_response(remote_shard.STATUS_OTHER_VERSION, remote_shard.other_version(VERSION, version))
        method = METHODS.get(name)
        if method is None or request.headers.get("content-type") != CONTENT_TYPE:  # a browser's form has other types
            return _message_response(404, f"a shard answers {', '.join(METHODS)}, asked as {CONTENT_TYPE}")
        body = await require_body(request, REQUEST_BYTES_MAX)
        try:
            arguments = method.arguments.decode(body)
        except DECODE_ERRORS as error:
            return _message_response(remote_shard.STATUS_BAD_QUERY, f"the request cannot be understood: {error}")
        for argument in arguments:
            if isinstance(argument, SearchRequest):
                argument.check()
        restriction = request.query_params.get(remote_shard.PARTS_PARAMETER)
        try:
            asked = shard if restriction is None else shard.restricted(remote_shard.parse_parts(restriction))
        except ValueError as error:
            return _message_response(remote_shard.STATUS_BAD_QUERY, f"the request cannot be understood: {error}")
        return _packed_response(await run_in_threadpool(getattr(asked, name), *arguments))

    routes = [Route("/{version}/{method}", handle, methods=["POST"])]
    return create_token_app(routes, token.secret, _message_response, _describe)


def _describe(error: Exception) -> tuple[int, Message | str] | None:
    if isinstance(error, QueryError):
        return remote_shard.STATUS_BAD_QUERY, error.message
    if isinstance(error, DataError):
        log.warning("%s", error)
        return remote_shard.STATUS_INDEX_ERROR, error.message
    return None


def _message_response(code: int, reason: Message | str) -> Response:
    return _packed_response(one_line(reason) if isinstance(reason, str) else reason, code)


def _packed_response(value: object, code: int = 200) -> Response:
    return Response(remote_shard.encode(value), code, media_type=CONTENT_TYPE)
