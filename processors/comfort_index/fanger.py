"""Fanger's predicted mean vote (PMV) and predicted percentage dissatisfied (PPD), ISO 7730:2005."""

from __future__ import annotations

import math
from typing import Final

WATTS_PER_MET: Final = 58.15
INSULATION_PER_CLO: Final = 0.155  # m² K / W
ROUNDS: Final = 150
CLOSE_ENOUGH: Final = 1.5e-4


def pmv(
    air_celsius: float,
    radiant_celsius: float,
    air_m_s: float,
    percent: float,
    met: float,
    clo: float,
) -> float:
    """Predicted mean vote, from −3 (cold) to +3 (hot), without external work; NaN if the surface
    temperature of the clothing does not converge. ISO 7730 Eq. 1 to 4."""
    vapour_pa = percent * 10.0 * math.exp(16.6536 - 4_030.183 / (air_celsius + 235.0))
    insulation = INSULATION_PER_CLO * clo
    heat = met * WATTS_PER_MET
    covered = 1.0 + 1.29 * insulation if insulation <= 0.078 else 1.05 + 0.645 * insulation
    forced = 12.1 * math.sqrt(air_m_s)
    air, radiant = air_celsius + 273.0, radiant_celsius + 273.0
    surface = _surface(air, radiant, heat, insulation, covered, forced)
    if surface is None:
        return math.nan
    celsius = surface * 100.0 - 273.0
    natural = 2.38 * abs(surface * 100.0 - air) ** 0.25
    skin = 3.05e-3 * (5_733.0 - 6.99 * heat - vapour_pa)
    sweat = 0.42 * (heat - WATTS_PER_MET) if heat > WATTS_PER_MET else 0.0
    latent_breath = 1.7e-5 * heat * (5_867.0 - vapour_pa)
    dry_breath = 1.4e-3 * heat * (34.0 - air_celsius)
    radiation = 3.96 * covered * (surface**4 - (radiant / 100.0) ** 4)
    convection = covered * max(forced, natural) * (celsius - air_celsius)
    lost = skin + sweat + latent_breath + dry_breath + radiation + convection
    return float((0.303 * math.exp(-0.036 * heat) + 0.028) * (heat - lost))


def ppd(vote: float) -> float:
    """Predicted percentage of dissatisfied, ISO 7730 Eq. 5."""
    return 100.0 - 95.0 * math.exp(-0.03353 * vote**4 - 0.2179 * vote**2)


def _surface(
    air: float, radiant: float, heat: float, insulation: float, covered: float, forced: float
) -> float | None:
    """Surface temperature of the clothing in hundreds of kelvin, by iteration."""
    p1 = insulation * covered
    p2, p3, p4 = p1 * 3.96, p1 * 100.0, p1 * air
    p5 = 308.7 - 0.028 * heat + p2 * (radiant / 100.0) ** 4
    guess = (air + (35.5 - (air - 273.0)) / (3.5 * (6.45 * insulation + 0.1))) / 100.0
    before = guess / 2.0
    found = guess
    for _ in range(ROUNDS):
        if abs(found - before) <= CLOSE_ENOUGH:
            return found
        before = (before + found) / 2.0
        convection = max(forced, 2.38 * abs(100.0 * before - air) ** 0.25)
        found = (p5 + p4 * convection - p2 * before**4) / (100.0 + p3 * convection)
    return None
