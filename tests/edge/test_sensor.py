"""Sensors as configured: names, calibration, limits, and one line for what cannot be."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from agent.edge.sampling.sensor import Sensor, close_sensors, open_sensors
from agent.wire.config import ConfigError
from agent.wire.edge_config import EdgeChannel, EdgeSensor
from sensors.base import Channel, SensorError


def sensor(name: str = "", **channels: EdgeChannel) -> EdgeSensor:
    return EdgeSensor(driver="synthetic", name=name, channels=channels)


RENAMED = {
    "temperature": EdgeChannel(name="temperature_roof"),
    "humidity": EdgeChannel(name="humidity_roof"),
}


def opened(*settings: EdgeSensor) -> tuple[Sensor, ...]:
    found = open_sensors(settings, Path())
    close_sensors(found)
    return found


def test_a_plain_sensor_is_what_its_driver_says() -> None:
    [found] = opened(sensor())
    assert found.name == "synthetic"
    assert [(c.name, c.unit) for c in found.channels] == [
        ("temperature", "celsius"),
        ("humidity", "percent"),
    ]
    assert not found.calibrated
    assert found.channels[0].limits.drift > 0


def test_calibration_is_gain_then_offset() -> None:
    [found] = opened(sensor(temperature=EdgeChannel(gain=1.8, offset=32.0, unit="fahrenheit")))
    assert found.calibrated
    assert found.calibrate((100.0, 50.0)) == (212.0, 50.0)
    assert math.isnan(found.calibrate((math.nan, 1.0))[0])
    # No default of celsius holds for another unit.
    assert found.channels[0].limits.max_step == math.inf
    assert found.channels[0].unit == "fahrenheit"


def test_limits_of_the_configuration_take_the_place_of_the_defaults() -> None:
    [found] = opened(sensor(temperature=EdgeChannel(low=5.0, high=35.0)))
    assert found.channels[0].limits[:2] == (5.0, 35.0)


def test_two_sensors_of_one_kind_need_other_names() -> None:
    _, roof = opened(sensor("yard"), sensor("roof", **RENAMED))
    assert [c.name for c in roof.channels] == ["temperature_roof", "humidity_roof"]
    with pytest.raises(ConfigError) as refused:
        opened(sensor("yard"), sensor("roof"))
    assert str(refused.value) == (
        "channel temperature is one of sensor yard and of sensor roof; give one another name: "
        "below [[sensor]], [sensor.channels.temperature] name = …"
    )


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            sensor(temprature=EdgeChannel()),
            "sensor.channels.temprature: synthetic has no such channel; did you mean temperature?",
        ),
        (
            sensor(temperature=EdgeChannel(low=9.0, high=5.0)),
            "sensor.channels.temperature: low = 9 must be below high = 5",
        ),
        (
            sensor(temperature=EdgeChannel(low=70.0)),
            "low = 70 must be below high = 60 (the default of temperature)",
        ),
        (
            sensor(temperature=EdgeChannel(high=-50.0)),
            "low = -40 (the default of temperature) must be below high = -50",
        ),
        (
            sensor(temperature=EdgeChannel(name="t_raw")),
            "channel t_raw: names ending in _raw are those of uncalibrated values",
        ),
        (
            sensor(temperature=EdgeChannel(name="humidity")),
            "sensor synthetic has two channels called humidity: give one another name",
        ),
    ],
)
def test_one_line_says_what_cannot_be(settings: EdgeSensor, line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        opened(settings)
    assert line in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (
            EdgeSensor(driver="synthetic", name="b", options={"nois": 1}),
            "sensor b (second [[sensor]]): synthetic: unknown option nois; did you mean noise?",
        ),
        (
            sensor("b", temperature=EdgeChannel(low=9.0, high=5.0)),
            "sensor b (second [[sensor]]): sensor.channels.temperature: low = 9 must be below",
        ),
        (
            sensor("b", temprature=EdgeChannel()),
            "sensor b (second [[sensor]]): sensor.channels.temprature: b has no such channel; ",
        ),
    ],
)
def test_with_several_sensors_the_line_says_which(wrong: EdgeSensor, line: str) -> None:
    with pytest.raises((ConfigError, SensorError)) as refused:
        opened(sensor("a"), wrong, sensor("c"))
    assert str(refused.value).startswith(line)


def test_what_was_opened_before_the_error_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []

    def close(driver: object) -> None:
        closed.append(driver)

    monkeypatch.setattr("sensors.synthetic.Synthetic.close", close)
    with pytest.raises(SensorError):
        open_sensors([sensor(), EdgeSensor(driver="nonesuch")], Path())
    assert len(closed) == 1


def test_a_name_that_no_message_can_have_is_told_before_the_node_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channels = (Channel("Soil moisture", "percent", 0.0, 100.0),)
    monkeypatch.setattr("sensors.synthetic.Synthetic.channels", channels)
    with pytest.raises(ConfigError) as refused:
        opened(sensor())
    assert str(refused.value) == (
        "synthetic gives a channel 'Soil moisture'; the name of a channel has lower-case letters, "
        "digits and _, a letter first, 32 at most"
    )
    renamed = EdgeSensor("synthetic", channels={"Soil moisture": EdgeChannel(name="moisture")})
    assert [each.name for each in opened(renamed)[0].channels] == ["moisture"]
