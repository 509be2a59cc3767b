"""Driver registry: opens drivers by name, including those of other packages.

A driver is imported when it is opened, so that unused ones take no memory; so is the lookup of
other packages' drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, cast

from sensors.base import Channel, Driver, Leave, Options, SensorError, nearest, reason_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

# Each module has open_driver(options: Options) -> Driver.
DRIVERS: Final = {
    "dht": "sensors.dht",
    "iio": "sensors.iio",
    "replay": "sensors.replay",
    "serial_line": "sensors.serial_line",
    "synthetic": "sensors.synthetic",
}
# Other packages name their drivers in this group of entry points: name = "module:open_driver".
GROUP: Final = "sanderling.sensors"


def open_driver(
    name: str,
    options: Mapping[str, Any],
    folder: str | PathLike[str],
    interval_s: float = 1.0,
    *,
    checking: bool = False,
    leave: Leave = "",
) -> Driver:
    """Open the driver `name`, to be read every `interval_s` seconds, or only check that it could be
    opened; relative paths in its options are relative to `folder`. `leave` names what a check must
    not touch (`sensors.base.Options`).

    A name outside `DRIVERS` is looked up in other packages' entry points. SensorError in one line
    for an unknown name, a driver that cannot be imported, an unknown or invalid option, or an
    absent sensor.
    """
    given = Options(name, options, fspath(folder), interval_s, checking=checking, leave=leave)
    module = DRIVERS.get(name)
    if module is None:
        return _open_foreign(name, given)
    return _driver(import_module(module).open_driver(given))


def _open_foreign(name: str, options: Options) -> Driver:
    from importlib.metadata import entry_points  # 3.7 MiB of memory, needed only for these drivers

    found = entry_points(group=GROUP)
    package = _package(name, found)
    try:
        return _driver(next(iter(found.select(name=name))).load()(options))
    except (SensorError, KeyboardInterrupt):
        raise
    except BaseException as error:  # another package's error becomes one line, SystemExit, too
        line = reason_of(error).partition("\n")[0]
        raise SensorError(f"{name} (of package {package}): {line}") from error


def _driver(found: object) -> Driver:
    """`found` if it is a driver; otherwise TypeError."""
    missing = [
        part for part in ("channels", "read", "preload", "close") if not hasattr(found, part)
    ]
    if missing:
        raise TypeError(
            f"open_driver gave {type(found).__name__}, which has no {', no '.join(missing)}"
        )
    driver = cast("Driver", found)
    given: Iterable[object] = driver.channels
    if odd := [each for each in given if not isinstance(each, Channel)]:
        raise TypeError(f"open_driver gave {type(odd[0]).__name__} in place of a channel")
    return driver


def _package(name: str, found: EntryPoints) -> str:
    """The package with the driver `name`; SensorError unless exactly one has it."""
    packages = sorted(
        [point.dist.name if point.dist else point.value for point in found.select(name=name)]
    )
    if not packages:
        raise SensorError(
            f"unknown sensor driver {name}; {nearest(name, [*DRIVERS, *found.names])}"
        )
    if len(packages) > 1:
        raise SensorError(
            f"sensor driver {name} comes with the packages {' and '.join(packages)}: remove one"
        )
    return packages[0]
