"""The thread that takes alerts from the master into the log, for good before it says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import random
from typing import Final

import zmq
from msgspec import Struct

from agent.client import Client, NoReplyError, SubscriptionError, UnknownLoss
from agent.client.subscriptions import Received
from agent.gateway.feed.alert_log import AlertLog, Loss
from agent.gateway.feed.frames import Link
from agent.runtime.back_off import BackOff
from agent.runtime.console import Say
from agent.wire.push import Gap

POLL_S: Final = 0.25
PATIENCE_S: Final = 30.0
MAX_PAUSE_S: Final = 30.0
DISK_AGAIN_S: Final = 2.0
FAILURES: Final = (NoReplyError, SubscriptionError, ValueError, OSError, zmq.ZMQError)


class FeedState(Struct, frozen=True):
    """How alerts arrive: `away` with a message while they do not."""

    state: Link
    message: str = ""


class _StoppedError(Exception):
    """The gateway stops; what is not committed is not acknowledged."""


class AlertFeed:
    """Starts and ends the thread. `connect` makes its client."""

    def __init__(self, connect: Callable[[], Client], log: AlertLog, wanted: str, say: Say) -> None:
        self.on_state: Callable[[FeedState], object] = lambda _state: None  # in the thread
        self._state = FeedState("starting")
        self._connect = connect
        self._log = log
        self._wanted = wanted
        self._say = say
        self._stop = threading.Event()
        self._disk_failed = False
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    @property
    def state(self) -> FeedState:
        """How alerts arrive now."""
        return self._state

    def _be(self, state: FeedState) -> None:
        if state != self._state:
            self._state = state
            self.on_state(state)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End soon."""
        self._stop.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the end."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        pauses = BackOff(0.5, MAX_PAUSE_S, jitter=random)
        while not self._stop.is_set():
            try:
                with self._connect() as client:
                    self._follow(client, pauses)
            except _StoppedError:
                return
            except FAILURES as error:
                self._be(FeedState("away", " ".join(str(error).split())))
            self._stop.wait(pauses.next())

    def _follow(self, client: Client, pauses: BackOff) -> None:
        place = self._log.place(self._wanted)
        with client.subscribe(
            self._wanted,
            id=place.id,
            durable=True,
            after=place.after,
            patience_s=PATIENCE_S,
        ) as notifications:
            notifications.on_word = self._heard_word
            self._be(FeedState("up"))
            pauses.reset()
            while not self._stop.is_set():
                found = notifications.wait(POLL_S)
                if found is not None:
                    self._take(found)
                if notifications.is_delivering:
                    self._be(FeedState("up"))
                elif self.state.state == "up":
                    self._be(FeedState("away", "the connection was cut"))

    def _heard_word(self, word: str) -> None:
        self._be(FeedState("away", word))

    def _take(self, found: Received) -> None:
        """Commit it, however long the disk takes nothing; nothing is acknowledged before."""
        while True:
            try:
                self._commit(found)
            except OSError as error:
                if not self._disk_failed:
                    self._disk_failed = True
                    self._say(
                        f"alerts: cannot be logged ({error}); they wait at the master until the "
                        "disk takes them\n"
                    )
                self._be(FeedState("away", f"alerts cannot be logged: {error}"))
                if self._stop.wait(DISK_AGAIN_S):
                    raise _StoppedError from None
            else:
                if self._disk_failed:
                    self._disk_failed = False
                    self._say("alerts: logged again\n")
                return

    def _commit(self, found: Received) -> None:
        match found:
            case UnknownLoss(position=position, message=message):
                self._log.append(None, Loss(_of_unknown(message)), position)
            case Gap(last=last):
                self._log.append(None, Loss(_of_gap(found)), last)
            case _:
                self._log.append(found.notification, None, found.position)


def _of_gap(gap: Gap) -> str:
    if gap.lost is not None:
        count = gap.lost.count
        return f"{count} notification{'s' if count > 1 else ''} of {gap.lost.publisher} were lost"
    count = gap.last - gap.first + 1
    return f"{count} alert{'s' if count > 1 else ''} more than the master keeps for this gateway"


def _of_unknown(why: str) -> str:
    return f"alerts may be lost or repeated: {why}"[:500]
