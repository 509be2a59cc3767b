"""The synthetic driver repeats itself from its seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sensors import synthetic
from sensors.base import Reading, SensorError
from sensors.registry import open_driver

FIXTURES = Path(synthetic.__file__).parent / "fixtures"


def readings(n: int, **options: Any) -> list[Reading]:
    driver = open_driver("synthetic", options, Path())
    return [driver.read() for _ in range(n)]


def test_the_seed_decides() -> None:
    assert readings(50, seed=1) == readings(50, seed=1)
    assert readings(50, seed=1) != readings(50, seed=2)


def test_the_first_readings_are_the_golden_ones() -> None:
    golden = (FIXTURES / "golden.csv").read_text().splitlines()[1:]
    assert ["{:.9f},{:.9f}".format(*r.values) for r in readings(8, seed=1, period_s=8)] == golden


def test_without_noise_it_is_a_sine_over_the_period() -> None:
    temperatures = [reading.values[0] for reading in readings(5, noise=0, period_s=4)]
    assert temperatures == pytest.approx([21, 24, 21, 18, 21])


def test_preload_comes_before_the_first_reading() -> None:
    driver = open_driver("synthetic", {"seed": 3, "preload_rows": 4}, Path())
    preloaded = list(driver.preload())
    assert [n for n, _ in preloaded] == [4, 3, 2, 1]
    assert [reading for _, reading in preloaded] + [driver.read()] == readings(5, seed=3)


@pytest.mark.parametrize(
    "options", [{"noise": -1}, {"noise": "loud"}, {"period_s": 0}, {"noise": float("nan")}]
)
def test_a_wrong_option_is_one_line(options: dict[str, Any]) -> None:
    with pytest.raises(SensorError, match=r"^synthetic: "):
        readings(1, **options)
