"""Pods that change while they run, what a node can give, and whose key may speak for it."""

import random

import pytest

from agent.scheduling.events import NodeAlive, NodeLeft, NodePods, PodsWanted, Tick
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.nodes import NodeResource
from agent.wire import node_messages as nm
from agent.wire.principals import Sender
from tests.scheduling.oracle import found
from tests.scheduling.rigs import TaskRig


@pytest.fixture
def rig():
    rig = TaskRig()
    yield rig
    rig.scheduler.check_invariants()


def told(rig):
    return [message.count for _, message in rig.replies if isinstance(message, nm.SetPods)]


def ask(rig, *numbers, now=1.0):
    for number in numbers:
        rig.ask(number, ("b1/f4/r1",), now=now)


def test_more_pods_serve_what_waits_at_once(rig):
    rig.join("n1")
    ask(rig, 1, 2, 3)
    assert len(rig.dispatched) == 1
    rig.do(NodePods("link-n1", "boot-n1", 3), 1.1)
    assert len(rig.dispatched) == 3


def test_fewer_pods_than_are_at_work_get_nothing_until_enough_have_finished(rig):
    rig.join("n1", pods=3)
    ask(rig, 1, 2, 3, 4)
    rig.do(NodePods("link-n1", "boot-n1", 1), 1.1)
    assert rig.scheduler.node_statuses()[0].idle_pods == 0
    for n in range(2):
        rig.answer(found(rig.dispatched[n][1].id), "n1", now=1.2)
        assert len(rig.dispatched) == 3
    rig.answer(found(rig.dispatched[2][1].id), "n1", now=1.3)
    assert len(rig.dispatched) == 4


@pytest.mark.parametrize("incarnation", ["boot-other", "boot-n2"])
def test_a_stranger_cannot_change_a_nodes_pods(rig, incarnation):
    rig.join("n1")
    rig.do(NodePods("link-n1", incarnation, 3), 0.1)
    assert rig.replies[-1] == ("link-n1", nm.HelloWanted())
    assert rig.scheduler.node_statuses()[0].pods == 1


def test_wanted_pods_are_asked_for_now_if_the_node_is_there_and_differs(rig):
    rig.join("n1")
    rig.do(PodsWanted("n1", 1), 0.1)
    assert told(rig) == []
    rig.do(PodsWanted("n1", 3), 0.2)
    rig.do(PodsWanted("n1", 3), 0.3)
    assert told(rig) == [3], "it was told already"
    rig.do(PodsWanted("n1", 1), 0.4)
    assert told(rig) == [3, 1], "the node may be on its way to three"


def test_wanted_pods_are_remembered_until_the_node_comes(rig):
    rig.do(PodsWanted("n1", 2), 0.0)
    rig.join("n1")
    assert [type(message) for _, message in rig.replies] == [nm.Welcome, nm.SetPods]
    rig.do(NodePods("link-n1", "boot-n1", 2), 0.1)
    rig.join("n1", now=0.2)
    assert told(rig) == [2, 2], "it came back with one"
    rig.join("n1", now=0.3, pods=2)
    assert told(rig) == [2, 2]


def test_a_node_that_was_lost_is_told_when_it_speaks_again(rig):
    rig.join("n1")
    rig.do(Tick(), 3.0)
    rig.do(PodsWanted("n1", 2), 3.1)
    assert told(rig) == []
    rig.do(NodeAlive("link-n1", "boot-n1"), 3.2)
    assert told(rig) == [2]


def test_a_node_that_has_another_number_is_not_asked_for_ever(rig):
    rig.join("n1")
    rig.do(PodsWanted("n1", 200), 0.1)
    rig.do(NodePods("link-n1", "boot-n1", 4), 0.2)
    rig.do(NodeAlive("link-n1", "boot-n1"), 0.3)
    assert told(rig) == [200]


# --- resources ------------------------------------------------------------------------------------


def test_resources_are_the_nodes_that_cover_the_areas(rig):
    rig.join("n1")
    rig.join("n2", pods=2)
    rig.join("n3")
    for _ in range(100):
        rig.estimator.observe(1, 0.05, 0.1)
    rig.do(NodeLeft("link-n3", "boot-n3"), 0.2)
    first, second = rig.scheduler.resources(["b1/f4/r2", "b1/f4/r1"])
    assert first == NodeResource("n1", ("b1/f4/r1",), 1, 0.1, 0, live=True)
    assert second.mean_s == pytest.approx(0.05, rel=0.15)
    assert (second.node, second.pods, second.samples) == ("n2", 2, 100)
    rig.do(Tick(), 9.0)
    assert [r.live for r in rig.scheduler.resources(["b1"])] == [False, False]


def test_the_mean_is_that_of_the_window():

    draw, estimator = random.Random(1), DeadlineEstimator()
    column = estimator.add_node()
    times = [draw.lognormvariate(-2.5, 0.6) for _ in range(5_000)]
    for number, unloaded_s in enumerate(times):
        estimator.observe(column, unloaded_s, number * 0.01)
    mean_s = sum(times) / len(times)
    assert estimator.mean_s(column) == pytest.approx(mean_s, rel=0.03)


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sender", [Sender("node", "n2"), Sender("client", "n1"), Sender("iad", "n1")]
)
def test_a_key_speaks_for_its_own_node_alone(rig, sender):
    rig.join("n1", sender=sender)
    assert isinstance(rig.replies[-1][1], nm.Rejected)
    assert not rig.scheduler.node_statuses()
    rig.join("n1", sender=Sender("node", "n1"))
    assert isinstance(rig.replies[-1][1], nm.Welcome)


def test_a_node_that_fell_back_to_its_first_machine_may_say_hello_again(rig):
    rig.join("n1")
    rig.join("n1", incarnation="boot-b")
    rig.do(Tick(), 9.0)
    rig.join("n1", now=9.1)
    rig.join("n1", now=9.2)
    assert isinstance(rig.replies[-1][1], nm.Welcome)
