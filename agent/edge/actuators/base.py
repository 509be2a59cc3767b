"""Actuator interface: what an actuator driver is, and what it gets."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class ActuatorError(Exception):
    """Values could not be put out; the text is one line with the reason."""


class Output(Struct, frozen=True):
    """Values that the node's clone computed, by channel, `age_ms` before they came."""

    values: dict[str, float]
    age_ms: int


class Actuator(Protocol):
    """An open actuator, used by a thread of its own; a call may block. While it does, only the
    newest output waits for it."""

    def put_out(self, output: Output) -> None:
        """Act on it; ActuatorError if that failed. It is not called again for the same output, and
        after a power cut perhaps never."""
        ...

    def close(self) -> None:
        """Release what the driver holds; called once."""
        ...
