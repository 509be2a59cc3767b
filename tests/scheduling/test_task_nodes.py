"""Nodes of the task scheduler, case by case: joined, copied, lost, moved, forgotten."""

import pytest

from agent.scheduling.events import (
    NodeAlive,
    NodeJoined,
    NodeLeft,
    NodeRefused,
    SubtaskReturned,
    Tick,
)
from agent.scheduling.tasks.node_claims import QUIET_S
from agent.wire import messages as m
from agent.wire import node_messages as nm
from tests.scheduling import rigs
from tests.scheduling.oracle import found, hello

rig = rigs.rig


def test_a_lost_node_keeps_what_has_time_left_and_serves_it_when_it_returns(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=0.5, budget_ms=10_000, timeout_ms=60_000)
    rig.do(Tick(), 3.0)
    assert rig.scheduler.node_statuses()[0].state == "lost"
    rig.ask(2, ("b1/f4/r1",), now=3.1)
    assert rig.results[0].missing == (m.Missing("b1/f4/r1", "node_down"),)
    # A new process at the same place: what the old one ran is dispatched again.
    rig.do(NodeJoined("link-2", hello("n1", "boot-2")), 4.0)
    assert len(rig.dispatched) == 2
    assert rig.dispatched[1][1].id != rig.dispatched[0][1].id
    rig.do(SubtaskReturned("link-2", found(rig.dispatched[1][1].id)), 4.1)
    assert rig.results[1].status == "complete"
    assert rig.scheduler.counters["redispatched"] == 1


@pytest.mark.parametrize(("budget_s", "answered_s"), [(0.5, 3.0), (2.0, 3.5), (5.0, 5.5)])
def test_a_late_task_does_not_wait_for_a_node_that_is_lost(rig, budget_s, answered_s):
    """Silent since 0.0, the node is lost at 3.0; a late task looks each second."""
    rig.join("n1", pods=1)
    rig.join("n2", areas=("b1/f4/r2",), pods=2)
    for number in (1, 2):  # one runs there, one is queued
        rig.ask(number, ("b1/f4",), now=0.5, budget_ms=budget_s * 1e3, timeout_ms=60_000)
    for _, subtask in [each for each in rig.dispatched if each[0] == "link-n2"]:
        rig.do(SubtaskReturned("link-n2", found(subtask.id)), 0.6)
    now = 0.6
    while not rig.results:
        assert rig.scheduler.next_tick > now
        now = rig.scheduler.next_tick
        rig.do(Tick(), now)
    assert now == answered_s
    assert [each.missing for each in rig.results] == [
        (m.Missing("b1/f4/r1", "node_down"),),
        (m.Missing("b1/f4/r1", "node_down"),),
    ]
    # What it still says of them is nobody's.
    rig.do(NodeJoined("link-2", hello("n1", "boot-2")), 8.0)
    assert rig.scheduler.counters["redispatched"] == 0


def test_a_late_task_goes_on_waiting_for_a_node_that_is_there(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=0.5, budget_ms=500, timeout_ms=5_000)
    for now in range(1, 6):
        rig.do(NodeAlive("link-n1", "boot-n1"), now)
        rig.do(Tick(), now)
        assert not rig.results
    rig.do(Tick(), 5.5)
    assert rig.results[0].missing == (m.Missing("b1/f4/r1", "timeout"),)


def test_a_cut_link_does_not_repeat_what_the_pod_still_runs(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=0.5)
    subtask = rig.dispatched[0][1]
    rig.do(NodeJoined("link-2", hello("n1", "boot-n1", running=(subtask.id,))), 1.0)
    assert len(rig.dispatched) == 1
    rig.do(SubtaskReturned("link-2", found(subtask.id)), 1.1)
    assert rig.results[0].status == "complete"
    # The cut is inside that response time, so it is no unloaded one.
    assert rig.scheduler.node_statuses()[0].unloaded_samples == 0


