"""What a driver is: it describes its channels and gives one reading when asked."""

# ruff: noqa: PTH118, PTH120 - pathlib takes 0.6 MiB of memory, on every node

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Protocol

from msgspec import Struct

from sensors.quality.flags import CHECKSUM, NO_RESPONSE


class SensorError(Exception):
    """A driver cannot be set up, or a reading failed; the text is one line that says why.
    At setting up it begins with the driver's name (`Options.error`); the agent names the sensor.

    `flag` is the quality of the reading that is missing for it (`sensors.quality.flags`).
    """

    flag: ClassVar[int] = NO_RESPONSE


class ChecksumError(SensorError):
    """The sensor answered, and what arrived is damaged."""

    flag = CHECKSUM


class Channel(Struct, frozen=True):
    """One measured quantity, as the driver names it. `low` and `high` bound what the sensor can
    measure, in `unit`."""

    name: str
    unit: str
    low: float
    high: float


class Reading(Struct, frozen=True):
    """One value per channel, in the driver's channel order; NaN is a value that is missing.

    `source_time_ms` is set by a replay: when the values were first recorded, in milliseconds
    since 1970 UTC. `age_ms` is how long before this read the sensor measured them.
    """

    values: tuple[float, ...]
    source_time_ms: int | None = None
    age_ms: int = 0


class Driver(Protocol):
    """A sensor that is open. One thread, which only this sensor has, uses it; a read may block,
    for less than an interval."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels of every reading, in order."""
        ...

    def read(self) -> Reading:
        """What the sensor measured since the read before, or measures now; SensorError if that is
        nothing. A value is given once: what is not new is missing."""
        ...

    def preload(self) -> Iterable[tuple[int, Reading]]:
        """Readings that an empty history starts with, oldest first: (n, reading) where the reading
        belongs n sampling intervals before the first `read`. Hardware has none."""
        ...

    def close(self) -> None:
        """Release what the driver holds; called once."""
        ...


class Described:
    """What a check gets for a sensor that it must leave alone: its channels, and no readings."""

    def __init__(self, channels: tuple[Channel, ...]) -> None:
        self.channels = channels

    def read(self) -> Reading:
        raise SensorError("the sensor was only checked")

    def preload(self) -> Iterable[tuple[int, Reading]]:
        return ()

    def close(self) -> None:
        pass


Leave = Literal["", "sensor", "machine"]


class Options:
    """A driver's own options, taken one by one; SensorError in one line for a wrong one.

    `interval_s` is the time between two reads: a driver may find it too short for its sensor.
    `checking` says that nothing will be read: it is to be found out whether it could be. Else a
    sensor that is not there should keep no agent from starting. What a check has to `leave` alone
    is the `sensor`, if an agent reads it meanwhile, or all of the `machine`, if it is another one
    than the sensor's: then there is no file, library or device to look for either.
    """

    def __init__(
        self,
        driver: str,
        given: Mapping[str, Any],
        folder: str | os.PathLike[str],
        interval_s: float = 1.0,
        *,
        checking: bool = False,
        leave: Leave = "",
    ) -> None:
        self.interval_s = interval_s
        self.checking = checking
        self.leave = leave
        self._driver = driver
        self._given = given
        self._folder = folder
        self._known: list[str] = []

    def text(self, name: str) -> str | None:
        """A text, or None where it is not given; a whole number (a room, say) counts as text."""
        value = self._take(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.error(f"{name} must be a text")
        return value

    def path(self, name: str) -> str | None:
        """A path, relative to the configuration file's folder, or None where it is not given."""
        text = self.text(name)
        return path_in(self._folder, text) if text is not None else None

    def count(self, name: str, default: int) -> int:
        """A whole number, 0 or more."""
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(f"{name} must be a whole number, 0 or more")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number, 0 or more."""
        value = self._take(name)
        if value is None:
            return default
        valid = isinstance(value, int | float) and not isinstance(value, bool)
        if not valid or not 0 <= value < float("inf"):
            raise self.error(f"{name} must be a number, 0 or more")
        return float(value)

    def signed(self, name: str) -> float | None:
        """A finite number of either sign, or None where it is not given."""
        value = self._take(name)
        if value is None:
            return None
        valid = isinstance(value, int | float) and not isinstance(value, bool)
        if not valid or not -float("inf") < value < float("inf"):
            raise self.error(f"{name} must be a number")
        return float(value)

    def choice(self, name: str, known: Iterable[str]) -> str | None:
        """One of the texts `known`, or None where it is not given."""
        text = self.text(name)
        if text is not None and text not in (known := tuple(known)):
            raise self.error(f"{name} {text} is not known; {nearest(text, known)}")
        return text

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, no two of them equal; () where it is not given."""
        value = self._take(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise self.error(f"{name} must be a list of texts")
        if len(set(value)) < len(value):
            raise self.error(f"{name} names something twice")
        return tuple(value)

    def tables(self, name: str) -> tuple[Options, ...]:
        """A list of tables, each as options of its own to be taken and finished; () where it is
        not given."""
        value = self._take(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(table, Mapping) for table in value):
            raise self.error(f"{name} must be a list of tables")
        return tuple(
            [
                Options(f"{self._driver}: {name} {n}", table, self._folder, self.interval_s)
                for n, table in enumerate(value, 1)
            ]
        )

    def flag(self, name: str) -> bool | None:
        """true or false, or None where it is not given."""
        value = self._take(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(f"{name} must be true or false")
        return value

    def finish(self) -> None:
        """Refuse what no call above has asked for."""
        for name in self._given:
            if name not in self._known:
                raise self.error(f"unknown option {name}; {nearest(name, self._known)}")

    def error(self, text: str) -> SensorError:
        """A SensorError that begins with the driver's name."""
        return SensorError(f"{self._driver}: {text}")

    def _take(self, name: str) -> Any:
        self._known.append(name)
        return self._given.get(name)


def path_in(folder: str | os.PathLike[str], path: str) -> str:
    """`path`, taken from `folder` if it is relative, without the ``..`` that it begins with."""
    if not path.startswith("../"):
        return os.path.join(folder, path)
    above = os.path.realpath(folder)  # what lies above a symbolic link is not what its name says
    while path.startswith("../"):
        above, path = os.path.dirname(above), path[3:].lstrip("/")
    return os.path.join(above, path)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for whoever wrote `name`: the nearest of `known`, or all of them."""
    import difflib  # only an error needs it

    known = tuple(known)
    # Numbers of like digits are no nearer to each other than others.
    near = () if name.isdigit() else difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
