"""Open sensor faults per node, derived from fault events that arrive in any order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from msgspec import Meta, Struct

from agent.wire.base import SafeInteger, Text, WallMs
from agent.wire.operator import NodeFault
from agent.wire.records import NodeEventRecord

# Channels per node, including ended faults that a late event may still refer to.
MAX_CHANNELS: Final = 256
STARTED: Final = "agent_started"
ENDED: Final = "fault_ended"
# Prefix of every event kind about a fault; every such kind except the end describes the fault.
FAULT: Final = "fault_"
NEVER: Final = -1  # less than every sequence


class ChannelFaults(Struct, array_like=True):
    """The faults of one channel; sequences are those of events.

    A fault is open if it was reported, at `told`, after the last end. `first` is the earliest event
    since that end: its time is the fault's.
    """

    sensor: Annotated[str, Meta(max_length=64)]
    channel: Annotated[str, Meta(max_length=32)]
    ended: SafeInteger = NEVER
    first: SafeInteger = NEVER
    since_ms: WallMs = 0
    synchronised: bool = False
    told: SafeInteger = NEVER
    told_ms: WallMs = 0
    told_synchronised: bool = False
    text: Text = ""

    @property
    def open(self) -> bool:
        """Whether a fault is open."""
        return self.told > self.ended

    def tell(self, event: NodeEventRecord) -> None:
        """A fault began, or its description changed."""
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
        """Every fault reported before this sequence has ended."""
        self.ended = max(self.ended, sequence)
        if self.first <= self.ended < self.told:
            self.first = self.told
            self.since_ms, self.synchronised = self.told_ms, self.told_synchronised


class NodeFaults(Struct, array_like=True):
    """The faults of one node, whose agent started with the sequence `started` in `history`."""

    history: str
    started: SafeInteger
    channels: Annotated[list[ChannelFaults], Meta(max_length=MAX_CHANNELS)]

    def take(self, event: NodeEventRecord) -> None:
        """Apply events, each of which is given once. O(channels)."""
        if event.history != self.history:
            self._begin_history(event.history)
        if event.kind == STARTED:
            self.started = max(self.started, event.sequence)
            for each in self.channels:
                each.end(self.started)
            # A fault that ended since the start may still have its beginning in flight.
            self.channels = [c for c in self.channels if c.open or c.ended > self.started]
        elif event.kind.startswith(FAULT):
            channel = self._of(event.sensor, event.channel)
            if event.kind == ENDED:
                channel.end(event.sequence)
            else:
                channel.tell(event)

    def _begin_history(self, history: str) -> None:
        """The events are numbered anew; the faults are unchanged."""
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
    """The open faults of all nodes, in memory; the caller persists them.

    A late event does not change what a later event has settled. After a restart the node's agent
    reports the faults that are still present again.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeFaults] = {}

    def take(self, events: Iterable[NodeEventRecord]) -> set[str]:
        """Apply events, each of which is given once; returns the nodes whose faults changed."""
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
        """The open faults of a node, oldest first."""
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
        """The state of a node, to be passed to `restore`."""
        return self._nodes.get(node) or NodeFaults("", NEVER, [])

    def restore(self, node: str, faults: NodeFaults) -> None:
        """Restore what `of` returned before a restart."""
        self._nodes[node] = faults
