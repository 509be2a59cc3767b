"""Pods of the edge nodes: how many each service needs, and the interface of their provider.

A node's pods are pooled: an idle one serves the most urgent subtask of any service. So a node has
as many as its services need together, or as many as the auto-scaler found necessary if those are
more; at least one, and never more than the configuration allows.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
from msgspec import Struct

from agent.master.storage.state import State
from agent.runtime.reactor import Reactor
from agent.scheduling.events import PodsWanted
from agent.scheduling.tasks.scheduler import TaskScheduler

KIND = "pods"


class Provisioner(Protocol):
    """Provides the pods that nodes need; the rest of the master uses this interface only."""

    counters: dict[str, int]  # for the operator's status

    def set_pods(self, node: str, service: str, count: int) -> None:
        """`service` needs `count` pods on `node` from now on; 0: none."""

    def scale(self, node: str, count: int) -> None:
        """The auto-scaler wants `count` pods on `node`, if its services do not need more."""

    def floor(self, node: str) -> int:
        """The fewest pods that `node` may have: the sum of its services' needs, at least 1."""

    def pods(self, node: str) -> int:
        """How many pods `node` shall have; 1 for a node without needs."""

    def close(self) -> None:
        """Release resources; the pods stay."""


class NodeNeeds(Struct):
    """The pods that each service needs of one node; `scaled` is the auto-scaler's number."""

    services: dict[str, int]
    scaled: int = 0


class PodTable:
    """The needs of all nodes, kept on disk; every operation is O(services of the node).

    Services that a restarted master no longer has must be removed by the caller: `services` names
    all that are in the table.
    """

    def __init__(self, state: State, most: int) -> None:
        self._state = state
        self._most = most
        self._needs = state.read(KIND, msgspec.json.Decoder(NodeNeeds).decode)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes with a need."""
        return tuple(self._needs)

    @property
    def services(self) -> frozenset[str]:
        """Services that need pods of some node."""
        return frozenset(name for needs in self._needs.values() for name in needs.services)

    def floor(self, node: str) -> int:
        """The sum of the services' needs, from 1 to `most`."""
        needs = self._needs.get(node)
        return self._within(sum(needs.services.values()) if needs else 1)

    def total(self, node: str) -> int:
        """How many pods the node shall have, from 1 to `most`."""
        needs = self._needs.get(node)
        return max(self.floor(node), self._within(needs.scaled)) if needs else 1

    def set_need(self, node: str, service: str, count: int) -> None:
        """Set a service's need; 0 removes it."""
        needs = self._needs.setdefault(node, NodeNeeds({}))
        if count > 0:
            needs.services[service] = count
        else:
            needs.services.pop(service, None)
        self._keep(node, needs)

    def set_scaled(self, node: str, count: int) -> None:
        """Set the auto-scaler's number."""
        needs = self._needs.setdefault(node, NodeNeeds({}))
        needs.scaled = count
        self._keep(node, needs)

    def _keep(self, node: str, needs: NodeNeeds) -> None:
        if needs.services or needs.scaled > 1:
            self._state.put(KIND, node, msgspec.json.encode(needs))
        else:
            del self._needs[node]
            self._state.remove(KIND, node)

    def _within(self, count: int) -> int:
        return min(max(1, count), self._most)


class LocalProvisioner:
    """Pods are threads of the edge agents: the task scheduler tells each node how many.

    A node without needs is told nothing: it keeps the number of its own configuration.
    """

    def __init__(self, reactor: Reactor, tasks: TaskScheduler, table: PodTable) -> None:
        self._reactor = reactor
        self._tasks = tasks
        self._table = table
        self.counters: dict[str, int] = {}
        for node in table.nodes:
            self._tell(node)

    def set_pods(self, node: str, service: str, count: int) -> None:
        """As `Provisioner`."""
        self._table.set_need(node, service, count)
        self._tell(node)

    def scale(self, node: str, count: int) -> None:
        """As `Provisioner`."""
        self._table.set_scaled(node, count)
        self._tell(node)

    def floor(self, node: str) -> int:
        """As `Provisioner`."""
        return self._table.floor(node)

    def pods(self, node: str) -> int:
        """As `Provisioner`."""
        return self._table.total(node)

    def close(self) -> None:
        """As `Provisioner`: there is nothing to release."""

    def _tell(self, node: str) -> None:
        event = PodsWanted(node, self._table.total(node))
        self._reactor.perform(self._tasks.handle(event, self._reactor.clock()))
