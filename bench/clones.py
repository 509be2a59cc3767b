"""A thousand clones on one master: the memory that one takes there and at the workers, and how fast
they are created. Some get a message, whose output goes to their devices.

What a clone's two inboxes remember of messages, to recognise them, grows with these up to a bound
that all inboxes of a master share: it is measured apart, as the bytes of one that is remembered.
"""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import psutil

from agent.alerts import inboxes
from agent.alerts.inbox_events import AcknowledgeArrived, ContentArrived, SubscribeArrived
from agent.alerts.limits import Limits
from agent.client import Client, Operator
from agent.wire.clones import CloneOf, CreateClone, ListClones
from agent.wire.overlay import Notification, Origin
from agent.wire.push import AcknowledgeNotifications, Subscribe
from bench.output import Result, report, result
from bench.processes import MASTER, agent, process
from fleet.testbed.ports import free_address

CLONES = 1_000
LIMITS = Limits()
# Alone, a master has what it has with any number of clones.
FIRST = 20
# So many get a message: each is a write of its own, and one after the other.
FED = 50
REMEMBERED = 5_000
PATIENCE_S = 60.0


def memory(pid: int) -> tuple[int, int]:
    """Bytes that only the master has, and only its workers."""
    found = psutil.Process(pid)
    workers = sum(each.memory_full_info().uss for each in found.children(recursive=True))
    return found.memory_full_info().uss, workers


def create(operator: Operator, numbers: range) -> list[str]:
    """The topics of these clones."""
    topics = []
    for number in numbers:
        clone = CloneOf(
            f"iad1/n{number}", "comfort_index", every_s=3_600.0, areas=(f"b1/r{number}",)
        )
        told = operator.ask_clone(CreateClone("c", clone), PATIENCE_S * 1e3)
        assert told.ok, told.message
        topics.append(told.clones[0].topic)
    return topics


def feed(operator: Operator, client: Client, topics: list[str], wanted: int) -> None:
    """A message to each of these; wait until so many devices were given something."""
    for topic in topics:
        client.publish(topic, {"temperature": 21.5, "humidity": 40.0}, patience_s=PATIENCE_S)
    ends_s = time.monotonic() + PATIENCE_S
    while True:
        clones = operator.ask_clone(ListClones("l"), PATIENCE_S * 1e3).clones
        if sum(bool(each.outputs) for each in clones) >= wanted:
            return
        assert time.monotonic() < ends_s
        time.sleep(0.5)


def remembered_bytes() -> float:
    """Of one message that an inbox remembers, after its client has it."""
    made = inboxes.Inboxes(lambda wanted: wanted)  # type: ignore[arg-type, return-value]
    wanted = ((),)
    made.handle(SubscribeArrived("p", "topic/x", Subscribe("s", wanted, durable=True)), 0.0)
    tracemalloc.start()
    try:
        for number in range(REMEMBERED):
            told = Notification(Origin("iad1", "0123456789abcdef", number), 0, {"n": 1.5})
            made.handle(ContentArrived(("1",), told), 0.0)
            had = AcknowledgeNotifications("s", number + 1)
            made.handle(AcknowledgeArrived("p", "topic/x", had), 0.0)
        return tracemalloc.get_traced_memory()[0] / REMEMBERED
    finally:
        tracemalloc.stop()


def run() -> Iterator[Result]:
    """The results."""
    with tempfile.TemporaryDirectory() as path:
        folder, public = Path(path), free_address()
        config = folder / "master.toml"
        text = MASTER.format(
            public=public, nodes=free_address(), folder=folder, heartbeat_s=60.0, rate_per_s=1e6
        )
        config.write_text(text)
        command = (agent("master"), "--config", str(config), "--exit-on-stdin-eof")
        with (
            process(*command) as child,
            Operator(f"ipc://{folder}/operator") as operator,
            Client(public) as client,
        ):
            operator.status(PATIENCE_S * 1e3)
            feed(operator, client, create(operator, range(FIRST)), FIRST)
            before, workers_before = memory(child.pid)
            began_s = time.monotonic()
            topics = create(operator, range(FIRST, FIRST + CLONES))
            took_s = time.monotonic() - began_s
            feed(operator, client, topics[:FED], FIRST + FED)
            after, workers_after = memory(child.pid)
    kib = (after - before) / CLONES / 1024
    yield result("clone, at its master", kib, "KiB", most=1024.0, clones=CLONES)
    workers_kib = (workers_after - workers_before) / CLONES / 1024
    yield result("clone, at the workers", workers_kib, "KiB", clones=CLONES)
    yield result("clone, created", took_s / CLONES, "ms")
    each = remembered_bytes()
    share = min(LIMITS.most_remembered, LIMITS.most_remembered_in_all // (2 * CLONES))
    yield result(
        "clone, what its two inboxes remember at most", 2 * share * each / 1024, "KiB",
        bytes_each=round(each), messages=share,
    )  # fmt: skip


if __name__ == "__main__":
    report(run())
