"""Pulse trains through adafruit_dht's own decoder: what the driver makes of them."""

from __future__ import annotations

import array
import csv
from pathlib import Path
from typing import Any

import pytest

from sensors import dht
from sensors.base import ChecksumError, SensorError
from sensors.dht.adafruit import Adafruit
from tests.sensors import dht_frames
from tests.sensors.dht_frames import played

FIXTURES = Path(dht.__file__).parent / "fixtures"
ERRORS = {"checksum": ChecksumError, "no_response": SensorError}


def rows(name: str) -> list[dict[str, str]]:
    with (FIXTURES / name).open(newline="") as file:
        return list(csv.DictReader(file))


PULSES = {row["name"]: row for row in rows("pulses.csv")}


@pytest.mark.parametrize("row", rows("golden.csv"), ids=lambda row: row["name"])
def test_a_train_gives_what_is_expected(row: dict[str, str]) -> None:
    train = PULSES[row["name"]]
    sensor = played(train["model"], list(map(int, train["pulses_us"].split())))
    if row["error"]:
        with pytest.raises(ERRORS[row["error"]], match=row["text"]) as caught:
            sensor.measure()
        assert type(caught.value) is ERRORS[row["error"]]
    else:
        assert sensor.measure() == (float(row["temperature"]), float(row["humidity"]))


def test_every_train_has_its_expectation() -> None:
    assert list(PULSES) == [row["name"] for row in rows("golden.csv")]


def test_the_trains_are_made_as_it_says() -> None:
    assert (FIXTURES / "pulses.csv").read_text().splitlines() == dht_frames.lines()


def test_nothing_is_repeated_within_two_seconds() -> None:
    """An object of the library gives the last values again, even after a failed start."""
    manual = list(map(int, PULSES["manual"]["pulses_us"].split()))
    flipped = list(map(int, PULSES["flipped_bit"]["pulses_us"].split()))
    pulses = list(manual)
    sensor = played("dht22", pulses)
    library = sensor._device(None, use_pulseio=False)
    assert sensor.measure() == (library.temperature, library.humidity) == (35.1, 65.2)
    pulses[:] = flipped
    assert (library.temperature, library.humidity) == (35.1, 65.2)  # stale, and silent about it
    with pytest.raises(ChecksumError):
        sensor.measure()


def test_a_pulse_beyond_sixteen_bits_is_damage() -> None:
    class Long:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.exited = False

        @property
        def temperature(self) -> float:
            return float(array.array("H", [70_000])[0])

        def exit(self) -> None:
            self.exited = True

    with pytest.raises(ChecksumError, match="too long"):
        Adafruit(Long, None, use_pulseio=None, power=None).measure()
