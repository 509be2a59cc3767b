"""Argument of `fleet up --sensor`: a driver, and its sensor's address; pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from typing import Any, Final

from msgspec import Struct

from agent.wire.config import DAY_S
from agent.wire.edge_config import EdgeSensor, EdgeTrigger
from fleet.simulation.layout import PRELOAD_ROWS, building_fleet

# Its humidity rises and falls several times a minute, so that alerts come.
ROOM: Final = "640"
# The area of a sensor that was given none.
HERE: Final = "home/room"


class Kind(Struct, frozen=True):
    """A driver by the name that a user knows: the option that stands behind the colon, options that
    the name implies, and the seconds from one reading to the next. `example`: the driver needs that
    option; this is one."""

    driver: str
    colon: str
    options: dict[str, Any] = {}
    interval_s: float = 1.0
    example: str = ""


# Of a replayed room, per reading: a minute of the recording. A rate is taken over three of them,
# even if they are slightly more than an interval apart.
HUMIDITY_STEP: Final = 0.2
READINGS_IN_RATE: Final = 2.5

KINDS: Final = {
    "replay": Kind("replay", "room", {"start_row": PRELOAD_ROWS, "preload_rows": PRELOAD_ROWS}),
    "dht22": Kind("dht", "pin", {"model": "dht22"}, 2.5, "D4"),
    "dht11": Kind("dht", "pin", {"model": "dht11"}, 2.5, "D4"),
    "iio": Kind("iio", "device", {}, 2.5),
    "serial_line": Kind("serial_line", "port", example="/dev/ttyUSB0"),
    "synthetic": Kind("synthetic", "seed"),
}


def sensor(
    text: str, settings: Iterable[tuple[str, Any]] = (), interval_s: float | None = None
) -> EdgeSensor:
    """The sensor that `text` says, such as dht22:D4: a name of `KINDS`, or of any driver, which has
    all its options in `settings`. ValueError in one line."""
    name, colon, value = text.partition(":")
    kind = KINDS.get(name, Kind(name, ""))
    options = dict(kind.options)
    if colon and not (kind.colon and value):
        known = ", ".join(f"{each}:{KINDS[each].colon.upper()}" for each in KINDS)
        raise ValueError(f"{text!r} is no sensor; write {known}, or a driver's name with --set")
    if value:
        options[kind.colon] = setting(f"{kind.colon}={value}")[1]
    elif name == "replay":
        options["room"] = ROOM
    options |= dict(settings)
    if kind.example and kind.colon not in options:
        raise ValueError(f"{name} needs its {kind.colon}; write {name}:{kind.example}")
    if interval_s is not None and interval_s > DAY_S:
        raise ValueError("a sensor is read at least once a day: --every 1d")
    return EdgeSensor(driver=kind.driver, interval_s=interval_s or kind.interval_s, options=options)


def setting(text: str) -> tuple[str, Any]:
    """``name=value``, where the value is TOML's, or else a text. ValueError in one line."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"{text!r} is not name=value; write depth_cm=20")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def triggers(found: EdgeSensor, channels: Collection[str]) -> tuple[EdgeTrigger, ...]:
    """Triggers of a node with this sensor: that of a recording's humidity, which hardly changes
    within a minute of the recording, but a reading plays a minute of it."""
    window_s = READINGS_IN_RATE * found.interval_s
    if found.driver != "replay" or "humidity" not in channels or window_s > DAY_S:
        return ()
    rate = f"{HUMIDITY_STEP / found.interval_s:g}/min"
    return (
        EdgeTrigger(
            name="humidity-up",
            condition=f"rate(humidity) > {rate}",
            clear=f"rate(humidity) < -{rate}",
            window_s=window_s,
        ),
    )


def node_of(text: str) -> str:
    """A name for the node of the sensor that `text` says."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-")[:64]


def area_of(found: EdgeSensor) -> str:
    """Area of a sensor, if known: that of a shipped recording's room."""
    room = str(found.options.get("room", ""))
    areas = {node.room: node.area for node in building_fleet().nodes}
    return areas.get(room, HERE) if found.driver == "replay" else HERE
