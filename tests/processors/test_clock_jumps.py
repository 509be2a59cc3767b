"""A master's clock that was far ahead and is right again silences no topic."""

from __future__ import annotations

import pytest

from processors import aggregate, forecast, threshold
from processors.base import MAX_BEHIND_MS

NOW_MS = 1_800_000_000_000
IN_2099_MS = 4_080_000_000_000
PROCESSORS = [
    (aggregate, aggregate.Parameters(channels=("t",), window_s=10.0, grace_s=0.0)),
    (threshold, threshold.Parameters(when="t > 30", window_s=1.0)),
    (forecast, forecast.Parameters(channel="t", horizon_s=10.0)),
]


def told(process, state, start_ms):
    """The times of outputs of a minute of messages, every five seconds, hot and cold in turn."""
    outputs = []
    for n in range(12):
        message = {"area": "b1", "time_ms": start_ms + 5_000 * n, "t": 25.0 + 10.0 * (n % 4 < 2)}
        outputs += process(message, state)
    return [output["time_ms"] for output in outputs]


@pytest.mark.parametrize(("kind", "parameters"), PROCESSORS)
def test_a_topic_goes_on_after_the_year_2099(kind, parameters):
    process, state = kind.open_processor(parameters), {}
    usual = [time_ms + 60_000 for time_ms in told(process, {}, NOW_MS)]
    told(process, state, NOW_MS)
    assert told(process, state, IN_2099_MS)
    found = told(process, state, NOW_MS + 60_000)
    assert found
    assert len(usual) - 1 <= len(found) <= len(usual) + 1
    assert all(NOW_MS + 60_000 <= time_ms <= NOW_MS + 120_000 for time_ms in found)


@pytest.mark.parametrize(("kind", "parameters"), PROCESSORS)
def test_what_may_only_be_late_changes_nothing(kind, parameters):
    process, state = kind.open_processor(parameters), {}
    told(process, state, NOW_MS)
    assert told(process, state, NOW_MS + 55_000 - MAX_BEHIND_MS) == []
