"""The anchor of one clone: readings of its device to it, what it puts out to the device."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from agent.clones.events import AskInbox, Kept, Peer, Taken
from agent.clones.lifecycle import ANCHOR_TRANSITIONS
from agent.runtime.back_off import BackOff
from agent.runtime.state_machine import StateMachine
from agent.topics.contents import MAX_OWN, OUTPUT, PEER, RECEIVED, RESERVED
from agent.topics.events import Output
from agent.wire.messages import AreaResult, Task, TaskResult, Window
from agent.wire.predicates import Filter, Predicate
from agent.wire.push import AcknowledgeNotifications

FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 30.0
# The objective of a round, whose answer is due before the next round.
PERCENTILE: Final = 99.0
MAX_ROUND_S: Final = 10.0
TAKEN_NAMES: Final = frozenset({*RESERVED, PEER, RECEIVED, "time_ms"})


class Anchor(StateMachine):
    """Its state on disk is in `kept` and `taken`."""

    __slots__ = (
        "asker", "due_s", "had", "handle", "kept", "next_round_s", "pauses", "peers", "renew_s",
        "retry_s", "round_open", "rounds", "rounds_failed", "taken", "told_s", "trouble",
        "unresolved", "untold",
    )  # fmt: skip

    TRANSITIONS = ANCHOR_TRANSITIONS

    def __init__(self, kept: Kept, taken: Taken | None = None) -> None:
        super().__init__()
        self.kept = kept
        # Of a subscription of another id nothing came yet.
        same = taken is not None and taken.id == kept.id
        self.taken = taken if taken is not None and same else Taken(kept.id)
        # Up to where that is on disk.
        self.had = self.taken.position
        # Who waits for a report: its peer, and the id of the request.
        self.asker: tuple[Peer, str] | None = None
        # IADs whose masters are still to name the topics of peers, and what is known of peers.
        self.unresolved: dict[str, tuple[str, ...]] = {}
        self.peers: dict[str, str] = {}
        self.next_round_s = self.retry_s = self.renew_s = math.inf
        self.round_open = False
        self.rounds, self.rounds_failed = self.taken.rounds, self.taken.rounds_failed
        # Outputs that were lost since the operator was told of some, and when that was.
        self.untold, self.told_s = 0, -math.inf
        # Its place among the timers.
        self.due_s, self.handle = math.inf, -1
        self.pauses = BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)
        self.trouble = ""

    def __repr__(self) -> str:
        return f"<anchor {self.device} {self.state}>"

    @property
    def device(self) -> str:
        """IAD and node."""
        return self.kept.clone.device

    @property
    def node(self) -> str:
        """The node alone."""
        return self.device.partition("/")[2]

    @property
    def next_s(self) -> float:
        """When something is to be done."""
        return min(self.next_round_s, self.retry_s, self.renew_s)

    @property
    def wanted(self) -> Filter:
        """The filter of what the clone puts out."""
        topic = self.kept.topic.name
        return ((Predicate("topic", "=", (topic,)), Predicate("kind", "=", (OUTPUT,))),)

    def acknowledge(self) -> AskInbox:
        """Say what is on disk, and that the subscription is still read."""
        return AskInbox(self.device, AcknowledgeNotifications(self.kept.id, self.had))

    def stop_clocks(self) -> None:
        """Nothing is due any more."""
        self.next_round_s = self.retry_s = self.renew_s = math.inf

    def task(self, iad: str) -> Task:
        """The next round's. It is for the nodes of this IAD only."""
        clone = self.kept.clone
        latency_ms = min(clone.every_s, MAX_ROUND_S) * 1e3
        return Task(
            f"{self.kept.topic.name[:48]}.{self.rounds}",
            clone.areas,
            Window(last_s=clone.every_s),
            PERCENTILE,
            budget_ms=latency_ms,
            timeout_ms=latency_ms,
            channels=clone.channels,
            form="aggregate",
            service=clone.service,
            label="clone",
            origin=iad,
            takes_too_large=True,
        )


def only(result: TaskResult, channels: Collection[str]) -> TaskResult:
    """The result without other channels, such as those that the clone itself computed."""
    return replace(result, results=tuple([_only(each, channels) for each in result.results]))


def _only(result: AreaResult, channels: Collection[str]) -> AreaResult:
    aggregate = result.aggregate
    if aggregate is None or not aggregate.channels.keys() - set(channels):
        return result
    own = {name: of for name, of in aggregate.channels.items() if name in channels}
    return replace(result, aggregate=replace(aggregate, channels=own))


def means_of(result: TaskResult) -> dict[str, dict[str, float]]:
    """The means of each area's channels."""
    found: dict[str, dict[str, float]] = {}
    for each in result.results:
        channels = each.aggregate.channels if each.aggregate is not None else {}
        means = {name: of.mean for name, of in channels.items() if of.mean is not None}
        if means:
            found[each.area] = means
    return found


def reading_of(result: TaskResult) -> Output:
    """All areas together, as they go to the clone: without their names. A device that covers
    several has one reading in all of them, as a rule."""
    sums: dict[str, tuple[float, int]] = {}
    for each in result.results:
        channels = each.aggregate.channels if each.aggregate is not None else {}
        for name, of in channels.items():
            if of.mean is not None and of.count and name not in TAKEN_NAMES:
                total, count = sums.get(name, (0.0, 0))
                sums[name] = total + of.mean * of.count, count + of.count
    return {name: total / count for name, (total, count) in list(sums.items())[: MAX_OWN - 1]}


def own_part(output: Output) -> Output:
    """The output that the clone's processor chose."""
    return {key: value for key, value in output.items() if key not in (*RESERVED, PEER)}
