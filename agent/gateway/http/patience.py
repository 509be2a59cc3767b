"""Connection timeouts: closes connections that hold a slot and make no progress.

A connection costs a place among `http.most_connections`, and uvicorn waits for ever: for a request
that never comes or never ends, and, once it has closed, for a reader that takes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

REQUEST_S: Final = 20.0  # for the head of a request; between two requests uvicorn waits 5 s
UNREAD_S: Final = 60.0  # without a byte taken


class Patience:
    """Looked at now and then, with the connections that there are (uvicorn's protocols)."""

    def __init__(self) -> None:
        self._since: dict[Any, tuple[tuple[str, object], float]] = {}

    def over(self, connections: Iterable[Any], now: float) -> list[Any]:
        """Those that have not got on for too long. O(connections)."""
        since, over = {}, []
        for each in connections:
            if (stuck := _stuck(each)) is None:
                continue
            before, from_s = self._since.get(each, (None, now))
            since[each] = stuck, (from_s if before == stuck else now)
            if now - since[each][1] >= (UNREAD_S if stuck[0] == "unread" else REQUEST_S):
                over.append(each)
        self._since = since
        return over


def is_idle(connection: Any) -> bool:
    """Whether a connection (uvicorn's protocol) waits for a request, or for the rest of one."""
    stuck = _stuck(connection)
    return stuck is not None and stuck[0] == "request"


def _stuck(connection: Any) -> tuple[str, object] | None:
    """What a connection waits for, which changes as soon as it gets on; None: for this gateway."""
    if unread := connection.transport.get_write_buffer_size():
        return "unread", unread
    cycle = connection.cycle
    if cycle is None or cycle.response_complete:
        return "request", cycle
    return None
