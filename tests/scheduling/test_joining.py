"""Tasks that come while the nodes of a master that has just started are still joining."""

import math

import pytest

from agent.scheduling.events import (
    ANYONE,
    NodeLeft,
    QueryArrived,
    ServiceChanged,
    ServiceRemoved,
    TaskArrived,
    TaskReturned,
    TaskUndeliverable,
    Tick,
)
from agent.scheduling.queries.scheduler import AGAIN_S
from agent.scheduling.tasks.joining import FIRST_NODE_S, JOINING_S, SHARE
from agent.scheduling.tasks.planner import TaskPlanner
from agent.scheduling.watches.events import (
    AskRound,
    RoundAnswered,
    RoundsDue,
    SendWatch,
    WatchArrived,
)
from agent.scheduling.watches.scheduler import WatchScheduler
from agent.wire import messages as m
from agent.wire.market import Member, Service, Terms
from agent.wire.principals import Sender
from agent.wire.watches import Watch
from tests.scheduling.oracle import found
from tests.scheduling.rigs import QueryRig, TaskRig
from tests.scheduling.watch_rig import read_stub

POOL = (Member("iad1", "tcp://127.0.0.1:5700", ("b1/f4/r1", "b1/f4/r2")),)


def late(rig, now):
    rig.do(Tick(), now)


def test_a_query_waits_for_the_node_that_is_joining():
    rig = TaskRig(started_s=0.0)
    rig.ask(1, ("b1/f4",), now=0.2, timeout_ms=2_000.0)
    assert (rig.results, rig.dispatched, rig.scheduler.open_tasks) == ([], [], 1)
    rig.join("n1", now=1.0, areas=("b1/f4/r1",))
    [(_, subtask)] = rig.dispatched
    rig.answer(found(subtask.id), "n1", 1.1)
    [result] = rig.results
    assert (result.status, [r.area for r in result.results]) == ("complete", ["b1/f4/r1"])
    assert math.isclose(result.total_ms, 900.0)


def test_what_waits_is_refused_as_soon_as_its_service_is_removed():
    rig = TaskRig(started_s=0.0)
    own = Member("iad1", "tcp://127.0.0.1:5700", ("b1",), rate_per_s=5.0)
    rig.do(ServiceChanged(Service("climate", "iad1", 1, (own,), "temperature")), 0.1)
    rig.ask(1, ("b1/f4",), service="climate", now=0.2)
    rig.ask(2, ("b1/f4",), now=0.3)
    assert rig.results == []
    rig.do(ServiceRemoved("default"), 1.0)
    rig.do(ServiceRemoved("climate"), 1.0)
    [result] = rig.results
    assert (result.id, result.status, result.reason) == ("t1", "refused", "unknown_service")
    assert "does not serve climate any more" in result.message
    assert rig.scheduler.open_tasks == 1
    rig.join("n1", now=2.0, areas=("b1/f4/r1",))
    assert len(rig.dispatched) == 1


def test_it_waits_until_all_that_was_announced_is_there():
    rig = TaskRig(started_s=0.0, pool=POOL)
    rig.ask(1, ("b1/f4",), now=0.2, timeout_ms=8_000.0)
    rig.join("n1", now=0.5, areas=("b1/f4/r1",))
    assert rig.dispatched == []
    rig.join("n2", now=0.6, areas=("b1/f4/r2",))
    assert len(rig.dispatched) == 2


@pytest.mark.parametrize("order", [range(256), range(255, -1, -1)])
def test_whoever_waits_for_many_is_not_looked_at_with_each_that_joins(order, monkeypatch):
    """A building of 1,000 nodes that join within seconds, and tasks for all of it meanwhile."""
    evaluate, evaluated = TaskPlanner.evaluate, []

    def counted(self, entry, *args, **options):
        evaluated.append(entry)
        return evaluate(self, entry, *args, **options)

    monkeypatch.setattr(TaskPlanner, "evaluate", counted)
    areas = [f"b1/r{number}" for number in range(256)]
    rig = TaskRig(started_s=0.0, pool=(Member("iad1", "tcp://127.0.0.1:5700", tuple(areas)),))
    rig.ask(1, ("b1",), now=0.1, timeout_ms=60_000.0)
    for number in order:
        assert rig.dispatched == []
        rig.join(f"n{number}", now=0.2, areas=(areas[number],))
    assert len(rig.dispatched) == 256
    assert len(evaluated) <= 2 + 8 + 1


