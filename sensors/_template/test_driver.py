"""Tests each fixture against its golden row; next to the driver, so that a copy has its test."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from sensors.base import Driver, Options, SensorError

from . import open_driver  # noqa: TID252 - a copy's name is its own

FIXTURES = Path(__file__).parent / "fixtures"
with (FIXTURES / "golden.csv").open(newline="") as file:
    GOLDEN = {row["file"]: row["processor_temperature"] for row in csv.DictReader(file)}


def opened(**options: str) -> Driver:
    return open_driver(Options("cpu", options, FIXTURES))


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.temp")))
def test_a_fixture_reads_as_its_golden_row_says(name: str) -> None:
    driver = opened(zone=name)
    try:
        assert driver.read().values == (float(GOLDEN[name]),)
    except SensorError as error:
        assert str(error) == f"{FIXTURES / name} {GOLDEN[name]}"  # noqa: PT017 - a golden row may be either
    assert [channel.name for channel in driver.channels] == ["processor_temperature"]
    assert list(driver.preload()) == []
    driver.close()


def test_a_zone_that_is_not_there_is_an_error_at_each_read() -> None:
    driver = opened(zone="none")
    for _ in range(2):
        with pytest.raises(SensorError, match="none: No such file or directory"):
            driver.read()


def test_a_wrong_option_is_one_line() -> None:
    with pytest.raises(SensorError, match=r"^cpu: unknown option zoen; did you mean zone\?$"):
        opened(zoen="none")
