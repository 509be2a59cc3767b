"""Readings in line protocol, as InfluxDB, Telegraf and Grafana Live take them.

A line is an area at a time: ``reading,area=b1/f4/r413,gateway=home temperature=21.5,humidity=40.0
1795352644870000000``. Values are always floats, since a field that is once an integer and once a
float drops points; times are nanoseconds. What is bad is no measurement, and is left out.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from agent.gateway.feed.rooms import Room
from agent.runtime.retrying import Answered, Retrying, Verdict

BATCH_LINES: Final = 1_000
BATCH_S: Final = 5.0  # a line waits no longer for others
MAX_LINES: Final = 50_000  # waiting; some 5 MB
# A node's clock that is so far ahead of the gateway's is wrong: its time is not written.
AHEAD_MS: Final = 60_000
# Statuses that are about what was sent: it is dropped, or nothing would ever follow it.
REFUSED: Final = frozenset({400, 413, 415, 422})

_TO_ESCAPE: Final = re.compile(r"([,= ])")


def lines(
    rooms: Iterable[Room], tags: Mapping[str, str], told_ms: dict[tuple[str, str], int], now_ms: int
) -> Iterator[str]:
    """The lines of readings that are newer than those in `told_ms`, which is brought up to date.

    A reading from the future, by this gateway's clock, gets the time `now_ms`; those that come
    after it, once the node's clock is right, are told although they are older.
    """
    ahead_ms = now_ms + AHEAD_MS
    for room in rooms:
        by_time: dict[int, list[str]] = {}
        for channel, reading in sorted(room.channels.items()):
            place = room.area, channel
            before_ms = told_ms.get(place, -1)
            if reading.time_ms == before_ms or reading.time_ms < before_ms <= ahead_ms:
                continue
            told_ms[place] = reading.time_ms
            at_ms = reading.time_ms if reading.time_ms <= ahead_ms else now_ms
            value = reading.value
            if reading.quality != "bad" and value is not None and math.isfinite(value):
                by_time.setdefault(at_ms, []).append(f"{escaped(channel)}={float(value)!r}")
        tagged = "".join(f",{k}={escaped(v)}" for k, v in {"area": room.area, **tags}.items() if v)
        for time_ms, fields in sorted(by_time.items()):
            yield f"reading{tagged} {','.join(fields)} {time_ms * 1_000_000}\n"


def escaped(text: str) -> str:
    """A tag's value, or a key."""
    # A backslash at the end would escape what follows it.
    text = "".join(c if c.isprintable() and c != "\\" else "_" for c in text)
    return _TO_ESCAPE.sub(r"\\\1", text)


class Batches:
    """Lines that wait, and when which are sent; `now` is monotonic seconds. All O(1) a line.

    One batch at a time is attempted, in order. There is a bound: the oldest go, and it is told how
    many.
    """

    def __init__(self, *, jitter: Callable[[], float], most: int = MAX_LINES) -> None:
        self.retrying = Retrying(jitter=jitter, longest_pause_s=60.0, give_up_s=math.inf)
        self.delivered = self.failed = self.lost = 0
        self.last_error = ""
        self._most = most
        self._lines: deque[str] = deque()
        self._since_s = 0.0  # the oldest waits
        self._under_way: list[str] = []
        self._lost_untold = 0

    @property
    def waiting(self) -> int:
        """How many lines the receiver does not have."""
        return len(self._lines) + len(self._under_way)

    @property
    def due_s(self) -> float | None:
        """When `next` has something; None: not before something else happens."""
        if self._under_way or not self._lines:
            return None
        is_full = len(self._lines) >= BATCH_LINES
        return max(self.retrying.again_s, self._since_s + (0.0 if is_full else BATCH_S))

    def add(self, more: Iterable[str], now: float) -> None:
        """These wait, too."""
        if not self._lines:
            self._since_s = now
        self._lines.extend(more)
        while self._lines and self.waiting > self._most:
            self._lines.popleft()
            self.lost += 1
            self._lost_untold += 1

    def next(self, now: float) -> bytes:
        """The batch to be sent now, or nothing; answered by `answered`."""
        due_s = self.due_s
        if due_s is None or now < due_s:
            return b""
        self._under_way = [self._lines.popleft() for _ in range(min(BATCH_LINES, len(self._lines)))]
        self._since_s = now
        return "".join(self._under_way).encode()

    def answered(self, answered: Answered, now: float) -> list[str]:
        """The attempt has ended; returns lines for the operator."""
        batch, self._under_way = self._under_way, []
        if answered.status in REFUSED:
            self.failed += 1
            self.lost += len(batch)
            self.last_error = answered.line
            self.retrying.answered(Answered(200, ""), now)  # the next batch may be well
            return [f"{len(batch)} lines are lost, since they were refused: {answered.line}"]
        verdict = self.retrying.answered(answered, now)
        said = [self.retrying.said] if self.retrying.said else []
        if verdict is Verdict.DONE:
            self.delivered += len(batch)
            self.last_error = ""
            if self._lost_untold:
                said.append(f"{self._lost_untold} lines were lost meanwhile, the oldest first")
                self._lost_untold = 0
            return said
        if verdict is Verdict.GONE:  # it may come back: nothing else is sent to it meanwhile
            self.retrying.answered(Answered(503, answered.line), now)
        self.failed += 1
        self.last_error = answered.line
        self._lines.extendleft(reversed(batch))
        return said
