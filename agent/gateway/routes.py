"""All endpoints."""

from __future__ import annotations

from typing import Final

from agent.gateway import api, pages, queries
from agent.gateway.requests import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *api.ENDPOINTS,
    *queries.ENDPOINTS,
    *pages.ENDPOINTS,
)
# By path, then by method. A path that ends in a slash has everything below it, but / itself.
BY_PATH: Final[dict[str, dict[str, Endpoint]]] = {}
for _each in ENDPOINTS:
    BY_PATH.setdefault(_each.path, {})[_each.method] = _each


def find(path: str) -> dict[str, Endpoint]:
    """The endpoints at a path, by method; {} if there are none."""
    if (found := BY_PATH.get(path)) is not None:
        return found
    return BY_PATH["/static/"] if path.startswith("/static/") else {}
