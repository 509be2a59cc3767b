"""Which faults of the nodes' sensors are open, from the events that tell of them in any order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from agent.wire.operator import NodeFault
from agent.wire.records import NodeEventRecord

# Of one node, the ended ones included that a late event may still be about.
MAX_CHANNELS: Final = 256
STARTED: Final = "agent_started"
ENDED: Final = "fault_ended"
# Begins every kind that is about a fault; whatever does not end it says how it is.
FAULT: Final = "fault_"
NEVER: Final = -1  # below every sequence


class ChannelFaults(Struct, array_like=True):
    """What is known of one channel's faults; sequences are those of events.

    A fault is open if it was told of, at `told`, after the last end. `first` is the earliest event
    since that end: its time is the fault's.
    """

    sensor: str
    channel: str
    ended: int = NEVER
    first: int = NEVER
    since_ms: int = 0
    synchronised: bool = False
    told: int = NEVER
    told_ms: int = 0
    told_synchronised: bool = False
    text: str = ""

    @property
    def open(self) -> bool:
        """Whether there is a fault."""
        return self.told > self.ended

    def tell(self, event: NodeEventRecord) -> None:
        """A fault began, or is another by now."""
        sequence = event.sequence
        if sequence <= self.ended:
            return
        if sequence < self.first or self.first <= self.ended:
            self.first = sequence
            self.since_ms, self.synchronised = event.time_ms, event.synchronised
        if sequence > self.told:
            self.told = sequence
            self.told_ms, self.told_synchronised = event.time_ms, event.synchronised
            self.text = event.text

    def end(self, sequence: int) -> None:
        """No fault that was told of before is open any more."""
        self.ended = max(self.ended, sequence)
        if self.first <= self.ended < self.told:
            self.first = self.told
            self.since_ms, self.synchronised = self.told_ms, self.told_synchronised


class NodeFaults(Struct, array_like=True):
    """Of one node, since its agent's start with the sequence `started` in `history`."""

    history: str
    started: int
    channels: list[ChannelFaults]

    def take(self, event: NodeEventRecord) -> None:
        """What happened, each event once. O(channels)."""
        if event.history != self.history:
            self._begin_history(event.history)
        if event.kind == STARTED:
            self.started = max(self.started, event.sequence)
            for each in self.channels:
                each.end(self.started)
            # What ended since the start may yet be said to have begun.
            self.channels = [c for c in self.channels if c.open or c.ended > self.started]
        elif event.kind.startswith(FAULT):
            channel = self._of(event.sensor, event.channel)
            if event.kind == ENDED:
                channel.end(event.sequence)
            else:
                channel.tell(event)

    def _begin_history(self, history: str) -> None:
        """Its events are numbered anew; the faults are what they were."""
        self.history, self.started = history, NEVER
        self.channels = [each for each in self.channels if each.open]
        for each in self.channels:
            each.ended, each.first, each.told = NEVER - 1, NEVER, NEVER

    def _of(self, sensor: str, name: str) -> ChannelFaults:
        for each in self.channels:
            if (each.sensor, each.channel) == (sensor, name):
                return each
        if len(self.channels) >= MAX_CHANNELS:
            self.channels.remove(min(self.channels, key=lambda each: (each.open, each.ended)))
        made = ChannelFaults(sensor, name, ended=self.started)
        self.channels.append(made)
        return made


class OpenFaults:
    """The faults of all nodes; in memory, for whoever keeps them on disk.

    What comes late changes nothing that a later event has settled. A fault that was open when its
    node's agent was started again is told anew by that agent, if it is still there.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeFaults] = {}

    def take(self, events: Iterable[NodeEventRecord]) -> set[str]:
        """What happened, each event once; the nodes of which something else is known now."""
        changed = set()
        for event in events:
            if event.kind == STARTED or event.kind.startswith(FAULT):
                found = self._nodes.get(event.node)
                if found is None:
                    found = self._nodes[event.node] = NodeFaults(event.history, NEVER, [])
                found.take(event)
                changed.add(event.node)
        return changed

    def open(self, node: str) -> tuple[NodeFault, ...]:
        """The open faults of a node, the oldest first."""
        found = self._nodes.get(node)
        if found is None:
            return ()
        faults = [
            NodeFault(each.sensor, each.channel, each.since_ms, each.synchronised, each.text)
            for each in found.channels
            if each.open
        ]
        return tuple(sorted(faults, key=lambda fault: fault.since_ms))

    def of(self, node: str) -> NodeFaults:
        """What is known of a node, to be kept for `restore`."""
        return self._nodes[node]

    def restore(self, node: str, faults: NodeFaults) -> None:
        """What `of` gave before a restart."""
        self._nodes[node] = faults
