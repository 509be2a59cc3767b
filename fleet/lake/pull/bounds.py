"""Limits that end a pull early: its byte budget, a host that sends nothing, or Ctrl-C."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from fleet.lake.pull.host_source import BEAT, Header, Taker
from fleet.ssh.errors import HostError

# A host sends so much within so long, or is given up: signs of life alone are no progress. The
# slowest listing of a history takes a Pi a minute.
PROGRESS_BYTES: Final = 1 << 16
PROGRESS_S: Final = 300.0


class Enough(Exception):
    """The allowed number of bytes has come."""


class Interrupted(Exception):
    """The operator has interrupted the pull."""


class Budget:
    """Bytes that all hosts together may still send; shared by several threads.

    Half of it is set aside in equal shares, so that a host which sends without end leaves
    something to each of the others. A share that its host did not use is everybody's.
    """

    def __init__(self, most: int, hosts: int) -> None:
        self._each = most // (2 * max(1, hosts))
        self._free = most - self._each * hosts
        self._lock = threading.Lock()

    def share(self) -> Share:
        """The share of one host, which takes it once."""
        return Share(self, self._each)

    @property
    def free(self) -> int:
        """The bytes of no host; negative if the last piece was larger."""
        return self._free

    def add(self, count: int) -> None:
        """So many more are free, or fewer if negative."""
        with self._lock:
            self._free += count


class Share:
    """What one host may still send."""

    def __init__(self, budget: Budget, own: int) -> None:
        self._budget = budget
        self._own = own

    @property
    def left(self) -> int:
        """The remaining bytes, of its own and of those that are free."""
        return self._own + max(0, self._budget.free)

    def spend(self, count: int) -> None:
        """So many have come."""
        own = min(self._own, count)
        self._own -= own
        self._budget.add(own - count)

    def end(self) -> None:
        """The host needs no more."""
        self._budget.add(self._own)
        self._own = 0


def unwritten(error: OSError) -> HostError:
    """The HostError for an OSError raised while writing to the lake."""
    where = f"{error.filename}: " if error.filename else ""
    # Arrow puts words of its own into an error of the system.
    why = os.strerror(error.errno) if error.errno else error
    return HostError("failed", f"cannot be kept here: {where}{why}")


class Bounded:
    """Passes frames to a taker within the host's share. A piece that has begun to arrive when the
    share is used up is completed: each host sends at most one piece more."""

    def __init__(
        self,
        taker: Taker,
        share: Share,
        stop: threading.Event,
        landed: Callable[[int], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._taker = taker
        self._share = share
        self._stop = stop
        self._landed = landed
        self._clock = clock
        self._since_s = clock()
        self._enough = PROGRESS_BYTES

    def take(self, header: Header, data: bytes) -> None:
        """Take a frame. Enough, Interrupted; HostError."""
        if self._stop.is_set():
            raise Interrupted
        if header != BEAT:
            self._pass_on(header, data)
        self._check_progress()

    def _pass_on(self, header: Header, data: bytes) -> None:
        taker = self._taker
        if data and not taker.under_way and self._share.left <= 0:
            raise Enough
        landed, received = taker.counts.bytes, taker.received
        try:
            taker.take(header, data)
        except OSError as error:  # raised by a connection, this would mean that it was lost
            raise unwritten(error) from error
        self._share.spend(taker.received - received)
        if landed := taker.counts.bytes - landed:
            self._landed(landed)

    def _check_progress(self) -> None:
        now_s = self._clock()
        if self._taker.received >= self._enough:
            self._since_s = now_s
            self._enough = self._taker.received + PROGRESS_BYTES
        elif now_s - self._since_s > PROGRESS_S:
            raise HostError(
                "lost", f"it lives, and sent less than {PROGRESS_BYTES:,} bytes in {PROGRESS_S:g} s"
            )
