"""Mould: tells when the air at a cold wall has been too humid for long."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any


def process(
    message: dict[str, Any],
    state: dict[str, Any],
    *,
    wall_celsius: float = 14.0,
    limit_percent: float = 80.0,
    hours: float = 6.0,
) -> Iterator[dict[str, Any]]:
    """One output when the humidity at the wall has been above the limit for so many hours, and one
    when it no longer is."""
    if "temperature" not in message or "humidity" not in message:
        return
    room = state.setdefault(message["area"], {"since_ms": None, "told": False})
    percent = message["humidity"] * saturation(message["temperature"]) / saturation(wall_celsius)
    if percent < limit_percent:
        room["since_ms"] = None
    elif room["since_ms"] is None:
        room["since_ms"] = message["time_ms"]
    long = (
        room["since_ms"] is not None and message["time_ms"] - room["since_ms"] >= hours * 3_600_000
    )
    if long != room["told"]:
        room["told"] = long
        yield {
            "area": message["area"],
            "time_ms": message["time_ms"],
            "mould_risk": long,
            "wall_humidity": round(min(percent, 100.0), 1),
        }


def saturation(celsius: float) -> float:
    """Saturation vapour pressure in hPa, after Magnus."""
    return 6.112 * math.exp(17.625 * celsius / (celsius + 243.04))
