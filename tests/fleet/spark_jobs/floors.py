"""Three masters of a building, two floors and a hub between them, and people who publish and listen
on one floor at a time."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from agent.client import Client, Operator
from agent.wire.messages import Slo
from agent.wire.topics import CreateTopic, ListTopics, Topic
from fleet.testbed.ports import free_address
from testkit.network import ANYBODY, Network
from testkit.waiting import PATIENCE_S, wait_until
from tests.master.handover_masters import IADS, section
from tests.master.push_rig import PushMaster

PATIENCE_MS = PATIENCE_S * 1e3
MESSAGE = {"time_ms": 1.8e12, "temperature": 22.0, "humidity": 45.0}
AREA = "b1/m{}"  # its output has it, too: so it tells messages apart
AGAIN_S = 2.0
LIVING_S = 0.5
FILTER = 'topic = "{}" and kind = "output"'
OBJECTIVE = Slo(90.0, 1_000.0)
# A record twice a second instead of once a minute, and moves that cost next to nothing: masters on
# one machine are a fraction of a millisecond apart.
MORE = """
[placement]
every_s = 0.2
move_cost = {move_cost}
[processing]
record_s = {record_s}
workers = 1
[clients]
rate_per_s = 100000.0
"""


class Building:
    """The masters `a`, `s` and `b`, as a run in `folder`; `a` and `b` are floors. With `way_s` a
    byte takes so long from one master to another."""

    def __init__(
        self, folder: Path, record_s: float = 0.5, move_cost: float = 1e-4, way_s: float = 0.0
    ) -> None:
        self.folder = folder
        own = {iad: free_address() for iad in IADS}
        self._stack = ExitStack()
        addresses = own
        if way_s:
            route = self._stack.enter_context(Network()).route
            addresses = {iad: route(ANYBODY, iad, own[iad], way_s) for iad in own}
        more = MORE.format(record_s=record_s, move_cost=move_cost)
        self.all = {
            iad: PushMaster(folder / iad, iad, address, section(iad, addresses) + more)
            for iad, address in own.items()
        }
        for iad, master in self.all.items():
            # As a run's folder is laid out.
            (folder / iad / "config.toml").write_text(master.config.read_text())
            master.wait_for_links(2 if iad == "s" else 1)
        for one in "ab":
            self.all[one].wait_for(
                lambda one=one: self.all[one].status().unreachable_iads, lambda gone: not gone
            )

    def stop(self) -> None:
        for master in self.all.values():
            master.stop(signal.SIGTERM)
        self._stack.close()

    def create(self, floor: str, *names: str) -> None:
        for name in names:
            topic = Topic(name, processor="comfort_index", slo=OBJECTIVE)
            with Operator(self.all[floor].operator) as operator:
                report = operator.ask_topic(CreateTopic("c", topic), PATIENCE_MS)
            assert report.ok, report.message

    def where(self, name: str) -> list[str]:
        found = []
        for iad in "ab":
            with Operator(self.all[iad].operator) as operator:
                topics = operator.ask_topic(ListTopics("l"), PATIENCE_MS).topics
            found += [iad for each in topics if each.topic.name == name]
        return found

    def wait_until_at(self, name: str, floor: str) -> None:
        wait_until(lambda: self.where(name), lambda found: found == [floor])

    def records(self, iad: str, kind: str, since: datetime) -> list[dict]:
        """What a master has recorded since then."""
        since_ms = since.timestamp() * 1e3
        lines = [
            line
            for file in sorted((self.folder / iad / "records").glob("*.jsonl"))
            for line in file.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]
        found = [json.loads(line) for line in lines if f'"record":"{kind}"' in line]
        return [each for each in found if each["wall_ms"] >= since_ms]

    def tell(self, numbers: dict) -> None:
        """Keep a line of numbers with the run."""
        with (self.folder / "numbers.jsonl").open("a") as file:
            file.write(json.dumps(numbers, ensure_ascii=False) + "\n")

    @contextmanager
    def people(self, floor: str, names: tuple[str, ...]) -> Iterator[People]:
        """Somebody who publishes and listens on a floor, to all of these topics."""
        with ExitStack() as stack:
            client = stack.enter_context(Client(self.all[floor].public))
            outputs = {
                name: stack.enter_context(
                    client.subscribe(FILTER.format(name), patience_s=PATIENCE_S)
                )
                for name in names
            }
            yield People(self, client, outputs)


class People:
    """They publish a message to each topic and wait for what becomes of it, again and again."""

    def __init__(self, building: Building, client: Client, outputs: dict) -> None:
        self._building, self._client, self._outputs = building, client, outputs
        self._number = 0
        for name in outputs:
            # What is put out before the topic's master has heard of the subscription is not for it.
            wait_until(lambda name=name: self._heard(name, self._publish(name), AGAIN_S))

    def live(self, fewest: int) -> list[float]:
        """Until each master has written so many records of placement from now on. How long each
        message took from the publisher to the subscriber, in ms: each makes one output."""
        began = datetime.now(UTC)
        took = [self._round(name) for name in self._outputs]
        while not all(
            len(self._building.records(iad, "placement", began)) >= fewest
            for iad in self._building.all
        ):
            took += [self._round(name) for _ in range(10) for name in self._outputs]
        return took

    @contextmanager
    def living(self) -> Iterator[None]:
        """They live on in another thread: the subscriptions of a client that is silent for a minute
        end."""
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            lived = pool.submit(self._live_until, over)
            try:
                yield
            finally:
                over.set()
            lived.result()

    def _live_until(self, over: threading.Event) -> None:
        while not over.wait(LIVING_S):
            for name in self._outputs:
                self._round(name)

    def _round(self, name: str) -> float:
        began_s = time.perf_counter()
        number = self._publish(name)
        assert self._heard(name, number, PATIENCE_S), f"no output of message {number} of {name}"
        return (time.perf_counter() - began_s) * 1e3

    def _publish(self, name: str) -> int:
        self._number += 1
        message = MESSAGE | {"area": AREA.format(self._number)}
        self._client.publish(name, message, patience_s=PATIENCE_S)
        return self._number

    def _heard(self, name: str, number: int, patience_s: float) -> bool:
        """Whether the output of that message comes; those of earlier ones are passed over."""
        while (found := self._outputs[name].wait(patience_s)) is not None:
            if found.notification.attributes["area"] == AREA.format(number):
                return True
        return False
