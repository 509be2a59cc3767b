"""Limits come from the table by quantity and unit, and a configuration's nonsense is refused."""

from __future__ import annotations

import math

import pytest

from sensors.quality.limits import DEFAULTS, INFINITY, Limits, limits_for, quantity_of


def test_a_known_quantity_has_its_defaults():
    assert limits_for("temperature", "celsius", {}) == DEFAULTS["temperature", "celsius"]


@pytest.mark.parametrize(
    ("channel", "quantity"),
    [
        ("temperature", "temperature"),
        ("temperature_roof", "temperature"),
        ("supply_temperature", "temperature"),
        ("co2", "co2"),
        ("water_level", "water_level"),
        ("temperatures", "temperatures"),
    ],
)
def test_the_quantity_is_a_part_of_the_channels_name(channel, quantity):
    assert quantity_of(channel) == quantity


@pytest.mark.parametrize(("name", "unit"), [("temperature", "fahrenheit"), ("flow", "l/s")])
def test_of_what_the_table_lacks_nothing_is_checked_but_what_is_given(name, unit):
    assert limits_for(name, unit, {}) == Limits()
    assert limits_for(name, unit, {"high": 90}) == Limits(high=90.0)


def test_overrides_replace_single_defaults_and_none_leaves_them():
    base = DEFAULTS["humidity", "percent"]
    given = limits_for("humidity", "percent", {"low": 20, "flat_s": None, "drift": INFINITY})
    assert given == base._replace(low=20.0, drift=INFINITY)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"low": 50.0, "high": 50.0}, "low = 50 must be below high = 50"),
        ({"high": -40.0}, "below high"),
        ({"low": math.nan}, "below high"),
        ({"max_step": -1.0}, "max_step must be 0 or more"),
        ({"max_rate_per_s": -0.1}, "max_rate_per_s must be 0 or more"),
        ({"max_rate_per_s": math.nan}, "max_rate_per_s must be 0 or more"),
        ({"drift": -2.0}, "drift must be 0 or more"),
        ({"flat_s": 0.0}, "flat_s must be above 0"),
        ({"flat_s": math.nan}, "flat_s must be above 0"),
        ({"hihg": 1.0}, "unknown limit hihg; known: low, high"),
    ],
)
def test_nonsense_is_refused_in_one_line_that_names_the_channel(overrides, said):
    with pytest.raises(ValueError, match=said) as caught:
        limits_for("temperature_roof", "celsius", overrides)
    assert str(caught.value).startswith("temperature_roof: ")
    assert "\n" not in str(caught.value)


def test_every_default_is_possible():
    for (quantity, unit), limits in DEFAULTS.items():
        assert limits_for(quantity, unit, {}) == limits
