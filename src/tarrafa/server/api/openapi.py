"""Generates the OpenAPI 3.1 document from the registered routes.

Each description is written once, at its route (`api_route`). msgspec's schemas are JSON Schema 2020-12, as
OpenAPI 3.1 requires. The page at /api (templates/console/api.html) shows this document.
"""

import json
import re
from typing import Any

import msgspec

from tarrafa import __version__
from tarrafa.i18n import message
from tarrafa.server.api.api_route import API_BASE, PARAM_CHARS_MAX, ApiRegistry, ApiRoute, DocumentedRoute
from tarrafa.server.api.problem_details import MEDIA_TYPE, Problem
from tarrafa.server.auth.required_role import AccessLevel
from tarrafa.server.auth.role_and_csrf_guard import CSRF_HEADER

OPENAPI_VERSION = "3.1.0"
REFERENCE = "#/components/schemas/{name}"
Json = dict[str, Any]

_params = re.compile(r"\{([a-z_]+)(?::[a-z]+)?\}")
STATUS_DESCRIPTIONS = {
    400: message("The request is invalid; `detail` says what is wrong."),
    401: message("A token or a session is needed."),
    403: message("The user may not do this, or a page of another site sent the request."),
    404: message("Not found."),
    408: message("The body was not received in time."),
    413: message("The body is too large."),
    415: message("The body is not JSON."),
    429: message("Too many requests from this address; `Retry-After` says when to try again."),
    503: message("Not available now; try again later."),
}
LOCAL_DESCRIPTIONS = {403: message("Only local requests may read this.")}


class Error(msgspec.Struct, frozen=True):
    """Why there is no result, in one sentence."""

    error: str


def openapi_document(api: ApiRegistry, cookie: str, server: str = "/") -> Json:
    """The whole document. `cookie` is the name of the session cookie."""
    kinds = [kind for route in api.routes for kind in (route.body, route.answer) if kind is not None]
    kinds += [kind for one in api.documented for kind in _response_types(one.answer)] + [Problem, Error]
    declared = [*(route.query for route in api.routes), *(one.query for one in api.documented)]
    queries = [query for query in declared if query is not None]
    schemas, components = _short_schema_names(
        *msgspec.json.schema_components([*kinds, *queries], ref_template=REFERENCE)
    )
    schema_of = dict(zip([*map(_schema_key, kinds), *map(_schema_key, queries)], schemas, strict=True))
    query_names = {query.__name__ for query in queries}
    paths: dict[str, Json] = {}
    for route in api.routes:
        at = paths.setdefault(_params.sub(r"{\1}", API_BASE + route.path), {})
        at[route.method.lower()] = _operation(route, schema_of, components)
    for one in api.documented:
        paths.setdefault(one.path, {})["get"] = _documented(one, schema_of, components)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Tarrafa",
            "version": __version__,
            "description": f"The HTTP API of this site. Routes below {API_BASE} keep their "
            "names and shapes within their version; new fields and routes may be added.",
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in query_names},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": cookie},
                "form": {"type": "apiKey", "in": "header", "name": CSRF_HEADER},
            },
        },
    }


def _short_schema_names(schemas: tuple[Json, ...], components: Json) -> tuple[list[Json], Json]:
    """Shorten schema names: structs with the same name are distinguished by their modules, without the internal
    paths.
    """
    text = msgspec.json.encode([schemas, components]).decode()
    for name in components:
        *_, module, last = ["", *name.split(".")]
        if module:
            short = module.title().replace("_", "") + last
            text = text.replace(f'"{REFERENCE.format(name=name)}"', f'"{REFERENCE.format(name=short)}"')
            text = text.replace(f'"{name}":', f'"{short}":')
    found: tuple[list[Json], Json] = msgspec.json.decode(text, type=tuple[list[Json], Json])
    return found