def test_a_second_machine_under_the_same_name_displaces_the_first_for_good(rig):
    rig.join("n1")
    rig.do(NodeJoined("link-b", hello("n1", "boot-b")), 0.1)
    rig.do(NodeAlive("link-n1", "boot-n1"), 0.2)
    assert rig.replies[-1] == ("link-n1", nm.HelloWanted())
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1")), 0.3)
    assert isinstance(rig.replies[-1][1], nm.Rejected)
    rig.ask(1, ("b1/f4/r1",), now=0.4)
    assert rig.dispatched[0][0] == "link-b"
    # Once the second is lost, the first may serve again.
    rig.do(Tick(), 9.0)
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1")), 9.1)
    assert isinstance(rig.replies[-1][1], nm.Subtask | nm.Welcome)


def test_a_copy_of_a_configuration_is_refused_while_the_node_is_heard(rig):
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1"), address="10.0.0.5"), 0.0)
    copy = NodeJoined("link-b", hello("n1", "boot-b", history="h\nb"), address="10.0.0.7")
    rig.do(copy, 0.1)
    assert rig.replies[-1] == (
        "link-b",
        nm.Rejected(
            "another node named n1 is at work here; is its configuration a copy? "
            "Give this one another name"
        ),
    )
    (line,) = rig.told
    assert line == (
        "two nodes are named n1: the one at 10.0.0.7 with history 'h\\nb' was refused while the "
        "one at 10.0.0.5 with history 'hn1' is at work; if one's configuration is a copy, give it "
        "another name"
    )
    # What the copy says besides is nobody's.
    rig.do(NodeAlive("link-b", "boot-b"), 0.2)
    assert rig.replies[-1] == ("link-b", nm.HelloWanted())
    rig.ask(1, ("b1/f4/r1",), now=0.3)
    assert rig.dispatched[0][0] == "link-n1"
    now = 0.5
    while now < QUIET_S:
        rig.do(NodeAlive("link-n1", "boot-n1"), now)
        rig.do(copy, now)
        assert isinstance(rig.replies[-1][1], nm.Rejected)
        now += 2.5
    assert len(rig.told) == 1
    rig.do(NodeAlive("link-n1", "boot-n1"), QUIET_S)
    rig.do(copy, QUIET_S + 1.0)
    assert len(rig.told) == 2


def test_a_node_whose_card_was_replaced_joins_when_the_old_one_has_been_silent(rig):
    rig.join("n1")
    rig.do(NodeAlive("link-n1", "boot-n1"), 1.0)
    replaced = NodeJoined("link-b", hello("n1", "boot-b", history="new card"))
    rig.do(replaced, 3.99)
    assert isinstance(rig.replies[-1][1], nm.Rejected)
    # Also before the tick that says so.
    rig.do(replaced, 4.0)
    assert isinstance(rig.replies[-1][1], nm.Welcome)
    # Whoever stood there before has to stay silent from now on.
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1")), 4.1)
    assert isinstance(rig.replies[-1][1], nm.Rejected)


def test_a_node_that_stopped_may_come_back_with_another_history_at_once(rig):
    rig.join("n1")
    rig.do(NodeLeft("link-n1", "boot-n1"), 0.1)
    rig.do(NodeJoined("link-b", hello("n1", "boot-b", history="new")), 0.2)
    assert isinstance(rig.replies[-1][1], nm.Welcome)


@pytest.mark.parametrize(
    ("link", "incarnation", "history"),
    [
        ("link-b", "boot-b", "hn1"),  # started again
        ("link-b", "boot-n1", "hn1"),  # on a new link
        ("link-n1", "boot-n1", "another"),  # its history was opened late, or put aside
        ("link-b", "boot-n1", "another"),
        ("link-n1", "boot-b", "another"),  # nobody else speaks on its link
    ],
)
def test_the_same_node_joins_again_at_once(rig, link, incarnation, history):
    rig.join("n1")
    rig.do(NodeJoined(link, hello("n1", incarnation, history=history)), 0.1)
    assert isinstance(rig.replies[-1][1], nm.Welcome)
    assert not rig.told


