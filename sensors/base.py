"""Driver interface: channels, readings, options and errors of a sensor driver."""

# ruff: noqa: PTH118, PTH120 - pathlib takes 0.6 MiB of memory, on every node

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Protocol

from msgspec import Struct

from sensors.quality.flags import CHECKSUM, NAMES, NO_RESPONSE


class SensorError(Exception):
    """A driver cannot be set up, or a reading failed; the text is one line with the reason. During
    set-up it begins with the driver's name (`Options.error`); the agent adds the sensor's name.

    `flag` is the quality flag of the missing reading (`sensors.quality.flags`).
    """

    flag: ClassVar[int] = NO_RESPONSE


class ChecksumError(SensorError):
    """The sensor answered, but the data is damaged."""

    flag = CHECKSUM


def reason_of(error: BaseException, own: type[Exception] = SensorError) -> str:
    """Why a driver failed: the text of an error of the kind `own`, which drivers are to raise, and
    of others after its name. A driver may raise anything, also SystemExit, as libraries do."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - its text is the driver's code, too
        return type(error).__name__
    return text if isinstance(error, own) else f"{type(error).__name__}: {text}"


def flag_of(error: BaseException) -> int:
    """The quality flag of a reading that failed so; NO_RESPONSE if a driver's own is none."""
    flag: Any = getattr(error, "flag", None) if isinstance(error, SensorError) else None
    return flag if isinstance(flag, int) and 0 < flag < 1 << len(NAMES) else NO_RESPONSE


class Channel(Struct, frozen=True):
    """One measured quantity, as the driver names it. `low` and `high` bound what the sensor can
    measure, in `unit`."""

    name: str
    unit: str
    low: float
    high: float


class Reading(Struct, frozen=True):
    """One value per channel, in the driver's channel order; NaN is a missing value.

    `source_time_ms` is set by replays: when the values were first recorded, in milliseconds since
    1970 UTC. `age_ms` is how long before this read the sensor measured them.
    """

    values: tuple[float, ...]
    source_time_ms: int | None = None
    age_ms: int = 0


class Driver(Protocol):
    """An open sensor, used by a dedicated thread; a read may block for less than an interval."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels of every reading, in order."""
        ...

    def read(self) -> Reading:
        """The measurement made since the previous read, or now; SensorError if there is none. A
        value is returned once: without a new one it is missing."""
        ...

    def preload(self) -> Iterable[tuple[int, Reading]]:
        """Readings that an empty history starts with, oldest first: (n, reading) where the reading
        belongs n sampling intervals before the first `read`. Hardware has none."""
        ...

    def close(self) -> None:
        """Release what the driver holds; called once."""
        ...


class Described:
    """A stand-in for a sensor that a check must not touch: it has channels, but no readings."""

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
    """A driver's options, taken one by one; SensorError in one line for an invalid one.

    `interval_s` is the time between two reads, which a driver may refuse as too short. `checking`
    means that the sensor will not be read, only checked for being readable; otherwise an absent
    sensor should not prevent the agent from starting. `leave` names what a check must not touch:
    the `sensor`, if an agent is reading it, or the whole `machine`, if it is not the sensor's; then
    the driver must not look for files, libraries or devices either.
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
        """A text, or None if absent; an integer (a room number, say) counts as text."""
        value = self._take(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.error(f"{name} must be a text")
        return value

    def path(self, name: str) -> str | None:
        """A path, relative to the configuration file's folder, or None if absent."""
        text = self.text(name)
        return path_in(self._folder, text) if text is not None else None

    def count(self, name: str, default: int) -> int:
        """An integer, 0 or more."""
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
        """A finite number of either sign, or None if absent."""
        value = self._take(name)
        if value is None:
            return None
        valid = isinstance(value, int | float) and not isinstance(value, bool)
        if not valid or not -float("inf") < value < float("inf"):
            raise self.error(f"{name} must be a number")
        return float(value)

    def choice(self, name: str, known: Iterable[str]) -> str | None:
        """One of the texts `known`, or None if absent."""
        text = self.text(name)
        if text is not None and text not in (known := tuple(known)):
            raise self.error(f"{name} {text} is not known; {nearest(text, known)}")
        return text

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of distinct texts; () if absent."""
        value = self._take(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise self.error(f"{name} must be a list of texts")
        if len(set(value)) < len(value):
            raise self.error(f"{name} names something twice")
        return tuple(value)

    def tables(self, name: str) -> tuple[Options, ...]:
        """A list of tables, each as `Options` to be taken and finished separately; () if absent."""
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
        """true or false, or None if absent."""
        value = self._take(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(f"{name} must be true or false")
        return value

    def finish(self) -> None:
        """Raise SensorError for options that no call above has taken."""
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
    """`path`, relative to `folder` unless absolute, with leading ``..`` resolved."""
    if not path.startswith("../"):
        return os.path.join(folder, path)
    above = os.path.realpath(
        folder
    )  # the parent of a symbolic link's target differs from that of its name
    while path.startswith("../"):
        above, path = os.path.dirname(above), path[3:].lstrip("/")
    return os.path.join(above, path)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt `name`: the nearest of `known`, or all of them."""
    import difflib  # only an error needs it

    known = tuple(known)
    # Similar digits do not make two numbers similar.
    near = () if name.isdigit() else difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
