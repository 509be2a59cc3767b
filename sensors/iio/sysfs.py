"""IIO sysfs: finds and reads devices of the kernel's Industrial I/O subsystem.

Source: the kernel's Documentation/ABI/testing/sysfs-bus-iio. A file `in_…_input` has a value in the
ABI's unit; without it the value is (`in_…_raw` + `in_…_offset`) · `in_…_scale`, where a missing
offset is 0 and a missing scale is 1.
"""

# ruff: noqa: PTH110, PTH112, PTH118, PTH119, PTH123, PTH208 - pathlib takes 0.6 MiB of memory, on every node

from __future__ import annotations

import os
from math import isfinite
from typing import Final

from msgspec import Struct

from sensors.base import Channel, SensorError

FOLDER: Final = "/sys/bus/iio/devices"


class Kind(Struct, frozen=True):
    """A quantity that an IIO device may provide: its files' prefix, its channel, and how many of
    the ABI's units make one of the channel's."""

    files: str
    channel: Channel
    divisor: float


# The ABI's units are thousandths of a degree and of a percent, and kilopascals.
KINDS: Final = (
    Kind("in_temp", Channel("temperature", "celsius", -40.0, 125.0), 1000.0),
    Kind("in_humidityrelative", Channel("humidity", "percent", 0.0, 100.0), 1000.0),
    Kind("in_pressure", Channel("pressure", "hectopascal", 300.0, 1250.0), 0.1),
)


class Device(Struct, frozen=True):
    """A device found; it may disappear at any time. `kinds` are the quantities it provides."""

    path: str
    name: str
    dht11: bool
    kinds: tuple[Kind, ...]

    @property
    def number(self) -> str:
        """The kernel's name, such as iio:device0; it may change when the device returns."""
        return os.path.basename(self.path)

    def called(self, wanted: str) -> bool:
        """Whether `wanted` is this device's number, its name, or its name up to the @."""
        return wanted in (self.number, self.name, self.name.partition("@")[0])

    def read(self, kind: Kind) -> float:
        """The current measurement, in the channel's unit. OSError from the kernel, ValueError if a
        file has no number; the kernel may block for a second."""
        start = os.path.join(self.path, kind.files)
        if os.path.exists(f"{start}_input"):
            return _number(f"{start}_input") / kind.divisor
        offset = _number(f"{start}_offset", 0.0)
        return (_number(f"{start}_raw") + offset) * _number(f"{start}_scale", 1.0) / kind.divisor


def find(folder: str, wanted: str | None) -> Device:
    """The device that `wanted` names, or the only one. SensorError, listing the devices present,
    unless exactly one matches."""
    devices = _devices(folder)
    fitting = [device for device in devices if wanted is None or device.called(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join([f"{device.number} ({device.name})" for device in fitting or devices])
    if fitting:
        raise SensorError(f"several devices fit; choose one with the option device: {there}")
    if there:
        raise SensorError(f"no device {wanted}; there are: {there}")
    missing = (
        f"no device in {folder} gives temperature, humidity or pressure"
        if os.path.isdir(folder)
        else f"{folder} is not there: the kernel has no IIO device"
    )
    raise SensorError(f"{missing}; for a DHT on a Pi, dtoverlay=dht11,gpiopin=4 in config.txt")


def _devices(folder: str) -> list[Device]:
    """The devices that provide any of `KINDS`, by number."""
    try:
        numbers = sorted(os.listdir(folder))
    except OSError:
        return []
    devices = []
    for number in numbers:
        path = os.path.join(folder, number)
        try:
            files = set(os.listdir(path))
        except OSError:  # disappeared since the folder was listed
            continue
        kinds = tuple(
            [k for k in KINDS if f"{k.files}_input" in files or f"{k.files}_raw" in files]
        )
        if kinds:
            name = _text(os.path.join(path, "name"))
            devices.append(Device(path, name, _is_dht11(path, name), kinds))
    return devices


def _is_dht11(path: str, name: str) -> bool:
    """Whether the kernel's dht11 driver serves the device. An overlay names it dht11@4, a board's
    device tree may use any name; its `compatible` property identifies the driver."""
    compatible = _text(os.path.join(path, "of_node", "compatible"))
    return "dht11" in (name.partition("@")[0], *compatible.split("\0"))


def _text(path: str) -> str:
    """The file's text, "" if the file is absent."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _number(path: str, default: float | None = None) -> float:
    try:
        with open(path, encoding="ascii") as file:
            text = file.read()
    except FileNotFoundError:
        if default is None:
            raise
        return default
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number
