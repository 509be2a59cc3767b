"""The clients of a history, each in a thread of its own: they go on whatever happens to masters."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Self

from agent.client import Client, NoReplyError, SubscriptionError, WatchError
from agent.client.publishing import PublishError
from agent.wire.push import Notified
from lab.chaos.checker import LATENCY_MS
from lab.chaos.history import Alert, Asked, History, Output, RoundSeen

PATIENCE_S: Final = 3_600.0
OPEN_S: Final = 30.0
LOOK_S: Final = 0.2
ASK_EVERY_S: Final = 0.15
PUBLISH_EVERY_S: Final = 0.1
TOPIC: Final = "counted"
# Events have so many numbers, one for each area of the node.
NUMBERS: Final = 16


class Clients:
    """Askers at every master, and a stream, two durable subscriptions and a publisher at some."""

    def __init__(self, history: History, publics: dict[str, str], areas: Sequence[str]) -> None:
        self._history = history
        self._publics = publics
        self._areas = areas
        # Those who stay connected have begun when the faults do.
        self._open = threading.Barrier(4)
        self._faults_over = threading.Event()
        self._over = threading.Event()
        self.failed: list[BaseException] = []
        first, second, *_, last = publics
        self._asking = [
            *(self._thread(self._ask, master) for master in publics),
            self._thread(self._watch, second),
            self._thread(self._publish, last),
        ]
        self._hearing = [self._thread(self._hear, first), self._thread(self._take_outputs, last)]

    def __enter__(self) -> Self:
        self._begun_s = time.monotonic()
        for each in (*self._asking, *self._hearing):
            each.start()
        with suppress(threading.BrokenBarrierError):  # one has failed
            self._open.wait(OPEN_S)
        self._begun_s = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.ask_no_more()
        self._over.set()
        for each in self._hearing:
            each.join()

    def now_s(self) -> float:
        """Seconds since the start of the history."""
        return time.monotonic() - self._begun_s

    def ask_no_more(self) -> None:
        """Publish, ask and watch no more; what was published and raised may still come."""
        self._faults_over.set()
        for each in self._asking:
            each.join()

    def _thread(self, work: Callable[[str], None], master: str) -> threading.Thread:
        return threading.Thread(target=self._guarded, args=(work, master))

    def _guarded(self, work: Callable[[str], None], master: str) -> None:
        try:
            work(master)
        except BaseException as error:  # noqa: BLE001  # raised in the main thread
            self.failed.append(error)

    def _ask(self, master: str) -> None:
        draw = random.Random(f"{self._history.seed} {master}")
        with Client(self._publics[master]) as client:
            while not self._faults_over.wait(ASK_EVERY_S):
                areas = tuple(sorted(draw.sample(self._areas, draw.choice((1, 3)))))
                at_s = self.now_s()
                try:
                    answer = client.query(areas, last_s=5.0, latency_ms=LATENCY_MS)
                except NoReplyError:
                    seen = Asked(at_s, self.now_s(), master, areas, "no reply")
                else:
                    seen = Asked(
                        at_s,
                        self.now_s(),
                        master,
                        areas,
                        answer.status,
                        tuple([each.area for each in answer.results]),
                        tuple([(each.area, each.reason) for each in answer.missing]),
                    )
                self._history.asked.append(seen)

    def _watch(self, master: str) -> None:
        with (
            Client(self._publics[master]) as client,
            client.watch(
                ["b1"],
                style="streaming",
                interval_s=0.5,
                lasting_s=600.0,
                latency_ms=LATENCY_MS,
                form="aggregate",
                patience_s=PATIENCE_S,
            ) as rounds,
        ):
            self._open.wait(OPEN_S)
            while not self._faults_over.is_set():
                try:
                    each = rounds.wait(LOOK_S)
                except (NoReplyError, WatchError):
                    continue
                if each is not None:
                    seen = RoundSeen(each.number, each.start_ms, each.end_ms)
                    self._history.rounds.append(seen)

    def _hear(self, master: str) -> None:
        def take(each: Notified) -> Alert:
            told = each.notification
            number = told.origin.sequence // NUMBERS
            return Alert(each.position, str(told.attributes["area"]), number)

        self._subscribe(
            master,
            'trigger = "hot"',
            lambda each: self._history.alerts.append(
                take(each) if isinstance(each, Notified) else Alert(0)
            ),
        )

    def _take_outputs(self, master: str) -> None:
        def take(each: Notified) -> Output:
            told = each.notification.attributes
            return Output(each.position, int(told["n"]), int(told["seen"]))

        self._subscribe(
            master,
            f'topic = "{TOPIC}" and kind = "output"',
            lambda each: self._history.outputs.append(
                take(each) if isinstance(each, Notified) else Output(0, 0, 0)
            ),
        )

    def _subscribe(self, master: str, wanted: str, take: Callable[[object], None]) -> None:
        with Client(self._publics[master]) as client:
            heard = client.subscribe(wanted, id="log", durable=True, patience_s=PATIENCE_S)
            self._open.wait(OPEN_S)
            while not self._over.is_set():
                try:
                    each = heard.wait(LOOK_S)
                except (NoReplyError, SubscriptionError):
                    continue
                if each is not None:
                    take(each)

    def _publish(self, master: str) -> None:
        with Client(self._publics[master]) as client:
            for n in itertools.count(1):
                while not self._faults_over.wait(PUBLISH_EVERY_S):
                    try:
                        client.publish(TOPIC, {"n": n}, id="publisher", sequence=n)
                        break
                    except (NoReplyError, PublishError):
                        continue  # the same number is the same message
                else:
                    return
                self._history.published.append(n)