def _operation(route: ApiRoute, schema_of: dict[object, Json], components: Json) -> Json:
    unsafe = route.method not in ("GET", "HEAD")
    codes = [400, 404, 429, 503]
    operation: Json = {
        "summary": str(route.summary),
        "operationId": _operation_id(route.method, route.path),
        "tags": [API_BASE],
        "parameters": [*_path(route.path), *_query(route.query, components)],
        "responses": {},
        "x-needs": route.need.name.lower(),
    }
    if route.body is not None:
        content = {"application/json": {"schema": schema_of[_schema_key(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    if unsafe:
        codes += [403, 408, 413, 415]
    if route.need is not AccessLevel.OPEN:
        codes += [401, 403]
        operation["security"] = [{"token": []}, {"session": [], "form": []} if unsafe else {"session": []}]
    if route.text:
        content = {route.text: {"schema": {"type": "string"}}}
        operation["responses"][str(route.code)] = {"description": str(route.summary), "content": content}
    elif route.answer is None:
        operation["responses"]["204"] = {"description": "Done."}
    else:
        content = {"application/json": {"schema": schema_of[_schema_key(route.answer)]}}
        operation["responses"][str(route.code)] = {"description": str(route.summary), "content": content}
    reference = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="Problem")}}}
    for code in sorted(set(codes)):
        operation["responses"][str(code)] = {"description": str(STATUS_DESCRIPTIONS[code]), "content": reference}
    return operation


def _documented(one: DocumentedRoute, schema_of: dict[object, Json], components: Json) -> Json:
    schemas = [schema_of[_schema_key(kind)] for kind in _response_types(one.answer)] or [{"type": "string"}]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    responses: Json = {"200": {"description": str(one.summary), "content": {one.media_type: {"schema": schema}}}}
    problem = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="Problem")}}}
    error = {"application/json": {"schema": {"$ref": REFERENCE.format(name="Error")}}}
    for code in one.codes:
        content = error if one.need is AccessLevel.OPEN else problem
        responses[str(code)] = {
            "description": str(LOCAL_DESCRIPTIONS.get(code, STATUS_DESCRIPTIONS[code])),
            "content": content,
        }
    responses["429"] = {"description": str(STATUS_DESCRIPTIONS[429]), "content": problem}
    operation: Json = {
        "summary": str(one.summary),
        "operationId": _operation_id("get", one.path),
        "tags": ["search"],
        "parameters": _query(one.query, components),
        "responses": responses,
        "x-needs": one.need.name.lower(),
    }
    if one.need is not AccessLevel.OPEN:
        for code in (401, 403):
            responses[str(code)] = {"description": str(STATUS_DESCRIPTIONS[code]), "content": problem}
        operation["security"] = [{"token": []}, {"session": []}]
    return operation


def _query(kind: type[msgspec.Struct] | None, components: Json) -> list[Json]:
    """Each field of the type as a parameter of its own."""
    if kind is None:
        return []
    schema = components[kind.__name__]
    required = schema.get("required", [])
    parameters = []
    for name, field in schema["properties"].items():
        described = dict(field)
        one: Json = {"name": name, "in": "query", "required": name in required, "schema": described}
        if "description" in described:
            one["description"] = described.pop("description")
        parameters.append(one)
    return parameters


def _path(path: str) -> list[Json]:
    schema = {"type": "string", "minLength": 1, "maxLength": PARAM_CHARS_MAX}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in _params.findall(path)]


def _response_types(answer: Any) -> tuple[Any, ...]:
    """The alternatives of a response type."""
    if answer is None:
        return ()
    return answer if isinstance(answer, tuple) else (answer,)


def _operation_id(method: str, path: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", path)
    return "_".join([method.lower(), *words])


def _schema_key(kind: Any) -> object:
    return kind if isinstance(kind, type) else repr(kind)


def schema_summary(schema: Json) -> str:
    """A schema in one line, for the page at /api; structs by their name."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(map(schema_summary, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        items = [*map(schema_summary, schema.get("prefixItems", []))]
        return f"[{', '.join(items or [schema_summary(schema.get('items') or {}), '…'])}]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"{{…: {schema_summary(schema['additionalProperties'])}}}"
    bounds = [str(schema.get(name, "")) for name in ("minimum", "maximum")]
    return f"{kind} {'…'.join(bounds)}" if any(bounds) else str(kind)
