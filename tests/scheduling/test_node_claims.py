"""What a node may not say, whether it is hostile or mistaken: it harms its own areas only."""

import math

import msgspec
import pytest

from agent.scheduling.events import NodeAlive, NodeJoined, TellOperator
from agent.scheduling.plausible import EARLIEST_MS, LATEST_MS
from agent.scheduling.tasks.node_claims import QUIET_S, EventClaims
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.base import MAX_TEXT
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.principals import Sender
from agent.wire.records import SubtaskRecord
from tests.scheduling.oracle import aggregate, found, hello, sent_to
from tests.scheduling.rigs import TaskRig

ROOM = "b1/f4/r1"
OF_N1 = Sender("node", "n1", areas=(ROOM, "b1/f5"))


def event(sequence, *areas, time_ms=1_000):
    return nm.NodeEvent(
        sequence, "trigger_raised", time_ms, synchronised=True, trigger="hot", areas=areas
    )


def said(*events, history="hn1"):
    return nm.NodeEvents("boot-n1", history, events)


def told(instructions):
    return [i.line for i in instructions if isinstance(i, TellOperator)]


@pytest.mark.parametrize("areas", [(ROOM,), (f"{ROOM}/desk", "b1/f5/r1"), (ROOM, "b1/f5")])
def test_a_node_joins_for_its_own_areas_and_those_below(areas):
    rig = TaskRig()
    rig.join("n1", areas=areas, sender=OF_N1)
    assert isinstance(rig.replies[-1][1], nm.Welcome)


@pytest.mark.parametrize(
    ("areas", "text"),
    [
        (("b1/f4/r2",), "the allow-list does not give b1/f4/r2 to node n1"),
        ((ROOM, "b1/f4/r2", "b9"), "the allow-list does not give b1/f4/r2 and 1 more to node n1"),
        (("b1/f4",), "does not give b1/f4 to"),  # it covers more than its own
        (("b1/f4/r11",), "does not give b1/f4/r11 to"),
    ],
)
def test_a_node_does_not_join_for_the_areas_of_others(areas, text):
    rig = TaskRig()
    rig.join("n1", areas=areas, sender=OF_N1)
    [(_, rejected)] = rig.replies
    assert isinstance(rejected, nm.Rejected)
    assert text in rejected.message
    assert not rig.scheduler.node_statuses()
    rig.join("n1", areas=("a" * 64 + "/" + "/".join(["b" * 60] * 7),), sender=OF_N1)
    assert len(rig.replies[-1][1].message) <= MAX_TEXT


def test_without_areas_in_the_allow_list_a_node_names_what_it_likes():
    rig = TaskRig()
    rig.join("n1", areas=("b1/f4/r2",), sender=Sender("node", "n1"))
    assert isinstance(rig.replies[-1][1], nm.Welcome)


def test_a_node_whose_areas_are_taken_away_speaks_for_them_no_longer():
    rig = TaskRig()
    rig.join("n1", areas=(ROOM, "b1/f5/r1"), sender=OF_N1)
    again = Sender("node", "n1", areas=(ROOM, "b1/f5"))  # the file was read again
    rig.do(NodeAlive("link-n1", "boot-n1", sender=again), 1.0)
    assert rig.replies[-1] == ("link-n1", nm.Heartbeat("boot-n1"))
    rig.ask(1, (ROOM,), now=1.5)
    less = Sender("node", "n1", areas=("b1/f5",))
    rig.do(NodeAlive("link-n1", "boot-n1", sender=less), 2.0)
    assert rig.replies[-1] == ("link-n1", nm.HelloWanted())
    assert [gap.reason for gap in rig.results[0].missing] == ["node_down"]
    assert rig.scheduler.node_statuses()[0].state == "left"
    rig.join("n1", now=2.1, areas=(ROOM, "b1/f5/r1"), sender=less)
    assert "does not give b1/f4/r1 to" in rig.replies[-1][1].message
    rig.join("n1", now=2.2, areas=("b1/f5/r1",), sender=less)
    assert isinstance(rig.replies[-1][1], nm.Welcome)


def test_events_about_the_areas_of_others_are_refused_and_the_others_are_taken():
    claims = EventClaims()
    own, nowhere, foreign = event(1, ROOM), event(2), event(3, ROOM, "b1/f4/r2")
    message = said(own, nowhere, foreign)
    taken, instructions = claims.sift("link-n1", "n1", message, OF_N1.areas, 1.0)
    assert taken == msgspec.structs.replace(message, events=(own, nowhere))
    # It would come again for ever, and stop what is behind it.
    assert sent_to(instructions, nm.EventsTaken) == [
        ("link-n1", nm.EventsTaken("boot-n1", "hn1", (3,)))
    ]
    assert claims.implausible == 1
    [line] = told(instructions)
    assert line.startswith("an event of node n1 was refused: the allow-list does not give b1/f4/r2")
    taken, instructions = claims.sift("link-n1", "n1", said(foreign), OF_N1.areas, 2.0)
    assert taken.events == ()
    assert told(instructions) == []
    assert len(sent_to(instructions, nm.EventsTaken)) == 1
    of_n2 = claims.sift("link-n2", "n2", said(foreign), ("b1/f4/r2",), 2.0)
    assert len(told(of_n2[1])) == 1
    _, instructions = claims.sift("link-n1", "n1", said(foreign), OF_N1.areas, 1.0 + QUIET_S)
    assert len(told(instructions)) == 1
    assert claims.implausible == 4


