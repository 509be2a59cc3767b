"""Pool of a rollout's idle SSH connections: a few stay open, the others are closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fleet.rollout.session import Session

# A host goes from one step to the next within moments, unless it waits for its turn.
MOST: Final = 4


class Idle:
    """Sessions between two steps. Used by several threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}  # whose step ended last comes last

    @contextmanager
    def used(self, session: Session) -> Iterator[None]:
        """Inside, a step is done over the session, and its connection stays."""
        name = session.host.name
        with self._lock:
            self._sessions.pop(name, None)
        try:
            yield
        finally:
            with self._lock:
                self._sessions[name] = session
            self._close(self._most)

    def close(self) -> None:
        """Close all of them; those in use stay."""
        self._close(0)

    def _close(self, most: int) -> None:
        with self._lock:
            surplus = list(self._sessions)[: max(0, len(self._sessions) - most)]
            # Let go inside, as its next step may begin at once; closed outside, as that takes long.
            closing = [self._sessions.pop(name).let_go() for name in surplus]
        for close in closing:
            close()
