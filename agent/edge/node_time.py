"""The time of a running node: its clocks, what they taught so far, and the history put right."""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec import Struct

from agent.edge.clocks import Clocks
from agent.edge.history.file import HistoryError
from agent.edge.timebase import STEP_MS, Correction, TimeBase


class Moment(Struct, frozen=True):
    """A moment on the node's clocks: wall and monotonic time in ms, and whether the former is
    synchronised."""

    time_ms: int
    monotonic_ms: int
    synchronised: bool


class NodeTime:
    """Reads the clocks for all threads of a node.

    `correct` puts stored wall times right and says how far one moved, in ms. `corrected` is told
    when that was a step, and `failed` why it could not be: it is tried again with the next moment.
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
        self.synchronised = False  # at the latest moment

    def monotonic(self) -> float:
        """Seconds on the monotonic clock."""
        return self._clocks.monotonic()

    def moment(self) -> Moment:
        """Now; wall times stored before are put right first, if the clocks say so."""
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
        """The wall time now, in ms, as readings have it."""
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
