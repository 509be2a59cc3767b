"""Formulas of comfort, against the tables of their sources."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.comfort_index import BOUNDS, WORDS, dew_point, discomfort, heat_index, humidex, word
from processors.comfort_index.fanger import pmv, ppd


@pytest.mark.parametrize(
    ("air", "radiant", "speed", "percent", "met", "clo", "vote", "dissatisfied"),
    [
        # Rows of ISO 7730:2005, Table D.1
        (22.0, 22.0, 0.10, 60, 1.2, 0.5, -0.75, 17),
        (27.0, 27.0, 0.10, 60, 1.2, 0.5, 0.77, 17),
        (27.0, 27.0, 0.30, 60, 1.2, 0.5, 0.44, 9),
        (23.5, 25.5, 0.10, 60, 1.2, 0.5, -0.01, 5),
        (23.5, 25.5, 0.30, 60, 1.2, 0.5, -0.55, 11),
        (19.0, 19.0, 0.10, 40, 1.2, 1.0, -0.60, 13),
        (23.5, 23.5, 0.30, 40, 1.2, 1.0, 0.12, 5),
        (23.0, 21.0, 0.10, 40, 1.2, 1.0, 0.05, 5),
        (23.0, 21.0, 0.30, 40, 1.2, 1.0, -0.16, 6),
        (22.0, 22.0, 0.10, 60, 1.6, 0.5, 0.05, 5),
        (27.0, 27.0, 0.10, 60, 1.6, 0.5, 1.17, 34),
        (27.0, 27.0, 0.30, 60, 1.6, 0.5, 0.95, 24),
    ],
)
def test_votes_are_those_of_the_standard(
    air, radiant, speed, percent, met, clo, vote, dissatisfied
):
    found = pmv(air, radiant, speed, percent, met, clo)
    assert found == pytest.approx(vote, abs=0.1)
    assert ppd(vote) == pytest.approx(dissatisfied, abs=1.0)


@pytest.mark.parametrize(
    ("fahrenheit", "percent", "index"),
    # The chart of the US National Weather Service.
    [(80, 40, 80), (90, 50, 95), (96, 50, 108), (100, 40, 109), (86, 90, 105), (110, 40, 136)],
)
def test_heat_index_is_that_of_the_chart(fahrenheit, percent, index):
    found = heat_index((fahrenheit - 32) / 1.8, percent)
    assert found * 1.8 + 32 == pytest.approx(index, abs=1.0)


@pytest.mark.parametrize(
    ("celsius", "dew", "index"),
    # The table of Environment Canada, by temperature and dew point.
    [(30, 15, 34), (30, 25, 42), (35, 20, 43), (25, 10, 26)],
)
def test_humidex_is_that_of_the_table(celsius, dew, index):
    a, b = 17.625, 243.04
    percent = 100 * math.exp(a * dew / (b + dew) - a * celsius / (b + celsius))
    assert dew_point(celsius, percent) == pytest.approx(dew, abs=1e-9)
    assert humidex(celsius, percent) == pytest.approx(index, abs=1.0)


def test_discomfort_is_thoms():
    assert discomfort(30.0, 100.0) == 30.0
    assert discomfort(30.0, 50.0) == pytest.approx(30.0 - 0.275 * 15.5)
    assert discomfort(14.5, 7.0) == 14.5


def test_every_value_has_a_word():
    assert set(BOUNDS) == set(WORDS)
    for index, bounds in BOUNDS.items():
        assert list(bounds) == sorted(bounds)
        assert len(WORDS[index]) == len(bounds) + 1
        words = [word(index, value) for value in (-1e9, *bounds)]
        assert tuple(words) == WORDS[index]


@given(st.floats(-60, 80), st.floats(0, 100))
def test_any_air_has_its_indices(celsius, percent):
    for value in (
        discomfort(celsius, percent),
        humidex(celsius, percent),
        heat_index(celsius, percent),
        dew_point(celsius, percent),
    ):
        assert math.isfinite(value)
    assert dew_point(celsius, percent) <= celsius + 1e-6
