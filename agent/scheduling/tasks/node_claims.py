"""Plausibility of what an edge node says: the areas that it speaks for, and its events; its results
are looked at by `agent.scheduling.plausible`.

A node that is mistaken or hostile harms its own areas only. What is refused here is refused in
words; the rest of the message is served.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from agent.scheduling.events import Peer, SendToNode, TellOperator
from agent.scheduling.plausible import has_been, no_time
from agent.wire.areas import AreaSet
from agent.wire.node_messages import EventsTaken, NodeEvent, NodeEvents

MAX_SHOWN: Final = 200  # characters of an area
# Minimum time between two operator lines about the same name.
QUIET_S: Final = 3_600.0


def why_not_theirs(node: str, areas: Iterable[str], allowed: Collection[str] | None) -> str:
    """Why a node may not speak for all these areas; empty: it may. `allowed` as in `Sender`.
    O(areas + allowed)."""
    return "" if allowed is None else _why_not_in(AreaSet(allowed), node, areas)


def _why_not_in(own: AreaSet, node: str, areas: Iterable[str]) -> str:
    outside = [area for area in areas if not own.covers(area)]
    if not outside:
        return ""
    first = outside[0] if len(outside[0]) <= MAX_SHOWN else f"{outside[0][:MAX_SHOWN]}…"
    more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
    return (
        f"the allow-list does not give {first}{more} to node {node}: correct its areas there, "
        "or at the node"
    )


def unacceptable(
    node: str, events: Sequence[NodeEvent], allowed: Collection[str] | None
) -> dict[int, str]:
    """The sequences of the events that are refused, each with the reason. O(events + allowed)."""
    own = None if allowed is None else AreaSet(allowed)
    refused = {}
    for event in events:
        if not has_been(event.time_ms):
            refused[event.sequence] = no_time(event.time_ms)
        elif own is not None and (why_not := _why_not_in(own, node, event.areas)):
            refused[event.sequence] = why_not
    return refused


class EventClaims:
    """Takes out of the nodes' events those that their node cannot mean. They are acknowledged and
    dropped: it would send them again for ever. The operator is told once in a while."""

    def __init__(self) -> None:
        # Events that were taken out.
        self.implausible = 0
        # By node: until then the operator is not told again.
        self._quiet_until_s: dict[str, float] = {}

    def sift(
        self,
        peer: Peer,
        node: str,
        message: NodeEvents,
        allowed: Collection[str] | None,
        now: float,
    ) -> tuple[NodeEvents, list[SendToNode | TellOperator]]:
        """The message with the other events, and what is to be done about those taken out.
        `allowed` as in `Sender`. O(events)."""
        refused = unacceptable(node, message.events, allowed)
        if not refused:
            return message, []
        self.implausible += len(refused)
        taken = EventsTaken(message.incarnation, message.history, tuple(refused))
        instructions: list[SendToNode | TellOperator] = [SendToNode(peer, taken)]
        if now >= self._quiet_until_s.get(node, -math.inf):
            self._quiet_until_s[node] = now + QUIET_S
            reason = next(iter(refused.values()))
            instructions.append(TellOperator(f"an event of node {node} was refused: {reason}"))
        kept = [each for each in message.events if each.sequence not in refused]
        return replace(message, events=tuple(kept)), instructions
