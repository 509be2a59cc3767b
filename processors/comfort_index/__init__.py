"""Comfort index: how warm a room feels, from its temperature and humidity.

| index | source |
|---|---|
| `discomfort` | E. C. Thom, "The discomfort index", Weatherwise 12 (2), 1959 |
| `humidex` | J. M. Masterton, F. A. Richardson, "Humidex", Environment Canada CLI 1-79, 1979 |
| `heat_index` | L. P. Rothfusz, NWS Technical Attachment SR 90-23, 1990, with NWS's adjustments |
| `pmv` | P. O. Fanger, "Thermal Comfort", 1970; ISO 7730:2005, Annex D |
"""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

from msgspec import Meta

from agent.wire.base import Channel
from agent.wire.config import Section
from processors.base import Message, Output, Process, State, area_of, number, time_ms_of
from processors.comfort_index.fanger import pmv, ppd

Index = Literal["discomfort", "humidex", "heat_index", "pmv"]
# Below the first bound comes the first word, and so on.
BOUNDS: Final[dict[str, tuple[float, ...]]] = {
    "discomfort": (21.0, 24.0, 27.0, 29.0, 32.0),
    "humidex": (30.0, 40.0, 46.0),
    "heat_index": (27.0, 32.0, 41.0, 54.0),
    "pmv": (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5),
}
WORDS: Final[dict[str, tuple[str, ...]]] = {
    "discomfort": ("comfortable", "some", "half", "most", "everybody", "emergency"),
    "humidex": ("comfortable", "some_discomfort", "great_discomfort", "dangerous"),
    "heat_index": ("comfortable", "caution", "extreme_caution", "danger", "extreme_danger"),
    "pmv": ("cold", "cool", "slightly_cool", "neutral", "slightly_warm", "warm", "hot"),
}


class Parameters(Section, frozen=True):
    """Which index, and of which channels: degrees Celsius and per cent. The others are for `pmv`:
    metabolic rate (met), clothing (clo), speed of the air (m/s); the walls are as warm as the
    air."""

    index: Index = "discomfort"
    temperature: Channel = "temperature"
    humidity: Channel = "humidity"
    met: Annotated[float, Meta(ge=0.8, le=4.0)] = 1.2
    clo: Annotated[float, Meta(ge=0.0, le=2.0)] = 0.7
    air_m_s: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.1


def channels_of(parameters: Parameters) -> tuple[str, ...]:
    """The channels that it uses."""
    return parameters.temperature, parameters.humidity


def open_processor(parameters: Parameters) -> Process:
    """Build the processor, which keeps no state."""

    def process(message: Message, _state: State) -> list[Output]:
        celsius = number(message, parameters.temperature)
        percent = number(message, parameters.humidity)
        area = area_of(message)
        if not area or celsius is None or percent is None:
            return []
        if not -60.0 <= celsius <= 80.0 or not 0.0 <= percent <= 100.0:
            return []  # a broken sensor's values have no index
        output: Output = {"area": area, "time_ms": time_ms_of(message)}
        value = _index(parameters, celsius, percent)
        if not math.isfinite(value):
            return []
        output[parameters.index] = round(value, 2)
        if parameters.index == "pmv":
            output["ppd"] = round(ppd(value), 1)
        output["feels"] = word(parameters.index, value)
        output["dew_point"] = round(dew_point(celsius, percent), 2)
        return [output]

    return process


def _index(parameters: Parameters, celsius: float, percent: float) -> float:
    match parameters.index:
        case "discomfort":
            return discomfort(celsius, percent)
        case "humidex":
            return humidex(celsius, percent)
        case "heat_index":
            return heat_index(celsius, percent)
        case "pmv":
            given = parameters
            return pmv(celsius, celsius, given.air_m_s, percent, given.met, given.clo)


def word(index: str, value: float) -> str:
    """How it feels, in the words of the index's source."""
    above = sum(value >= bound for bound in BOUNDS[index])
    return WORDS[index][above]


def discomfort(celsius: float, percent: float) -> float:
    """Thom's discomfort index in °C: T − 0.55 (1 − 0.01 RH) (T − 14.5)."""
    return celsius - 0.55 * (1.0 - 0.01 * percent) * (celsius - 14.5)


def dew_point(celsius: float, percent: float) -> float:
    """Dew point in °C after Magnus, with the constants of O. A. Alduchov and R. E. Eskridge,
    "Improved Magnus form approximation of saturation vapor pressure", J. Appl. Meteor. 35, 1996.
    Below 1 % of humidity as at 1 %."""
    a, b = 17.625, 243.04
    x = math.log(max(percent, 1.0) / 100.0) + a * celsius / (b + celsius)
    return b * x / (a - x)


def humidex(celsius: float, percent: float) -> float:
    """Masterton and Richardson: T + 5/9 (e − 10), e the vapour pressure in hPa at the dew point."""
    dew_kelvin = dew_point(celsius, percent) + 273.15
    pressure_hpa = 6.11 * math.exp(5_417.7530 * (1 / 273.16 - 1 / dew_kelvin))
    return celsius + 5.0 / 9.0 * (pressure_hpa - 10.0)


def heat_index(celsius: float, percent: float) -> float:
    """Heat index in °C: Steadman's simple formula up to 80 °F, Rothfusz's regression above."""
    t, r = celsius * 1.8 + 32.0, percent
    simple = 0.5 * (t + 61.0 + (t - 68.0) * 1.2 + r * 0.094)
    if (simple + t) / 2 < 80.0:
        return ((simple + t) / 2 - 32.0) / 1.8
    index = (
        -42.379
        + 2.04901523 * t
        + 10.14333127 * r
        - 0.22475541 * t * r
        - 6.83783e-3 * t * t
        - 5.481717e-2 * r * r
        + 1.22874e-3 * t * t * r
        + 8.5282e-4 * t * r * r
        - 1.99e-6 * t * t * r * r
    )
    if r < 13.0 and 80.0 <= t <= 112.0:
        index -= (13.0 - r) / 4.0 * math.sqrt((17.0 - abs(t - 95.0)) / 17.0)
    elif r > 85.0 and 80.0 <= t <= 87.0:
        index += (r - 85.0) / 10.0 * (87.0 - t) / 5.0
    return (index - 32.0) / 1.8
