"""Which channels of a node are held against each other, and what comes of it."""

from __future__ import annotations

from pathlib import Path

from agent.edge.sampling.colocated import ColocatedChannels
from agent.edge.sampling.sensor import Sensor, close_sensors, open_sensors
from agent.wire.edge_config import EdgeChannel, EdgeSensor
from sensors.quality.flags import DRIFT, GOOD, OUT_OF_RANGE

NAMES = ("one", "two", "three")
WEEK_S = 7 * 86_400


def sensors(*places: str, unit: str = "") -> tuple[Sensor, ...]:
    found = open_sensors(
        [
            EdgeSensor(
                driver="synthetic",
                name=name,
                place=place,
                interval_s=60.0,
                channels={
                    "temperature": EdgeChannel(name=f"t_{name}", unit=unit if n == 2 else ""),
                    "humidity": EdgeChannel(name=f"h_{name}"),
                },
            )
            for n, (name, place) in enumerate(zip(NAMES, places, strict=True))
        ],
        Path(),
    )
    close_sensors(found)
    return found


def flagged(colocated: ColocatedChannels, third: float) -> set[str]:
    """The temperatures flagged in a week in which the third sensor is off by so much."""
    found = set()
    for minute in range(WEEK_S // 60):
        for name, value in zip(NAMES, (20.0, 20.5, 20.0 + third), strict=True):
            if colocated.check(f"t_{name}", minute * 60.0, value, GOOD) == DRIFT:
                found.add(name)
    return found


def test_sensors_in_one_place_name_the_one_that_is_off() -> None:
    assert flagged(ColocatedChannels(sensors("desk", "desk", "desk")), 45.0) == {"three"}
    assert flagged(ColocatedChannels(sensors("desk", "desk", "desk")), 1.0) == set()


def test_a_sensor_elsewhere_or_without_a_place_may_differ() -> None:
    assert flagged(ColocatedChannels(sensors("desk", "desk", "roof")), 45.0) == set()
    assert flagged(ColocatedChannels(sensors("", "", "")), 45.0) == set()


def test_other_units_are_not_compared() -> None:
    assert (
        flagged(ColocatedChannels(sensors("desk", "desk", "desk", unit="fahrenheit")), 45.0)
        == set()
    )


def test_bad_values_say_nothing_of_the_others() -> None:
    colocated = ColocatedChannels(sensors("desk", "desk", "desk"))
    for minute in range(WEEK_S // 60):
        for name, value, flags in (
            ("one", 20.0, GOOD),
            ("two", 20.5, GOOD),
            ("three", 900.0, OUT_OF_RANGE),
        ):
            assert colocated.check(f"t_{name}", minute * 60.0, value, flags) == GOOD