@pytest.mark.parametrize("time_ms", [EARLIEST_MS - 1, LATEST_MS, 2**53 - 1])
def test_an_event_at_a_time_that_no_clock_shows_is_refused(time_ms):
    message = said(event(7, ROOM, time_ms=time_ms))
    taken, instructions = EventClaims().sift("link-n1", "n1", message, None, 1.0)
    assert taken.events == ()
    assert [reply.sequences for _, reply in sent_to(instructions, nm.EventsTaken)] == [(7,)]


@pytest.mark.parametrize("time_ms", [EARLIEST_MS, 0, -5_000, LATEST_MS - 1])
def test_a_clock_that_is_not_set_is_no_reason(time_ms):
    message = said(event(7, ROOM, time_ms=time_ms))
    assert EventClaims().sift("link-n1", "n1", message, None, 1.0) == (message, [])


def of(low, mean, high, first_ms=0, last_ms=1):
    channel = m.ChannelAggregate(3, low, mean, high)
    return m.Aggregate(first_ms, last_ms, {"temperature": channel})


def series(*times_ms):
    return m.Series(Int64Column.of(times_ms), {"t": Float32Column.of([20.0] * len(times_ms))})


NOT_TRUE = [
    (of(20.0, 30.0, 25.0), "the mean of temperature is not between its minimum and maximum"),
    (of(20.0, 19.0, 25.0), "the mean of temperature"),
    (of(26.0, 25.0, 25.0), "the mean of temperature"),
    (of(20.0, math.nan, 25.0), "the mean of temperature"),
    (of(20.0, 21.0, 25.0, last_ms=LATEST_MS), "after 2199"),
    (of(20.0, 21.0, 25.0, first_ms=EARLIEST_MS - 1), "before 1900"),
    (of(20.0, 21.0, 25.0, 2, 1), "its last reading is before its first"),
    (m.Aggregate(0, 1, {f"c{i}": m.ChannelAggregate(0) for i in range(2_000)}), "2000 channels"),
    (series(0, 2**60), "after 2199"),
    (series(-(2**60), 5), "before 1900"),
    # Merged with another node's series they would come first and last.
    (series(0, 2**63 - 1, 1), "after 2199"),
    (series(0, -(2**63), 1), "before 1900"),
    (msgspec.structs.replace(series(0, 1), source_time_ms=Int64Column.of([0, 2**60])), "after"),
]


@pytest.mark.parametrize(("content", "text"), NOT_TRUE)
def test_a_result_that_cannot_be_true_is_a_gap_and_nothing_else_suffers(content, text):
    rig = TaskRig()
    rig.join("n1")
    rig.join("n2")
    form = "series" if isinstance(content, m.Series) else "aggregate"
    rig.ask(1, form=form)
    (_, first), (_, second) = rig.dispatched
    wrong = nm.SubtaskResult(first.id, "ok", 0.0, 1.0, **{form: content})
    right = nm.SubtaskResult(
        second.id, "ok", 0.0, 1.0, **{form: series(0, 1) if form == "series" else aggregate(20.0)}
    )
    rig.answer(wrong, "n1", 1.0)
    rig.answer(right, "n2", 1.0)
    [result] = rig.results
    assert [r.area for r in result.results] == ["b1/f4/r2"]
    [gap] = result.missing
    assert (gap.area, gap.reason) == (ROOM, "node_error")
    assert text in gap.message
    assert rig.scheduler.counters["implausible_results"] == 1
    outcomes = [r.outcome for r in rig.records if isinstance(r, SubtaskRecord)]
    assert outcomes == ["node_error", "ok"]


@pytest.mark.parametrize("content", [of(0.1, 0.1 * (1 + 1e-15), 0.1), of(-5.0, -5.0, -5.0)])
def test_a_mean_may_differ_in_its_last_digits(content):
    rig = TaskRig()
    rig.join("n1")
    rig.ask(1, (ROOM,))
    [(_, subtask)] = rig.dispatched
    rig.answer(msgspec.structs.replace(found(subtask.id), aggregate=content), "n1", 1.0)
    assert rig.results[0].status == "complete"


def test_a_hello_that_is_sent_again_keeps_its_areas():
    rig = TaskRig()
    for _ in range(3):
        event_ = NodeJoined("link-n1", hello("n1", "boot-n1", areas=(ROOM,)), OF_N1)
        rig.do(event_, 1.0)
        assert isinstance(rig.replies[-1][1], nm.Welcome)
