"""Actuator registry: opens drivers by name, including those of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, cast

from agent.edge.actuators.base import Actuator
from sensors.base import Options, SensorError, nearest, reason_of

# Each module has open_driver(options: Options) -> Actuator.
DRIVERS: Final = {"file": "agent.edge.actuators.file"}
# Other packages name their drivers in this group of entry points: name = "module:open_driver".
GROUP: Final = "sanderling.actuators"


def open_actuator(
    name: str, given: Mapping[str, Any], folder: str, *, checking: bool = False
) -> Actuator:
    """Open the driver `name`, or only check that it could be opened; relative paths in its options
    are relative to `folder`. SensorError in one line for an unknown name, a driver that cannot be
    imported, or an invalid option."""
    options = Options(name, given, folder, checking=checking)
    if name in DRIVERS:
        return cast("Actuator", import_module(DRIVERS[name]).open_driver(options))
    from importlib.metadata import entry_points  # 3.7 MiB of memory, needed only for these drivers

    found = entry_points(group=GROUP)
    drivers = list(found.select(name=name))
    if not drivers:
        raise SensorError(
            f"unknown actuator driver {name}; {nearest(name, [*DRIVERS, *found.names])}"
        )
    try:
        return cast("Actuator", drivers[0].load()(options))
    except (SensorError, KeyboardInterrupt):
        raise
    except BaseException as error:  # another package's error becomes one line, SystemExit, too
        line = reason_of(error).partition("\n")[0]
        raise SensorError(f"{name}: {line}") from error
