"""Driver template to copy: the processor's temperature, from the kernel's thermal zone.

Small and complete, and at home on every Linux machine. docs/use/sensors.md says how to go on from
here.
"""

# ruff: noqa: PTH123 - pathlib takes 0.6 MiB of memory, on every node

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sensors.base import Channel, Options, Reading, SensorError

CHANNELS: Final = (Channel("processor_temperature", "celsius", -40.0, 125.0),)
ZONE: Final = "/sys/class/thermal/thermal_zone0/temp"


class Template:
    """Reads the thermal zone with the file `path`."""

    channels = CHANNELS

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> Reading:
        try:
            with open(self._path, encoding="ascii") as file:
                millidegrees = int(file.read())
        except OSError as error:
            raise SensorError(f"{self._path}: {error.strerror}") from None
        except ValueError:
            raise SensorError(f"{self._path} holds no whole number") from None
        return Reading((millidegrees / 1000,))

    def preload(self) -> Iterable[tuple[int, Reading]]:
        return ()

    def close(self) -> None:
        pass


def open_driver(options: Options) -> Template:
    path = options.path("zone") or ZONE
    options.finish()
    return Template(path)
