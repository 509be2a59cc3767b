"""The description of the API in OpenAPI 3.1, made from its endpoints and the wire's structs."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agent.gateway.http.problems import MEDIA_TYPE, ProblemBody
from agent.gateway.http.requests import JSON, Endpoint
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column

TEMPLATE: Final = "#/components/schemas/{name}"


def packed_schema(kind: type) -> dict[str, Any]:
    """The schema of a packed column in JSON, for msgspec."""
    if kind in (Int64Column, UInt8Column, UInt32Column):
        return {"type": "array", "items": {"type": "integer"}}
    if kind is Float32Column:
        return {"type": "array", "items": {"type": ["number", "null"]}}
    raise NotImplementedError(kind)


def prose(text: str | None) -> str:
    """A docstring as paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def describe(endpoints: tuple[Endpoint, ...], version: str) -> dict[str, Any]:
    """The document of these endpoints."""
    named = [each for each in endpoints if each.path.startswith(("/api/", "/metrics", "/healthz"))]
    kinds = [kind for each in named for kind in (each.answer, each.body) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        [ProblemBody, *kinds], schema_hook=packed_schema, ref_template=TEMPLATE
    )
    of_kind = iter(schemas[1:])
    paths: dict[str, dict[str, Any]] = {}
    for each in named:
        answer = next(of_kind) if each.answer is not None else {"type": "string"}
        body = next(of_kind) if each.body is not None else None
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(
            each, answer, body, schemas[0]
        )
    for component in components.values():
        if "description" in component:
            component["description"] = prose(component["description"])
    _leave_out(components.get("Query", {}), ("type", "id"))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sanderling gateway",
            "version": version,
            "description": "Rooms, readings, alerts and queries of a fleet. Bodies are those of "
            "the wire format in JSON; refusals are application/problem+json.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-sanderling"},
            },
        },
    }


def _operation(
    endpoint: Endpoint, answer: dict[str, Any], body: dict[str, Any] | None, problem: dict[str, Any]
) -> dict[str, Any]:
    media_type = endpoint.media_type.partition(";")[0]
    made: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": endpoint.serve.__name__,
        "responses": {
            "200": {"description": "OK", "content": {media_type: {"schema": answer}}},
            "default": {
                "description": "Refused, or failed; with 429 and 503 Retry-After says when to try "
                "again.",
                "content": {MEDIA_TYPE: {"schema": problem}},
            },
        },
    }
    if endpoint.role is None:
        made["security"] = []
    else:
        made["description"] = f"For the role {endpoint.role}, and those above it."
    if endpoint.parameters:
        made["parameters"] = [
            {
                "name": each.name,
                "in": "query",
                "description": each.meaning,
                "required": each.is_required,
                "schema": each.schema,
            }
            for each in endpoint.parameters
        ]
    if body is not None:
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    return made


def _leave_out(schema: dict[str, Any], names: tuple[str, ...]) -> None:
    """Fields that the gateway fills in."""
    for name in names:
        schema.get("properties", {}).pop(name, None)
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in names]