def test_the_nodes_that_are_there_keep_a_share_of_its_time():
    rig = TaskRig(started_s=0.0, pool=POOL)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.ask(1, ("b1/f4",), now=0.2, timeout_ms=2_000.0)
    assert rig.scheduler.next_tick == 0.2 + 2.0 * SHARE
    late(rig, 0.2 + 2.0 * SHARE)
    [(_, subtask)] = rig.dispatched
    rig.answer(found(subtask.id), "n1", 1.3)
    assert [r.area for r in rig.results[0].results] == ["b1/f4/r1"]


def test_an_area_that_nobody_comes_for_has_no_node_only_once_none_may_come():
    rig = TaskRig(started_s=0.0)
    rig.ask(1, ("b1/f4",), now=0.2, timeout_ms=2_000.0)
    late(rig, 2.2)
    [gap] = rig.results[0].missing
    assert (gap.area, gap.reason) == ("b1/f4", "timeout")
    assert "still joining" in gap.message
    rig.ask(2, ("b1/f4",), now=3.0, timeout_ms=3_600_000.0)
    late(rig, 3.0 + JOINING_S)
    [gap] = rig.results[1].missing
    assert (gap.reason, gap.message) == ("no_node", "")


def test_a_master_whose_nodes_live_elsewhere_keeps_nobody_waiting():
    """As one that was drained and restarted: no node joins it."""
    rig = TaskRig(started_s=0.0)
    rig.ask(1, ("b1/f4",), now=FIRST_NODE_S - 0.1, timeout_ms=3_600_000.0)
    assert not rig.results
    rig.ask(2, ("b1/f4",), now=FIRST_NODE_S, timeout_ms=3_600_000.0)
    [result] = rig.results
    assert [gap.reason for gap in result.missing] == ["no_node"]
    assert not rig.scheduler.joining(("b1/f4",), FIRST_NODE_S)


@pytest.mark.parametrize("asked", [("b1",), ("b1/f4",), ("b1/f4/r2", "b1/f4")])
@pytest.mark.parametrize("announced", [False, True])
def test_a_node_that_is_expected_needs_more_time_and_the_others_answer(asked, announced):
    """It was here before the restart, or it is announced: it is no area that nobody covers."""
    pool = POOL if announced else ()
    rig = TaskRig(started_s=0.0, known=None if announced else BEFORE, pool=pool)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.ask(1, asked, now=0.2, timeout_ms=2_000.0)
    late(rig, 0.2 + 2.0 * SHARE)
    rig.answer(found(rig.dispatched[0][1].id), "n1", 1.3)
    [result] = rig.results
    assert [r.area for r in result.results] == ["b1/f4/r1"]
    assert [(gap.area, gap.reason) for gap in result.missing] == [("b1/f4/r2", "timeout")]
    assert "still joining" in result.missing[0].message


BEFORE = {"n1": ("b1/f4/r1",), "n2": ("b1/f4/r2",)}


def test_what_nobody_came_for_is_told_by_the_areas_that_are_expected():
    rig = TaskRig(started_s=0.0, known=BEFORE)
    rig.ask(1, ("b1", "b2"), now=0.2, timeout_ms=2_000.0)
    late(rig, 2.2)
    gaps = [(gap.area, gap.reason) for gap in rig.results[0].missing]
    assert gaps == [("b1/f4/r1", "timeout"), ("b1/f4/r2", "timeout"), ("b2", "timeout")]


