"""Parses and formats durations and objectives on the command line; pure."""

from __future__ import annotations

import math
import re

from agent.wire.base import MAX_TIMEOUT_MS, MAX_WINDOW_S
from agent.wire.figures import percentile_in_words
from agent.wire.messages import Slo

# The same limits as in messages: `SloPercentile`, and a watch's `interval_s`.
LEAST_PERCENTILE = 0.001
MAX_PERCENTILE = 99.9999
SHORTEST_INTERVAL_S = 0.05
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h|d)", re.ASCII)
_SLO = re.compile(r"p(\d+(?:\.\d+)?)=(.+)", re.ASCII)


class UnitError(ValueError):
    """The text cannot be parsed; one line says what is wrong and gives an example."""


def parse_duration(text: str) -> float:
    """Seconds of ``500ms``, ``10m``, ``1.5h`` or ``1h30m``: numbers with a unit (ms, s, m, h, d),
    the largest unit first, each unit once."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        if re.fullmatch(r"\d+(\.\d+)?", text):
            if not float(text):
                return 0.0  # whether none is allowed, says who asks
            raise UnitError(f"{text!r} has no unit; write {text}s, {text}m, {text}h or {text}ms")
        raise UnitError(f"{text!r} is not a duration; write 500ms, 10m, 1.5h or 1h30m")
    sizes = [SECONDS[unit] for _, unit in parts]
    if sizes != sorted(set(sizes), reverse=True):
        raise UnitError(f"{text!r} names its units out of order; write the largest first: 1h30m")
    return sum(float(number) * size for (number, _), size in zip(parts, sizes, strict=True))


def counted(number: int, what: str) -> str:
    """``1 record``, ``12 records``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def parse_window(text: str) -> float:
    """Length of a window in seconds: a duration above zero, at most 366 days."""
    seconds = parse_duration(text)
    if not 0 < seconds <= MAX_WINDOW_S:
        raise UnitError(f"{text!r} is out of range: above 0 and at most 366d")
    return seconds


def parse_interval(text: str) -> float:
    """Seconds from one round of a watch to the next: from 50 ms to 366 days."""
    seconds = parse_duration(text)
    if not SHORTEST_INTERVAL_S <= seconds <= MAX_WINDOW_S:
        raise UnitError(f"{text!r} is out of range: from 50ms to 366d")
    return seconds


def parse_ago(text: str) -> float:
    """How long ago a window ended, in seconds: a duration of at most 366 days."""
    seconds = parse_duration(text)
    if seconds > MAX_WINDOW_S:
        raise UnitError(f"{text!r} is longer ago than 366d")
    return seconds


def parse_timeout(text: str) -> float:
    """Milliseconds of a timeout: a duration above zero, at most one hour."""
    milliseconds = parse_duration(text) * 1e3
    if not 0 < milliseconds <= MAX_TIMEOUT_MS:
        raise UnitError(f"{text!r} is out of range: above 0 and at most 1h")
    return milliseconds


def parse_slo(text: str) -> Slo:
    """The objective ``p99=500ms``: the 99th percentile of response times is at most 500 ms."""
    match = _SLO.fullmatch(text)
    if match is None:
        raise UnitError(f"{text!r} is not an objective; write p99=500ms")
    percentile = float(match[1])
    if not LEAST_PERCENTILE <= percentile <= MAX_PERCENTILE:
        raise UnitError(
            f"{text!r}: the percentile is from {LEAST_PERCENTILE:g} to {MAX_PERCENTILE:g}, "
            "as in p99 or p99.9"
        )
    if not parse_duration(match[2]):
        raise UnitError(f"{text!r}: the time is above 0 and at most 1h, as in p99=500ms")
    return Slo(percentile, parse_timeout(match[2]))


def format_duration(seconds: float) -> str:
    """The reverse of `parse_duration`, to the millisecond: ``1h30m``, ``10m``, ``500ms``."""
    left = round(seconds * 1e3)
    text = ""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            text += f"{count}{unit}"
    return text or "0s"


def format_kept(share: float) -> str:
    """A share that kept an objective, in percent. Rounded down: 98.96 % are not the 99 % that were
    promised."""
    return f"{math.floor(round(share * 1_000, 6)) / 10:.1f}"


def format_ms(milliseconds: float) -> str:
    """Milliseconds for people: ``0.8 ms``, ``212 ms``, ``12.0 s``."""
    if milliseconds >= 10_000:
        return f"{milliseconds / 1e3:.1f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 9.95 else f"{milliseconds:.1f} ms"


def format_cpu(milliseconds: float) -> str:
    """CPU time of a message, which is often far below a millisecond: ``12 µs``, ``1.5 ms``."""
    return format_ms(milliseconds) if milliseconds >= 0.9995 else f"{milliseconds * 1e3:.0f} µs"


def format_limit(milliseconds: float) -> str:
    """A latency that was chosen, as exact as it was written: ``500 ms``, ``0.5 ms``,
    ``3,600,000 ms``."""
    return f"{milliseconds:g} ms" if milliseconds < 100_000 else f"{milliseconds:,.0f} ms"


def format_slo(slo: Slo) -> str:
    """``p99 ≤ 500 ms``."""
    return f"p{percentile_in_words(slo.percentile)} ≤ {format_limit(slo.latency_ms)}"


def size(count: int) -> str:
    """``740 MB``, ``21 GB``."""
    return f"{count / 1e9:.0f} GB" if count >= 10e9 else f"{count / 1e6:.0f} MB"
