"""Watches in a client: an iterator over a standing query's rounds that survives reconnections."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, Self

from msgspec.structs import replace

from agent.client.connection import ConnectionCutError, NoReplyError
from agent.wire.base import TIMEOUT_FACTOR, Message
from agent.wire.messages import Answer
from agent.wire.unions import ClientReply
from agent.wire.watches import Acknowledge, Cancel, Round, Watch, Watching

# A watch is sent again after silence for the sum of: its interval, at most the first of these; its
# answer timeout; and the second, for late readings at the master and for transmission.
MAX_QUIET_S = 30.0
QUIET_GRACE_S = 5.0
CANCEL_MS = 1_000.0


def _ignore(_word: str) -> None:
    """Default callback: does nothing."""


class WatchError(ValueError):
    """The master refused a watch or ended it; one line gives the reason."""


class Taker(Protocol):
    """The part of `Client` that a watch uses."""

    def send_message(self, message: Message) -> None:
        """Send to the master."""

    def take(self, timeout_ms: float, *, until_cut: bool = False) -> None:
        """Receive one message and dispatch it; `NoReplyError` after `timeout_ms`, with `until_cut`
        also `ConnectionCutError`."""

    def forget(self, watch_id: str) -> None:
        """Ignore further messages of a watch."""


class Rounds:
    """The rounds of one watch, each once and in order, even if the connection is cut or the master
    restarts; created by `Client.watch`.

    A round counts as taken when the loop requests the next one; `after` is the last one taken.
    After an exception in the loop, ``client.watch(…, resume=(rounds.id, rounds.after))`` delivers
    the same round again.
    """

    def __init__(
        self, client: Taker, watch: Watch, detach: bool, patience_s: float, until_cut: bool
    ) -> None:
        self.watch = watch
        self.after = watch.after or 0
        self.message = ""  # the master's last reason for incomplete rounds
        self.looked_at = self.after  # rounds completed, by the master's last message
        # Called while the loop waits, with each new reason for missing or incomplete rounds.
        self.on_word: Callable[[str], None] = _ignore
        self._client = client
        self._detach = detach
        self._patience_s = patience_s
        self._until_cut = until_cut
        timeout_ms = watch.timeout_ms or watch.slo.latency_ms * TIMEOUT_FACTOR
        self._quiet_s = min(watch.interval_s, MAX_QUIET_S) + timeout_ms / 1e3 + QUIET_GRACE_S
        self._state = ""  # "" until the master's first reply
        self._last = self.after
        self._received: deque[Round] = deque()
        self._in_loop: int | None = None
        self._heard_s = 0.0
        self._sent_again = 0

    @property
    def id(self) -> str:
        """The watch's id. Any client that knows it can continue the watch; without keys it is the
        only protection."""
        return self.watch.id

    @property
    def is_open(self) -> bool:
        """Whether there may be more rounds, by the master's last message."""
        return self._state == "open"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if not self._detach:
            self.cancel()
            return
        if kind is None:
            self.acknowledge()
        self._client.forget(self.id)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Round:
        found = self.wait(math.inf)
        if found is None:
            raise StopIteration
        return found

    def wait(self, timeout_s: float) -> Round | None:
        """The next round; None if none arrives within `timeout_s`, or the watch is finished. It
        raises as the iterator does."""
        self.acknowledge()
        give_up_s = time.monotonic() + timeout_s
        while not self._received:
            if self._state == "finished":
                return None
            self._check()
            quiet_s = self._heard_s + self._quiet_s
            due_s = min(quiet_s, give_up_s)
            try:
                left_ms = max(0.0, (due_s - time.monotonic()) * 1e3)
                self._client.take(left_ms, until_cut=self._until_cut)
            except ConnectionCutError:
                raise
            except NoReplyError:
                if give_up_s < quiet_s:
                    return None
                self._sent_again += 1
                if self._sent_again * self._quiet_s > self._patience_s:
                    raise
                self._watch_again()
        first = self._received.popleft()
        self._in_loop = first.number
        return first

    def open(self, timeout_ms: float = 2_000.0) -> None:
        """Send the watch and wait for the master's reply; part of `Client.watch`."""
        self._client.send_message(self.watch)
        self._leave("", timeout_ms)
        self._check()

    def cancel(self, timeout_ms: float = CANCEL_MS) -> bool:
        """End the watch; whether the master confirmed in time. If the request was lost, the watch
        expires after an hour."""
        try:
            if self._state == "open":
                self._client.send_message(Cancel(self.id))
                self._leave("open", timeout_ms)
        except NoReplyError:
            self._state = "lost"
        finally:
            self._received.clear()
            self._client.forget(self.id)
        return self._state != "lost"

    def acknowledge(self) -> None:
        """Acknowledge the last round; requesting the next one does so too."""
        if self._in_loop is not None:
            self.after, self._in_loop = self._in_loop, None
            self._client.send_message(Acknowledge(self.id, self.after))

    def take(self, message: ClientReply) -> None:
        """Handle a message of this watch."""
        self._heard_s, self._sent_again = time.monotonic(), 0
        match message:
            case Round():
                # Skip a duplicate, and a round after a lost one, which will be sent again.
                if message.previous <= self._last < message.number:
                    self._last = message.number
                    self._received.append(message)
            case Watching():
                self._state, known, self.message = message.state, self.message, message.message
                self.looked_at = max(self.looked_at, message.next_round - 1)
                if message.state == "open" and message.message not in ("", known):
                    self.on_word(message.message)
                if message.state == "finished":
                    # The first acknowledgement of the rounds that did not fire.
                    self._client.send_message(Acknowledge(self.id, message.next_round - 1))
            case Answer():  # the master could not decode the watch
                self._state, self.message = "refused", message.message

    def _watch_again(self) -> None:
        """Send the watch again after silence: the connection or the master may be new."""
        self._heard_s = time.monotonic()
        # A trigger that does not fire is silent, so only a second silence is significant.
        if self.watch.style != "event" or self._sent_again > 1:
            quiet_s = self._sent_again * self._quiet_s
            self.on_word(f"no word from the master for {quiet_s:.0f} s; asking again")
        self._client.send_message(replace(self.watch, after=self._last))

    def _leave(self, state: str, timeout_ms: float) -> None:
        give_up = time.monotonic() + timeout_ms / 1e3
        while self._state == state:
            self._client.take(max(0.0, (give_up - time.monotonic()) * 1e3))

    def _check(self) -> None:
        if self._state in ("refused", "cancelled", "lost"):
            raise WatchError(self.message or "the watch was cancelled")
