"""Provisioner of IADs whose nodes are in a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Callable

from agent.master.market.kubernetes.caretaker import Caretaker, ClusterView, Look
from agent.master.market.kubernetes.cluster import Cluster, open_client
from agent.master.market.kubernetes.deployments import Blueprint
from agent.master.market.provisioning import PodTable
from agent.runtime import console
from agent.runtime.reactor import Reactor
from agent.scheduling.events import PodsWanted
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.pods_config import MasterPods


class KubernetesProvisioner:
    """Pods are containers: a Deployment per node. The task scheduler is told how many are ready.

    A change takes effect when the containers are ready; until then, and while the cluster cannot be
    reached, a node keeps the pods that it was last known to have, at least one and no more than
    desired. `counters` are for the operator's status.
    """

    def __init__(
        self,
        reactor: Reactor,
        tasks: TaskScheduler,
        table: PodTable,
        config: MasterPods,
        iad: str,
        *,
        open_cluster: Callable[[Blueprint], ClusterView] | None = None,
        report: Callable[[str], object] = console.write,
    ) -> None:
        """ConfigError if the client or its configuration is missing."""
        blueprint = Blueprint(iad, config)
        if open_cluster is None:
            api_client = open_client(config.kubeconfig)
            self._caretaker = Caretaker(blueprint, lambda: Cluster(blueprint, api_client))
        else:
            opener = open_cluster
            self._caretaker = Caretaker(blueprint, lambda: opener(blueprint))
        self._reactor = reactor
        self._tasks = tasks
        self._table = table
        self._report = report
        self._ready: dict[str, int] | None = None  # by node; None: not listed yet
        self._told: dict[str, int] = {}
        self._lines: frozenset[str] = frozenset()
        self.counters = {"pod_requests_refused": 0, "pod_requests_failed": 0}
        reactor.listen(self._caretaker.fileno, self._turn)
        self._want()
        self._caretaker.start()

    def set_pods(self, node: str, service: str, count: int) -> None:
        """As `Provisioner`."""
        self._table.set_need(node, service, count)
        self._changed(node)

    def scale(self, node: str, count: int) -> None:
        """As `Provisioner`."""
        self._table.set_scaled(node, count)
        self._changed(node)

    def floor(self, node: str) -> int:
        """As `Provisioner`."""
        return self._table.floor(node)

    def pods(self, node: str) -> int:
        """As `Provisioner`."""
        return self._table.total(node)

    def close(self) -> None:
        """Disconnect from the cluster; the pods stay as they are."""
        self._reactor.ignore(self._caretaker.fileno)
        self._caretaker.stop()

    def _changed(self, node: str) -> None:
        self._tell(node)
        self._want()

    def _want(self) -> None:
        table = self._table
        self._caretaker.want({node: table.total(node) for node in table.nodes})

    def _turn(self) -> None:
        for look in self._caretaker.looks():
            self._learn(look)

    def _learn(self, look: Look) -> None:
        self.counters["pod_requests_refused"] += len(look.refused)
        self.counters["pod_requests_failed"] += len(look.failed)
        lines = frozenset(look.refused + look.failed)
        for line in sorted(lines - self._lines):  # a persistent condition is reported once
            self._report(f"kubernetes: {line}\n")
        self._lines = lines
        if look.ready is not None:
            self._ready = look.ready
            for node in self._table.nodes:
                self._tell(node)

    def _tell(self, node: str) -> None:
        if self._ready is None:
            return
        count = max(1, min(self._ready.get(node, 0), self._table.total(node)))
        if self._told.get(node) != count:
            self._told[node] = count
            event = PodsWanted(node, count)
            self._reactor.perform(self._tasks.handle(event, self._reactor.clock()))
