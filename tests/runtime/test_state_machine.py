"""The base of all state machines, and every machine on it along random walks of its own table."""

import math
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.alerts.inbox import Inbox
from agent.alerts.spool import _Spooled
from agent.clones.anchor import Anchor
from agent.clones.events import Kept
from agent.overlay.session import Session
from agent.placement.handover.events import Timing
from agent.placement.handover.source import Source
from agent.placement.handover.target import Target
from agent.placement.standby.primary import Primary
from agent.placement.standby.standby import Standby
from agent.placement.world import Unit
from agent.processing.definition import Definition
from agent.processing.events import Checkpoint
from agent.processing.processor import Processor
from agent.processing.worker import Worker
from agent.runtime.state_machine import (
    EVENTS_KEPT,
    PAST_KEPT,
    EventMachine,
    InvalidTransition,
    StateMachine,
)
from agent.scheduling.events import ANYONE
from agent.scheduling.queries.entry import QueryEntry
from agent.scheduling.shared_budget import Holding, SharedBudget
from agent.scheduling.tasks.entry import Node, SubtaskEntry, TaskEntry
from agent.scheduling.watches.alerts import WatchedAlerts
from agent.scheduling.watches.events import SavedWatch
from agent.scheduling.watches.rounds import RoundEntry, WatchEntry
from agent.topics.entry import TopicEntry
from agent.topics.events import Progress
from agent.wire.clones import CloneOf
from agent.wire.messages import Query, Slo, Task, Window
from agent.wire.overlay import Notification, Origin
from agent.wire.overlay_links import OverlayHello
from agent.wire.predicates import Predicate
from agent.wire.topics import Topic
from agent.wire.watches import Watch
from fleet.rollout.rollout import Member, _Host

FILTER = ((Predicate("value", ">", (30.0,)),),)
WATCH = Watch("w1", ("b1",), Slo(99.0, 500.0), "periodic", 1.0)
NODE = Node("n1", 0)
HELD = Holding(SharedBudget(), "client")


def task_entry():
    task = Task("t1", ("b1",), Window(last_s=60.0), 99.0, 500.0, 2_000.0)
    return TaskEntry(task, "client", "iad1", "edfq", 0.0, HELD, HELD)


def query_entry():
    query = Query("q1", ("b1",), Window(last_s=60.0), Slo(99.0, 500.0))
    return QueryEntry("client", ANYONE, query, 0.0, HELD, HELD)


def watched_alerts():
    return WatchedAlerts(
        FILTER, 1.0, lambda: "s1", None, ends_s=math.inf, lag_s=1.0, most_open=8
    )  # fmt: skip


MACHINES = {
    "task": task_entry,
    "subtask": lambda: SubtaskEntry(task_entry(), NODE, ["b1"]),
    "node": lambda: Node("n1", 0),
    "query": query_entry,
    "round": lambda: RoundEntry(7),
    "watch": lambda: WatchEntry(("c", "w1"), SavedWatch("c", 0, WATCH), None, None, 0.0),
    "alerts": watched_alerts,
    "inbox": lambda: Inbox(1, "c", "s1", FILTER, durable=True),
    "spooled": lambda: _Spooled(1, Notification(Origin("iad1", "h1", 1), 1_000, {}), 100),
    "link": lambda: Session(OverlayHello("iad1", "v", 0, "overlay", 1, 0, False), lambda: 5),
    "host": lambda: _Host(Member("i/n1", "i", "node")),
    "processor": lambda: Processor(Definition("comfort", "comfort_index"), 1, Checkpoint()),
    "worker": lambda: Worker(1),
    "primary": lambda: Primary(Unit("processor", "comfort"), "iad2", 1, 1, 1),
    "standby": lambda: Standby(Unit("processor", "comfort"), "iad1"),
    "source": lambda: Source(Unit("home", "n1"), "iad2", 1, 1, Timing()),
    "target": lambda: Target(Unit("home", "n1"), "iad1", 1, 1.0, Timing()),
    "anchor": lambda: Anchor(
        Kept(CloneOf("iad4/n3", "echo"), Topic("clone-1", processor="echo"), "a1")
    ),
    "topic": lambda: TopicEntry(Topic("comfort"), 1, Progress("a1"), 0.0),
}


def test_every_machine_is_here():
    here = {type(make()) for make in MACHINES.values()}
    assert {
        each for each in StateMachine.__subclasses__() if "tests" not in each.__module__
    } == here


@pytest.mark.parametrize("name", MACHINES)
@given(data=st.data())
def test_a_machine_follows_its_table_and_tells_how_it_came_where_it_is(name, data):
    machine = MACHINES[name]()
    table = type(machine).TRANSITIONS
    passed = machine.history.split(" → ")
    for _ in range(data.draw(st.integers(0, 2 * PAST_KEPT))):
        ways = sorted(after for before, after in table if before == machine.state)
        if not ways:
            break
        machine.become(data.draw(st.sampled_from(ways)))
        passed.append(machine.state)
    kept = " → ".join(passed[-PAST_KEPT - 1 :])
    assert machine.history == kept
    states = {state for arrow in table for state in arrow} | {"nowhere"}
    wrong = sorted(after for after in states if (machine.state, after) not in table)
    refused = data.draw(st.sampled_from(wrong))
    with pytest.raises(InvalidTransition) as caught:
        machine.become(refused)
    assert str(caught.value) == (
        f"{machine.state} → {refused} is not allowed for {machine!r} by "
        f"{type(machine).__name__}.TRANSITIONS; history: {kept}"
    )
    assert machine.history == kept, "a transition that is not allowed changes nothing"


def test_the_items_of_hot_paths_have_no_dictionary():
    for name in ("task", "subtask", "node", "query", "round", "inbox", "spooled"):
        assert not hasattr(MACHINES[name](), "__dict__"), name


class Door(Enum):
    OPEN = "open"
    SHUT = "shut"


class Push:
    pass


class Pull:
    pass


class Doorway(EventMachine[list[str]]):
    def __repr__(self):
        return "door"

    def handle(self, event, now):
        return self._act(type(event), event, now)

    def _shut(self, event, now):
        self.state = Door.SHUT
        return [f"shut at {now:g}"]

    def _open(self, event, now):
        self.state = Door.OPEN
        return []

    TRANSITIONS = {(Door.OPEN, Push): _shut, (Door.SHUT, Pull): _open}  # noqa: RUF012


def test_events_lead_to_the_action_of_the_table():
    door = Doorway(Door.OPEN)
    assert (door.handle(Push(), 1.5), door.state) == (["shut at 1.5"], Door.SHUT)
    assert (door.handle(Pull(), 2.0), door.state) == ([], Door.OPEN)


@given(turns=st.integers(0, 2 * EVENTS_KEPT))
def test_an_event_that_cannot_come_tells_those_before_it(turns):
    door = Doorway(Door.OPEN)
    told = []
    for turn in range(turns):
        told.append(f"{door.state.value} {'Pull' if turn % 2 else 'Push'} at {turn}.000")
        door.handle(Pull() if turn % 2 else Push(), float(turn))
    wrong = Push() if door.state is Door.SHUT else Pull()
    told.append(f"{door.state.value} {type(wrong).__name__} at 99.000")
    with pytest.raises(InvalidTransition) as caught:
        door.handle(wrong, 99.0)
    story = "; ".join(told[-EVENTS_KEPT:])
    assert str(caught.value) == f"door: {story} is not in Doorway.TRANSITIONS"
