"""One value that no sensor has: an area's state stays one of numbers, and outputs come after it."""

from __future__ import annotations

import math

import pytest

from processors import aggregate, anomaly, comfort_index, forecast, threshold

NOW_MS = 1_800_000_000_000
KINDS = [
    (aggregate, aggregate.Parameters(channels=("t",), window_s=10.0, functions=("mean", "sum"))),
    (anomaly, anomaly.Parameters(channel="t", every=True)),
    (comfort_index, comfort_index.Parameters()),
    (forecast, forecast.Parameters(channel="t")),
    (threshold, threshold.Parameters(when="mean(t) > 30", window_s=10.0)),
]


def numbers_of(told):
    """All numbers in it."""
    if isinstance(told, dict):
        told = [*told.values()]
    if isinstance(told, list | tuple):
        return [number for each in told for number in numbers_of(each)]
    return [told] if isinstance(told, int | float) else []


@pytest.mark.parametrize(("kind", "parameters"), KINDS)
@pytest.mark.parametrize("absurd", [1e300, -1e300, 3.4e38, -3.4e38])
@pytest.mark.parametrize("place", [0, 5, 100])
def test_it_does_no_harm_for_ever(kind, parameters, absurd, place):
    process, state, told = kind.open_processor(parameters), {}, []
    for n in range(200):
        value = absurd if n == place else 20.0 + n % 7
        at_ms = NOW_MS + 1_000 * n
        told = [
            *told[-10:],
            *process(
                {
                    "area": "b1/r1", "time_ms": at_ms, "received_ms": at_ms,
                    "t": value, "temperature": value, "humidity": 40.0,
                },
                state,
            ),
        ]  # fmt: skip
    assert kind is threshold or told
    assert all(math.isfinite(each) for each in numbers_of([told[-1:], state]))
