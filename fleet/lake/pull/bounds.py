"""Limits that end a pull early: its byte budget, or Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fleet.lake.pull.host_source import Header, Taker
from fleet.ssh.errors import HostError


class Enough(Exception):
    """The allowed number of bytes has landed."""


class Interrupted(Exception):
    """The operator has interrupted the pull."""


class Budget:
    """Bytes that all hosts together may still land; shared by several threads."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """The remaining bytes; negative if the last piece was larger."""
        return self._left

    def spend(self, count: int) -> None:
        """So many have landed."""
        with self._lock:
            self._left -= count


def unwritten(error: OSError) -> HostError:
    """The HostError for an OSError raised while writing to the lake."""
    where = f"{error.filename}: " if error.filename else ""
    return HostError("failed", f"cannot be kept here: {where}{error.strerror or error}")


class Bounded:
    """Passes frames to a taker within the budget. A piece that has begun to arrive when the budget
    is used up is completed: each host lands at most one piece more."""

    def __init__(
        self,
        taker: Taker,
        budget: Budget,
        stop: threading.Event,
        landed: Callable[[int], object],
    ) -> None:
        self._taker = taker
        self._budget = budget
        self._stop = stop
        self._landed = landed
        self._under_way = False

    def take(self, header: Header, data: bytes) -> None:
        """Take a frame. Enough, Interrupted; HostError."""
        if self._stop.is_set():
            raise Interrupted
        if data and not self._under_way and self._budget.left <= 0:
            raise Enough
        self._under_way = self._under_way or bool(data)
        before = self._taker.counts.bytes
        try:
            self._taker.take(header, data)
        except OSError as error:  # raised by a connection, this would mean that it was lost
            raise unwritten(error) from error
        if landed := self._taker.counts.bytes - before:
            self._budget.spend(landed)
            self._landed(landed)
            self._under_way = False