def test_a_node_that_covers_more_than_was_announced_is_not_waited_for():
    rig = TaskRig(started_s=0.0, pool=POOL)
    rig.join("n1", now=0.1, areas=("b1/f4",))
    rig.ask(1, ("b1",), now=0.2)
    assert len(rig.dispatched) == 1


def test_a_settled_fleet_says_so_at_once():
    rig = TaskRig(started_s=0.0)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.ask(1, ("b2",), now=JOINING_S)
    assert [g.reason for g in rig.results[0].missing] == ["no_node"]


def test_who_may_not_ask_is_refused_at_once():
    rig = TaskRig(started_s=0.0)
    rig.ask(1, ("b1",), now=0.1, sender=Sender("iad", "iad9"))
    assert rig.results[0].reason == "not_authorised"


def test_a_node_that_is_known_to_be_down_is_not_waited_for():
    rig = TaskRig(started_s=0.0)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.do(NodeLeft("link-n1", "boot-n1"), 0.2)
    rig.ask(1, ("b1",), now=0.3)
    assert [g.reason for g in rig.results[0].missing] == ["node_down"]


def test_nodes_that_were_here_before_a_restart_are_waited_for():
    rig = TaskRig(started_s=0.0, known=BEFORE)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.ask(1, ("b1",), now=0.2, timeout_ms=8_000.0)
    assert rig.dispatched == []
    rig.join("n2", now=0.6, areas=("b1/f4/r2",))
    assert len(rig.dispatched) == 2
    assert rig.kept == BEFORE


def test_one_that_does_not_come_back_is_waited_for_after_one_start():
    rig = TaskRig(started_s=0.0, known=BEFORE)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.ask(1, ("b1",), now=0.2, timeout_ms=2_000.0)
    late(rig, 0.2 + 2.0 * SHARE)
    assert [peer for peer, _ in rig.dispatched] == ["link-n1"]
    rig.answer(found(rig.dispatched[0][1].id), "n1", 1.3)
    assert rig.scheduler.next_tick <= JOINING_S
    late(rig, JOINING_S)
    assert rig.kept == {"n1": ("b1/f4/r1",)}
    again = TaskRig(started_s=100.0, known=rig.kept)
    again.join("n1", now=100.1, areas=("b1/f4/r1",))
    again.ask(1, ("b1",), now=100.2)
    assert len(again.dispatched) == 1


def test_one_that_said_goodbye_is_not_waited_for_after_a_restart():
    rig = TaskRig(started_s=0.0, known=BEFORE)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.join("n2", now=0.1, areas=("b1/f4/r2",))
    rig.do(NodeLeft("link-n2", "boot-n2"), 0.2)
    assert rig.kept == {"n1": ("b1/f4/r1",)}


KEYED = Sender("node", "n2")


@pytest.mark.parametrize(("node", "sender"), [("n2", ANYONE), ("", KEYED), ("n1", KEYED)])
def test_one_that_says_goodbye_before_its_hello_is_not_waited_for(node, sender):
    """It stopped while its master was down, or before it was asked for a hello."""
    rig = TaskRig(started_s=0.0, known=BEFORE)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.ask(1, ("b1",), now=0.2, timeout_ms=60_000.0)
    rig.ask(2, ("b1/f4/r2",), now=0.2, timeout_ms=60_000.0)
    assert (rig.dispatched, rig.results) == ([], [])
    rig.do(NodeLeft("link-n2", "boot-n2", sender, node), 0.3)
    assert [peer for peer, _ in rig.dispatched] == ["link-n1"]
    assert [[gap.reason for gap in result.missing] for result in rig.results] == [["no_node"]]
    rig.ask(3, ("b1/f4/r2", "b1/f4/r1"), now=0.4)
    assert len(rig.results) == 1
    assert rig.scheduler.open_tasks == 2
    assert rig.kept == {"n1": ("b1/f4/r1",)}
    rig.join("n2", now=0.5, areas=("b1/f4/r2",))
    assert rig.kept == BEFORE


