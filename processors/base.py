"""Processor interface: what a processor gets, gives and keeps.

A processor is a callable ``process(message, state) -> outputs``:

- `message` is a dict: ``area`` (text), ``time_ms`` (milliseconds since 1970 UTC), ``received_ms``
  (the same of its reception, by this master's clock), and the channels of the reading, each a
  number
- `state` is a dict that it may change; empty at first. It holds only what MessagePack does: dicts
  with text keys, lists, texts, bytes, numbers, truth values, None
- `outputs` are dicts from names to numbers, truth values and texts; None means none

It is called with the messages of a topic in order, one at a time. State and outputs are to depend
on messages and state alone: after a crash some messages are processed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from agent.wire.processor_limits import AREA_KEPT_S, MAX_AHEAD_MS, MAX_AREAS

Message = dict[str, Any]
State = dict[str, Any]
Output = dict[str, Any]
Process = Callable[[Message, State], Iterable[Output] | None]

# No message waits longer for its way (a subscription expires after a week): so late at most was one
# of an earlier version, which does not say when it was received.
MAX_BEHIND_MS: Final = 8 * 86_400_000
# An output has at most so many, `area` and `time_ms` included.
MAX_NAMES: Final = 29
MAX_NAME: Final = 32
# The largest value that a reading can have, of 32 bits. The square of a larger one may be infinite,
# and what is weighed with that is no number for ever.
LARGEST: Final = 3.4028235e38


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


def reached_ms(message: Message) -> int:
    """The time that has been reached at this message: its own, but never later than its reception.
    So a sender whose clock is ahead makes the messages of others no later."""
    received_ms = message.get("received_ms")
    if isinstance(received_ms, int) and not isinstance(received_ms, bool):
        return min(time_ms_of(message), received_ms)
    return time_ms_of(message)


def latest_ms(message: Message) -> int:
    """The latest time that a message before this one may have had. What is later is of a clock that
    was ahead and was set back since, and must not make all messages late until that time."""
    received_ms = message.get("received_ms")
    if isinstance(received_ms, int) and not isinstance(received_ms, bool):
        return received_ms + MAX_AHEAD_MS
    return time_ms_of(message) + MAX_BEHIND_MS


def number(message: Message, channel: str) -> float | None:
    """The value of `channel`; None if it is missing, or no number that a reading can have."""
    value = message.get(channel)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None


def of_area(state: State, message: Message) -> State | None:
    """The part of `state` that belongs to the message's area, which has one; None for a new one if
    there are too many. O(1)."""
    areas: dict[str, State] = state.setdefault("areas", {})
    area, now_ms = area_of(message), latest_ms(message)
    # When each area was heard of last, the longest ago first.
    heard: dict[str, int] = state.setdefault("heard", dict.fromkeys(areas, now_ms))
    if area not in areas:
        if len(areas) >= MAX_AREAS:
            silent = next(iter(heard))
            # One that was heard of by a clock that was ahead makes room, too.
            if abs(now_ms - heard[silent]) < AREA_KEPT_S * 1e3:
                return None
            del areas[silent], heard[silent]
        areas[area] = {}
    heard.pop(area, None)
    heard[area] = now_ms
    return areas[area]
