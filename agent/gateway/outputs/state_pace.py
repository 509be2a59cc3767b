"""Rate of an area's state messages: often enough to be of use, seldom enough for a recorder.

A value that has left the deadband is told at most every `every_s`, an unchanged one every
`heartbeat_s`. Readings are told at once when somebody asks anew, as long as the area has a token
left: over any hour there are at most 3,600 / `every_s` messages of an area.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from agent.runtime.token_bucket import NEARLY, TokenBucket

# One that is told at once for the newcomer, and one more, soon after.
BURST: Final = 2.0
HOUR_S: Final = 3_600.0
# A change of another unit, as a share of the value.
OTHER: Final = 0.01

# The values of an area by channel; None: no measurement.
Values = Mapping[str, float | None]


class Rules(NamedTuple):
    """Seconds, °C and %."""

    every_s: float = 30.0
    heartbeat_s: float = 60.0
    celsius: float = 0.2
    percent: float = 1.0

    def has_left(self, unit: str, told: float | None, value: float | None) -> bool:
        """Whether `value` is out of the deadband around what was told."""
        if told is None or value is None:
            return told is not value
        band = {"°C": self.celsius, "%": self.percent}.get(unit, OTHER * abs(told))
        return abs(value - told) > band + NEARLY * max(1.0, abs(told))


class _Area:
    def __init__(self, bucket: TokenBucket) -> None:
        self.bucket = bucket
        self.values: Values = {}
        self.told: Values = {}
        self.told_s = -math.inf
        self.is_new = False  # there are newer readings than those told
        self.has_left = False
        self.asked_s: float | None = None  # to be told whatever it is, not before
        self.due_s = math.inf

    @property
    def is_there(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.values)

    def wants_s(self, rules: Rules) -> float:
        """When it is to be told, perhaps in the past; infinite if it is not."""
        due_s = math.inf if self.asked_s is None else self.asked_s
        if self.is_new:
            pause_s = rules.every_s if self.has_left else rules.heartbeat_s
            due_s = min(due_s, self.told_s + pause_s)
        return due_s


class StatePace:
    """The areas' readings; `now` is monotonic seconds. O(log areas) a call."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        # The bucket's burst comes on top of its rate.
        self._per_s = (HOUR_S / rules.every_s - BURST) / HOUR_S
        self._areas: dict[str, _Area] = {}
        self._due: list[tuple[float, str]] = []

    def changed(self, area: str, values: Values, units: Mapping[str, str], now: float) -> None:
        """The area has newer readings."""
        found = self._areas.get(area)
        if found is None:
            found = self._areas[area] = _Area(TokenBucket(self._per_s, BURST, now))
        found.values, found.is_new = values, True
        found.has_left = found.told.keys() != values.keys() or any(
            self._rules.has_left(units.get(each, ""), found.told[each], value)
            for each, value in values.items()
        )
        self._set_due(area, found, found.wants_s(self._rules))

    def again(self, area: str, not_before_s: float) -> None:
        """Somebody new listens: tell it then, whether it changed or not."""
        found = self._areas.get(area)
        if found is not None and found.is_there:
            found.asked_s = not_before_s
            self._set_due(area, found, found.wants_s(self._rules))

    def pause(self, area: str) -> None:
        """The area is not measured now. What it has used up of its hour counts on."""
        if found := self._areas.get(area):
            found.values, found.is_new, found.asked_s = {}, False, None

    def forget(self, area: str) -> None:
        """The area is there no more."""
        self._areas.pop(area, None)

    @property
    def next_due(self) -> float | None:
        """When `take` may return something; perhaps it does not."""
        return self._due[0][0] if self._due else None

    def take(self, now: float, most: int) -> list[str]:
        """At most so many areas to be told now; they count as told."""
        ready: list[str] = []
        while self._due and self._due[0][0] <= now and len(ready) < most:
            due_s, area = heapq.heappop(self._due)
            found = self._areas.get(area)
            if found is None or found.due_s != due_s:
                continue  # there is another entry for it, or it is gone
            found.due_s = math.inf
            due_s = max(found.wants_s(self._rules), now + found.bucket.wait_s(now))
            if due_s > now:
                self._set_due(area, found, due_s)
                continue
            found.bucket.take()
            found.told, found.told_s = found.values, now
            found.is_new = found.has_left = False
            found.asked_s = None
            ready.append(area)
        return ready

    def _set_due(self, area: str, found: _Area, due_s: float) -> None:
        # A later time is found when the earlier one is due, so an area has few entries.
        if due_s < found.due_s:
            found.due_s = due_s
            heapq.heappush(self._due, (due_s, area))
