"""Threshold: tells when a formula begins to hold in an area, and when it no longer does.

The formula is a trigger's (`agent.triggers.language`), with the meaning that it has in an
event-triggered query: functions are over the readings of the last `window_s` of the area.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from msgspec import Meta

from agent.triggers.expression import Expression
from agent.triggers.language import TriggerError, read_trigger
from agent.wire.base import Label
from agent.wire.config import Section
from agent.wire.messages import AreaResult, Series
from agent.wire.packed import Float32Column, Int64Column
from processors.base import (
    Message,
    Output,
    Process,
    ProcessorError,
    State,
    area_of,
    latest_ms,
    number,
    of_area,
    time_ms_of,
)

MAX_FORMULA = 512
MAX_READINGS = 1_000  # of an area in its window; older ones are left out

Formula = Annotated[str, Meta(min_length=1, max_length=MAX_FORMULA)]


class Parameters(Section, frozen=True):
    """`when` raises it, after it held for `for_s`; `until` clears it, by default as soon as `when`
    no longer holds. Outputs carry the label `name`."""

    when: Formula
    until: Annotated[str, Meta(max_length=MAX_FORMULA)] = ""
    name: Label = "threshold"
    for_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 0.0
    window_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 60.0


def channels_of(parameters: Parameters) -> tuple[str, ...]:
    """The channels that it uses; ProcessorError for a formula that is none."""
    return Threshold(parameters).channels


def open_processor(parameters: Parameters) -> Process:
    """Build the processor; ProcessorError for a formula that is none."""
    return Threshold(parameters).process


class Threshold:
    """State by area: ``readings`` in the window, ``raised``, ``since_ms`` the formula has held."""

    def __init__(self, parameters: Parameters) -> None:
        self._given = parameters
        self._when = _formula("when", parameters.when)
        self._until = _formula("until", parameters.until) if parameters.until else None
        clear = self._until.channels if self._until is not None else ()
        self.channels = tuple(dict.fromkeys([*self._when.channels, *clear]))

    def process(self, message: Message, state: State) -> list[Output]:
        """Take a reading; an output if that raises or clears it. O(readings in the window)."""
        area, time_ms = area_of(message), time_ms_of(message)
        values = [number(message, channel) for channel in self.channels]
        if not area or all(value is None for value in values):
            return []
        if (here := of_area(state, message)) is None:
            return []
        readings = here.setdefault("readings", [])
        if readings and readings[-1][0] > latest_ms(message):
            readings.clear()
            here.pop("since_ms", None)
        elif readings and time_ms <= readings[-1][0]:
            return []  # an older one changes nothing that was told
        readings.append([time_ms, *values])
        oldest_ms = time_ms - self._given.window_s * 1e3
        while readings[0][0] < oldest_ms or len(readings) > MAX_READINGS:
            del readings[0]
        result = AreaResult("a", series=self._series(readings))
        raised = self._decide(here, result, time_ms)
        if raised == here.get("raised", False):
            return []
        here["raised"] = raised
        told = {"area": area, "time_ms": time_ms, "name": self._given.name, "raised": raised}
        shown = zip(self.channels, values, strict=True)
        return [told | {channel: value for channel, value in shown if value is not None}]

    def _decide(self, here: dict[str, Any], result: AreaResult, time_ms: int) -> bool:
        """Whether it is raised after this reading."""
        holds = self._when.holds(result)
        if here.get("raised", False):
            return not self._until.holds(result) if self._until is not None else holds
        if not holds:
            here.pop("since_ms", None)
            return False
        since_ms: int = here.setdefault("since_ms", time_ms)
        if time_ms - since_ms < self._given.for_s * 1e3:
            return False
        del here["since_ms"]
        return True

    def _series(self, readings: list[list[Any]]) -> Series:
        columns = {
            channel: Float32Column.of([math.nan if row[i] is None else row[i] for row in readings])
            for i, channel in enumerate(self.channels, 1)
        }
        return Series(Int64Column.of([row[0] for row in readings]), columns)


def _formula(name: str, text: str) -> Expression:
    try:
        return read_trigger(text)
    except TriggerError as error:
        raise ProcessorError(f"threshold: {name} = {text!r}: {error}") from None
