"""Runs a campaign: a real master with real workers, a publisher, a configuration after another.

The master writes a record of each topic every `interval_s`. A configuration lasts three of them:
the first is for the queues to settle, the second is measured, and the third is its replicate.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import psutil
from msgspec import Struct

from agent.client import Client, NoReplyError, Operator
from agent.wire.messages import Slo
from agent.wire.topics import (
    CreateTopic,
    ListTopics,
    Publish,
    RemoveTopic,
    Topic,
    TopicRequest,
    TopicStatus,
)
from fleet.placement.campaign import busy
from fleet.placement.campaign.cases import Case, arrivals, cases
from fleet.testbed import processes
from fleet.testbed.ports import free_ports
from fleet.testbed.run_folder import run_folder

IAD: Final = "measured"
INTERVALS: Final = 3
# Longer than the intervals by this, so that no record has a time without publishers.
LONGER_S: Final = 0.3
# Cores that other programs may take before it is told: what is measured is their doing, too.
OTHERS: Final = 0.1
OBJECTIVE: Final = Slo(90.0, 1_000.0)
ANSWER_MS: Final = 30_000.0
READY_S: Final = 60.0
LOOK_EVERY_S: Final = 0.05
STOP_S: Final = 30.0
HOST: Final = "tcp://127.0.0.1"
CONFIG: Final = """
[iad]
name = "{iad}"
[sockets]
public = "{public}"
operator = "{operator}"
[clients]
rate_per_s = 1000000.0
[processing]
workers = {workers}
record_s = {interval_s}
"""


class Extent(Struct, frozen=True):
    """How much is measured."""

    runs: int = 180
    sizes: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    interval_s: float = 20.0
    most_load: float = 0.9

    @property
    def seconds(self) -> float:
        """Least duration of all of it."""
        return self.runs * (INTERVALS * self.interval_s + LONGER_S)


QUICK: Final = Extent(runs=6, sizes=(1, 2, 3), interval_s=3.0)


class CampaignError(RuntimeError):
    """The master does not do what it should; the text says what."""


def cores() -> int:
    """Those that this process may use, as the master will."""
    return len(os.sched_getaffinity(0))


def measure(
    folder: Path,
    extent: Extent,
    seed: int,
    say: Callable[[str], None],
    *,
    worker_a_topic: bool = False,
) -> list[float]:
    """Run the campaign in `folder`, which then is like that of a fleet that ran here. Returns how
    many cores other programs took during each configuration."""
    chosen = cases(extent.runs, extent.sizes, cores(), extent.most_load, seed)
    draw = Random(seed + 1)
    workers = max(extent.sizes) if worker_a_topic else 0
    with (
        run_folder(folder) as place,
        running_master(place, workers, extent.interval_s) as (public, asked, processes_of_ours),
        Client(public) as client,
        Operator(asked) as operator,
    ):
        began_s = time.monotonic()
        others: list[float] = []
        for number, case in enumerate(chosen):
            before = Taken.now(processes_of_ours)
            found = _run(client, operator, number, case, extent.interval_s, draw)
            others.append(Taken.now(processes_of_ours).others_since(before))
            if others[-1] > OTHERS:
                found += f", other programs took {others[-1]:.1f} cores"
            left_s = (time.monotonic() - began_s) / (number + 1) * (extent.runs - number - 1)
            say(f"{number + 1} of {extent.runs}: {found}; {_minutes(left_s)} left")
    return others


class Taken(NamedTuple):
    """CPU time that was taken until a moment: by all programs, and by ours."""

    at_s: float
    by_all_s: float
    by_ours_s: float

    @classmethod
    def now(cls, master: psutil.Process) -> Taken:
        """So far."""
        times = psutil.cpu_times()
        by_all_s = sum(times) - times.idle - getattr(times, "iowait", 0.0)
        # Of a guest, which is in the times of a user as well.
        by_all_s -= getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        by_ours_s = sum(os.times()[:2])
        for process in (master, *master.children(recursive=True)):
            with suppress(psutil.Error):
                by_ours_s += sum(process.cpu_times()[:2])
        return cls(time.monotonic(), by_all_s, by_ours_s)

    def others_since(self, before: Taken) -> float:
        """Cores that programs of others took since then."""
        others_s = self.by_all_s - before.by_all_s - (self.by_ours_s - before.by_ours_s)
        return max(0.0, others_s / (self.at_s - before.at_s))


def _run(
    client: Client, operator: Operator, number: int, case: Case, interval_s: float, draw: Random
) -> str:
    """One configuration; what it was, in words."""
    found = publish_to(
        client, operator, f"run{number}", case, INTERVALS * interval_s + LONGER_S, draw
    )
    told = ", ".join(
        "–" if each.latency_ms is None else f"{each.latency_ms:.0f}" for each in found.statuses
    )
    text = f"{len(case)} topics, load {sum(load.cores for load in case):.2f}, p90 {told} ms"
    if waits := sum(each.waiting for each in found.statuses):
        text += f", {waits} waiting"
    late_s = found.late_s
    return text + (f", publisher up to {late_s * 1e3:.0f} ms late" if late_s > 0.05 else "")


class Published(NamedTuple):
    """How each topic of a configuration did, how many messages were sent to it, and by how many
    seconds the publisher was late at most."""

    statuses: list[TopicStatus]
    sent: list[int]
    late_s: float


def publish_to(
    client: Client,
    operator: Operator,
    name: str,
    case: Case,
    seconds: float,
    draw: Random,
    objective: Slo = OBJECTIVE,
    drain_s: float = 0.0,
) -> Published:
    """Make the topics of a configuration, publish to them for so long, and remove them. They are
    asked how they did when all that was sent is processed, at most `drain_s` after the last."""
    names = [f"{name}-{place}" for place in range(len(case))]
    for each, load in zip(names, case, strict=True):
        topic = Topic(each, processor=busy.NAME, parameters={"cpu_ms": load.cpu_ms}, slo=objective)
        _ask(operator, CreateTopic("create", topic))
    sent, late_s = _publish(client, names, case, seconds, draw)
    give_up_s = time.monotonic() + drain_s
    while True:
        found = {each.topic.name: each for each in operator.ask_topic(ListTopics("l")).topics}
        statuses = [found[each] for each in names]
        done = all(each.processed >= count for each, count in zip(statuses, sent, strict=True))
        if done or time.monotonic() >= give_up_s:
            break
        time.sleep(LOOK_EVERY_S)
    for each in names:
        _ask(operator, RemoveTopic("remove", each))
    return Published(statuses, sent, late_s)


def _ask(operator: Operator, request: TopicRequest) -> None:
    report = operator.ask_topic(request, ANSWER_MS)
    if not report.ok:
        raise CampaignError(report.message)


def _publish(
    client: Client, names: list[str], case: Case, seconds: float, draw: Random
) -> tuple[list[int], float]:
    """Publish for so long, without waiting for replies: how many messages to each topic, and the
    largest lateness in seconds."""
    sent = [0] * len(names)
    began_s = time.monotonic()
    late_s = 0.0
    for at_s, topic in arrivals(case, seconds, draw):
        while (left_s := began_s + at_s - time.monotonic()) > 0.0:
            with suppress(NoReplyError):
                client.take(left_s * 1e3)
        late_s = max(late_s, -left_s)
        client.send_message(Publish("p", names[topic], {"n": 1.0}))
        sent[topic] += 1
    return sent, late_s


@contextmanager
def running_master(
    place: Path, workers: int, interval_s: float
) -> Iterator[tuple[str, str, psutil.Process]]:
    """A master in a folder of its own; its public and its operator's address, and its process. With
    as many `workers` as topics each topic has its own; 0: one a core."""
    known = busy.install(place / "processor")
    public, operator = (f"{HOST}:{port}" for port in free_ports(2))
    folder = place / IAD
    folder.mkdir()
    config = folder / "config.toml"
    config.write_text(
        CONFIG.format(
            iad=IAD, public=public, operator=operator, workers=workers, interval_s=interval_s
        )
    )
    command = [*processes.agent_command("sanderling-master"), "--config", str(config)]
    path = os.pathsep.join([str(known.absolute()), *filter(None, [os.environ.get("PYTHONPATH")])])
    leash = processes.Leash()
    child = processes.Child(
        IAD,
        ["env", f"PYTHONPATH={path}", *command, "--exit-on-stdin-eof"],
        folder / "log",
        leash,
    )
    try:
        _await(operator, child)
        yield public, operator, psutil.Process(child.pid)
        if not child.running:
            raise CampaignError(child.how_it_ended())
    finally:
        with processes.interrupts_deferred():
            processes.stop([child], STOP_S)
            leash.drop()


def _await(address: str, child: processes.Child) -> None:
    give_up_s = time.monotonic() + READY_S
    while True:
        with Operator(address) as operator, suppress(NoReplyError):
            operator.status(1_000.0)
            return
        if not child.running or time.monotonic() > give_up_s:
            raise CampaignError(child.how_it_ended())


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