def test_a_copied_card_is_told_to_the_operator_when_the_first_machine_comes_back(rig):
    rig.join("n1")
    rig.do(NodeJoined("link-b", hello("n1", "boot-b")), 0.1)
    assert not rig.told
    rig.do(NodeJoined("link-c", hello("n1", "boot-n1")), 0.2)
    assert isinstance(rig.replies[-1][1], nm.Rejected)
    assert len(rig.told) == 1


@pytest.mark.parametrize("message", ["alive", "result"])
def test_a_link_that_never_said_hello_is_asked_to(rig, message):
    event = NodeAlive("?", "x") if message == "alive" else SubtaskReturned("?", found(1))
    rig.do(event, 0.0)
    assert rig.replies == [("?", nm.HelloWanted())]


def test_what_a_live_node_no_longer_runs_is_dispatched_again_but_not_what_is_on_its_way(rig):
    rig.join("n1", pods=2)
    rig.do(NodeAlive("link-n1", "boot-n1", ()), 1.0)
    rig.ask(1, ("b1/f4/r1",), now=1.5)
    # This heartbeat may have left before the subtask came.
    rig.do(NodeAlive("link-n1", "boot-n1", ()), 2.0)
    assert len(rig.dispatched) == 1
    rig.do(NodeAlive("link-n1", "boot-n1", ()), 3.0)
    assert len(rig.dispatched) == 2
    rig.answer(found(rig.dispatched[1][1].id), "n1", now=3.1)
    assert rig.results[0].status == "complete"


def test_a_heartbeat_of_a_node_that_does_not_say_what_it_runs_changes_nothing(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=0.5)
    for now in (1.0, 2.0, 3.0):
        rig.do(NodeAlive("link-n1", "boot-n1"), now)
    assert len(rig.dispatched) == 1


def test_pods_that_run_something_for_a_master_that_is_gone_are_not_idle(rig):
    rig.join("n1", running=(77,))
    rig.ask(1, ("b1/f4/r1",), now=0.1)
    assert not rig.dispatched
    rig.answer(found(77), "n1", now=0.2)
    assert len(rig.dispatched) == 1


