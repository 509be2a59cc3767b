"""Time base: timestamps for readings while the wall clock is set, steps or drifts.

A pure state machine. Within a boot the monotonic clock defines order and distance; the wall clock
only supplies the *offset* to UTC. The latest offset applies to the whole boot, and a synchronised
clock takes precedence over an unsynchronised one:

- Until the first synchronisation of a boot, a step of the wall clock is accepted and shifts all
  readings of the boot; the first synchronisation shifts them to their correct times.
- After it, a step while the clock is unsynchronised (set by hand) is ignored.
- When the clock is synchronised again, a difference that crystal drift can explain is spread over
  the readings in between; a larger one means that the clock had been set wrong, and shifts all
  readings of the boot.

So a jump by weeks and back leaves every reading at its time, and no window loses one.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

# A larger change of wall minus monotonic time between two samples is a step, not slewing.
STEP_MS: Final = 500
# No computer's crystal drifts faster: a larger difference means a clock that was set wrong,
WORST_DRIFT: Final = 200e-6
# unless it is too small to improve the times of readings from months ago.
SMALL_STEP_MS: Final = 10_000


class Correction(Struct, frozen=True):
    """How far wall times of this boot were off.

    The row groups that began in [since, until) on the monotonic clock, in ms, get the wall time
    monotonic + offset; the offset runs linearly from `offset_since_ms` to `offset_until_ms`.
    Synchronised groups are left unchanged unless `every`. Shifted groups are marked with
    `synchronised`.
    """

    since_monotonic_ms: int
    until_monotonic_ms: int
    offset_since_ms: int
    offset_until_ms: int
    every: bool
    synchronised: bool

    def offset_ms(self, monotonic_ms: int) -> int:
        """Wall minus monotonic time at that moment, in ms."""
        change = self.offset_until_ms - self.offset_since_ms
        length = self.until_monotonic_ms - self.since_monotonic_ms
        if not change or length <= 0:
            return self.offset_until_ms
        done = (monotonic_ms - self.since_monotonic_ms) / length
        return self.offset_since_ms + round(change * min(max(done, 0.0), 1.0))


class Stamp(Struct, frozen=True):
    """A timestamp in ms since 1970 UTC, whether it is synchronised, and the correction to apply
    first."""

    time_ms: int
    synchronised: bool
    correction: Correction | None


class TimeBase:
    """The time base of one boot. `reference` is (monotonic ms, offset ms) of this boot's latest
    synchronised reading, if an earlier process stored one. O(1)."""

    def __init__(self, reference: tuple[int, int] | None = None) -> None:
        self._offset_ms: int | None = None
        # (monotonic, offset) when the clock was last synchronised
        self._trusted = reference
        if reference is not None:
            self._offset_ms = reference[1]

    def time_ms(self, monotonic_ms: int, wall_ms: int) -> int:
        """The wall time of a moment, without updating the offset."""
        return wall_ms if self._offset_ms is None else monotonic_ms + self._offset_ms

    def look(self, monotonic_ms: int, wall_ms: int, *, synchronised: bool) -> Stamp:
        """Update the offset from the clocks, and stamp the moment."""
        said = wall_ms - monotonic_ms
        known, self._offset_ms = self._offset_ms, said
        correction = None
        if synchronised:
            correction = self._synchronised(monotonic_ms, known, said)
            self._trusted = monotonic_ms, said
        elif known is None or abs(said - known) > STEP_MS:
            if self._trusted is not None and known is not None:
                self._offset_ms = known
                return Stamp(monotonic_ms + known, synchronised=False, correction=None)
            correction = Correction(0, monotonic_ms, said, said, every=False, synchronised=False)
        return Stamp(monotonic_ms + said, synchronised, correction)

    def _synchronised(self, now_ms: int, known: int | None, said: int) -> Correction | None:
        if self._trusted is None or known is None:
            return Correction(0, now_ms, said, said, every=False, synchronised=True)
        trusted_ms, trusted_offset_ms = self._trusted
        drift_ms = WORST_DRIFT * (now_ms - trusted_ms)
        if abs(said - known) > max(drift_ms, SMALL_STEP_MS):
            return Correction(0, now_ms, said, said, every=True, synchronised=True)
        if abs(said - known) > STEP_MS:
            return Correction(
                trusted_ms, now_ms, trusted_offset_ms, said, every=False, synchronised=True
            )
        return None
