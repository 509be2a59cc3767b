"""A master's clock that was far ahead and is right again silences no topic."""

from __future__ import annotations

import pytest

from agent.wire.processor_limits import MAX_AHEAD_MS
from processors import aggregate, anomaly, comfort_index, forecast, threshold
from processors.base import MAX_BEHIND_MS

NOW_MS = 1_800_000_000_000
IN_2099_MS = 4_080_000_000_000
PROCESSORS = [
    (aggregate, aggregate.Parameters(channels=("t",), window_s=10.0, grace_s=0.0)),
    (threshold, threshold.Parameters(when="t > 30", window_s=1.0)),
    (forecast, forecast.Parameters(channel="t", horizon_s=10.0)),
]


EVERY = [
    *PROCESSORS,
    (anomaly, anomaly.Parameters(channel="t", every=True, least=2)),
    (comfort_index, comfort_index.Parameters(temperature="t", humidity="h")),
]
HOUR_MS = 3_600_000


def told(process, state, start_ms, received_ms=None):
    """The times of outputs of a minute of messages, every five seconds, hot and cold in turn."""
    outputs = []
    for n in range(12):
        message = {"area": "b1", "time_ms": start_ms + 5_000 * n, "t": 25.0 + 10.0 * (n % 4 < 2)}
        message["h"] = 50.0
        if received_ms is not None:
            message["received_ms"] = received_ms + 5_000 * n
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


@pytest.mark.parametrize("jump_ms", [MAX_AHEAD_MS + 60_000, HOUR_MS, 72 * HOUR_MS])
@pytest.mark.parametrize(("kind", "parameters"), EVERY)
def test_a_topic_goes_on_after_any_jump(kind, parameters, jump_ms):
    """By the master's clock no message before can have been so late."""
    process, state = kind.open_processor(parameters), {}
    usual = told(process, {}, NOW_MS, NOW_MS)
    for start_ms in (NOW_MS, NOW_MS + jump_ms):
        told(process, state, start_ms, start_ms)
    then_ms = NOW_MS + 60_000
    found = told(process, state, then_ms, then_ms)
    assert len(usual) - 1 <= len(found) <= len(usual) + 3
    assert all(then_ms <= time_ms <= then_ms + 60_000 for time_ms in found)


@pytest.mark.parametrize(("kind", "parameters"), PROCESSORS)
def test_what_was_long_on_its_way_is_late(kind, parameters):
    process, state = kind.open_processor(parameters), {}
    told(process, state, NOW_MS, NOW_MS)
    assert told(process, state, NOW_MS - 72 * HOUR_MS, NOW_MS + 60_000) == []
