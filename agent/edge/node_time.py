"""Node time: stamps readings from the clocks and applies clock corrections to the history."""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec import Struct

from agent.edge.clocks import Clocks
from agent.edge.history.file import HistoryError
from agent.edge.timebase import STEP_MS, Correction, TimeBase


class Moment(Struct, frozen=True):
    """A moment on the node's clocks: wall and monotonic time in ms, and whether wall time is
    synchronised."""

    time_ms: int
    monotonic_ms: int
    synchronised: bool


class NodeTime:
    """Reads the clocks for all threads of a node.

    `correct` applies a correction to stored wall times and returns the largest shift in ms.
    `corrected` is called if that was a step, `failed` with the reason if it failed; the next moment
    retries.
    """

    def __init__(
        self,
        clocks: Clocks,
        base: TimeBase,
        correct: Callable[[Correction], int],
        corrected: Callable[[Moment, Correction], object],
        failed: Callable[[HistoryError], object],
    ) -> None:
        self._clocks = clocks
        self._base = base
        self._correct = correct
        self._corrected = corrected
        self._failed = failed
        self._lock = threading.Lock()
        self._pending: list[Correction] = []
        self.synchronised = False  # as of the latest moment

    def monotonic(self) -> float:
        """Seconds on the monotonic clock."""
        return self._clocks.monotonic()

    def moment(self) -> Moment:
        """Now; first applies a correction to stored wall times if the clocks require one."""
        with self._lock:
            monotonic_ms = round(self._clocks.monotonic() * 1000)
            stamp = self._base.look(
                monotonic_ms,
                round(self._clocks.wall() * 1000),
                synchronised=self._clocks.synchronised(),
            )
            moment = Moment(stamp.time_ms, monotonic_ms, stamp.synchronised)
            self.synchronised = stamp.synchronised
            if stamp.correction is not None:
                self._pending.append(stamp.correction)
            if self._pending:
                self._put_right(moment)
        return moment

    def now_ms(self) -> int:
        """The current wall time in ms, as used for readings."""
        monotonic_ms = round(self._clocks.monotonic() * 1000)
        return self._base.time_ms(monotonic_ms, round(self._clocks.wall() * 1000))

    def _put_right(self, moment: Moment) -> None:
        while self._pending:
            try:
                moved_ms = self._correct(self._pending[0])
            except HistoryError as error:
                self._failed(error)
                return
            correction = self._pending.pop(0)
            if moved_ms > STEP_MS:
                self._corrected(moment, correction)
