"""Units of channels, as drivers name them, and the signs that people write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SIGNS: Final[Mapping[str, str]] = {
    "celsius": "°C",
    "kelvin": "K",
    "percent": "%",
    "ppm": "ppm",
    "lux": "lx",
    "hectopascal": "hPa",
}
# Of quantities for which nobody tells a unit.
UNITS: Final[Mapping[str, str]] = {
    "temperature": "celsius",
    "humidity": "percent",
    "co2": "ppm",
    "light": "lux",
    "pressure": "hectopascal",
}


def sign_of(unit: str) -> str:
    """The sign of a unit, or its name."""
    return SIGNS.get(unit, unit)


def usual_sign(quantity: str) -> str:
    """The sign of a quantity's unit where nobody tells it; empty if unknown."""
    return sign_of(UNITS.get(quantity, ""))
