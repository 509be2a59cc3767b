"""The score against a plain computation, and that a fault does not become usual at once."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.anomaly import Parameters, open_processor


def run(values, **given):
    process, state = open_processor(Parameters(slots=1, **given)), {}
    return [
        list(process({"area": "b1", "time_ms": i * 1_000, "temperature": value}, state))
        for i, value in enumerate(values)
    ]


@given(st.lists(st.floats(-40, 60), min_size=3, max_size=60))
def test_the_score_is_the_distance_in_deviations(values):
    found = run(values, every=True, least=2, weight=1e-9, clip=100.0, resolution=1.0)
    seen: list[float] = []
    for value, outputs in zip(values, found, strict=True):
        if len(seen) < 2:
            assert outputs == []
        else:
            mean = sum(seen) / len(seen)
            deviation = math.sqrt(sum((each - mean) ** 2 for each in seen) / len(seen))
            assert outputs[0]["usual"] == pytest.approx(mean, abs=2e-3)
            expected = (value - mean) / max(deviation, 1.0)
            assert outputs[0]["score"] == pytest.approx(expected, abs=0.02)
        seen.append(value)


def test_a_stuck_fault_stays_unusual_for_a_while():
    steady = [20.0 + 0.1 * (i % 3) for i in range(100)]
    found = run([*steady, *[40.0] * 50])
    assert all(outputs and outputs[0]["unusual"] for outputs in found[100:150])


def test_the_end_of_it_is_told_once():
    steady = [20.0 + 0.1 * (i % 3) for i in range(100)]
    found = run([*steady, 40.0, *steady[:5]])
    assert [len(outputs) for outputs in found[100:]] == [1, 1, 0, 0, 0, 0]
    assert found[101][0]["unusual"] is False
