"""Take-over of what earlier versions kept of nodes' events: from the state to the store of the
alerts."""

from __future__ import annotations

from agent.alerts.event_state import KINDS, SaveNodeState
from agent.master.storage.notification_store import NotificationStore
from agent.master.storage.state import State


def node_states(state: State, store: NotificationStore) -> list[SaveNodeState]:
    """What the store keeps of nodes' events. What an earlier version left in the state is newer: it
    is moved to the store first, and removed from the state once it is on stable storage there. A
    kill in between repeats that, for nothing else is written before it is done. OSError if a disk
    refuses."""
    kept = {(each.kind, each.node): each for each in store.load_nodes()}
    before = [
        SaveNodeState(kind, node, body) for kind in KINDS for node, body in state.all(kind).items()
    ]
    if before:
        if not store.write(before):
            raise OSError("cannot move the state of nodes' events to the store of the alerts")
        for each in before:
            state.remove(each.kind, each.node)
        if not state.flush():
            raise OSError("cannot remove the state of nodes' events from where it was")
    return list((kept | {(each.kind, each.node): each for each in before}).values())
