"""Devices of the kernel's Industrial I/O (IIO) subsystem, as their folders in sysfs show them.

Source: the kernel's Documentation/ABI/testing/sysfs-bus-iio. A file `in_…_input` holds a value in
the ABI's unit; without it the value is (`in_…_raw` + `in_…_offset`) · `in_…_scale`, where a missing
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
    """A quantity that an IIO device may give: how its files begin, the channel that it becomes,
    and how many of the ABI's units are one of the channel's."""

    files: str
    channel: Channel
    divisor: float


# The ABI counts in thousandths of a degree and of a percent, and in kilopascals.
KINDS: Final = (
    Kind("in_temp", Channel("temperature", "celsius", -40.0, 125.0), 1000.0),
    Kind("in_humidityrelative", Channel("humidity", "percent", 0.0, 100.0), 1000.0),
    Kind("in_pressure", Channel("pressure", "hectopascal", 300.0, 1250.0), 0.1),
)


class Device(Struct, frozen=True):
    """A device as it was found; it may go at any time. `kinds` is what it gives."""

    path: str
    name: str
    dht11: bool
    kinds: tuple[Kind, ...]

    @property
    def number(self) -> str:
        """The kernel's name, such as iio:device0; another one when the device comes back."""
        return os.path.basename(self.path)

    def called(self, wanted: str) -> bool:
        """Whether `wanted` means this device: its number, its name, or its name up to the @."""
        return wanted in (self.number, self.name, self.name.partition("@")[0])

    def read(self, kind: Kind) -> float:
        """What it measures now, in the channel's unit. OSError as the kernel gives it, ValueError
        if a file holds no number; the kernel may block for a second."""
        start = os.path.join(self.path, kind.files)
        if os.path.exists(f"{start}_input"):
            return _number(f"{start}_input") / kind.divisor
        offset = _number(f"{start}_offset", 0.0)
        return (_number(f"{start}_raw") + offset) * _number(f"{start}_scale", 1.0) / kind.divisor


def find(folder: str, wanted: str | None) -> Device:
    """The device that `wanted` means, or the only one; SensorError, with those that are there, if
    it is not one."""
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
    """Those that give something of `KINDS`, by number."""
    try:
        numbers = sorted(os.listdir(folder))
    except OSError:
        return []
    devices = []
    for number in numbers:
        path = os.path.join(folder, number)
        try:
            files = set(os.listdir(path))
        except OSError:  # gone since the folder was listed
            continue
        kinds = tuple(
            [k for k in KINDS if f"{k.files}_input" in files or f"{k.files}_raw" in files]
        )
        if kinds:
            name = _text(os.path.join(path, "name"))
            devices.append(Device(path, name, _is_dht11(path, name), kinds))
    return devices


def _is_dht11(path: str, name: str) -> bool:
    """Whether the kernel's dht11 driver serves it. An overlay calls the device dht11@4, a board's
    device tree calls it anything; what it is compatible with says which driver it has."""
    compatible = _text(os.path.join(path, "of_node", "compatible"))
    return "dht11" in (name.partition("@")[0], *compatible.split("\0"))


def _text(path: str) -> str:
    """The file's text, "" if there is none."""
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
