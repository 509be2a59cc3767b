"""The forecast against a plain computation at even times, and its limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.forecast import Parameters, open_processor


def run(values, step_s=5.0, **given):
    process, state = open_processor(Parameters(**given)), {}
    outputs = []
    for i, value in enumerate(values):
        message = {"area": "b1", "time_ms": round(i * step_s * 1e3), "temperature": value}
        outputs += process(message, state)
    return outputs


@given(
    values=st.lists(st.floats(-40, 60), min_size=3, max_size=40),
    alpha=st.floats(0.01, 1.0),
    beta=st.floats(0.01, 1.0),
    damping=st.floats(0.5, 1.0),
    steps=st.integers(1, 50),
)
def test_it_is_holts_with_a_damped_trend(values, alpha, beta, damping, steps):
    found = run(
        values, horizon_s=steps * 5.0, alpha=alpha, beta=beta, damping=damping, interval_s=5.0
    )
    level, trend = values[1], values[1] - values[0]
    for value, output in zip(values[2:], found, strict=True):
        expected = level + damping * trend
        new = alpha * value + (1 - alpha) * expected
        trend = beta * (new - level) + (1 - beta) * damping * trend
        level = new
        ahead = level + trend * sum(damping**k for k in range(1, steps + 1))
        assert output["temperature"] == pytest.approx(ahead, abs=2e-3)
        assert output["low"] <= output["temperature"] <= output["high"]


def test_a_steady_rise_goes_on():
    (*_, last) = run([20.0 + 0.1 * i for i in range(50)], horizon_s=50.0, damping=1.0)
    assert last["temperature"] == pytest.approx(20.0 + 0.1 * 59, abs=1e-3)
    assert last["high"] - last["low"] == pytest.approx(0.0, abs=2e-3)


def test_readings_half_as_often_weigh_as_much_together():
    wave = [20.0, 20.0, 20.0, 21.0, 21.0, 21.0, 21.0, 21.0, 21.0]
    often = run(wave, step_s=2.5, beta=1e-9, damping=1.0)[-1]["temperature"]
    seldom = run(wave[::2], step_s=5.0, beta=1e-9, damping=1.0)[-1]["temperature"]
    assert often == pytest.approx(seldom, abs=0.2)