@pytest.mark.parametrize(
    ("node", "sender"), [("n1", ANYONE), ("n9", ANYONE), ("", ANYONE), ("n2", Sender("node", "n1"))]
)
def test_the_goodbye_of_a_former_process_or_of_a_stranger_changes_nothing(node, sender):
    rig = TaskRig(started_s=0.0, known=BEFORE)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.ask(1, ("b1",), now=0.2, timeout_ms=60_000.0)
    rig.do(NodeLeft("link-before", "boot-before", sender, node), 0.3)
    assert (rig.dispatched, rig.results, rig.kept) == ([], [], BEFORE)


def test_one_that_comes_back_elsewhere_is_not_waited_for_where_it_was():
    rig = TaskRig(started_s=0.0, known=BEFORE)
    rig.join("n1", now=0.1, areas=("b1/f4/r1",))
    rig.join("n2", now=0.2, areas=("b1/f9/r1",))
    rig.ask(1, ("b1/f4",), now=0.3)
    assert len(rig.dispatched) == 1
    assert rig.kept == BEFORE | {"n2": ("b1/f9/r1",)}


def test_a_rate_is_used_up_once():
    terms = Terms(1.0, 99.0, 500.0)
    member = Member("iad1", "tcp://127.0.0.1:5700", ("b1/f4/r1", "b1/f4/r2"), (), 1.0)
    service = Service("climate", "iad1", 1, (member,), "temperature", terms)
    rig, other = TaskRig(started_s=0.0), TaskRig()
    for each in (rig, other):
        each.do(ServiceChanged(service), 0.0)
    rig.ask(1, ("b1",), now=0.1, service="climate")
    for each in (rig, other):
        each.join("n1", now=0.2, areas=("b1/f4/r1",))
        each.join("n2", now=0.3, areas=("b1/f4/r2",))
    other.ask(1, ("b1",), now=0.3, service="climate")
    accepted = []
    for each in (rig, other):
        number = 1
        while not any(result.reason == "over_rate" for result in each.results):
            number += 1
            each.ask(number, ("b1",), now=0.3, service="climate")
        accepted.append(number - 1)
    assert accepted[0] == accepted[1] > 1


def test_another_iads_task_waits_for_the_nodes_of_this_one():
    pool = (*POOL, Member("iad2", "tcp://127.0.0.1:5710", ("b2",)))
    rig = TaskRig(started_s=0.0, pool=pool)
    rig.ask(1, ("b1/f4",), now=0.2, sender=Sender("iad", "iad2"), timeout_ms=2_000.0)
    assert (rig.results, rig.dispatched) == ([], [])
    rig.join("n1", now=0.5, areas=("b1/f4/r1",))
    rig.join("n2", now=0.6, areas=("b1/f4/r2",))
    for peer, subtask in rig.dispatched:
        rig.answer(found(subtask.id), peer.removeprefix("link-"), 0.7)
    assert rig.results[0].status == "complete"


def test_the_first_round_of_a_watch_waits_for_the_nodes_too():
    """A watch that is opened while its master starts, down to the node and back."""
    tasks, queries = TaskRig(started_s=0.0, pool=POOL), QueryRig(POOL, iad="iad1", started_s=0.0)
    watches = WatchScheduler(
        read_stub, lambda _service: "", lambda _areas: (), iter("abc").__next__, most_watches=1
    )
    watch = Watch("w", ("b1/f4",), m.Slo(99.0, 500.0), "periodic", 1.0, form="aggregate")
    watches.handle(WatchArrived("peer", ANYONE, watch), 0.1)
    now = watches.next_tick
    [asked] = [i for i in watches.handle(RoundsDue(), now) if isinstance(i, AskRound)]
    queries.do(QueryArrived("watch", asked.query, asked.sender), now)
    [(_, of_iad1)] = queries.tasks
    tasks.do(TaskArrived("iad1", of_iad1, asked.sender), now)
    assert (tasks.dispatched, queries.answers) == ([], [])
    for number in (1, 2):
        tasks.join(f"n{number}", now=now + 0.5, areas=(f"b1/f4/r{number}",))
    for (peer, subtask), node in zip(tasks.dispatched, ("n1", "n2"), strict=True):
        assert peer == f"link-{node}"
        tasks.answer(found(subtask.id), node, now + 0.6)
    queries.do(TaskReturned("iad1", tasks.results[0]), now + 0.6)
    done = watches.handle(RoundAnswered(asked.token, queries.answers[0]), now + 0.6)
    [sent] = [i.message for i in done if isinstance(i, SendWatch)]
    assert (sent.number, sent.answer.status) == (1, "complete")
    assert [each.area for each in sent.answer.results] == ["b1/f4/r1", "b1/f4/r2"]


