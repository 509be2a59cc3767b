"""The demo's topics: the mean of each floor, and a processor that moves while it works."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

from msgspec import Struct

from agent.client import Client, Notifications, Operator
from agent.placement.lifecycle import ENDED
from agent.wire.handover import ListMoves, MoveUnit, UnitMove
from agent.wire.messages import Slo
from agent.wire.push import Notified
from agent.wire.topics import CreateTopic, RemoveTopic, Topic
from fleet.demo.story import Story
from fleet.query import subscribe
from fleet.simulation.screen import DemoScreen
from fleet.terminal import screen
from fleet.testbed.testbed import Testbed, TestbedError

KEEPER: Final = "iad1"
PUBLISHER: Final = "iad3"
SUBSCRIBER: Final = "iad4"
TARGET: Final = "iad2"
FLOORS: Final = Topic(
    "floors",
    areas=("b1",),
    every_s=1.0,
    service="temperature",
    processor="aggregate",
    parameters={"channels": ("temperature",), "depth": 2, "window_s": 2.0, "grace_s": 1.0},
    slo=Slo(90.0, 1_000.0),
)
COUNTED: Final = Topic("counted", processor="comfort_index", slo=Slo(90.0, 1_000.0))
SHOWN: Final = 4
PATIENCE_S: Final = 15.0
RATE_PER_S: Final = 100.0
BEFORE_S: Final = 0.5
AFTER_S: Final = 1.0


class Move(Struct, frozen=True):
    """A processor's move under load, in results.json: what became of numbered messages, and the
    longest times in ms between two outputs and without owner."""

    sent: int
    lost: int
    doubled: int
    reordered: int
    longest_gap_ms: float
    pause_ms: float | None


def show_topics(bed: Testbed, show: DemoScreen, story: Story) -> Move:
    """Create topics, show what they put out, and move one while messages come."""
    show.heading("6  Topics: what processors make of readings and messages")
    show.say(
        f"{KEEPER} keeps the topic {FLOORS.name}: every second it asks the temperature of all "
        f"rooms, and a processor, {FLOORS.processor}, makes the means of floors over two seconds "
        f"of them, in a process of its own. Somebody subscribes at {SUBSCRIBER}."
    )
    show.say("")
    with _kept(bed, FLOORS), _outputs(bed, FLOORS.name) as outputs:
        story.step("Compute where the readings are: the mean of every floor, each second")
        story.say(", ".join(_follow(outputs, show)) or "Nothing came.")
    show.say("")
    show.say(
        f"A processor moves while it works: numbered messages are published at {PUBLISHER}, "
        f"{RATE_PER_S:g} a second; each goes through {COUNTED.processor} at {KEEPER}, which is "
        f"moved to {TARGET} meanwhile; what comes of them is counted at {SUBSCRIBER}."
    )
    with _kept(bed, COUNTED), _outputs(bed, COUNTED.name) as outputs:
        moved = _move(bed, outputs)
    show.say(
        f"{moved.sent} messages: {moved.lost} lost, {moved.doubled} doubled, {moved.reordered} "
        f"reordered. The move paused the outputs for {moved.pause_ms or 0:.0f} ms; the longest "
        f"time between two of them was {moved.longest_gap_ms:.0f} ms."
    )
    story.say(
        f"One such program moved to another master: {moved.sent} messages, {moved.lost} lost, "
        f"{moved.doubled} doubled."
    )
    return moved


@contextmanager
def _kept(bed: Testbed, topic: Topic) -> Iterator[None]:
    """The topic, removed in the end from whichever master has it."""
    with Operator(bed.operator(KEEPER)) as operator:
        report = operator.ask_topic(CreateTopic("create", topic))
    if not report.ok:
        raise TestbedError(f"topic {topic.name} was not created: {report.message}")
    yield
    for iad in bed.plan.iads:
        with Operator(bed.operator(iad.name)) as operator:
            operator.ask_topic(RemoveTopic("remove", topic.name))


@contextmanager
def _outputs(bed: Testbed, topic: str) -> Iterator[Notifications]:
    wanted = f'topic = "{topic}" and kind = "output"'
    with Client(bed.public(SUBSCRIBER)) as client, client.subscribe(wanted) as notifications:
        yield notifications


def _follow(outputs: Notifications, show: DemoScreen) -> list[str]:
    """Show some outputs; the floors' means, in words."""
    means = {}
    end_s = time.monotonic() + PATIENCE_S
    for _ in range(SHOWN):
        each = outputs.wait(max(0.0, end_s - time.monotonic()))
        if each is None:
            show.say(f"Nothing came in {PATIENCE_S:g} s.")
            break
        screen.line(show.console, subscribe.alert_line(each, time.time()))
        if isinstance(each, Notified):
            found = each.notification.attributes
            if isinstance(mean := found.get("temperature"), float):
                means[str(found.get("area"))] = mean
    return [f"{area} {mean:.1f} °C" for area, mean in sorted(means.items())]