def test_a_node_that_says_goodbye_is_not_waited_for(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    rig.ask(2, ("b1/f4/r1",), now=1.0)
    rig.do(NodeLeft("link-n1", "boot-n1"), 1.1)
    assert [r.missing for r in rig.results] == [(m.Missing("b1/f4/r1", "node_down"),)] * 2


def test_a_node_whose_key_was_revoked_is_not_waited_for(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    rig.do(NodeRefused("link-n1"), 1.1)
    assert [r.missing for r in rig.results] == [(m.Missing("b1/f4/r1", "node_down"),)]
    rig.do(NodeRefused("link-n1"), 1.2)  # every further message of it
    assert len(rig.results) == 1


def test_a_node_that_moved_does_not_answer_for_where_it_was(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    moved = hello("n1", "boot-2", areas=("b1/f4/r7",))
    rig.do(NodeJoined("link-2", moved), 1.1)
    assert rig.results[0].missing == (m.Missing("b1/f4/r1", "node_down"),)
    assert len(rig.dispatched) == 1


def test_an_area_named_twice_in_a_hello_counts_once(rig):
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1", areas=("b1/x", "b1/x"))), 0.0)
    rig.ask(1, ("b1",), now=1.0)
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=1.1)
    [result] = rig.results[0].results
    assert result.aggregate.channels["temperature"].count == 1


def test_a_node_that_changes_its_areas_all_the_time_is_held_back(rig):
    rig.join("n1")
    rig.join("n1", now=0.5, areas=("b2",), incarnation="again")  # started with another file
    assert isinstance(rig.replies[-1][1], nm.Welcome)
    for now in (0.5, 1.0, 1.49):
        rig.join("n1", now=now, areas=(f"b3/{now}",), incarnation="again")
        assert "changed less than 1 s ago" in rig.replies[-1][1].message
        rig.join("n1", now=now, areas=("b2",), incarnation=f"again-{now}")
        assert isinstance(rig.replies[-1][1], nm.Welcome)
        rig.join("n2", now=now, areas=(f"b4/{int(now)}",))  # others are not held back
    assert rig.scheduler.node_statuses()[0].areas == ("b2",)
    rig.join("n1", now=1.5, areas=("b3/r1",), incarnation="again")
    assert isinstance(rig.replies[-1][1], nm.Welcome)


def test_nodes_that_are_gone_make_room_for_others_the_first_of_them_first(rig, monkeypatch):
    membership = "agent.scheduling.tasks.node_membership"
    monkeypatch.setattr(f"{membership}.MAX_NODES", 3)
    monkeypatch.setattr(f"{membership}.FORGOTTEN", 1)
    areas = {"n1": "b1/f4/r1", "n2": "b1/f4/r2", "n3": "b1/f4/r3", "n4": "b1/f4/r4"}
    for node in ("n1", "n2", "n3"):
        rig.join(node, areas=(areas[node],))
    rig.estimator.observe(1, 0.7, 0.1)
    rig.estimator.observe_size(1, 1.0, 0.7)
    for node in ("n2", "n1"):
        rig.do(NodeLeft(f"link-{node}", f"boot-{node}"), 0.5)
    rig.join("n4", areas=(areas["n4"],), now=1.0)
    assert isinstance(rig.replies[-1][1], nm.Welcome)
    assert [each.node for each in rig.scheduler.node_statuses()] == ["n1", "n3", "n4"]
    assert rig.estimator.samples(1) == 0  # the column is the newcomer's
    assert rig.estimator.expected_s(1, 1.0) < 0.7
    rig.ask(1, ("b1",), now=1.1)
    assert {peer for peer, _ in rig.dispatched} == {"link-n3", "link-n4"}
    assert rig.scheduler.node_statuses()[0].state == "left"
    # One that comes back is the last to go.
    rig.join("n1", areas=(areas["n1"],), now=1.2, incarnation="again")
    rig.join("n2", areas=(areas["n2"],), now=1.3, incarnation="again")
    assert isinstance(rig.replies[-1][1], nm.Rejected)


def test_a_lost_node_is_forgotten_once_nobody_waits_for_its_answer(rig, monkeypatch):
    membership = "agent.scheduling.tasks.node_membership"
    monkeypatch.setattr(f"{membership}.MAX_NODES", 2)
    monkeypatch.setattr(f"{membership}.FORGOTTEN", 1)
    rig.join("n1", areas=("b1/f4/r1",))
    rig.ask(1, ("b1/f4/r1",), now=0.1, budget_ms=100_000.0, timeout_ms=100_000.0)
    rig.do(Tick(), 60.0)
    assert rig.scheduler.node_statuses()[0].state == "lost"
    rig.join("n2", areas=("b1/f4/r2",), now=60.0)
    rig.do(NodeLeft("link-n2", "boot-n2"), 61.0)
    # It is the first that is gone, and does not stand in the way of the second.
    rig.join("n3", areas=("b1/f4/r3",), now=62.0)
    assert [each.node for each in rig.scheduler.node_statuses()] == ["n1", "n3"]
    rig.do(Tick(), 200.0)
    assert len(rig.results) == 1
    rig.join("n4", areas=("b1/f4/r4",), now=200.0)
    assert [each.node for each in rig.scheduler.node_statuses()] == ["n3", "n4"]


def test_more_nodes_than_memory_should_hold_are_rejected(rig, monkeypatch):
    monkeypatch.setattr("agent.scheduling.tasks.node_membership.MAX_NODES", 1)
    rig.join("n1")
    rig.join("n2")
    assert isinstance(rig.replies[-1][1], nm.Rejected)
    rig.join("n1")
    assert isinstance(rig.replies[-1][1], nm.Welcome)
