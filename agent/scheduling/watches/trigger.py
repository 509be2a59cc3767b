"""Interface of the triggers of event-triggered watches; `agent.triggers` has the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent.wire.messages import AreaResult


class Trigger(Protocol):
    """A condition on one area's answer for a window."""

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that it uses."""

    @property
    def needs_series(self) -> bool:
        """Whether it needs series, because aggregates are not enough."""

    def holds(self, result: AreaResult) -> bool:
        """Whether the condition holds; missing or bad values never satisfy it."""


# Parses a trigger; ValueError in one line if the text is invalid.
ReadTrigger = Callable[[str], Trigger]
