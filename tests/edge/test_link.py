"""The link under scripted events."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agent.edge.events.outbox import Cut, Joined, Taken
from agent.edge.link import (
    GREETING_S,
    LOST_AFTER,
    Close,
    Execute,
    Finished,
    Keep,
    Open,
    Reopened,
    Resize,
    Send,
    SendResult,
    Start,
    State,
    Stop,
    TellOperator,
    Tick,
)
from agent.runtime.state_machine import InvalidTransition
from agent.wire.derived import Derived, DerivedValues
from agent.wire.messages import Window
from agent.wire.node_messages import (
    EventsTaken,
    Goodbye,
    Heartbeat,
    Hello,
    HelloWanted,
    PodsSet,
    Rejected,
    SetPods,
    Subtask,
    SubtaskResult,
    Welcome,
)
from tests.edge.links import FIRST_S, HELLO, MAX_S, WELCOME, hello, joined, kinds, new_link, subtask


def test_start_says_hello_and_the_welcome_starts_the_heartbeats() -> None:
    link = new_link()
    assert link.handle(Start(), 0.0) == [Open(), Send(HELLO)]
    assert kinds(link.handle(WELCOME, 0.3)) == [TellOperator, Joined]
    assert link.wake_at == 1.3
    assert link.handle(Tick(), 1.29) == []
    assert link.handle(Tick(), 1.3) == [Send(Heartbeat("here", ()))]
    assert link.wake_at == 2.3


def test_heartbeats_missed_while_held_up_are_not_made_up_for() -> None:
    link = joined()
    link.handle(Heartbeat("here"), 2.5)
    assert link.handle(Tick(), 2.5) == [Send(Heartbeat("here", ()))]
    assert link.handle(Tick(), 2.6) == []


def test_a_silent_master_is_left_after_three_heartbeats_and_greeted_again() -> None:
    link = joined()
    assert LOST_AFTER == 3
    link.handle(Heartbeat("here"), 0.9)
    for now in (1.0, 2.0, 3.0):
        assert link.handle(Tick(), now) == [Send(Heartbeat("here", ()))]
    assert link.handle(Tick(), 3.89) == []
    instructions = link.handle(Tick(), 3.9)
    assert kinds(instructions) == [Cut, Close, TellOperator]
    assert link.state is State.WAITING
    assert link.wake_at == pytest.approx(3.9 + FIRST_S * 0.75)
    assert link.handle(Tick(), link.wake_at) == [Open(), Send(HELLO)]


def test_any_message_is_a_sign_of_life() -> None:
    link = joined()
    link.handle(subtask(1), 2.5)
    link.handle(Tick(), 3.5)
    assert link.state is State.JOINED


@pytest.mark.parametrize(("jitter", "part"), [(0.0, 0.5), (0.999, 0.9995)])
def test_pauses_double_up_to_the_longest_with_jitter(jitter: float, part: float) -> None:
    link = new_link(jitter)
    now, pauses = 0.0, []
    link.handle(Start(), now)
    for _ in range(10):
        now += GREETING_S
        assert link.handle(Tick(), now - 0.01) == []
        assert kinds(link.handle(Tick(), now)) == [Close, TellOperator]
        pauses.append(link.wake_at - now)
        now = link.wake_at
        assert kinds(link.handle(Tick(), now)) == [Open, Send]
    full = [min(MAX_S, FIRST_S * 2**n) for n in range(10)]
    assert pauses == pytest.approx([part * pause for pause in full])


def test_a_rejected_hello_is_retried_ever_more_slowly_and_a_welcome_forgives() -> None:
    link = new_link(jitter=1.0)
    link.handle(Start(), 0.0)
    now, pauses = 1.0, []
    for _ in range(10):
        close, report = link.handle(Rejected("the name is taken"), now)
        assert close == Close(0.0)
        assert isinstance(report, TellOperator)
        assert "the name is taken" in report.line
        pauses.append(link.wake_at - now)
        now = link.wake_at
        assert kinds(link.handle(Tick(), now)) == [Open, Send]
    assert pauses == pytest.approx([min(MAX_S, FIRST_S * 2**n) for n in range(10)])
    link.handle(WELCOME, now)
    link.handle(Tick(), now + 9.0)
    assert link.wake_at == pytest.approx(now + 9.0 + FIRST_S)


@pytest.mark.parametrize("until_s", [3.0, 10.0, 30.0])
def test_a_name_that_is_free_again_is_taken_within_twice_the_time_it_was_not(
    until_s: float,
) -> None:
    link = new_link(jitter=1.0)
    link.handle(Start(), 0.0)
    now = 0.0
    while now < until_s:
        link.handle(Rejected("another node named n1 is at work here"), now)
        now = link.wake_at
        link.handle(Tick(), now)
    assert now <= 2 * until_s + FIRST_S


def test_a_rejection_after_the_welcome_greets_again_soon() -> None:
    link = joined()
    assert kinds(link.handle(Rejected("who are you?"), 1.0)) == [Cut, Close, TellOperator]
    assert link.wake_at <= 1.0 + FIRST_S


def test_a_welcome_for_somebody_else_is_ignored() -> None:
    link = new_link()
    link.handle(Start(), 0.0)
    assert kinds(link.handle(Welcome("other", 1.0), 0.1)) == [TellOperator]
    assert link.state is State.GREETING


def test_no_subtask_waits_at_the_node() -> None:
    link = joined()
    assert link.handle(subtask(1), 0.1) == [Execute(subtask(1))]
    assert link.handle(subtask(2), 0.1) == [Execute(subtask(2))]
    (refusal,) = link.handle(subtask(3), 0.1)
    assert isinstance(refusal, Send)
    assert isinstance(refusal.message, SubtaskResult)
    assert (refusal.message.id, refusal.message.outcome) == (3, "error")
    assert "busy" in refusal.message.message
    assert link.handle(Finished(1), 0.2) == [SendResult(1)]
    assert link.handle(subtask(4), 0.2) == [Execute(subtask(4))]


def test_derived_values_are_kept_while_it_is_joined_and_left_to_the_master_otherwise() -> None:
    derived = Derived("here", "clone", (DerivedValues(1, 0, {"comfort": 0.5}),))
    link = joined()
    assert link.handle(derived, 0.5) == [Keep(derived)]
    assert link.handle(replace(derived, incarnation="before"), 0.5) == []
    assert link.wake_at == 1.0
    link.handle(HelloWanted(), 0.6)
    assert link.handle(derived, 0.7) == []


def test_a_subtask_before_the_welcome_is_an_error() -> None:
    link = new_link()
    link.handle(Start(), 0.0)
    (refusal,) = link.handle(subtask(7), 0.1)
    assert isinstance(refusal, Send)
    assert isinstance(refusal.message, SubtaskResult)
    assert (refusal.message.id, refusal.message.outcome) == (7, "error")
    assert link.running == set()


def test_what_finishes_while_the_link_is_cut_is_sent_after_the_welcome() -> None:
    link = joined()
    link.handle(subtask(1), 0.1)
    link.handle(subtask(2), 0.1)
    link.handle(Tick(), 10.0)
    assert link.handle(Finished(2), 11.0) == []
    assert link.handle(Tick(), 20.0) == [Open(), hello(1, 2)]
    assert link.handle(Finished(1), 20.1) == []
    assert link.handle(WELCOME, 20.2)[1:] == [SendResult(2), SendResult(1), Joined(False)]
    link.handle(HelloWanted(), 20.3)
    assert link.handle(WELCOME, 20.4)[1:] == [Joined(False)]


def test_a_master_that_forgot_the_node_gets_a_hello_on_the_same_link() -> None:
    link = joined()
    link.handle(subtask(7), 0.1)
    assert link.handle(HelloWanted(), 0.2) == [Cut(), hello(7)]
    assert link.state is State.GREETING
    # A second frame was answered too, before the hello was there: one hello is enough.
    assert link.handle(HelloWanted(), 0.2) == []
    link.handle(WELCOME, 0.3)
    assert link.handle(Finished(7), 0.4) == [SendResult(7)]


def test_two_subtasks_of_one_number_never_run_together() -> None:
    """A master that was started again may count from 1: the old result must not pass for new."""
    link = joined()
    link.handle(subtask(1), 0.1)
    link.handle(HelloWanted(), 0.2)
    link.handle(WELCOME, 0.3)
    (refusal,) = link.handle(subtask(1), 0.4)
    assert isinstance(refusal, Send)
    assert isinstance(refusal.message, SubtaskResult)
    assert refusal.message.outcome == "error"


def test_stop_says_goodbye_once_a_socket_is_there() -> None:
    link = joined()
    assert link.handle(Stop(), 0.5) == [Cut(), Send(Goodbye("here", "n1")), Close(0.5)]
    assert link.handle(Tick(), 100.0) == []
    waiting = joined()
    waiting.handle(Tick(), 10.0)
    assert waiting.handle(Stop(), 10.1) == []
    assert new_link().handle(Stop(), 0.0) == []


def test_what_cannot_happen_raises_with_what_happened_before() -> None:
    link = new_link()
    with pytest.raises(InvalidTransition, match=r"n1: new Welcome at 1\.500"):
        link.handle(WELCOME, 1.5)
    link = joined()
    link.handle(Tick(), 10.0)
    with pytest.raises(
        InvalidTransition, match=r"joined Tick at 10\.000; waiting Subtask .* is not in Link"
    ):
        link.handle(subtask(1), 10.1)


def test_the_master_sets_the_number_of_pods() -> None:
    link = joined()
    assert link.handle(SetPods(3), 0.1) == [Resize(3), Send(PodsSet("here", 3))]
    assert link.handle(SetPods(3), 0.2) == [Send(PodsSet("here", 3))]
    for number in (1, 2, 3):
        assert kinds(link.handle(subtask(number), 0.3)) == [Execute]
    assert kinds(link.handle(subtask(4), 0.3)) == [Send]
    # Setting is a sign of life like any other.
    assert link.wake_at <= 1.3


def test_with_fewer_pods_what_is_at_work_finishes_and_nothing_new_is_taken() -> None:
    link = joined()
    link.handle(subtask(1), 0.1)
    link.handle(subtask(2), 0.1)
    assert link.handle(SetPods(1), 0.2) == [Resize(1), Send(PodsSet("here", 1))]
    assert link.running == {1, 2}
    (refusal,) = link.handle(subtask(3), 0.3)
    assert isinstance(refusal, Send)
    assert isinstance(refusal.message, SubtaskResult)
    assert refusal.message.message == "all pods are busy: 1"
    assert link.handle(Finished(1), 0.4) == [SendResult(1)]
    assert kinds(link.handle(subtask(4), 0.5)) == [Send]
    assert link.handle(Finished(2), 0.6) == [SendResult(2)]
    assert link.handle(subtask(5), 0.7) == [Execute(subtask(5))]


def test_every_later_hello_carries_the_number_of_pods() -> None:
    link = joined()
    link.handle(SetPods(5), 0.1)
    assert link.handle(HelloWanted(), 0.2) == [Cut(), Send(replace(HELLO, pods=5))]
    # The master may set them before it welcomes; the answer follows the hello.
    assert link.handle(SetPods(4), 0.3) == [Resize(4), Send(PodsSet("here", 4))]
    assert link.state is State.GREETING
    link.handle(Tick(), 10.0)
    assert link.handle(Tick(), 20.0) == [Open(), Send(replace(HELLO, pods=4))]


@pytest.mark.parametrize("takes_events", [False, True])
def test_the_outbox_learns_what_the_welcome_says_of_events_once(takes_events: bool) -> None:
    link = new_link()
    link.handle(Start(), 0.0)
    welcome = replace(WELCOME, takes_events=takes_events)
    assert link.handle(welcome, 0.1)[1:] == [Joined(takes_events)]
    assert link.handle(welcome, 0.2) == []


def test_what_the_master_has_taken_goes_to_the_outbox() -> None:
    link = joined()
    assert link.handle(EventsTaken("here", "history", (4, 7)), 2.5) == [Taken((4, 7))]
    link.handle(Tick(), 3.5)
    assert link.state is State.JOINED, "not a sign of life"
    # On its way since before the hello: the master has them all the same.
    link.handle(HelloWanted(), 3.6)
    assert link.handle(EventsTaken("here", "history", (8,)), 3.7) == [Taken((8,))]
    assert link.wake_at == 3.6 + GREETING_S


@pytest.mark.parametrize("who", [("other", "history"), ("here", "other")])
def test_an_acknowledgement_for_somebody_else_is_ignored(who: tuple[str, str]) -> None:
    link = joined()
    assert link.handle(EventsTaken(*who, (4,)), 0.1) == []


def test_a_history_under_another_id_is_said_in_a_new_hello() -> None:
    link = joined()
    cut, hello = link.handle(Reopened("another"), 0.5)
    assert cut == Cut()
    assert isinstance(hello, Send)
    assert isinstance(hello.message, Hello)
    assert hello.message.history == "another"
    assert link.handle(EventsTaken("here", "history", (1,)), 0.6) == []
    assert link.handle(EventsTaken("here", "another", (1,)), 0.6) == [Taken((1,))]


def test_a_heartbeat_names_what_the_pods_run() -> None:
    link = joined()
    link.handle(Subtask(7, Window(last_s=1.0)), 0.5)
    assert link.handle(Tick(), 1.3) == [Send(Heartbeat("here", (7,)))]
    link.handle(Finished(7), 1.4)
    link.handle(Heartbeat("here"), 1.5)
    assert link.handle(Tick(), 2.3) == [Send(Heartbeat("here", ()))]
