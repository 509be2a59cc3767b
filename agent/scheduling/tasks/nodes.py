"""Edge nodes of an IAD as its task scheduler sees them: areas, pods, queue, liveness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from agent.scheduling.events import Peer
from agent.scheduling.remembered import Remembered
from agent.scheduling.tasks.entry import Node
from agent.wire.areas import AreaSet
from agent.wire.node_messages import Hello


class NodeResource(Struct, frozen=True):
    """The resources that an edge node has for a service: its areas among those asked, its pods, and
    the mean of its unloaded response times over `samples` of them (an assumption if there are
    none)."""

    node: str
    areas: tuple[str, ...]
    pods: int
    mean_s: float
    samples: int
    live: bool


class Covering(NamedTuple):
    """The nodes that cover a set of asked areas, each with its own areas, and the areas left
    over."""

    nodes: list[tuple[Node, list[str]]]
    unmatched: list[str]


class NodeTable:
    """Nodes by name and by link; a link belongs to the node that said hello on it."""

    def __init__(self) -> None:
        self._by_name: dict[str, Node] = {}
        self._by_peer: dict[Peer, Node] = {}
        # The areas of all nodes, in the order of the table; and the same with their nodes.
        self._areas = AreaSet()
        self._declared: list[tuple[Node, str]] = []
        # Whether a node changed its areas since: then both are made anew at the next look.
        self._stale = False
        # Grows whenever a node has other areas, channels or units than before.
        self.changes = 0
        self._coverings: Remembered[Covering] = Remembered()
        self._counts: dict[tuple[str, ...], int] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._by_name.values())

    @property
    def areas(self) -> AreaSet:
        """The areas of all nodes."""
        self._refresh()
        return self._areas

    @property
    def tops(self) -> tuple[str, ...]:
        """The first segments of all areas, which together cover them. O(1) until they change."""
        return tuple(self.areas.names_below("", len(self.areas)))

    def named(self, name: str) -> Node | None:
        """The node of that name, if it ever said hello."""
        return self._by_name.get(name)

    def on(self, peer: Peer) -> Node | None:
        """The node on this link."""
        return self._by_peer.get(peer)

    def bind(self, node: Node, hello: Hello, peer: Peer, address: str) -> None:
        """From now on `node` has the content of `hello` and uses `peer`; its former link is
        forgotten."""
        self.unbind(node)
        before = node.hello if node.name in self._by_name else None
        known = None if before is None else before.areas
        node.hello = hello
        node.pods = hello.pods
        node.told_pods = None
        node.peer = peer
        node.address = address
        self._by_name[node.name] = node
        self._by_peer[peer] = node
        if known != hello.areas:
            self._areas_changed(node, is_new=known is None)
        if before is None or _described(before) != _described(hello):
            self.changes += 1

    def _areas_changed(self, node: Node, *, is_new: bool) -> None:
        self._coverings.clear()
        self._counts.clear()
        if is_new and not self._stale:
            self._declare(node)
        else:
            self._stale = True

    def _refresh(self) -> None:
        if self._stale:
            self._stale = False
            self._areas = AreaSet()
            self._declared = []
            for node in self:
                self._declare(node)

    def _declare(self, node: Node) -> None:
        for area in dict.fromkeys(node.hello.areas):
            self._areas.add(area)
            self._declared.append((node, area))

    def remove(self, node: Node) -> None:
        """Forget the node."""
        self.unbind(node)
        del self._by_name[node.name]
        self._areas_changed(node, is_new=False)
        self.changes += 1

    def unbind(self, node: Node) -> None:
        """Forget the node's link."""
        if self._by_peer.get(node.peer) is node:
            del self._by_peer[node.peer]
        node.peer = None

    def count_within(self, offered: tuple[str, ...] | None) -> int:
        """Number of nodes that cover these areas, whatever their state; None: any area.

        As `covering` once per set, of which there is one per service, then a look-up until a node
        joins or changes its areas.
        """
        if offered is None:
            return len(self)
        found = self._counts.get(offered)
        if found is None:
            found = self._counts[offered] = len(self.covering(offered).nodes)
        return found

    def covering(self, asked: tuple[str, ...]) -> Covering:
        """The nodes that cover the asked areas, whatever their state, in the order of the table.

        O(asked + areas found) once per set of areas, then a look-up until a node joins or changes
        its areas.
        """
        found = self._coverings.get(asked)
        if found is None:
            self._refresh()
            found = Covering(self._covering(asked), self._areas.without(asked))
            self._coverings.keep(asked, found)
        return found

    def _covering(self, asked: tuple[str, ...]) -> list[tuple[Node, list[str]]]:
        nodes: list[tuple[Node, list[str]]] = []
        last: Node | None = None
        own: list[str] = []
        # The areas of a node are adjacent.
        for node, area in map(self._declared.__getitem__, self._areas.places_within(asked)):
            if node is last:
                own.append(area)
            else:
                own = [area]
                nodes.append((node, own))
                last = node
        return nodes


def _described(hello: Hello) -> tuple[object, ...]:
    return hello.areas, hello.channels, hello.units
