"""Routes of the REST API below /api/v1: each with typed query, body and response.

An `ApiRoute` names its method, path, summary, access level (`auth/required_role`) and handler. The types are those of
the handler's annotations: `query` and `body` are msgspec types, the return type is the response. The route itself, the
OpenAPI document and the page at /api are made from that. Promises: a handler is called only with decoded values; other
requests are 400 with a sentence that names the field; a body is read no further than its maximum; every error is a
`Problem`. Published names are kept within a version.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from types import NoneType
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect
from starlette.datastructures import QueryParams
from starlette.responses import Response

from tarrafa.i18n import ENGLISH, Message, message
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.error_status import API_PATH, RequestRefused

API_VERSION = "v1"
API_BASE = f"{API_PATH}/{API_VERSION}"
BODY_BYTES_MAX = 1 << 20
PARAMETERS_MAX = 100
PARAM_CHARS_MAX = 2_000

_strange_value = re.compile(r"Invalid enum value .*(?= - at `\$[^`]*`\Z)|Invalid enum value .*", re.DOTALL)
_strange_field = re.compile(
    r"unknown field `(?![A-Za-z_]\w{0,39}`(?: - at `\$[^`]*`)?\Z).*`(?=(?: - at `\$[^`]*`)?\Z)", re.DOTALL | re.ASCII
)


@dataclass(slots=True)
class ApiRoute:
    """A route; `path` is below API_BASE. The handler takes the request and, if declared, `query` and `body`. None
    is no content, 204. With `text`, a media type, the response is text.
    """

    method: str
    path: str
    summary: Message
    need: AccessLevel
    handler: Callable[..., Awaitable[object]]
    action: str = ""
    code: int = 200
    harmless: str = ""
    audited: bool = True
    body_bytes_max: int = BODY_BYTES_MAX
    text: str = ""
    types: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.types = get_type_hints(self.handler, include_extras=True)

    @property
    def query(self) -> type[msgspec.Struct] | None:
        return self.types.get("query")

    @property
    def body(self) -> Any:
        return self.types.get("body")

    @property
    def answer(self) -> Any:
        """The type of the response; None: no content, or text."""
        returned = self.types["return"]
        return None if self.text or returned is NoneType else returned


@dataclass(frozen=True, slots=True)
class DocumentedRoute:
    """A GET route that is served elsewhere: `path` is the whole path, `answer` a type, several alternatives, or None
    for text; `need`: the access level, except for local requests.
    """

    path: str
    summary: Message
    query: type[msgspec.Struct] | None = None
    answer: Any = None
    media_type: str = "application/json"
    codes: tuple[int, ...] = (400,)
    need: AccessLevel = AccessLevel.OPEN


class ApiRegistry:
    """The registered routes."""

    def __init__(self) -> None:
        self.routes: list[ApiRoute] = []
        self.documented: list[DocumentedRoute] = []

    def guarded_routes(self) -> list[GuardedRoute]:
        return [
            GuardedRoute(
                one.method, API_BASE + one.path, one.need, _endpoint(one), one.action, one.harmless, one.audited,
                one.body_bytes_max,
            )
            for one in self.routes
        ]  # fmt: skip


def _endpoint(route: ApiRoute) -> Callable[[ConsoleRequest], Awaitable[Response]]:
    decoder = msgspec.json.Decoder(route.body) if route.body is not None else None

    async def endpoint(request: ConsoleRequest) -> Response:
        if any(len(str(value)) > PARAM_CHARS_MAX for value in request.http.path_params.values()):
            raise RequestRefused(404, message("There is nothing at this address."))
        values: dict[str, Any] = {}
        query = read_query(request.http.query_params, route.query)
        if query is not None:
            values["query"] = query
        if decoder is not None:
            values["body"] = _decode_body(request.body, decoder)
        result = await route.handler(request, **values)
        if isinstance(result, str) and route.text:
            return Response(result, route.code, media_type=route.text)
        if result is None and route.answer is None:
            return Response(status_code=204)
        return Response(msgspec.json.encode(ENGLISH.render_all(result)), route.code, media_type="application/json")

    return endpoint


def _decode_body(body: bytes, decoder: "msgspec.json.Decoder[Any]") -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RequestRefused(400, message("Invalid body: {error}.", error=decode_error_text(error))) from None


def read_query(given: QueryParams, kind: type[msgspec.Struct] | None) -> Any:
    """The parameters as the route declares them; an unknown one is an error, because it would be ignored."""
    items = given.multi_items()
    if len(items) > PARAMETERS_MAX:
        raise RequestRefused(400, message("Too many fields: the maximum is {most}.", most=str(PARAMETERS_MAX)))
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)} if kind is not None else {}
    for name, value in items:
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise RequestRefused(
                400, message("Unknown parameter {name!r}; known ones: {known}.", name=name[:60], known=known)
            )
        if len(value) > PARAM_CHARS_MAX:
            raise RequestRefused(
                400,
                message(
                    "Invalid parameter: {error}.",
                    error=f"{len(value):,} characters, at most {PARAM_CHARS_MAX:,} are read - at `$.{name}`",
                ),
            )
    if kind is None:
        return None
    many = _list_parameters(kind)
    values = {name: given.getlist(name) if name in many else given[name] for name in given}
    try:
        return msgspec.convert(values, kind, strict=False)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise RequestRefused(400, message("Invalid parameter: {error}.", error=decode_error_text(error))) from None


@cache
def _list_parameters(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that may be repeated."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    lists = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
    return frozenset(field.encode_name for field in described.fields if isinstance(field.type, lists))


def decode_error_text(error: Exception) -> str:
    """The message of msgspec, which names the field and never the value: it is shown, and stored in the audit log. Its
    two messages with values are replaced: an unknown enum value, and an unknown field.
    """
    text = _strange_field.sub("unknown field `…`", _strange_value.sub("Invalid enum value", str(error)))
    return text[:300]
