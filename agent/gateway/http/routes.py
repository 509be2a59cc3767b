"""All endpoints."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, Final

import msgspec

from agent.gateway.http import api, openapi, pages, queries
from agent.gateway.http.requests import Asked, Endpoint, Reply


async def described(asked: Asked) -> Reply:
    """The API, described as OpenAPI 3.1."""
    return Reply(await asyncio.to_thread(description, asked.gateway.version))


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *api.ENDPOINTS,
    *queries.ENDPOINTS,
    *pages.ENDPOINTS,
    Endpoint("GET", "/api/v1/openapi.json", "viewer", described, "This description",
             dict[str, Any]),
)  # fmt: skip
# By path, then by method. A path that ends in a slash has everything below it, but / itself.
BY_PATH: Final[dict[str, dict[str, Endpoint]]] = {}
for _each in ENDPOINTS:
    BY_PATH.setdefault(_each.path, {})[_each.method] = _each


@cache
def description(version: str) -> bytes:
    """The reply of `described`, in JSON."""
    return msgspec.json.encode(openapi.describe(ENDPOINTS, version))


def find(path: str) -> dict[str, Endpoint]:
    """The endpoints at a path, by method; {} if there are none."""
    if (found := BY_PATH.get(path)) is not None:
        return found
    return BY_PATH["/static/"] if path.startswith("/static/") else {}
