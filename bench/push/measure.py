"""Measures the contenders in turn, each with its own subscriptions, connections and stream of
alerts."""

from __future__ import annotations

import contextlib
import resource
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct

from bench.push.rig import PLAN, Masters, Mosquitto, Subscribers
from bench.push.workload import Event, Wanted, connections, deliveries, events

BUILD: Final = Path(__file__).resolve().parents[2] / "build"  # on a disk
KINDS: Final = ("alerts", "durable", "tree", "topics")
WARM_UP_S: Final = 1.0
# After this time without a delivery, missing ones count as lost.
PATIENCE_S: Final = 5.0


class Case(Struct, frozen=True):
    """How many connections share the subscriptions, and the number of alerts per second."""

    connections: int
    rate: float
    subscriptions: int = 5_000
    rounds: int = 3
    round_s: float = 10.0
    processes: int = 2
    seed: int = 1


class Contender(Struct):
    """The result of one contender: latencies in ms of each round, from before the alert was sent
    until a subscriber's process had decoded it and matched it."""

    kind: str
    latencies_ms: list[np.ndarray] = []
    expected: int = 0
    alerts: int = 0
    messages: int = 0
    payload: int = 0
    cpu_s: float = 0.0
    links_lost: int = 0  # between masters, since all began

    def percentile(self, percent: float) -> float:
        """Of all deliveries, in ms."""
        return float(np.percentile(np.concatenate(self.latencies_ms), percent))

    def by_round(self, percent: float) -> list[float]:
        """Of each round, in ms."""
        return [round(float(np.percentile(each, percent)), 2) for each in self.latencies_ms]

    @property
    def delivered(self) -> int:
        """Number of deliveries to subscriptions."""
        return sum(len(each) for each in self.latencies_ms)


def run(
    case: Case, kinds: Sequence[str] = KINDS, warm_up_s: float = WARM_UP_S
) -> dict[str, Contender]:
    """All `kinds` in the same run."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = connections(case.connections, case.subscriptions, case.seed)
    BUILD.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="push-", dir=BUILD) as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        mosquitto = Mosquitto(folder, stack) if {"tree", "topics"} & {*kinds} else None
        masters = Masters(folder, stack)
        sides: dict[str, tuple[Masters | Mosquitto, Subscribers]] = {}
        for kind in kinds:
            side, addresses = _side(kind, masters, mosquitto)
            made = Subscribers(folder, stack, kind, addresses, wanted, case.processes)
            sides[kind] = side, made
        ours = len({"alerts", "durable"} & {*kinds})
        if ours:
            masters.wait_until(overlay_subscriptions=ours * case.subscriptions // 2)
            masters.wait_for_targets()
            masters.wait_until(overlay_links_up=2)
        stream = events(case.seed)
        contenders = {kind: Contender(kind) for kind in kinds}
        for number in range(case.rounds + 1):
            seconds = case.round_s if number else warm_up_s
            happened = list(islice(stream, round(seconds * case.rate)))
            for kind in kinds:
                into = contenders[kind] if number else Contender(kind)
                _round(into, *sides[kind], happened, case.rate, wanted)
        for kind, (side, _) in sides.items():
            contenders[kind].links_lost = masters.links_lost() if side is masters else 0
    return contenders


def _side(
    kind: str, masters: Masters, mosquitto: Mosquitto | None
) -> tuple[Masters | Mosquitto, list[str]]:
    if kind in ("alerts", "durable"):
        return masters, [masters.public[iad] for iad in PLAN.places]
    assert mosquitto is not None
    return mosquitto, [mosquitto.address]


def _round(
    into: Contender,
    side: Masters | Mosquitto,
    subscribers: Subscribers,
    happened: Sequence[Event],
    rate: float,
    wanted: list[list[Wanted]],
) -> None:
    expected = deliveries(wanted, happened)
    sent_ns: dict[int, int] = {}
    cpu_before = side.cpu_s()
    start = time.monotonic()
    for index, event in enumerate(happened):
        time.sleep(max(0.0, start + index / rate - time.monotonic()))
        sent_ns[event.number] = time.monotonic_ns()
        side.publish(into.kind, event)
    subscribers.await_deliveries(expected, PATIENCE_S)
    into.cpu_s += side.cpu_s() - cpu_before
    into.expected += expected
    into.alerts += len(happened)
    latencies = []
    for measured in subscribers.take():
        latencies += [(at - sent_ns[number]) / 1e6 for number, at in measured.deliveries]
        into.messages += measured.messages
        into.payload += measured.payload
    into.latencies_ms.append(np.array(latencies))
