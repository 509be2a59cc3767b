"""The lines between the agent and its reader.

The reader's standard output carries one line of ASCII for each start of the sensor, and one before
the first: `ready`, or `unusable` with the reason. Its standard input carries one line, `start` with
the time of the first start; its end tells the reader that the agent is gone. Times are milliseconds
on CLOCK_MONOTONIC, which all processes of a boot share.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

MAX_LINE: Final = 300  # bytes, the newline among them


class Job(NamedTuple):
    """What a reader is started for. `factory` is the `module:function` that opens the sensor;
    `power_off_s` is how long its power is cut first, 0 for not at all; `rule_s` is as in `Model`.
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
        """As arguments of a command."""
        return [str(each) for each in self]

    @staticmethod
    def parse(arguments: list[str]) -> Job:
        """What `arguments` gave."""
        factory, model, pin, use_pulseio, power_pin, power_off_s, rule_s, interval_s = arguments
        numbers = float(power_off_s), float(rule_s), float(interval_s)
        return Job(factory, model, pin, use_pulseio, power_pin, *numbers)


class Ready(Struct, frozen=True):
    """The sensor can be used; the reader waits for its start."""


class Unusable(Struct, frozen=True):
    """The sensor cannot be used, and the reader ends."""

    text: str


class Measured(NamedTuple):
    """The sensor measured `values` at `at_ms`."""

    at_ms: int
    values: tuple[float, float]


class Failed(Struct, frozen=True):
    """A start of the sensor gave no new value; `damaged`: it answered, but not as it should."""

    damaged: bool
    text: str


Line = Ready | Unusable | Measured | Failed


def encode(line: Line) -> bytes:
    """The bytes of a line; a text is cut, and put on one line of ASCII."""
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
    """The line that `line`, without its newline, stands for; ValueError for any other."""
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