def two_iads(**options):
    pool = (
        Member("iad1", "tcp://127.0.0.1:1", ("b1/f1",)),
        Member("iad2", "tcp://127.0.0.1:2", ("b1/f2",)),
    )
    return QueryRig(pool, iad="iad1", **options)


def test_a_master_that_is_just_starting_is_tried_again():
    rig = two_iads(started_s=0.0)
    rig.ask("b1", now=0.5)
    (own, own_task), (other, task_sent) = sorted(rig.tasks, key=lambda one: one[0])
    rig.give(own, own_task, 0.6, areas=("b1/f1",))
    rig.do(TaskUndeliverable(other, task_sent.id), 0.6)
    assert rig.answers == []
    assert rig.scheduler.next_tick == 0.6 + AGAIN_S
    rig.do(Tick(), 0.6 + AGAIN_S)
    name, again = rig.tasks[-1]
    assert (name, again.id) == ("iad2", task_sent.id)
    assert math.isclose(task_sent.timeout_ms - again.timeout_ms, 200.0)
    rig.give(other, again, 0.8, areas=("b1/f2",))
    assert rig.answers[0].status == "complete"


def test_one_that_stays_away_leaves_the_answer_its_time():
    rig = two_iads(started_s=0.0)
    rig.ask("b1", now=0.5)
    own, other = sorted(rig.tasks, key=lambda one: one[0])
    rig.give(*own, 0.6, areas=("b1/f1",))
    now = 0.6
    while not rig.answers:
        rig.do(TaskUndeliverable("iad2", other[1].id), now)
        if not rig.answers:
            now = rig.scheduler.next_tick
            rig.do(Tick(), now)
    assert now <= 0.5 + 2.0 * SHARE
    assert [gap.reason for gap in rig.answers[0].missing] == ["iad_unreachable"]


def test_one_that_was_reached_after_all_and_stays_silent_is_too_late():
    rig = two_iads(started_s=0.0)
    rig.ask("b1", now=0.5)
    own, other = sorted(rig.tasks, key=lambda one: one[0])
    rig.give(*own, 0.6, areas=("b1/f1",))
    rig.do(TaskUndeliverable("iad2", other[1].id), 0.6)
    while not rig.answers:
        rig.do(Tick(), rig.scheduler.next_tick)
    assert [gap.reason for gap in rig.answers[0].missing] == ["timeout"]


@pytest.mark.parametrize(("started_s", "now"), [(None, 0.0), (0.0, JOINING_S)])
def test_later_it_is_unreachable_at_once(started_s, now):
    rig = two_iads(started_s=started_s)
    rig.ask("b1", now=now)
    own, other = sorted(rig.tasks, key=lambda one: one[0])
    rig.give(*own, now, areas=("b1/f1",))
    rig.do(TaskUndeliverable("iad2", other[1].id), now)
    assert [gap.reason for gap in rig.answers[0].missing] == ["iad_unreachable"]


def test_nothing_is_tried_again_for_a_query_that_has_ended():
    rig = two_iads(started_s=0.0)
    rig.ask("b1", now=0.5)
    own, other = sorted(rig.tasks, key=lambda one: one[0])
    rig.do(TaskUndeliverable("iad2", other[1].id), 0.6)
    rig.give(*own, 0.65, status="refused")
    assert rig.answers[0].status == "refused"
    sent = len(rig.tasks)
    rig.do(Tick(), 0.8)
    assert len(rig.tasks) == sent