# --- a move under load ----------------------------------------------------------------------------


class _Publisher(threading.Thread):
    """Publishes messages 0, 1, 2, … until told to stop."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._stopping = threading.Event()
        self.sent = 0

    def run(self) -> None:
        begun_s = time.monotonic()
        with Client(self._address) as client:
            while not self._stopping.is_set():
                number: dict[str, bool | float | str]
                number = {"area": f"counted/{self.sent}", "temperature": 21.0, "humidity": 45.0}
                client.publish(COUNTED.name, number)
                self.sent += 1
                ahead_s = begun_s + self.sent / RATE_PER_S - time.monotonic()
                self._stopping.wait(max(0.0, ahead_s))

    def stop(self) -> int:
        """How many were published."""
        self._stopping.set()
        self.join()
        return self.sent


def _move(bed: Testbed, outputs: Notifications) -> Move:
    heard: list[tuple[int, float]] = []
    publisher = _Publisher(bed.public(PUBLISHER))
    publisher.start()
    _hear(outputs, heard, time.monotonic() + BEFORE_S)
    with Operator(bed.operator(KEEPER)) as operator:
        report = operator.ask_move(MoveUnit("move", "processor", COUNTED.name, TARGET))
        if not report.ok:
            raise TestbedError(f"topic {COUNTED.name} was not moved: {report.message}")
        end_s = time.monotonic() + PATIENCE_S
        while (move := _last(operator)).state not in ENDED:
            if time.monotonic() > end_s:
                raise TestbedError(f"the move of {COUNTED.name} is {move.state} for too long")
            _hear(outputs, heard, time.monotonic() + 0.1)
    if move.state == "aborted":
        raise TestbedError(f"topic {COUNTED.name} was not moved: {move.trouble}")
    _hear(outputs, heard, time.monotonic() + AFTER_S)
    sent = publisher.stop()
    end_s = time.monotonic() + PATIENCE_S
    while len({number for number, _ in heard}) < sent and time.monotonic() < end_s:
        _hear(outputs, heard, min(end_s, time.monotonic() + 0.2))
    return counted(sent, heard, move.pause_ms)


def _last(operator: Operator) -> UnitMove:
    """How the last move of the topic stands."""
    moves = operator.ask_move(ListMoves("list")).moves
    return [each for each in moves if each.name == COUNTED.name][-1]


def _hear(outputs: Notifications, heard: list[tuple[int, float]], until_s: float) -> None:
    while (each := outputs.wait(max(0.0, until_s - time.monotonic()))) is not None:
        if isinstance(each, Notified):
            area = str(each.notification.attributes["area"])
            heard.append((int(area.rpartition("/")[2]), time.monotonic()))


def counted(sent: int, heard: list[tuple[int, float]], pause_ms: float | None) -> Move:
    """Account of messages 0 … sent - 1, given which were heard and when, in s."""
    numbers = [number for number, _ in heard]
    times = [at_s for _, at_s in heard]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return Move(
        sent,
        sent - len(set(numbers)),
        len(numbers) - len(set(numbers)),
        sum(later < earlier for earlier, later in pairwise(numbers)),
        round(max(gaps, default=0.0) * 1e3, 1),
        pause_ms,
    )
