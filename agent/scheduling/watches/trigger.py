"""What an event-triggered watch asks of its trigger; `agent.triggers` has the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent.wire.messages import AreaResult


class Trigger(Protocol):
    """A condition on what one area answered for a window."""

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that it looks at."""

    @property
    def needs_series(self) -> bool:
        """Whether aggregates are not enough."""

    def holds(self, result: AreaResult) -> bool:
        """Whether it holds; values that are missing or bad never make it hold."""


# ValueError in one line for a text that is no trigger.
ReadTrigger = Callable[[str], Trigger]
