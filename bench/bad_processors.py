"""A well-behaved topic beside three whose processors hang, leak and raise, on one real master.

The good topic's messages come one after the other; its latency is from publishing to the output at
the subscriber. Blocks alone and blocks beside the bad ones alternate. At the start of each block
beside them the bad topics are made anew, so that none is in a long pause from before, and each gets
a message with every few of the good one: so they hang, grow and raise while the good one works, as
often as the master lets them. The goal is that others keep their p90.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Final

from agent.client import Client, Operator
from agent.wire.topics import CreateTopic, RemoveTopic, Topic, TopicStatus
from bench.output import Result, report, result
from bench.processes import master
from fleet.testbed.ports import free_address

ROUNDS: Final = 5
MESSAGES: Final = 200  # of a block
PER_S: Final = 50.0
EVERY: Final = 10  # messages of the good topic to one of each bad topic
PERCENTILE: Final = 0.9
MOST: Final = 1.2  # of the p90 alone, beside bad ones
BAD: Final = ("hangs", "leaks", "raises")
# A message that hangs is ended after so long, and what leaks when its worker has grown by so much.
LIMITS: Final = {"wall_s": 0.5, "memory_bytes": 16 * 2**20}
CODE: Final = """
import time

kept = []

def good(message, state):
    state["seen"] = state.get("seen", 0) + 1
    return [{"n": message["n"], "seen": state["seen"]}]

def hangs(message, state):
    while True:
        time.sleep(60.0)

def leaks(message, state):
    kept.append(bytearray(8 << 20))
    return []

def raises(message, state):
    raise RuntimeError("it always does")
"""


def package(folder: Path) -> None:
    """A package with the processors."""
    info = folder / "behaving-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: behaving\nVersion: 1.0\n")
    names = "".join(f"{name} = behaving:{name}\n" for name in ("good", *BAD))
    (info / "entry_points.txt").write_text(f"[sanderling.processors]\n{names}")
    (folder / "behaving.py").write_text(CODE)


def run(rounds: int = ROUNDS, messages: int = MESSAGES, per_s: float = PER_S) -> list[Result]:
    """p90 of the good topic beside bad ones; the peer is its p90 alone, in the same run."""
    with tempfile.TemporaryDirectory() as name:
        package(Path(name))
        os.environ["PYTHONPATH"] = name
        try:
            public = free_address()
            with (
                master(Path(name), free_address(), public),
                Operator(f"ipc://{name}/operator") as operator,
                Client(public) as client,
            ):
                return [measure(operator, client, rounds, messages, per_s)]
        finally:
            del os.environ["PYTHONPATH"]


def measure(operator: Operator, client: Client, rounds: int, messages: int, per_s: float) -> Result:
    """Blocks alone and beside the bad ones, alternately."""
    create(operator, Topic("good", processor="good"))
    taken: dict[bool, list[float]] = {False: [], True: []}
    failures = dict.fromkeys(BAD, 0)
    number = 0
    with client.subscribe('topic = "good" and kind = "output"') as outputs:
        for block in range(2 * rounds + 1):
            beside = block > 0 and block % 2 == 0
            topics = [Topic(f"{each}-{block}", processor=each, limits=LIMITS) for each in BAD]
            for topic in topics if beside else ():
                create(operator, topic)
            due_s = time.monotonic()
            for count in range(messages):
                time.sleep(max(0.0, due_s - time.monotonic()))
                due_s = max(due_s + 1.0 / per_s, time.monotonic())
                for topic in topics if beside and count % EVERY == 0 else ():
                    client.publish(topic.name, {"n": number})
                began_s = time.monotonic()
                client.publish("good", {"n": number})
                told = next(outputs).notification.attributes
                if block:  # the first one warms up
                    taken[beside].append(time.monotonic() - began_s)
                number += 1
                assert told["seen"] == number, "an output of the good topic is missing or doubled"
            for topic in topics if beside else ():
                failures[topic.processor] += failed(remove(operator, topic))
    assert all(failures.values()), f"not all of the bad processors failed: {failures}"
    return result(
        "bad-processors",
        p90(taken[True]),
        "ms",
        "the same topic alone, p90",
        p90(taken[False]),
        least_ratio=1.0 / MOST,
        messages=number,
        failures=failures,
    )


def create(operator: Operator, topic: Topic) -> None:
    """Make a topic."""
    told = operator.ask_topic(CreateTopic("c", topic), 60_000.0)
    assert told.ok, told.message


def remove(operator: Operator, topic: Topic) -> TopicStatus:
    """End a topic; how it did."""
    (status,) = [each for each in operator.status(60_000.0).topics if each.topic.name == topic.name]
    told = operator.ask_topic(RemoveTopic("r", topic.name), 60_000.0)
    assert told.ok, told.message
    return status


def failed(status: TopicStatus) -> int:
    """How often a topic's processor failed."""
    return status.failed


def p90(seconds: list[float]) -> float:
    """The 90th percentile."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(PERCENTILE * len(ordered)))]


if __name__ == "__main__":
    report(run())
