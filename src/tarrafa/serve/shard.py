"""What does this machine's index answer to whoever asks from another one?

    POST /shard/VERSION/METHOD    see search/conversation

Promises: nobody without the token gets an answer where there is a token, and no page in somebody's browser gets one
where there is none; whatever cannot be understood, is too long or of another version is refused in one sentence and
changes nothing. The loop never waits for a disk.
Knows nothing of tantivy, of ranking, or of who asks.
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
from tarrafa.frontier.token import Token
from tarrafa.search import conversation
from tarrafa.search.conversation import CONTENT_TYPE, METHODS, QUESTION_BYTES_MAX, UNREADABLE, VERSION, one_line
from tarrafa.search.question import Question, Shard
from tarrafa.serve.guard import Guard, body_of

log = logging.getLogger(__name__)


def create_app(shard: Shard, token: Token) -> Starlette:
    """To be mounted at `conversation.PATH`."""

    async def converse(request: Request) -> Response:
        version, name = request.path_params["version"], request.path_params["method"]
        if version != VERSION:
            return _said(
                conversation.VERSIONS, conversation.OTHER_VERSION.format(there=VERSION, here=one_line(version))
            )
        method = METHODS.get(name)
        if method is None or request.headers.get("content-type") != CONTENT_TYPE:  # a browser's form has other types
            return _said(404, f"a shard answers {', '.join(METHODS)}, asked as {CONTENT_TYPE}")
        body = await body_of(request, QUESTION_BYTES_MAX)
        if body is None:
            return _said(conversation.TOO_LONG, f"a question holds at most {QUESTION_BYTES_MAX:,} bytes")
        try:
            arguments = method.arguments.decode(body)
        except UNREADABLE as error:
            return _said(conversation.QUERY, f"the question cannot be understood: {error}")
        for argument in arguments:
            if isinstance(argument, Question):
                argument.check()
        return _packed(await run_in_threadpool(getattr(shard, name), *arguments))

    kinds: tuple[type[Exception], ...] = (HTTPException, TarrafaError, ClientDisconnect, Exception)
    return Starlette(
        routes=[Route("/{version}/{method}", converse, methods=["POST"])],
        middleware=[Middleware(Guard, token=token.secret, refuse=_said)] if token else [],
        exception_handlers=dict.fromkeys(kinds, _trouble),
    )


async def _trouble(request: Request, error: Exception) -> Response:
    """Every error ends here."""
    if isinstance(error, HTTPException):
        return _said(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    if isinstance(error, QueryError):
        return _said(conversation.QUERY, str(error))
    if isinstance(error, ClientDisconnect):
        return _said(conversation.QUERY, "the question did not come whole")
    if isinstance(error, DataError):
        log.warning("%s", error)
        return _said(conversation.INDEX, str(error))
    log.error("unexpected", exc_info=error)
    return _said(500, f"something went wrong there: {type(error).__name__}")


def _said(code: int, sentence: str) -> Response:
    response = _packed(one_line(sentence), code)
    if code == conversation.TOO_LONG:
        response.headers["Connection"] = "close"  # the rest of it is not read
    return response


def _packed(value: object, code: int = 200) -> Response:
    return Response(conversation.encode(value), code, media_type=CONTENT_TYPE)
