"""A node that was told to have fewer pods is sent no more than it will take."""

from __future__ import annotations

from agent.scheduling.events import (
    Instruction,
    NodeJoined,
    NodePods,
    PodsWanted,
    SendToNode,
    SubtaskReturned,
    TaskArrived,
)
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.messages import Task, Window
from agent.wire.node_messages import Hello, SetPods, Subtask, SubtaskResult

HELLO = Hello("n1", "first", "history", ("b1/r1",), (), 3, "1.0")


def sent(instructions: list[Instruction]) -> list[int]:
    return [
        i.message.id
        for i in instructions
        if isinstance(i, SendToNode) and isinstance(i.message, Subtask)
    ]


def task(number: int) -> TaskArrived:
    return TaskArrived(None, Task(f"t-{number}", ("b1/r1",), Window(last_s=1.0), 99.0, 1e3, 4e3))


def test_a_node_told_to_have_fewer_pods_is_sent_no_more_than_those() -> None:
    scheduler = TaskScheduler("iad1", DeadlineEstimator())
    scheduler.handle(NodeJoined("link", HELLO), 0.0)
    [first] = sent(scheduler.handle(task(1), 0.0))
    [tell] = scheduler.handle(PodsWanted("n1", 1), 0.1)
    assert tell == SendToNode("link", SetPods(1))
    assert sent(scheduler.handle(task(2), 0.1)) == []
    assert sent(scheduler.handle(NodePods("link", "first", 1), 0.2)) == []
    returned = SubtaskReturned("link", SubtaskResult(first, "no_data", 0.0, 1.0))
    assert len(sent(scheduler.handle(returned, 0.3))) == 1


def test_a_node_told_to_have_more_pods_is_sent_more_when_it_has_them() -> None:
    scheduler = TaskScheduler("iad1", DeadlineEstimator())
    scheduler.handle(NodeJoined("link", HELLO), 0.0)
    scheduler.handle(PodsWanted("n1", 4), 0.1)
    dispatched = [sent(scheduler.handle(task(number), 0.2)) for number in range(4)]
    assert [len(ids) for ids in dispatched] == [1, 1, 1, 0]
    assert len(sent(scheduler.handle(NodePods("link", "first", 4), 0.3))) == 1


def test_fewer_pods_taken_back_are_used_at_once() -> None:
    scheduler = TaskScheduler("iad1", DeadlineEstimator())
    scheduler.handle(NodeJoined("link", HELLO), 0.0)
    scheduler.handle(task(1), 0.0)
    scheduler.handle(PodsWanted("n1", 1), 0.1)
    assert sent(scheduler.handle(task(2), 0.1)) == []
    assert len(sent(scheduler.handle(PodsWanted("n1", 3), 0.2))) == 1
