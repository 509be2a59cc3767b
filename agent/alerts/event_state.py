"""State of a master's node events: recorded ones, open faults, raised triggers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from agent.alerts.dedup_window import EventDedup, Taken
from agent.alerts.open_faults import NEVER, NodeFaults, OpenFaults
from agent.alerts.raised_triggers import NodeTriggers, RaisedTriggers
from agent.wire.node_messages import NodeEvents
from agent.wire.operator import NodeAlert, NodeFault
from agent.wire.records import NodeEventRecord

# Kinds of the documents on disk, one per node.
RECORDED: Final = "node_events"
FAULTS: Final = "node_faults"
TRIGGERS: Final = "node_triggers"
KINDS: Final = (RECORDED, FAULTS, TRIGGERS)


class SaveNodeState(Struct, frozen=True, gc=False):
    """Write a document of a node, in place of the earlier one of its kind."""

    kind: str
    node: str
    body: bytes


class NodeHome(Struct, frozen=True, array_like=True):
    """A master's state of a node, to be handed over with its home: the events that were
    recorded, those that are in the spool or were, by history; open faults, raised triggers."""

    recorded: dict[str, Taken]
    spooled: dict[str, Taken]
    faults: NodeFaults
    triggers: NodeTriggers


class EventState:
    """Derived from the records of the nodes' events, each of which is given once; the caller
    persists it. `saved` is what was persisted before a restart."""

    def __init__(self, saved: Iterable[SaveNodeState] = ()) -> None:
        self._recorded = EventDedup()
        self._faults = OpenFaults()
        self._triggers = RaisedTriggers()
        decode = msgspec.msgpack.decode
        for each in saved:
            # Otherwise it was written by a later version.
            with suppress(msgspec.MsgspecError, ValueError):
                if each.kind == RECORDED:
                    self._recorded.restore(each.node, decode(each.body, type=dict[str, Taken]))
                elif each.kind == FAULTS:
                    self._faults.restore(each.node, decode(each.body, type=NodeFaults))
                elif each.kind == TRIGGERS:
                    self._triggers.restore(each.node, decode(each.body, type=NodeTriggers))

    def knows(self, node: str, history: str, sequence: int) -> bool:
        """Whether the event was recorded, or given up by its node. O(1)."""
        return self._recorded.knows(node, history, sequence)

    def extent(self, node: str, history: str) -> tuple[int, int]:
        """What of a node's history is settled, and known: as `EventDedup.extent`."""
        return self._recorded.extent(node, history)

    def faults(self, node: str) -> tuple[NodeFault, ...]:
        """The open faults of a node, oldest first."""
        return self._faults.open(node)

    @property
    def changes(self) -> int:
        """Grows with every change of a trigger."""
        return self._triggers.changes

    def raised(self, node: str) -> tuple[NodeAlert, ...]:
        """The raised triggers of a node, oldest first."""
        return self._triggers.open(node)

    def recorded(
        self, arrived: Iterable[tuple[str, NodeEvents]], records: list[NodeEventRecord]
    ) -> list[SaveNodeState]:
        """All events of these messages, by node, are recorded, and these records are new. Returns
        the documents to write."""
        nodes: dict[str, None] = {}
        for node, message in arrived:
            sequences = [event.sequence for event in message.events]
            self._recorded.take(node, message.history, sequences, message.oldest)
            nodes[node] = None
        return self._changed(nodes, records)

    def home(self, node: str, spooled: dict[str, Taken]) -> NodeHome:
        """State of a node to hand over. O(events that are remembered)."""
        return NodeHome(
            self._recorded.of(node), spooled, self._faults.of(node), self._triggers.of(node)
        )

    def histories(self, node: str) -> tuple[str, ...]:
        """The histories of a node of which events are known."""
        return tuple(self._recorded.of(node))

    def adopt(self, node: str, home: NodeHome) -> list[SaveNodeState]:
        """The node's home is here. Returns the documents to write."""
        self._recorded.merge(node, home.recorded)
        self._faults.restore(node, home.faults)
        self._triggers.restore(node, home.triggers)
        return self._documents(node)

    def leave(self, node: str) -> list[SaveNodeState]:
        """The node's home is elsewhere. Which events were recorded here stays known: the records
        have them. Returns the documents to write."""
        self._faults.restore(node, NodeFaults("", NEVER, []))
        self._triggers.restore(node, NodeTriggers("", []))
        return self._documents(node)

    def _documents(self, node: str) -> list[SaveNodeState]:
        encode = msgspec.msgpack.encode
        return [
            SaveNodeState(RECORDED, node, encode(self._recorded.of(node))),
            SaveNodeState(FAULTS, node, encode(self._faults.of(node))),
            SaveNodeState(TRIGGERS, node, encode(self._triggers.of(node))),
        ]

    def recover(self, lines: Iterable[bytes]) -> list[SaveNodeState]:
        """Take what is new in these lines of the records: a master that was killed before it could
        persist it finds it there. Returns the documents to write."""
        found = []
        for line in lines:
            try:
                record = msgspec.json.decode(line, type=NodeEventRecord)
            except msgspec.MsgspecError:
                continue  # a line truncated by a crash
            if not self.knows(record.node, record.history, record.sequence):
                self._recorded.take(record.node, record.history, [record.sequence], oldest=0)
                found.append(record)
        return self._changed(dict.fromkeys(record.node for record in found), found)

    def _changed(self, nodes: Iterable[str], records: list[NodeEventRecord]) -> list[SaveNodeState]:
        encode = msgspec.msgpack.encode
        return [
            *[SaveNodeState(RECORDED, node, encode(self._recorded.of(node))) for node in nodes],
            *[
                SaveNodeState(FAULTS, node, encode(self._faults.of(node)))
                for node in sorted(self._faults.take(records))
            ],
            *[
                SaveNodeState(TRIGGERS, node, encode(self._triggers.of(node)))
                for node in sorted(self._triggers.take(records))
            ],
        ]
