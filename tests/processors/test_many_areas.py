"""More areas than a topic may have: whoever invents them takes no place for good."""

from __future__ import annotations

import pytest

from agent.wire.processor_limits import AREA_KEPT_S, MAX_AREAS
from processors import anomaly, forecast, threshold
from processors.base import of_area

NOW_MS = 1_800_000_000_000
HOUR_MS = round(AREA_KEPT_S * 1e3)
KINDS = [
    (threshold, threshold.Parameters(when="t > 30", window_s=1.0)),
    (forecast, forecast.Parameters(channel="t", horizon_s=10.0)),
    (anomaly, anomaly.Parameters(channel="t", every=True, least=2)),
]


def message(area, at_ms, **more):
    return {"area": area, "time_ms": at_ms, "received_ms": at_ms, "t": 35.0, **more}


@pytest.mark.parametrize(("kind", "parameters"), KINDS)
def test_an_area_that_is_silent_for_an_hour_makes_room(kind, parameters):
    process, state = kind.open_processor(parameters), {}
    for n in range(MAX_AREAS):
        process(message(f"eve/{n}", NOW_MS), state)
    at_ms = NOW_MS + HOUR_MS
    told = []
    for n in range(4):
        told += process(message("b1", at_ms + 60_000 * n), state)
    assert told
    assert len(state["areas"]) == len(state["heard"]) == MAX_AREAS


def test_one_that_is_heard_of_stays():
    state = {}
    for n in range(MAX_AREAS):
        of_area(state, message(f"b1/{n}", NOW_MS))
    of_area(state, message("b1/0", NOW_MS + HOUR_MS - 1))["kept"] = True
    assert of_area(state, message("eve", NOW_MS + HOUR_MS - 1)) is None
    for n in range(MAX_AREAS - 1):
        assert of_area(state, message(f"eve/{n}", NOW_MS + HOUR_MS)) is not None
    assert of_area(state, message("eve", NOW_MS + HOUR_MS)) is None
    assert of_area(state, message("b1/0", NOW_MS + HOUR_MS)) == {"kept": True}


def test_areas_heard_of_by_a_clock_that_was_ahead_make_room():
    state = {}
    for n in range(MAX_AREAS):
        of_area(state, message(f"b1/{n}", NOW_MS + 9 * HOUR_MS))
    assert of_area(state, message("b2", NOW_MS)) == {}


def test_a_state_of_an_earlier_version_goes_on():
    state = {"areas": {f"b1/{n}": {"n": n} for n in range(MAX_AREAS)}}
    assert of_area(state, message("b1/7", NOW_MS)) == {"n": 7}
    assert of_area(state, message("b2", NOW_MS)) is None
    assert of_area(state, message("b2", NOW_MS + HOUR_MS)) == {}
