"""Answers that are the same for all who ask until something changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class SharedAnswers:
    """Makes each beside the loop, once for all who ask before its key changes."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[object, asyncio.Future[bytes]]] = {}

    async def get(self, name: str, key: object, make: Callable[[], bytes]) -> bytes:
        """The answer called `name`, as `make` makes it in a thread; what it raises is raised."""
        of, made = self._made.get(name, (None, None))
        if made is None or of != key or (made.done() and (made.cancelled() or made.exception())):
            made = asyncio.get_running_loop().run_in_executor(None, make)
            self._made[name] = key, made
        # One who goes meanwhile does not take it from the others.
        return await asyncio.shield(made)
