"""Processor interface: what a processor gets, gives and keeps.

A processor is a callable ``process(message, state) -> outputs``:

- `message` is a dict: ``area`` (text), ``time_ms`` (milliseconds since 1970 UTC), and the channels
  of the reading, each a number
- `state` is a dict that it may change; empty at first. It holds only what MessagePack does: dicts
  with text keys, lists, texts, bytes, numbers, truth values, None
- `outputs` are dicts from names to numbers, truth values and texts; None means none

It is called with the messages of a topic in order, one at a time. State and outputs are to depend
on messages and state alone: after a crash some messages are processed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

Message = dict[str, Any]
State = dict[str, Any]
Output = dict[str, Any]
Process = Callable[[Message, State], Iterable[Output] | None]

# More areas than this in one topic are a mistake, and their state would grow without bound: those
# that came first count.
MAX_AREAS: Final = 4_096
# No message waits longer for its way (a subscription expires after a week). What is further behind
# the newest is not late: the clock that dated the newest was wrong.
MAX_BEHIND_MS: Final = 8 * 86_400_000
# An output has at most so many, `area` and `time_ms` included.
MAX_NAMES: Final = 29
MAX_NAME: Final = 32
LARGEST: Final = 1e300


class ProcessorError(ValueError):
    """A processor cannot be built; the text is one line that begins with its name."""


def area_of(message: Message) -> str:
    """The message's area; empty without one: whoever may publish chooses what a message has, and
    must not stop a topic with it."""
    area = message.get("area")
    return area if isinstance(area, str) else ""


def time_ms_of(message: Message) -> int:
    """The message's time; ValueError in one line without one."""
    time_ms = message.get("time_ms")
    if not isinstance(time_ms, int) or isinstance(time_ms, bool):
        raise ValueError("the message has no time_ms, a whole number of milliseconds")
    return time_ms


def number(message: Message, channel: str) -> float | None:
    """The value of `channel`; None if it is missing, or no finite number."""
    value = message.get(channel)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None


def of_area(state: State, area: str) -> State | None:
    """The part of `state` that belongs to `area`; None for a new one if there are too many."""
    areas = state.setdefault("areas", {})
    found: State | None = areas.get(area)
    if found is None:
        if len(areas) >= MAX_AREAS:
            return None
        found = areas[area] = {}
    return found
