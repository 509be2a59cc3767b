"""systemd journals of hosts: the `journalctl -o json` request, its parser, a merge by time;
pure."""

from __future__ import annotations

import heapq
import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from msgspec import Struct

# How long a line may take to arrive: older lines from other hosts that arrive meanwhile are shown
# before it.
HOLD_S: Final = 0.7
# Digits of microseconds since 1970; longer numbers are no plausible time.
MAX_TIME: Final = 16
PRIORITIES: Final = frozenset("01234567")


class Entry(NamedTuple):
    """A line of a host's journal. `time_us` is by the host's own clock, since 1970 UTC; `kind` and
    `sensor` are Sanderling's own fields."""

    time_us: int
    host: str
    unit: str
    priority: int
    text: str
    kind: str = ""
    sensor: str = ""


class Logged(Struct, frozen=True):
    """An entry as JSON for programs: a line of `fleet logs tail --json`."""

    time: str
    host: str
    unit: str
    priority: int
    text: str
    kind: str
    sensor: str


def logged(line: Entry) -> Logged:
    """A line as programs read it."""
    seconds, microseconds = divmod(line.time_us, 1_000_000)
    time = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{microseconds:06}Z"
    return Logged(time, *line[1:])


class Asked(NamedTuple):
    """Selection of lines."""

    units: Sequence[str]
    follow: bool
    lines: int
    since: str = ""  # as journalctl takes it
    priority: str = ""


def command(asked: Asked) -> str:
    """The line for the host's shell."""
    words = ["journalctl", "--output=json", "--no-pager", "--quiet", f"--lines={asked.lines}"]
    words += [f"--unit={unit}" for unit in asked.units]
    if asked.since:
        words.append(f"--since={asked.since}")
    if asked.priority:
        words.append(f"--priority={asked.priority}")
    if asked.follow:
        words.append("--follow")
    return f"sudo -n -- {shlex.join(words)}"


def since(text: str) -> str:
    """The argument for journalctl from ``10m`` (ago, by the host's clock), or from a time such as
    ``2026-11-21 13:00`` (this machine's). ValueError."""
    from fleet.terminal.units import UnitError, parse_duration

    try:
        return f"-{parse_duration(text):g}s"
    except UnitError:
        pass
    try:
        return f"@{datetime.fromisoformat(text).astimezone().timestamp():.0f}"
    except ValueError:
        raise ValueError(
            f"{text!r} is neither how long ago (10m, 2h) nor a time (2026-11-21 13:00)"
        ) from None


def entry(host: str, line: str) -> Entry | None:
    """Parse a line of JSON; None if it is invalid, as after a full disk."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    priority = _one(row.get("PRIORITY"))
    time_us = _one(row.get("__REALTIME_TIMESTAMP"))
    return Entry(
        time_us=int(time_us) if time_us.isdecimal() and len(time_us) <= MAX_TIME else 0,
        host=host,
        # The unit that a line of systemd's is about is in this field; the other has systemd's own
        # scope.
        unit=_one(row.get("UNIT")) or _one(row.get("_SYSTEMD_UNIT")),
        priority=int(priority) if priority in PRIORITIES else 6,
        text=_one(row.get("MESSAGE")),
        kind=_one(row.get("SANDERLING_KIND")),
        sensor=_one(row.get("SANDERLING_SENSOR")),
    )


def _one(value: Any) -> str:
    """A field's value, which may be text, a list of bytes, or a list of several values; of these
    the last."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()  # JSON may name half of a surrogate pair
    if isinstance(value, list) and value:
        if all(isinstance(each, int) and 0 <= each < 256 for each in value):
            return bytes(value).decode(errors="replace")
        return _one(value[-1])
    return ""


class Merge:
    """Sorts lines of many hosts by time. A line is held back `hold_s` seconds for older ones of
    other hosts; a line that arrives later than that is out of order. O(log lines) each."""

    def __init__(self, hold_s: float = HOLD_S) -> None:
        self._hold_s = hold_s
        self._number = 0
        self._waiting: list[tuple[int, int, Entry]] = []
        self._came: list[tuple[float, int, int]] = []  # when, its time, its number

    def add(self, line: Entry, now_s: float) -> None:
        """A line has arrived; those of one host arrive in order."""
        self._number += 1
        heapq.heappush(self._waiting, (line.time_us, self._number, line))
        heapq.heappush(self._came, (now_s, line.time_us, self._number))

    def take(self, now_s: float) -> list[Entry]:
        """The lines to show now: all up to the latest time among those held back long enough."""
        due: tuple[int, int] | None = None
        while self._came and self._came[0][0] + self._hold_s <= now_s:
            _, time_us, number = heapq.heappop(self._came)
            due = max(due or (time_us, number), (time_us, number))
        found = []
        while due is not None and self._waiting and self._waiting[0][:2] <= due:
            found.append(heapq.heappop(self._waiting)[2])
        return found

    def rest(self) -> list[Entry]:
        """All that still wait."""
        found = [heapq.heappop(self._waiting)[2] for _ in range(len(self._waiting))]
        self._came.clear()
        return found

    @property
    def wake_s(self) -> float | None:
        """When `take` will have something; None: nothing waits."""
        return self._came[0][0] + self._hold_s if self._came else None
