"""Topics with a standby whose master is killed with -9, one of them under 50 messages a second.

Three real masters; publisher and durable subscriber are at the third. The time is from the kill to
the first output of the master that has taken the topic over, at the subscriber; of the others,
until that master says that it has the last of them. Its peer is the lease: nobody may be called
dead sooner. Each message counts in the processor's state and is put out
with the count, so what is lost, doubled or reordered shows. An inbox has room for 1,000 messages:
`no_room` counts those that waited when it had none.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import zmq
from msgspec.structs import replace

from agent.client import Operator
from agent.placement.membership.member_lease import LeaseTiming
from agent.wire.topics import CreateTopic, ListTopics, Topic, TopicReport
from bench import handover
from bench.output import Result, report, result
from bench.processes import agent
from fleet.testbed.ports import free_address

KILLS = 10
# Beside that which is published to.
IDLE = 19
GOAL_S = 2.0  # longer than the lease
BETWEEN_S = 1.0
PER_S = 50.0
TOPIC = Topic("counted", processor="counted", standby=True)
CODE = """
def counted(message, state):
    state["seen"] = state.get("seen", 0) + 1
    return [{"n": message["n"], "seen": state["seen"]}]
"""


class Masters:
    """`a` and `b`, one of which has the topic, and `s`, which has none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses = {iad: free_address() for iad in handover.IADS}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for iad in handover.IADS:
            text = handover.configuration(iad, folder, self.addresses)
            text += "[placement]\nevery_s = 1.0\n" + "frozen = true\n" * (iad == "s")
            (folder / f"{iad}.toml").write_text(text)
            self.start(iad)
        for iad in handover.IADS:
            handover.await_links(folder, iad)

    def start(self, iad: str) -> None:
        command = (agent("master"), "--config", str(self.folder / f"{iad}.toml"))
        # What it says about the others' deaths is no error.
        self.processes[iad] = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill(self, iad: str) -> None:
        self.processes[iad].kill()
        self.processes[iad].wait()

    def stop(self) -> None:
        for iad in self.processes:
            self.kill(iad)

    def topics(self, iad: str) -> TopicReport:
        with Operator(f"ipc://{self.folder}/{iad}-operator") as operator:
            return operator.ask_topic(ListTopics("l"), handover.PATIENCE_S * 1e3)

    def has_standby(self, iad: str, other: str) -> bool:
        """Whether all topics live at one master, and the other one stands by."""
        return [each.standby for each in self.topics(iad).topics] == [other] * (1 + IDLE)


def run(kills: int = KILLS) -> list[Result]:
    """Goal: at most a lease and two seconds; nothing lost, doubled or reordered."""
    with tempfile.TemporaryDirectory() as name, zmq.Context() as context:
        folder = Path(name)
        handover.package(folder)
        (folder / "counted.py").write_text(CODE)
        os.environ["PYTHONPATH"] = name
        try:
            with contextlib.ExitStack() as stack:
                masters = Masters(folder)
                stack.callback(masters.stop)
                return measure(masters, context, kills)
        finally:
            del os.environ["PYTHONPATH"]


def measure(masters: Masters, context: zmq.Context[zmq.Socket[bytes]], kills: int) -> list[Result]:
    """Kill whoever has the topics, again and again."""
    stream = handover.Stream(context, masters.addresses["s"], PER_S)
    with Operator(f"ipc://{masters.folder}/a-operator") as operator:
        for topic in (TOPIC, *(replace(TOPIC, name=f"idle{n}") for n in range(IDLE))):
            assert operator.ask_topic(CreateTopic("c", topic)).ok
    owner, other = "a", "b"
    taken_s, all_s = [], []
    for _ in range(kills):
        await_standby(masters, stream, owner, other)
        stream.run(BETWEEN_S)
        died_s, first = time.monotonic(), len(stream.iads)
        masters.kill(owner)
        taken_s.append(await_output(stream, other, first) - died_s)
        await_topics(masters, stream, other)
        all_s.append(time.monotonic() - died_s)
        masters.start(owner)
        owner, other = other, owner
    await_standby(masters, stream, owner, other)
    stream.run(handover.PATIENCE_S, until=stream.published - len(stream.refused))
    stream.run(1.0, until=stream.published + 1)
    expected = {*map(float, range(stream.published))} - stream.refused
    numbers = [number for number, _ in stream.got]
    missed = sum(each.missed for iad in "ab" for each in masters.topics(iad).topics)
    taken_s.sort()
    lease_s = LeaseTiming().lease_s
    lost, doubled = len(expected - {*numbers}), len(numbers) - len({*numbers})
    reordered = sum(a > b for a, b in itertools.pairwise(numbers))
    one = result(
        "take-over",
        taken_s[-1],
        "ms",
        "the lease",
        lease_s,
        most=lease_s + GOAL_S,
        also={"nothing lost, doubled or reordered": not (lost or doubled or reordered)},
        kills=kills,
        p50_ms=round(statistics.median(taken_s) * 1e3),
        shortest_ms=round(taken_s[0] * 1e3),
        messages=stream.published,
        refused=len(stream.refused),
        no_room=stream.gaps + missed,
        lost=lost,
        doubled=doubled,
        reordered=reordered,
        miscounted=sum(b - a != 1.0 for (_, a), (_, b) in itertools.pairwise(stream.got)),
    )
    last = result(
        f"take-over-{1 + IDLE}",
        max(all_s),
        "ms",
        "the lease",
        lease_s,
        most=lease_s + GOAL_S,
        p50_ms=round(statistics.median(all_s) * 1e3),
    )
    return [one, last]


def await_standby(masters: Masters, stream: handover.Stream, owner: str, other: str) -> None:
    """Publish until the other one stands by."""
    ends_s = time.monotonic() + handover.PATIENCE_S
    while not masters.has_standby(owner, other):
        if time.monotonic() > ends_s:
            raise RuntimeError(f"{other} does not stand by for {owner}")
        stream.run(0.2)


def await_topics(masters: Masters, stream: handover.Stream, owner: str) -> None:
    """Publish until this master has all topics."""
    ends_s = time.monotonic() + handover.PATIENCE_S
    while len(masters.topics(owner).topics) < 1 + IDLE:
        if time.monotonic() > ends_s:
            raise RuntimeError(f"{owner} has not taken all topics over")
        stream.run(0.02)


def await_output(stream: handover.Stream, iad: str, first: int) -> float:
    """When the first output of that master came, of those from number `first` on."""
    ends_s = time.monotonic() + handover.PATIENCE_S
    while time.monotonic() < ends_s:
        stream.run(0.05)
        for came_s, each in zip(stream.came_s[first:], stream.iads[first:], strict=True):
            if each == iad:
                return came_s
    raise RuntimeError(f"{iad} has put nothing out")


if __name__ == "__main__":
    report(run(*map(int, sys.argv[1:])))
