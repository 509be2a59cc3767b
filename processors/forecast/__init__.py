"""Forecast: what a channel will be in a while, by exponential smoothing with a damped trend.

C. C. Holt, "Forecasting seasonals and trends by exponentially weighted moving averages", ONR
Memorandum 52, 1957; the damping is of E. S. Gardner and E. McKenzie, "Forecasting trends in time
series", Management Science 31 (10), 1985; times between readings may differ as in D. J. Wright,
"Forecasting data published at irregular time intervals", Management Science 32 (4), 1986: a weight
of `alpha` at one `interval_s` is 1 − (1 − alpha)^(Δt / interval_s) at Δt.
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
    latest_ms,
    number,
    of_area,
    time_ms_of,
)

Weight = Annotated[float, Meta(gt=0.0, le=1.0)]
NORMAL_90 = 1.645  # nine in ten normal values are within so many standard deviations


class Parameters(Section, frozen=True):
    """`alpha` and `beta` weigh the newest level and trend against the older ones, `damping` is what
    remains of a trend after one interval. A gap of `forget_s` begins anew. A forecast comes with
    each reading from the third on, with a band in which nine of ten errors lay so far."""

    channel: Channel = "temperature"
    horizon_s: Annotated[float, Meta(gt=0.0, le=86_400.0)] = 900.0
    interval_s: Annotated[float, Meta(gt=0.0, le=3_600.0)] = 5.0
    alpha: Weight = 0.1
    beta: Weight = 0.02
    damping: Weight = 0.99
    forget_s: Annotated[float, Meta(gt=0.0, le=604_800.0)] = 3_600.0


def channels_of(parameters: Parameters) -> tuple[str, ...]:
    """The channels that it uses."""
    return (parameters.channel,)


def open_processor(parameters: Parameters) -> Process:
    """Build the processor."""
    return Forecast(parameters).process


class Forecast:
    """State by area: ``at_ms``, ``level``, ``trend`` an interval, ``variance`` of the error one
    interval ahead, ``count``."""

    def __init__(self, parameters: Parameters) -> None:
        self._given = parameters

    def process(self, message: Message, state: State) -> list[Output]:
        """Take a reading; a forecast from the third on. O(1)."""
        area, time_ms = area_of(message), time_ms_of(message)
        value = number(message, self._given.channel)
        if not area or value is None or (here := of_area(state, message)) is None:
            return []
        if here.get("at_ms", time_ms) > latest_ms(message):
            here.clear()
        elapsed_ms = time_ms - here.get("at_ms", time_ms)
        if here and elapsed_ms <= 0:
            return []
        if not here or elapsed_ms > self._given.forget_s * 1e3:
            here.update(at_ms=time_ms, level=value, trend=0.0, variance=0.0, count=1)
            return []
        self._learn(here, value, elapsed_ms / 1e3 / self._given.interval_s)
        here["at_ms"] = time_ms
        if here["count"] < 3:
            return []
        return [self._forecast(area, time_ms, here)]

    def _learn(self, here: dict[str, Any], value: float, steps: float) -> None:
        given = self._given
        if here["count"] == 1:
            here.update(level=value, trend=(value - here["level"]) / steps, count=2)
            return
        expected = here["level"] + here["trend"] * self._reach(steps)
        error = value - expected
        alpha = 1.0 - (1.0 - given.alpha) ** steps
        beta = 1.0 - (1.0 - given.beta) ** steps
        level = expected + alpha * error
        kept = here["trend"] * given.damping**steps
        here["trend"] = kept + beta * ((level - here["level"]) / steps - kept)
        here["level"] = level
        # The error grows about with the square root of the distance.
        here["variance"] += alpha * (error * error / steps - here["variance"])
        here["count"] += 1

    def _reach(self, steps: float) -> float:
        """What a trend of one adds up to over `steps` intervals: φ + φ² + … + φ^steps."""
        damping = self._given.damping
        if damping == 1.0:
            return steps
        return float(damping * (1.0 - damping**steps) / (1.0 - damping))

    def _forecast(self, area: str, time_ms: int, here: dict[str, Any]) -> Output:
        given = self._given
        steps = given.horizon_s / given.interval_s
        value = here["level"] + here["trend"] * self._reach(steps)
        # Of simple smoothing: the variance h intervals ahead is σ² (1 + (h − 1) α²).
        spread = math.sqrt(here["variance"] * (1.0 + max(0.0, steps - 1.0) * given.alpha**2))
        channel = given.channel
        return {
            "area": area,
            "time_ms": time_ms,
            "for_ms": time_ms + round(given.horizon_s * 1e3),
            channel: round(value, 3),
            "low": round(value - NORMAL_90 * spread, 3),
            "high": round(value + NORMAL_90 * spread, 3),
        }
