"""One notification through a whole overlay, decision by decision; nothing is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from _core.matching.civ import Civ
from agent.overlay.routing import Copy
from agent.overlay.scot import BrokerId, Scot

# The broker that decides, its target aLinks, the target clusters it has to serve.
Decide = Callable[[BrokerId, Sequence[BrokerId], Civ], list[Copy]]


class Message(NamedTuple):
    """One copy on one link; `hops` from the publisher's broker, this one counted."""

    sender: BrokerId
    receiver: BrokerId
    clusters: tuple[int, ...]
    hops: int

    @property
    def enters(self) -> bool:
        """Whether it comes into another cluster."""
        return self.sender.cluster != self.receiver.cluster


def walk(
    scot: Scot, homes: Sequence[BrokerId], host: BrokerId, targets: Iterable[int], decide: Decide
) -> Iterator[Message]:
    """Every message of a notification published at `host`, for subscribers at `homes`; `targets`
    are the bits of its advertisement. Endless if the decisions are."""
    pending: deque[tuple[BrokerId, BrokerId | None, Civ, int]] = deque()
    pending.append((host, None, Civ(scot.clusters, targets), 0))
    while pending:
        at, sender, clusters, hops = pending.popleft()
        for copy in decide(at, a_targets(scot, homes, at, sender), clusters):
            yield Message(at, copy.neighbour, tuple(copy.clusters), hops + 1)
            pending.append((copy.neighbour, at, copy.clusters, hops + 1))


def a_targets(
    scot: Scot, homes: Sequence[BrokerId], at: BrokerId, sender: BrokerId | None
) -> list[BrokerId]:
    """The next brokers on the ways to the homes in this cluster, never back to the sender."""
    nexts = dict.fromkeys(
        BrokerId(scot.next_vertex(at.vertex, home.vertex), at.cluster)
        for home in homes
        if home.cluster == at.cluster and home != at
    )
    return [each for each in nexts if each != sender]
