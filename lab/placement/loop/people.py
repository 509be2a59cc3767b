"""People on one floor, who publish to topics and listen to what becomes of it."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from agent.client import Client, NoReplyError
from agent.client.subscriptions import Notifications, Received
from agent.wire.push import Notified
from lab.placement.loop.building import Building
from lab.placement.masters import ANSWER_MS, PATIENCE_S, MastersError
from lab.placement.sequences import Check, Sequence

FILTER: Final = 'topic = "{}" and kind = "output"'
MESSAGE: Final = {"time_ms": 1.8e12, "temperature": 22.0, "humidity": 45.0}
# A message's output is of the same area, which is the number of the message.
AREA: Final = "b1/m"
AGAIN_S: Final = 2.0
# Rounds between two looks at whether masters have recorded enough.
ROUNDS: Final = 10
# Between two messages of a topic while something else is done.
PACE_S: Final = 0.1
# What has not come for so long is lost; what comes twice comes before.
LATE_S: Final = 30.0
TWICE_S: Final = 0.5


@contextmanager
def people(building: Building, floor: str, names: Iterable[str], check: Check) -> Iterator[People]:
    """Somebody who publishes and listens on a floor, to all of these topics; when they go, what
    they got is added to `check`. MastersError."""
    with Client(building.public(floor)) as client:
        found = People(building, floor, client)
        for name in names:
            found.subscribe(name)
        yield found
        found.leave(check)


class People:
    """They publish a message to each topic and wait for what becomes of it, again and again."""

    def __init__(self, building: Building, floor: str, client: Client) -> None:
        self._building, self._floor, self._client = building, floor, client
        self._outputs: dict[str, Notifications] = {}
        self._sequences: dict[str, Sequence] = {}
        self._published: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        self._others = 0  # what was said instead of an output, such as of a gap

    def subscribe(self, name: str) -> None:
        """Subscribe to a topic, and wait until its master knows."""
        self._outputs[name] = self._subscribed(name)
        self._sequences[name] = Sequence()
        self._published[name] = self._heard[name] = 0
        give_up_s = time.monotonic() + PATIENCE_S
        # What is put out before the topic's master has heard of the subscription is not for it.
        while not self._hear(name, self._publish(name), AGAIN_S):
            self._give_up(give_up_s, f"no output of topic {name}")

    def _subscribed(self, name: str) -> Notifications:
        give_up_s = time.monotonic() + PATIENCE_S
        id_ = f"{name}-{secrets.token_hex(4)}"
        while True:
            # A master of a busy machine may be slow; the same again changes nothing.
            try:
                return self._client.subscribe(FILTER.format(name), id=id_, patience_s=PATIENCE_S)
            except NoReplyError:
                self._give_up(give_up_s, f"no subscription to topic {name}")

    def _give_up(self, give_up_s: float, trouble: str) -> None:
        self._building.check()
        if time.monotonic() > give_up_s:
            raise MastersError(f"{self._floor}: {trouble} after {PATIENCE_S:g} s")

    def live(self, records: int) -> list[float]:
        """Until each master has written so many records of placement from now on. How long each
        message took from the publisher to the subscriber, in ms."""
        began_ms = time.time() * 1e3
        took_ms = [self._round(name) for name in self._outputs]
        while not self._building.has_recorded(records, began_ms):
            took_ms += [self._round(name) for _ in range(ROUNDS) for name in self._outputs]
        return took_ms

    def _round(self, name: str) -> float:
        began_s = time.perf_counter()
        number = self._publish(name)
        give_up_s = time.monotonic() + PATIENCE_S
        while not self._hear(name, number, AGAIN_S):
            self._give_up(give_up_s, f"no output of message {number} to topic {name}")
        return (time.perf_counter() - began_s) * 1e3

    @contextmanager
    def living(self) -> Iterator[None]:
        """They live on in another thread, and publish at a steady pace whatever comes: a topic that
        pauses keeps nobody from it."""
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            lived = pool.submit(self._live_until, over)
            try:
                yield
            finally:
                over.set()
            lived.result()

    def _live_until(self, over: threading.Event) -> None:
        while not over.wait(PACE_S):
            for name in self._outputs:
                self._publish(name)
            for name in self._outputs:
                self._take_all(name, 0.0)
        self._catch_up()

    def leave(self, check: Check) -> None:
        """Wait for what is late or comes twice, and count what came; end the subscriptions."""
        self._catch_up()
        for name, outputs in self._outputs.items():
            self._take_all(name, TWICE_S)
            self._sequences[name].add_to(check)
            # None came after these.
            check.lost += self._published[name] - self._heard[name]
            outputs.cancel(ANSWER_MS)
        check.lost += self._others

    def _catch_up(self) -> None:
        for name, published in self._published.items():
            if self._heard[name] < published:
                self._hear(name, published, LATE_S)

    def _publish(self, name: str) -> int:
        self._published[name] += 1
        message = MESSAGE | {"area": f"{AREA}{self._published[name]}"}
        self._client.publish(name, message, patience_s=PATIENCE_S)
        return self._published[name]

    def _hear(self, name: str, number: int, patience_s: float) -> bool:
        """Whether the output of that message comes; those of others are taken meanwhile."""
        give_up_s = time.monotonic() + patience_s
        while (found := self._outputs[name].wait(give_up_s - time.monotonic())) is not None:
            if self._take(name, found) == number:
                return True
        return False

    def _take_all(self, name: str, patience_s: float) -> None:
        while (found := self._outputs[name].wait(patience_s)) is not None:
            self._take(name, found)

    def _take(self, name: str, found: Received) -> int | None:
        """Count what came; the number of the message whose output it is."""
        if not isinstance(found, Notified):
            self._others += 1
            return None
        number = int(str(found.notification.attributes["area"]).removeprefix(AREA))
        self._sequences[name].take(number, number)
        self._heard[name] = max(self._heard[name], number)
        return number
