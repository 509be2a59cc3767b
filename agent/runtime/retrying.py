"""Retry rules of a receiver: when one message is attempted again, and when it is given up.

Only the first message in line is attempted: this keeps the order, and a receiver that is down costs
one attempt per pause.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from msgspec import Struct

from agent.runtime.back_off import BackOff

FIRST_PAUSE_S: Final = 1.0  # after a failure; doubles
# A receiver's Retry-After is respected up to this.
MAX_RETRY_AFTER_S: Final = 3_600.0
GONE: Final = 410
# Statuses that are about the moment (too slow, too early, too many), not about the request.
NOT_NOW: Final = frozenset({408, 425, 429})


class Answered(Struct, frozen=True, gc=False):
    """How an attempt ended. `status` is the receiver's HTTP status, or 0 if there was no answer in
    time; then `line` says why. Receivers that do not speak HTTP are given the status that means the
    same. `retry_after_s` is the pause that the receiver asks for, or 0. `left_out` says whom a
    receiver that took the message will not pass it on to."""

    status: int
    line: str
    retry_after_s: float = 0.0
    left_out: str = ""

    @property
    def refuses(self) -> bool:
        """Whether the receiver will not have what was sent, whenever it is sent."""
        return 400 <= self.status < 500 and self.status not in NOT_NOW


class Verdict(Enum):
    """The consequence of an ended attempt for its message."""

    DONE = "done"
    AGAIN = "again"
    GIVEN_UP = "given up"
    GONE = "gone"


class Retrying:
    """The attempts at one receiver; `now` is monotonic seconds. All O(1).

    A message that the receiver refuses with 4xx is given up after `give_up_s`, because it would
    block all that follow; with 410 the receiver wants no more at all. `jitter` returns random
    numbers in [0, 1).
    """

    def __init__(
        self,
        *,
        jitter: Callable[[], float],
        longest_pause_s: float = 300.0,
        give_up_s: float = 86_400.0,
    ) -> None:
        self.again_s = 0.0  # not before
        # What the operator is to be told after the last attempt, or nothing.
        self.said = ""
        self._give_up_s = give_up_s
        self._pauses = BackOff(FIRST_PAUSE_S, longest_pause_s, jitter=jitter)
        self._refused_since_s: float | None = None  # for the first in line

    @property
    def up(self) -> bool:
        """Whether the last attempt, if there was one, went well."""
        return not self._pauses.failures

    def answered(self, answered: Answered, now: float) -> Verdict:
        """Judge one attempt."""
        self.said = ""
        if 200 <= answered.status < 300:
            if self._pauses.failures:
                self.said = "delivers again"
            self._pauses.reset()
            return self._next(Verdict.DONE, now)
        if answered.status == GONE:
            return Verdict.GONE
        if not answered.refuses:
            # The status is not about the request, so its time to give up does not run.
            self._refused_since_s = None
        elif self._refused_since_s is None:
            self._refused_since_s = now
        elif now - self._refused_since_s >= self._give_up_s:
            return self._next(Verdict.GIVEN_UP, now)
        pause_s = self._pauses.next()
        self.again_s = now + max(pause_s, min(answered.retry_after_s, MAX_RETRY_AFTER_S))
        if self._pauses.failures == 1:
            self.said = f"does not deliver, and will try again: {answered.line}"
        return Verdict.AGAIN

    def _next(self, verdict: Verdict, now: float) -> Verdict:
        self._refused_since_s = None
        self.again_s = now
        return verdict
