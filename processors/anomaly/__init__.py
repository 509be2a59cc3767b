"""Anomaly: how unusual a reading is for its room at this time of day.

Each area has a mean and a variance for every slot of the day, both weighted exponentially: T.
Finch, "Incremental calculation of weighted mean and variance", University of Cambridge, 2009,
section 9. The score is the distance from the mean in standard deviations. So that a fault does not
become usual at once, a reading counts as at most `clip` deviations away when it is learned
(winsorising: P. J. Huber, "Robust Statistics", 1981).
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from msgspec import Meta

from agent.wire.base import Channel
from agent.wire.config import Section
from processors.base import (
    Message,
    Output,
    Process,
    State,
    area_of,
    number,
    of_area,
    time_ms_of,
)

DAY_MS = 86_400_000


class Parameters(Section, frozen=True):
    """A reading with a score of at least `limit` is given out, and the first one that is usual
    again; with `every`, each one is. Nothing is before a slot has `least` readings. `weight` is how
    much a new reading counts, `resolution` what the sensor can tell apart: a deviation is never
    smaller."""

    channel: Channel = "temperature"
    limit: Annotated[float, Meta(gt=0.0, le=100.0)] = 4.0
    slots: Annotated[int, Meta(ge=1, le=288)] = 24
    least: Annotated[int, Meta(ge=2, le=100_000)] = 30
    weight: Annotated[float, Meta(gt=0.0, le=0.5)] = 0.01
    clip: Annotated[float, Meta(gt=0.0, le=100.0)] = 3.0
    resolution: Annotated[float, Meta(gt=0.0, le=1e6)] = 0.1
    every: bool = False


def channels_of(parameters: Parameters) -> tuple[str, ...]:
    """The channels that it uses."""
    return (parameters.channel,)


def open_processor(parameters: Parameters) -> Process:
    """Build the processor."""
    return Anomaly(parameters).process


class Anomaly:
    """State by area: ``slots`` with [count, mean, variance] each, and whether it is ``unusual``."""

    def __init__(self, parameters: Parameters) -> None:
        self._given = parameters

    def process(self, message: Message, state: State) -> list[Output]:
        """Score a reading against the readings before it, then learn it. O(1)."""
        given = self._given
        area, time_ms = area_of(message), time_ms_of(message)
        value = number(message, given.channel)
        if not area or value is None or (here := of_area(state, message)) is None:
            return []
        slots = here.setdefault("slots", {})
        slot = slots.setdefault(str(time_ms % DAY_MS * given.slots // DAY_MS), [0, value, 0.0])
        count, mean, variance = slot
        score = (value - mean) / max(math.sqrt(variance), given.resolution)
        self._learn(slot, value)
        if count < given.least:
            return []
        was, unusual = here.get("unusual", False), abs(score) >= given.limit
        here["unusual"] = unusual
        if not (unusual or was or given.every):
            return []
        return [
            {
                "area": area,
                "time_ms": time_ms,
                given.channel: value,
                "usual": round(mean, 3),
                "score": round(score, 2),
                "unusual": unusual,
            }
        ]

    def _learn(self, slot: list[Any], value: float) -> None:
        given = self._given
        count, mean, variance = slot
        if count >= given.least:
            most = given.clip * max(math.sqrt(variance), given.resolution)
            value = min(max(value, mean - most), mean + most)
        # The first readings count alike.
        weight = max(given.weight, 1.0 / (count + 1))
        away = value - mean
        slot[0] = count + 1
        slot[1] = mean + weight * away
        slot[2] = (1.0 - weight) * (variance + weight * away * away)
