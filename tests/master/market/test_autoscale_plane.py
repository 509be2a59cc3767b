"""The auto-scaler's plane with the real task scheduler, provisioner and records; clock by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agent.master.market.autoscale_plane import AutoscalePlane
from agent.master.market.provisioning import LocalProvisioner, PodTable
from agent.master.recording.records import Records
from agent.master.storage.state import State
from agent.runtime.reactor import Reactor
from agent.scheduling.events import (
    NodeJoined,
    NodeLeft,
    NodePods,
    SendTaskResult,
    SendToNode,
    SubtaskReturned,
    TaskArrived,
)
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.master_config import (
    MasterAutoscale,
    MasterConfig,
    MasterIdentity,
    MasterPods,
    MasterRecords,
    MasterSockets,
)
from agent.wire.messages import Task, Window
from agent.wire.node_messages import Hello, SetPods, Subtask, SubtaskResult

CONFIG = MasterConfig(
    iad=MasterIdentity(name="iad1"),
    sockets=MasterSockets(public="tcp://127.0.0.1:1", operator="tcp://127.0.0.1:2"),
    pods=MasterPods(most=4),
    autoscale=MasterAutoscale(enabled=True, window_s=10.0, cool_down_s=10.0),
    records=MasterRecords(directory=""),
)


class Rig:
    """One node, whose pods each need a second for a subtask."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reactor = Reactor(lambda: self.now)
        self.tasks = TaskScheduler("iad1", DeadlineEstimator())
        self.state = State(None, lambda: self.now)
        self.provisioner = LocalProvisioner(self.reactor, self.tasks, PodTable(self.state, 4))
        self.at_work: list[tuple[float, int]] = []
        self.set_pods: list[int] = []
        self.reactor.performs(SendToNode, self.to_node)
        self.reactor.performs(SendTaskResult, lambda _: None)
        records = Records(self.reactor, CONFIG.records, Path())
        self.said: list[str] = []
        self.plane = AutoscalePlane(
            self.reactor, CONFIG, records, self.tasks, self.provisioner, self.said.append
        )
        self.tell(NodeJoined("link", Hello("n1", "first", "h", ("b1/r1",), (), 1, "1.0")))

    def tell(self, event: Any) -> None:
        self.reactor.perform(self.tasks.handle(event, self.now))

    def to_node(self, instruction: SendToNode) -> None:
        match instruction.message:
            case Subtask(id=number):
                self.at_work.append((self.now + 1.0, number))
            case SetPods(count=count):
                self.set_pods.append(count)
                self.tell(NodePods("link", "first", count))

    def second(self, tasks: int) -> None:
        """A second in which so many tasks arrive, each with half a second to wait."""
        for _ in range(tasks):
            number = f"t-{self.now:.0f}-{_}"
            self.tell(
                TaskArrived(None, Task(number, ("b1/r1",), Window(last_s=1.0), 99.0, 3e3, 2e4))
            )
        self.now += 1.0
        ready = [number for at_s, number in self.at_work if at_s <= self.now]
        self.at_work = [item for item in self.at_work if item[0] > self.now]
        for number in ready:
            self.tell(SubtaskReturned("link", SubtaskResult(number, "no_data", 0.0, 1e3)))
        if self.plane.next_due <= self.now:
            self.plane.tick(self.now)


def test_pods_are_added_for_late_subtasks_and_given_back() -> None:
    rig = Rig()
    for _ in range(40):
        rig.second(tasks=3)
    assert rig.set_pods[0] > 1
    assert max(rig.set_pods) == rig.provisioner.pods("n1") == 4
    for _ in range(200):
        rig.second(tasks=0)
    assert rig.set_pods[-1] == rig.provisioner.pods("n1") == 1
    assert re.fullmatch(r"n1: [2-4] pods, \d+(\.\d+)? % of deadlines missed\n", rig.said[0])
    assert rig.said[-1] == "n1: 1 pod, 0 % of deadlines missed\n"


def test_pods_that_a_service_needs_are_not_given_back() -> None:
    rig = Rig()
    rig.provisioner.set_pods("n1", "climate", 3)
    for _ in range(200):
        rig.second(tasks=0)
    assert rig.set_pods == [3]
    rig.provisioner.set_pods("n1", "climate", 0)
    assert rig.provisioner.pods("n1") == 1


@pytest.mark.parametrize("gone", [False, True])
def test_a_node_that_is_gone_is_left_alone(gone: bool) -> None:
    rig = Rig()
    for _ in range(40):
        rig.second(tasks=3)
    if gone:
        rig.tell(NodeLeft("link", "first"))
    told = len(rig.set_pods)
    for _ in range(200):
        rig.second(tasks=0)
    assert (len(rig.set_pods) == told) == gone
    assert (rig.provisioner.pods("n1") > 1) == gone
