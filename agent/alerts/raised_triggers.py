"""Raised triggers per node, derived from trigger events that arrive in any order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from msgspec import Meta, Struct

from agent.wire.base import (
    MAX_EVENT_AREAS,
    TRIGGER_CLEARED,
    TRIGGER_RAISED,
    Area,
    SafeInteger,
    Text,
    WallMs,
)
from agent.wire.operator import NodeAlert
from agent.wire.records import NodeEventRecord

# Triggers per node, including cleared ones that a late event may still refer to.
MAX_TRIGGERS: Final = 256
KINDS: Final = (TRIGGER_RAISED, TRIGGER_CLEARED)


class TriggerChange(Struct, array_like=True):
    """The last change of a trigger: the sequence of its event, and its content."""

    trigger: Annotated[str, Meta(max_length=64)]
    sequence: SafeInteger
    raised: bool
    since_ms: WallMs
    synchronised: bool
    areas: Annotated[tuple[Area, ...], Meta(max_length=MAX_EVENT_AREAS)]
    text: Text


class NodeTriggers(Struct, array_like=True):
    """Of one node: the last changes of its triggers in `history`."""

    history: str
    changes: Annotated[list[TriggerChange], Meta(max_length=MAX_TRIGGERS)]

    def take(self, event: NodeEventRecord) -> None:
        """Apply events, each of which is given once. O(triggers)."""
        if event.history != self.history:
            # Its triggers start anew, too: those whose condition holds are raised again.
            self.history, self.changes = event.history, []
        before = next((c for c in self.changes if c.trigger == event.trigger), None)
        if before is not None:
            if event.sequence < before.sequence:
                return
            self.changes.remove(before)
        elif len(self.changes) >= MAX_TRIGGERS:
            self.changes.remove(min(self.changes, key=lambda c: (c.raised, c.sequence)))
        self.changes.append(
            TriggerChange(
                event.trigger,
                event.sequence,
                event.kind == TRIGGER_RAISED,
                event.time_ms,
                event.synchronised,
                event.areas,
                event.text,
            )
        )


class RaisedTriggers:
    """The triggers of all nodes, in memory; the caller persists them. A trigger stays raised across
    a restart of its node's agent."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeTriggers] = {}
        # Grows with every change.
        self.changes = 0

    def take(self, events: Iterable[NodeEventRecord]) -> set[str]:
        """Apply events, each of which is given once; returns the nodes whose triggers changed."""
        changed = set()
        for event in events:
            if event.kind in KINDS:
                found = self._nodes.get(event.node)
                if found is None:
                    found = self._nodes[event.node] = NodeTriggers(event.history, [])
                found.take(event)
                changed.add(event.node)
                self.changes += 1
        return changed

    def open(self, node: str) -> tuple[NodeAlert, ...]:
        """The raised triggers of a node, oldest first."""
        found = self._nodes.get(node)
        if found is None:
            return ()
        alerts = [
            NodeAlert(each.trigger, each.areas, each.since_ms, each.synchronised, each.text)
            for each in found.changes
            if each.raised
        ]
        return tuple(sorted(alerts, key=lambda alert: (alert.since_ms, alert.trigger)))

    def of(self, node: str) -> NodeTriggers:
        """The state of a node, to be passed to `restore`."""
        return self._nodes.get(node) or NodeTriggers("", [])

    def restore(self, node: str, triggers: NodeTriggers) -> None:
        """Restore what `of` returned before a restart."""
        self._nodes[node] = triggers
        self.changes += 1
