"""Readings on a terminal: a table where it fits, else a line per channel, and nothing cut off."""

import math
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.aggregation import merge_series
from agent.wire.messages import Aggregate, Answer, AreaResult, ChannelAggregate, Coverage
from fleet.terminal.screen import unit_of
from tests.fleet.readings import NOW_MS, below, series, shown

NAN = math.nan
SPIKE, DRIFT = 8, 32
DAY_MS = 86_400_000


def answer(*results):
    areas = tuple(AreaResult(area, **{form: result}) for area, form, result in results)
    return Answer("q", "complete", 1.0, True, Coverage(len(areas), len(areas)), areas)


def clock(ms):
    return f"{datetime.fromtimestamp(ms / 1e3).astimezone():%d %b %H:%M}"


def test_several_sensors_are_a_line_per_channel():
    desk = series([20, 85, 21], flags=[0, SPIKE, DRIFT], ages=[0, 350, 0])
    roof = series([10, 11], start_ms=NOW_MS + 500, channel="temperature_roof")
    far = series([21, 22], start_ms=NOW_MS + 500, channel="humidity")
    given = answer(
        ("b1/r1", "series", merge_series(merge_series(desk, roof), far)),
        ("b1/r2", "series", desk),
    )
    words = "1 spike, 1 drift (the latest: drift); age up to 350 ms"
    assert shown(given, 120) == [
        "  channel           n  min mean  max last",
        f"b1/r1: {clock(NOW_MS)} to {clock(NOW_MS)}",
        "  humidity          2 21.0 21.5 22.0 22.0 %",
        f"  temperature       3 20.0 20.5 21.0 21.0 °C  {words}",
        "  temperature_roof  2 10.0 10.5 11.0 11.0 °C",
        f"b1/r2: {clock(NOW_MS)} to {clock(NOW_MS)}",
        f"  temperature       3 20.0 20.5 21.0 21.0 °C  {words}",
    ]
    narrow = shown(given)
    assert narrow[3:5] == ["  temperature       3 20.0 20.5 21.0 21.0 °C", f"      {words}"]
    assert below(given)[:4] == [
        "b1/r1      7 readings",
        "humidity            21.0   21.5   22.0 %",
        f"temperature         20.0   20.5   21.0 °C  {words}",
        "temperature_roof    10.0   10.5   11.0 °C",
    ]


def test_units_that_do_not_tell_two_channels_apart_are_no_heads_of_columns():
    desk, other = series([20]), series([10], channel="temperature_roof")
    given = answer(("b1/r1", "series", merge_series(desk, other)))
    assert [line.split() for line in shown(given)[2:]] == [
        ["temperature", "1", "20.0", "20.0", "20.0", "20.0", "°C"],
        ["temperature_roof", "1", "10.0", "10.0", "10.0", "10.0", "°C"],
    ]
    raw = answer(("b1/r1", "series", series([512], channel="temperature_raw")))
    assert shown(raw)[2] == "  temperature_raw  1 512.0 512.0 512.0 512.0"


@pytest.mark.parametrize(
    ("channel", "unit"),
    [
        ("temperature", "°C"),
        ("supply_temperature_roof", "°C"),
        ("pressure_hall", "hPa"),
        ("voltage", ""),
        ("temperature_raw", ""),
    ],
)
def test_a_unit_is_what_a_part_of_the_name_says(channel, unit):
    assert unit_of(channel) == unit


def test_a_dead_sensor_has_dashes_and_a_count():
    dead, good = ChannelAggregate(0, bad=30), ChannelAggregate(30, 1.0, 2.0, 3.0)
    aggregate = Aggregate(NOW_MS, NOW_MS, {"temperature": dead, "humidity_a": good, "light": good})
    assert shown(answer(("b1", "aggregate", aggregate)))[2:] == [
        "  humidity_a   30 1.0  2.0 3.0 %",
        "  light        30 1.0  2.0 3.0 lx",
        "  temperature  30   –    –   – °C  30 bad",
    ]
    [row] = below(answer(("b1", "aggregate", Aggregate(NOW_MS, NOW_MS, {"temperature": dead}))))
    assert row.split() == ["b1", "30", "readings", "–", "–", "–", "°C", "temperature", "30", "bad"]


words = st.text("abcdefgh_", min_size=1, max_size=30)
names = st.sampled_from(["temperature", "humidity", "co2", "temperature_x"]) | words


@given(st.lists(words, min_size=1, max_size=3, unique=True), st.sets(names, min_size=1, max_size=5))
def test_nothing_is_cut_off_on_a_narrow_terminal(rooms, channels):
    n = 123_456_789
    aggregate = Aggregate(
        NOW_MS, NOW_MS, {c: ChannelAggregate(n, -12_345.0, 0.5, 678_901.0) for c in channels}
    )
    given = answer(*((f"b1/{room}", "aggregate", aggregate) for room in rooms))
    for width in (40, 80, 120):
        text = "\n".join(shown(given, width))
        assert "…" not in text
        for word in (*(f"b1/{room}" for room in rooms), *channels, clock(NOW_MS)):
            assert word in text
        for word in (str(n), "-12345", "0.5", "678901"):
            assert text.count(word) >= len(rooms)


def test_only_what_is_a_replay_is_dated():
    recorded_ms = NOW_MS - 30 * DAY_MS
    day = f"{datetime.fromtimestamp(recorded_ms / 1e3).astimezone():%Y-%m-%d}"
    replay = series([20, 21], sources=[recorded_ms, recorded_ms + 5], channel="temperature_hall")
    live = series([50, 51, 52], start_ms=NOW_MS - 500, channel="humidity")
    *_, legend = shown(answer(("b1", "series", replay)))
    assert legend == f"°C temperature_hall; replayed now from a recording of {day}"
    for merged in (merge_series(replay, live), merge_series(live, replay)):
        assert merged.source_time_ms is not None
        pairs = zip(merged.time_ms.numbers(), merged.source_time_ms.numbers(), strict=True)
        assert sum(time == source for time, source in pairs) == 3
        *_, legend = shown(answer(("b1", "series", merged)))
        assert legend.endswith(f"; temperature_hall replayed now from a recording of {day}")
    assert "replayed" not in "\n".join(shown(answer(("b1", "series", live))))
    later = f"{datetime.fromtimestamp(recorded_ms / 1e3 + 7 * 86_400).astimezone():%Y-%m-%d}"
    week = series([20, 21], sources=[recorded_ms, recorded_ms + 7 * DAY_MS])
    *_, legend = shown(answer(("b1", "series", week)))
    assert legend.endswith(f"replayed now from a recording of {day} to {later}")


def test_times_that_no_calendar_has_are_called_unknown():
    far = series([20, 21], sources=[-(2**63), 2**63 - 1], start_ms=2**53 - 1_001)
    *_, legend = shown(answer(("b1/r1", "series", far)), 120)
    assert legend.endswith("replayed now from a recording of unknown time")
    shortly = Aggregate(
        1 - 2**53, 2**53 - 1, {"temperature": ChannelAggregate(1, 20.0, 20.0, 20.0)}
    )
    assert "unknown time" in "\n".join(shown(answer(("b1/r1", "aggregate", shortly)), 120))
