"""Nodes whose home is another master: told so, queried all the same, their events left to them."""

import pytest

from agent.scheduling.events import HomeChanged, NodeAlive
from agent.scheduling.tasks.node_claims import QUIET_S
from agent.wire import node_messages as nm
from tests.scheduling.rigs import TaskRig


@pytest.fixture
def rig():
    rig = TaskRig(takes_events=True)
    yield rig
    rig.scheduler.check_invariants()


def moved(rig):
    return [message.master for _, message in rig.replies if isinstance(message, nm.HomeMoved)]


def test_a_node_is_told_at_once_and_whenever_it_joins(rig):
    rig.join("n1", masters=("iad1", "iad2"))
    rig.do(HomeChanged("n1", "iad2"), 0.1)
    assert moved(rig) == ["iad2"]
    rig.join("n1", now=0.2, masters=("iad1", "iad2"))
    welcome, told = (message for _, message in rig.replies[-2:])
    assert not welcome.takes_events
    assert told == nm.HomeMoved("boot-n1", "iad2")


def test_a_node_that_is_away_hears_it_when_it_comes(rig):
    rig.do(HomeChanged("n1", "iad2"), 0.0)
    assert rig.replies == []
    rig.join("n1", masters=("iad1", "iad2"))
    assert moved(rig) == ["iad2"]


def test_it_is_queried_until_it_goes(rig):
    rig.join("n1", masters=("iad1", "iad2"))
    rig.do(HomeChanged("n1", "iad2"), 0.1)
    rig.ask(1, ("b1/f4/r1",), now=0.2)
    assert len(rig.dispatched) == 1


def test_a_home_that_came_back_is_told_no_more(rig):
    rig.do(HomeChanged("n1", "iad2"), 0.0)
    rig.do(HomeChanged("n1", None), 0.1)
    rig.join("n1", masters=("iad1", "iad2"))
    assert moved(rig) == []
    assert rig.replies[-1][1].takes_events


@pytest.mark.parametrize("masters", [(), ("iad1", "iad3")])
def test_a_node_that_does_not_know_its_home_stays_and_the_operator_is_told(rig, masters):
    rig.do(HomeChanged("n1", "iad2"), 0.0)
    rig.join("n1", masters=masters)
    assert moved(rig) == []
    assert not rig.replies[-1][1].takes_events
    assert any("iad2, which its configuration does not name" in line for line in rig.told)
    for number in range(100):
        rig.join("n1", now=0.01 * number, masters=masters)
    assert len(rig.told) == 1
    rig.join("n1", now=QUIET_S, masters=masters)
    assert len(rig.told) == 2


def test_a_node_that_followed_is_taken_with_its_events(rig):
    rig.do(HomeChanged("n1", "iad2"), 0.0)
    rig.join("n1", masters=("iad1", "iad2"), followed=True)
    assert moved(rig) == []
    assert rig.replies[-1][1].takes_events
    rig.do(NodeAlive("link-n1", "boot-n1"), 0.5)
    assert moved(rig) == []


def test_its_last_hello_is_known_while_it_is_joined(rig):
    assert rig.scheduler.node_at("n1") is None
    rig.join("n1", now=3.0, masters=("iad1", "iad2"))
    assert rig.scheduler.node_at("n1").masters == ("iad1", "iad2")
    assert rig.scheduler.joined_s("n1") == 3.0
