"""HTML view of the OpenAPI document: routes and schemas for people.

Promises: shows exactly the content of the document. Knows nothing of HTML.
"""

import json
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ParameterView:
    name: str
    type: str
    meaning: str
    required: bool


@dataclass(frozen=True, slots=True)
class RouteView:
    """One method of one path."""

    id: str
    method: str
    path: str
    summary: str
    needs: str
    parameters: list[ParameterView]
    body: str
    answer: str
    errors: list[tuple[str, str]]


def route_views(document: Json) -> list[RouteView]:
    """In the order of the document."""
    return [
        _route_view(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def schema_views(document: Json) -> list[tuple[str, str]]:
    return [(name, _drawn(schema)) for name, schema in sorted(document["components"]["schemas"].items())]


def _route_view(method: str, path: str, operation: Json) -> RouteView:
    responses = operation["responses"]
    good = next(code for code in responses if code.startswith("2"))
    parameters = [
        ParameterView(one["name"], schema_summary(one["schema"]), one.get("description", ""), one["required"])
        for one in operation["parameters"]
    ]
    return RouteView(
        operation["operationId"],
        method.upper(),
        path,
        operation["summary"],
        operation["x-needs"],
        parameters,
        _content_summary(operation.get("requestBody", {})),
        _content_summary(responses[good]),
        [(code, told["description"]) for code, told in responses.items() if code != good],
    )


def _content_summary(described: Json) -> str:
    """The media type and schema of a body."""
    for media_type, content in described.get("content", {}).items():
        return f"{media_type}: {schema_summary(content['schema'])}"
    return ""


def schema_summary(schema: Json) -> str:
    """A schema in one line; structs by their name."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(map(schema_summary, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        each = [schema_summary(one) for one in schema.get("prefixItems", [])] or [
            schema_summary(schema.get("items") or {}),
            "…",
        ]
        return f"[{', '.join(each)}]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"{{…: {schema_summary(schema['additionalProperties'])}}}"
    bounds = [str(schema.get(name, "")) for name in ("minimum", "maximum")]
    return f"{kind} {'…'.join(bounds)}" if any(bounds) else str(kind)


def _drawn(schema: Json) -> str:
    """A schema with its fields, one per line."""
    if "properties" not in schema:
        return schema_summary(schema)
    required = schema.get("required", [])
    told = [schema["description"]] if "description" in schema else []
    told += [
        f"{name}{'' if name in required else '?'}: {schema_summary(one)}" for name, one in schema["properties"].items()
    ]
    return "\n".join(told)
