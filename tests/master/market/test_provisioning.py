"""Who needs how many pods, against a plain model; and what the local provisioner tells."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent.master.market.provisioning import LocalProvisioner, PodTable, Provisioner
from agent.master.storage.state import State
from agent.runtime.reactor import Reactor
from agent.scheduling.events import PodsWanted
from tests.examples import examples

MAX_PODS = 8
NODES = st.sampled_from(["n1", "n2"])
SERVICES = st.sampled_from(["default", "climate", "alarm"])


class KeptState:
    """As `State`, in memory; outlives the tables on it."""

    read = State.read

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}

    def all(self, _kind: str) -> dict[str, bytes]:
        return dict(self.documents)

    def put(self, _kind: str, key: str, body: bytes) -> None:
        self.documents[key] = body

    def remove(self, _kind: str, key: str) -> None:
        self.documents.pop(key, None)


class TableModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state: Any = KeptState()
        self.table = PodTable(self.state, MAX_PODS)
        self.needs: dict[tuple[str, str], int] = {}
        self.scaled: dict[str, int] = {}

    @rule(node=NODES, service=SERVICES, count=st.integers(0, 12))
    def set_need(self, node: str, service: str, count: int) -> None:
        self.table.set_need(node, service, count)
        self.needs[node, service] = count

    @rule(node=NODES, count=st.integers(1, 12))
    def set_scaled(self, node: str, count: int) -> None:
        self.table.set_scaled(node, count)
        self.scaled[node] = count

    @rule()
    def restart(self) -> None:
        self.table = PodTable(self.state, MAX_PODS)

    @invariant()
    def agrees(self) -> None:
        for node in ("n1", "n2"):
            floor = sum(n for (where, _), n in self.needs.items() if where == node)
            floor = min(MAX_PODS, max(1, floor))
            assert self.table.floor(node) == floor
            assert self.table.total(node) == max(floor, min(MAX_PODS, self.scaled.get(node, 1)))
        assert self.table.services == {name for (_, name), n in self.needs.items() if n}
        for node in set(self.table.nodes) ^ set(self.state.documents):
            raise AssertionError(f"{node} is in memory or on disk only")


TableModel.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None
)
TestTableModel = TableModel.TestCase


class Tasks:
    """A task scheduler that only notes what it is told."""

    def __init__(self) -> None:
        self.told: list[PodsWanted] = []

    def handle(self, event: PodsWanted, _now: float) -> list[Any]:
        self.told.append(event)
        return []


def local(state: State) -> tuple[Provisioner, Tasks]:
    tasks: Any = Tasks()
    return LocalProvisioner(Reactor(time.monotonic), tasks, PodTable(state, MAX_PODS)), tasks


def test_a_node_has_what_its_services_need_or_what_the_auto_scaler_wants() -> None:
    provisioner, tasks = local(State(None, time.monotonic))
    assert provisioner.pods("n1") == 1
    provisioner.set_pods("n1", "climate", 2)
    provisioner.set_pods("n1", "alarm", 1)
    provisioner.scale("n1", 5)
    assert provisioner.floor("n1") == 3
    provisioner.set_pods("n1", "alarm", 5)
    provisioner.set_pods("n1", "climate", 9)
    provisioner.scale("n1", 1)
    provisioner.set_pods("n1", "climate", 0)
    provisioner.set_pods("n1", "alarm", 0)
    assert tasks.told == [PodsWanted("n1", count) for count in (2, 3, 5, 7, 8, 8, 5, 1)]


def test_a_restarted_master_tells_its_nodes_again(tmp_path: Path) -> None:
    state = State(tmp_path / "state.sqlite", time.monotonic)
    provisioner, _ = local(state)
    provisioner.set_pods("n1", "climate", 2)
    provisioner.scale("n2", 3)
    provisioner.set_pods("n3", "climate", 2)
    provisioner.set_pods("n3", "climate", 0)
    state.close()
    state = State(tmp_path / "state.sqlite", time.monotonic)
    provisioner, tasks = local(state)
    assert tasks.told == [PodsWanted("n1", 2), PodsWanted("n2", 3)]
    assert (provisioner.floor("n1"), provisioner.floor("n2")) == (2, 1)
    state.close()
