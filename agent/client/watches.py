"""The rounds of a watch, as a client takes them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from msgspec.structs import replace

from agent.client.connection import NoReplyError
from agent.wire.base import TIMEOUT_FACTOR, Message
from agent.wire.messages import Answer
from agent.wire.unions import ClientReply
from agent.wire.watches import Acknowledge, Cancel, Round, Watch, Watching

# A watch is sent again when nothing came of it for its interval, or the first of these if that is
# shorter, its answer timeout, and the second: what the master waits for late readings, and travel.
LONGEST_QUIET_S = 30.0
QUIET_GRACE_S = 5.0
CANCEL_MS = 1_000.0


def _ignore(_word: str) -> None:
    """Who shows words to nobody."""


class WatchError(ValueError):
    """The master refuses a watch, or has ended it; one line says why."""


class Taker(Protocol):
    """The client under the rounds of its watches."""

    def send_message(self, message: Message) -> None:
        """Send to the master."""

    def take(self, timeout_ms: float) -> None:
        """Receive one message and hand it to whom it is for; `NoReplyError` after `timeout_ms`."""

    def forget(self, watch_id: str) -> None:
        """Pass over what still comes of a watch."""


class Rounds:
    """The rounds of one watch, each once and in order, whatever becomes of the connection or of the
    master in between; made by `Client.watch`.

    A round counts as taken when the loop asks for the next one; `after` is the last of them. After
    an exception in the loop ``client.watch(…, resume=(rounds.id, rounds.after))`` gives the same
    round again.
    """

    def __init__(self, client: Taker, watch: Watch, detach: bool, patience_s: float) -> None:
        self.watch = watch
        self.after = watch.after or 0
        self.message = ""  # the master's last word on why less comes than was asked for
        self.looked_at = self.after  # rounds that are done with by the master's last word
        # Called with each new word on why nothing or less comes, while the loop waits.
        self.on_word: Callable[[str], None] = _ignore
        self._client = client
        self._detach = detach
        self._patience_s = patience_s
        timeout_ms = watch.timeout_ms or watch.slo.latency_ms * TIMEOUT_FACTOR
        self._quiet_s = min(watch.interval_s, LONGEST_QUIET_S) + timeout_ms / 1e3 + QUIET_GRACE_S
        self._state = ""  # until the master's first word
        self._last = self.after
        self._received: deque[Round] = deque()
        self._in_loop: int | None = None
        self._heard_s = 0.0
        self._sent_again = 0

    @property
    def id(self) -> str:
        """Who knows it can go on with the watch; without keys it is all that protects the watch."""
        return self.watch.id

    @property
    def is_open(self) -> bool:
        """Whether there may be more rounds, by the master's last word."""
        return self._state == "open"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._detach:
            self.cancel()
            return
        if kind is None:
            self.acknowledge()
        self._client.forget(self.id)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Round:
        self.acknowledge()
        while not self._received:
            if self._state == "finished":
                raise StopIteration
            self._check()
            quiet_left_s = self._heard_s + self._quiet_s - time.monotonic()
            try:
                self._client.take(max(0.0, quiet_left_s * 1e3))
            except NoReplyError:
                self._sent_again += 1
                if self._sent_again * self._quiet_s > self._patience_s:
                    raise
                self._watch_again()
        first = self._received.popleft()
        self._in_loop = first.number
        return first

    def open(self, timeout_ms: float = 2_000.0) -> None:
        """Send the watch and wait for the master's word on it; part of `Client.watch`."""
        self._client.send_message(self.watch)
        self._leave("", timeout_ms)
        self._check()

    def cancel(self, timeout_ms: float = CANCEL_MS) -> bool:
        """End the watch; whether the master confirmed it in time. One that did not hear of it ends
        the watch by itself after an hour."""
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
        """The round last given is taken; asking for the next one says so too."""
        if self._in_loop is not None:
            self.after, self._in_loop = self._in_loop, None
            self._client.send_message(Acknowledge(self.id, self.after))

    def take(self, message: ClientReply) -> None:
        """What the client received of this watch."""
        self._heard_s, self._sent_again = time.monotonic(), 0
        match message:
            case Round():
                # Not one that was sent twice, or before which one was lost: that comes again.
                if message.previous <= self._last < message.number:
                    self._last = message.number
                    self._received.append(message)
            case Watching():
                self._state, known, self.message = message.state, self.message, message.message
                self.looked_at = max(self.looked_at, message.next_round - 1)
                if message.state == "open" and message.message not in ("", known):
                    self.on_word(message.message)
                if message.state == "finished":
                    # Of rounds that did not fire the master learns only now that nobody waits.
                    self._client.send_message(Acknowledge(self.id, message.next_round - 1))
            case Answer():  # the master could not read the watch
                self._state, self.message = "refused", message.message

    def _watch_again(self) -> None:
        """Nothing came for a while: the connection or the master may be new."""
        self._heard_s = time.monotonic()
        # A trigger that does not hold makes no noise: then only a second silence says something.
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
