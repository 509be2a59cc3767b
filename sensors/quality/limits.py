"""Limits of the quality checks: defaults by quantity, and overrides from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

INFINITY: Final = float("inf")


class Limits(NamedTuple):
    """Plausibility limits of one channel, in its calibrated unit; infinite disables a limit.

    `low`, `high`: the range of plausible values. `max_step` and `max_rate_per_s`: two readings dt
    seconds apart may differ by at most max_step + max_rate_per_s · dt. `flat_s`: how long the value
    may stay exactly the same. `drift`: how far the difference from co-located channels may shift in
    the long run.
    """

    low: float = -INFINITY
    high: float = INFINITY
    max_step: float = INFINITY
    max_rate_per_s: float = INFINITY
    flat_s: float = INFINITY
    drift: float = INFINITY


# For sensors in rooms; docs/understand/quality.md says where each number comes from.
DEFAULTS: Final[Mapping[tuple[str, str], Limits]] = {
    ("temperature", "celsius"): Limits(-40.0, 60.0, 2.0, 0.01, 86_400.0, 1.5),
    ("humidity", "percent"): Limits(2.0, 100.0, 8.0, 0.05, 21_600.0, 6.0),
    ("co2", "ppm"): Limits(200.0, 10_000.0, 300.0, 3.0, 7_200.0, 200.0),
    ("light", "lux"): Limits(0.0, 200_000.0, 1_000.0, 5.0, 86_400.0, 300.0),
    ("pressure", "hectopascal"): Limits(500.0, 1_100.0, 2.0, 0.02, 86_400.0, 3.0),
}
_QUANTITIES: Final = frozenset(quantity for quantity, _ in DEFAULTS)


def quantity_of(channel: str) -> str:
    """The quantity in a channel's name: `temperature` for `temperature_roof` or
    `supply_temperature`; the name itself if no part of it is in the table."""
    return next((part for part in channel.split("_") if part in _QUANTITIES), channel)


def limits_for(quantity: str, unit: str, overrides: Mapping[str, float | None]) -> Limits:
    """The defaults of `quantity` (or a channel's name) in `unit`, replaced by `overrides` by field
    name; None keeps the default.

    For a quantity or unit outside the table only `overrides` are checked. ValueError in one line
    for an unknown field, and for limits that no value or every value would exceed.
    """
    for field in overrides:
        if field not in Limits._fields:
            known = ", ".join(Limits._fields)
            raise ValueError(f"{quantity}: unknown limit {field}; known: {known}")
    given = {field: float(value) for field, value in overrides.items() if value is not None}
    limits = DEFAULTS.get((quantity_of(quantity), unit), Limits())._replace(**given)
    if not limits.low < limits.high:
        low, high = [
            f"{field} = {getattr(limits, field):g}"
            + ("" if field in given else f" (the default of {quantity_of(quantity)})")
            for field in ("low", "high")
        ]
        raise ValueError(f"{quantity}: {low} must be below {high}")
    for field in ("max_step", "max_rate_per_s", "drift"):
        if not getattr(limits, field) >= 0:
            raise ValueError(f"{quantity}: {field} must be 0 or more; 1e9 turns the check off")
    if not limits.flat_s > 0:
        raise ValueError(f"{quantity}: flat_s must be above 0; 1e9 turns the check off")
    return limits
