"""Limits that end a pull early: its byte budget, or Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fleet.lake.pull.host_source import Header, Taker
from fleet.ssh.errors import HostError


class Enough(Exception):
    """The bytes that were allowed have landed."""


class Interrupted(Exception):
    """The operator does not want to go on."""


class Budget:
    """Bytes that all hosts together may still land; several threads spend them."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """How many are left; below 0 if the last piece was larger."""
        return self._left

    def spend(self, count: int) -> None:
        """So many have landed."""
        with self._lock:
            self._left -= count


def unwritten(error: OSError) -> HostError:
    """What an OSError means that writing to the lake has raised."""
    where = f"{error.filename}: " if error.filename else ""
    return HostError("failed", f"cannot be kept here: {where}{error.strerror or error}")


class Bounded:
    """Hands a taker its frames as long as it may go on. What has begun to come when the budget is
    used up is taken to its end: each host lands one piece more at most."""

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
        """A frame has come. Enough, Interrupted; HostError."""
        if self._stop.is_set():
            raise Interrupted
        if data and not self._under_way and self._budget.left <= 0:
            raise Enough
        self._under_way = self._under_way or bool(data)
        before = self._taker.counts.bytes
        try:
            self._taker.take(header, data)
        except OSError as error:  # of a connection it would mean that it was lost
            raise unwritten(error) from error
        if landed := self._taker.counts.bytes - before:
            self._budget.spend(landed)
            self._landed(landed)
            self._under_way = False
