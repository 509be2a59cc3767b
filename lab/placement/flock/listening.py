"""Subscribers of what clones put out, each in a thread of its own."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from agent.client import Client, NoReplyError
from agent.client.subscriptions import Received
from agent.wire.push import Notified
from lab.placement.flock.counting import CHANNEL
from lab.placement.sequences import Check, Sequence

# What clones made of readings of their devices, and not of what their peers put out.
WANTED: Final = 'kind = "output" and peer = ""'
LOOK_S: Final = 1.0


class Listener:
    """A durable subscription at one master."""

    def __init__(self, address: str, name: str) -> None:
        self._address, self._name = address, name
        self._sequences: dict[str, Sequence] = {}
        self._others = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.opened = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def close(self) -> None:
        """Stop to listen."""
        self._ended.set()
        self._thread.join()

    def add_to(self, check: Check) -> int:
        """Count what came so far; returns the number of topics heard. What was said instead of an
        output, such as of a gap, counts as lost."""
        with self._lock:
            for each in self._sequences.values():
                each.add_to(check)
            check.lost += self._others
            return len(self._sequences)

    def _run(self) -> None:
        while not self._ended.is_set():
            # A master of a busy machine may be silent for long; the subscription goes on then.
            with suppress(NoReplyError):
                self._listen()

    def _listen(self) -> None:
        with Client(self._address) as client:
            found = client.subscribe(WANTED, id=self._name, durable=True)
            self.opened.set()
            while not self._ended.is_set():
                if (got := found.wait(LOOK_S)) is None:
                    continue
                with self._lock:
                    self._take(got)

    def _take(self, got: Received) -> None:
        if not isinstance(got, Notified):
            self._others += 1
            return
        values = got.notification.attributes
        sequence = self._sequences.setdefault(str(values["topic"]), Sequence())
        sequence.take(round(float(str(values["n"]))), round(float(str(values[CHANNEL]))))
