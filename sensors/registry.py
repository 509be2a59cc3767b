"""Drivers by name. A driver's folder is imported when it is opened, so that unused ones cost no
memory."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from os import PathLike, fspath
from typing import Any, Final

from sensors.base import Driver, Options, SensorError, nearest

# Each module has open_driver(options: Options) -> Driver.
DRIVERS: Final = {
    "replay": "sensors.replay",
    "synthetic": "sensors.synthetic",
}


def open_driver(
    name: str,
    options: Mapping[str, Any],
    folder: str | PathLike[str],
    interval_s: float = 1.0,
) -> Driver:
    """Open the driver `name`, to be read every `interval_s` seconds; relative paths in its options
    are taken from `folder`.

    SensorError in one line for an unknown name, an unknown or wrong option, or a sensor that is
    not there.
    """
    module = DRIVERS.get(name)
    if module is None:
        raise SensorError(f"unknown sensor driver {name}; {nearest(name, DRIVERS)}")
    driver: Driver = import_module(module).open_driver(
        Options(name, options, fspath(folder), interval_s)
    )
    return driver
