"""What `fleet up --sensor` takes."""

import pytest

from fleet.simulation.layout import PRELOAD_ROWS
from fleet.up.sensor import area_of, node_of, sensor, setting, triggers


def test_a_dht_is_named_by_its_model_and_its_pin():
    found = sensor("dht22:D4")
    assert (found.driver, found.interval_s) == ("dht", 2.5)
    assert found.options == {"model": "dht22", "pin": "D4"}
    assert (area_of(found), node_of("dht22:D4")) == ("home/room", "dht22-D4")


def test_the_default_is_a_recorded_room_where_it_is():
    rows = {"start_row": PRELOAD_ROWS, "preload_rows": PRELOAD_ROWS}
    assert sensor("replay").options == {**rows, "room": "640"}
    assert area_of(sensor("replay")) == "b1/f6/r640"
    assert area_of(sensor("replay:413")) == "b1/f4/r413"


def test_options_are_those_of_the_driver():
    settings = [setting("format=csv"), setting("baud=115200"), setting('channels=[{name="t"}]')]
    found = sensor("serial_line:/dev/ttyUSB0", settings, 2.0)
    assert found.interval_s == 2.0
    assert found.options == {
        "port": "/dev/ttyUSB0",
        "format": "csv",
        "baud": 115_200,
        "channels": [{"name": "t"}],
    }
    assert node_of("serial_line:/dev/ttyUSB0") == "serial_line-dev-ttyUSB0"


def test_a_driver_of_ones_own_has_all_its_options_by_name():
    assert sensor("soil", [("depth_cm", 20)]).options == {"depth_cm": 20}


@pytest.mark.parametrize("text", ["soil:3", "dht22:", ":D4"])
def test_what_a_colon_cannot_say_is_told_with_what_can(text):
    with pytest.raises(ValueError, match="dht22:PIN, dht11:PIN, iio:DEVICE"):
        sensor(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dht22", "dht22 needs its pin; write dht22:D4"),
        ("dht11", "dht11 needs its pin; write dht11:D4"),
        ("serial_line", "serial_line needs its port; write serial_line:/dev/ttyUSB0"),
    ],
)
def test_what_a_driver_needs_is_said_as_it_is_typed(text, says):
    with pytest.raises(ValueError, match=f"^{says}$"):
        sensor(text)
    assert sensor("dht22", [("pin", "D4")]).options["pin"] == "D4"


@pytest.mark.parametrize("text", ["pin", "=D4", "a b=1"])
def test_a_setting_is_a_name_and_a_value(text):
    with pytest.raises(ValueError, match="is not name=value"):
        setting(text)


def test_a_recordings_trigger_goes_with_its_interval():
    [usual] = triggers(sensor("replay"), ["temperature", "humidity"])
    assert (usual.condition, usual.window_s) == ("rate(humidity) > 0.2/min", 2.5)
    [slow] = triggers(sensor("replay", (), 5.0), ["temperature", "humidity"])
    assert (slow.condition, slow.clear) == (
        "rate(humidity) > 0.04/min",
        "rate(humidity) < -0.04/min",
    )
    assert slow.window_s == 12.5
    assert triggers(sensor("replay"), ["temperature"]) == ()
    assert triggers(sensor("replay", (), 40_000.0), ["humidity"]) == ()
    assert triggers(sensor("synthetic"), ["temperature", "humidity"]) == ()


def test_a_sensor_is_read_once_a_day_at_least():
    with pytest.raises(ValueError, match="at least once a day"):
        sensor("synthetic", (), 2 * 86_400.0)
