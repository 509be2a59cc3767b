"""Drift detection: compares a channel with co-located channels of the same quantity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sensors.quality.flags import BAD, DRIFT, GOOD
from sensors.quality.limits import INFINITY, Limits

HOUR_S: Final = 3_600.0
DAY_S: Final = 24 * HOUR_S

SMOOTHED_S: Final = DAY_S  # time constant of the smoothed residual: it averages out daily variation
LEARNT_S: Final = DAY_S  # period in which the baseline is learnt, without judging by it
AGED_S: Final = 30 * DAY_S  # time constant of the baseline after that: follows seasons, not drift
JUDGED_S: Final = HOUR_S  # how long a residual is observed before it is judged
ABSOLUTE: Final = 3.0  # times `drift`: limit of the residual regardless of the baseline
CLEARED: Final = 0.8  # share of a bound below which the drift is over


class _Member:
    """One channel: its last value, and its difference from the others."""

    __slots__ = ("baseline", "drift", "drifts", "followed_s", "smoothed", "time_s", "value")

    def __init__(self, drift: float) -> None:
        self.drift = drift
        self.drifts = False
        self.time_s = -INFINITY  # of the last value that is not bad
        self.value = 0.0
        self.smoothed = 0.0
        self.baseline = 0.0
        self.followed_s = 0.0  # how long there were channels to compare with

    def follow(self, residual: float, dt_s: float) -> None:
        """Take one residual, `dt_s` after the one before, into the smoothed one and the baseline:
        plain means at first, exponential ones after their time constants."""
        self.followed_s += dt_s
        self.smoothed += (residual - self.smoothed) * dt_s / min(self.followed_s, SMOOTHED_S)
        if not self.drifts:  # otherwise a fault would become the baseline
            span_s = self.followed_s if self.followed_s < LEARNT_S else AGED_S
            self.baseline += (residual - self.baseline) * dt_s / span_s

    def judge(self) -> int:
        """DRIFT or GOOD, from the residuals so far."""
        if self.followed_s < JUDGED_S:
            return GOOD
        off = abs(self.smoothed) / ABSOLUTE
        moved = abs(self.smoothed - self.baseline) if self.followed_s >= LEARNT_S else 0.0
        bound = self.drift * CLEARED if self.drifts else self.drift
        self.drifts = max(off, moved) > bound
        return DRIFT if self.drifts else GOOD


class Colocated:
    """Channels of one quantity in one place, each judged against the median of the others.

    Of two channels it is unknown which one moved, so both are flagged. Not thread-safe: the caller
    serialises access.
    """

    def __init__(
        self, names: Sequence[str], limits: Sequence[Limits], fresh_s: float = 300.0
    ) -> None:
        """`limits` in the order of `names`; a value older than `fresh_s` does not count."""
        pairs = zip(names, limits, strict=True)
        self._members = {name: _Member(limit.drift) for name, limit in pairs}
        self._fresh_s = fresh_s

    def check(self, name: str, time_s: float, value: float, flags: int) -> int:
        """DRIFT or 0: the flag that the other channels add to `flags`, those of `value` alone."""
        member = self._members[name]
        if flags & BAD or value != value:
            return GOOD
        dt_s = min(time_s - member.time_s, self._fresh_s)
        member.time_s = time_s
        member.value = value
        reference = self._reference(member)
        if reference is None:
            return GOOD
        member.follow(value - reference, dt_s)
        return member.judge()

    def _reference(self, member: _Member) -> float | None:
        """The median of all fresh values, including the member's own, so that one broken channel of
        three affects no other. Of two channels, the other one's value."""
        since_s = member.time_s - self._fresh_s
        values = [other.value for other in self._members.values() if other.time_s >= since_s]
        if len(values) == 1:
            return None
        if len(values) == 2:
            return sum(values) - member.value
        values.sort()
        middle = len(values) // 2
        return (values[middle] + values[~middle]) / 2
