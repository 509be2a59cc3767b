"""Line parser: maps a line to one value per channel, by the sensor's options; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import isfinite
from operator import xor
from typing import Any, Final

import msgspec

from sensors.base import Channel, ChecksumError, Options, SensorError

Fields = Callable[[str], Mapping[str, Any]]


class Layout:
    """The layout of a line: `fields` extracts its fields, `places` locates each channel's value
    among them. `start` selects lines; `cut_start` removes it before the rest is parsed."""

    def __init__(
        self,
        channels: tuple[Channel, ...],
        places: tuple[str, ...],
        fields: Fields,
        start: str,
        cut_start: bool,
        checksum: str | None,
    ) -> None:
        self.channels = channels
        self._places = places
        self._fields = fields
        self._start = start.encode()
        self._cut = len(self._start) if cut_start else 0
        self._checksum = checksum

    def values(self, line: bytes) -> tuple[float, ...] | None:
        """The values of `line`, or None if it does not begin with `start`.

        ChecksumError, or SensorError that names the field that is missing or not a number.
        """
        if not line.startswith(self._start):
            return None
        if self._checksum:
            line = _checked(line, self._checksum)
        try:
            text = line[self._cut :].decode("utf-8").strip()
        except UnicodeDecodeError:
            raise SensorError(f"not UTF-8: {_shown(line)}") from None
        try:
            fields = self._fields(text)
            return tuple([_number(fields, place) for place in self._places])
        except ValueError as error:
            raise SensorError(f"{error} in {_shown(line)}") from None


def layout(options: Options) -> Layout:
    """The layout that the options format, channels, separator, start and checksum describe;
    SensorError in one line for an invalid one."""
    format_ = options.choice("format", FORMATS)
    separator = options.text("separator")
    start = options.text("start") or ""
    checksum = options.choice("checksum", ("nmea", "xor"))
    tables = options.tables("channels")
    if format_ is None:
        raise options.error(f"format is missing; known: {', '.join(FORMATS)}")
    if separator is not None and format_ == "json":
        raise options.error("separator has no use with format json")
    if not tables:
        raise options.error("channels is missing: name at least one")
    channels, places = zip(*[_channel(table, format_) for table in tables], strict=True)
    names = [channel.name for channel in channels]
    if len(set(names)) < len(names):
        raise options.error("two channels have one name")
    fields = FORMATS[format_](separator)
    return Layout(channels, places, fields, start, format_ == "json", checksum)


def _channel(table: Options, format_: str) -> tuple[Channel, str]:
    name, unit, field = table.text("name"), table.text("unit"), table.text("field")
    low, high = table.signed("low"), table.signed("high")
    table.finish()
    if name is None or unit is None or low is None or high is None:
        raise table.error("name, unit, low and high are needed")
    if low >= high:
        raise table.error("low must be under high")
    if field is None:
        raise table.error(
            "field is missing: the column (from 1), the key, or the path of keys with dots between"
        )
    if format_ == "csv" and not (field.isascii() and field.isdigit() and int(field) > 0):
        raise table.error(f"field {field} is no column; the first one is 1")
    return Channel(name, unit, low, high), str(int(field)) if format_ == "csv" else field


def _csv(separator: str | None) -> Fields:
    return lambda text: {
        str(n): field.strip().strip('"') for n, field in enumerate(text.split(separator or ","), 1)
    }


def _key_value(separator: str | None) -> Fields:
    def fields(text: str) -> dict[str, str]:
        if separator is None:
            text = text.replace(",", " ").replace(";", " ")
        pairs = [part.partition("=") for part in text.split(separator) if "=" in part]
        return {key.strip(): value.strip() for key, _, value in pairs}

    return fields


def _json(_: str | None) -> Fields:
    def fields(text: str) -> dict[str, Any]:
        try:
            found = msgspec.json.decode(text)
            if isinstance(found, dict | list):
                return dict(_leaves(found, ""))
        except (msgspec.DecodeError, RecursionError):
            raise ValueError("no JSON") from None
        raise ValueError("no JSON object")

    return fields


def _leaves(value: dict[str, Any] | list[Any], path: str) -> list[tuple[str, Any]]:
    """(path, value) of all scalars; a path is keys and indices, from 0, joined by dots."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    leaves: list[tuple[str, Any]] = []
    for key, inner in items:
        if isinstance(inner, dict | list):
            leaves += _leaves(inner, f"{path}{key}.")
        else:
            leaves.append((f"{path}{key}", inner))
    return leaves


FORMATS: Final[Mapping[str, Callable[[str | None], Fields]]] = {
    "csv": _csv,
    "json": _json,
    "key_value": _key_value,
}


def _number(fields: Mapping[str, Any], place: str) -> float:
    """The finite number at `place`; ValueError with the reason if there is none."""
    value = fields.get(place)
    if value is None or value == "":
        raise ValueError(f"no field {place}")
    # float() accepts 1_000 and True, which are not numbers from a sensor.
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise ValueError(f"field {place} is no number")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise ValueError(f"field {place} is no number") from None
    if not isfinite(number):
        raise ValueError(f"field {place} is {number}")
    return number


def _checked(line: bytes, checksum: str) -> bytes:
    """`line` without its checksum, after verifying it: *HH at the end, the exclusive or of all
    bytes before the star; `nmea` excludes the first byte ($ or !), as in NMEA 0183."""
    body, star, given = line.rstrip().rpartition(b"*")
    if not star:
        raise ChecksumError(f"no checksum in {_shown(line)}")
    computed = reduce(xor, body[1:] if checksum == "nmea" else body, 0)
    if given.upper() != b"%02X" % computed:
        raise ChecksumError(f"wrong checksum, computed {computed:02X}, in {_shown(line)}")
    return body


def _shown(line: bytes) -> str:
    """The line for use in messages: short and printable."""
    return repr(line[:60])[1:] + (" …" if len(line) > 60 else "")
