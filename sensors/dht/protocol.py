"""Line protocol between the agent and its DHT reader.

The reader writes one line of ASCII to standard output for each start of the sensor, and one before
the first: `ready`, or `unusable` with the reason. It reads one line from standard input, `start`
with the time of the first start; end of file means that the agent is gone. Times are milliseconds
on CLOCK_MONOTONIC, which all processes of a boot share.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

MAX_LINE: Final = 300  # bytes, including the newline


class Job(NamedTuple):
    """A reader's job. `factory` is the `module:function` that opens the sensor; `power_off_s` is
    how long its power is cut first, 0 for not at all; `rule_s` is as in `Model`.
    """

    factory: str
    model: str
    pin: str
    use_pulseio: str  # "yes", "no", or "" for the library's own choice
    power_pin: str  # "" for none
    power_off_s: float
    rule_s: float
    interval_s: float

    def arguments(self) -> list[str]:
        """The job as command-line arguments."""
        return [str(each) for each in self]

    @staticmethod
    def parse(arguments: list[str]) -> Job:
        """The inverse of `arguments`."""
        factory, model, pin, use_pulseio, power_pin, power_off_s, rule_s, interval_s = arguments
        numbers = float(power_off_s), float(rule_s), float(interval_s)
        return Job(factory, model, pin, use_pulseio, power_pin, *numbers)


class Ready(Struct, frozen=True):
    """The sensor is usable; the reader waits for `start`."""


class Unusable(Struct, frozen=True):
    """The sensor is unusable, and the reader ends."""

    text: str


class Measured(NamedTuple):
    """The sensor measured `values` at `at_ms`."""

    at_ms: int
    values: tuple[float, float]


class Failed(Struct, frozen=True):
    """A start of the sensor gave no new value; `damaged`: it sent damaged data."""

    damaged: bool
    text: str


Line = Ready | Unusable | Measured | Failed


def encode(line: Line) -> bytes:
    """Encode a line; text is truncated and converted to one line of ASCII."""
    match line:
        case Ready():
            text = "ready"
        case Unusable(why):
            text = f"unusable {why}"
        case Measured(at_ms, (temperature, humidity)):
            text = f"measured {at_ms} {temperature!r} {humidity!r}"
        case Failed(damaged, why):
            text = f"{'damaged' if damaged else 'silent'} {why}"
    plain = " ".join(text.split()).encode("ascii", "replace")
    return plain[: MAX_LINE - 1] + b"\n"


def decode(line: bytes) -> Line:
    """Decode `line`, without its newline; ValueError if it is invalid."""
    word, _, rest = line.decode("ascii").partition(" ")
    if word == "ready" and not rest:
        return Ready()
    if word == "unusable":
        return Unusable(rest)
    if word in {"damaged", "silent"}:
        return Failed(word == "damaged", rest)
    if word == "measured":
        at_ms, temperature, humidity = rest.split(" ")
        return Measured(int(at_ms), (float(temperature), float(humidity)))
    raise ValueError("unknown line")
