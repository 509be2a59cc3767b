"""The link under scripted and random events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from agent.edge.events.outbox import Cut, Joined, Taken
from agent.edge.link import (
    GREETING_S,
    LOST_AFTER,
    MOVING_S,
    Close,
    Event,
    Execute,
    Finished,
    Instruction,
    Keep,
    Link,
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
    UseMaster,
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
    HomeMoved,
    PodsSet,
    Rejected,
    SetPods,
    Subtask,
    SubtaskResult,
    Welcome,
)
from tests.examples import examples

HELLO = Hello("n1", "here", "history", ("b1/f4/r413",), ("temperature",), 2, "1.0")
WELCOME = Welcome("here", 1.0)
FIRST_S, MAX_S = 0.2, 30.0


def subtask(number: int) -> Subtask:
    return Subtask(number, Window(last_s=60.0))


def new_link(jitter: float = 0.5) -> Link:
    return Link(HELLO, first_pause_s=FIRST_S, longest_pause_s=MAX_S, jitter=lambda: jitter)


def joined() -> Link:
    link = new_link()
    link.handle(Start(), 0.0)
    link.handle(WELCOME, 0.0)
    return link


def kinds(instructions: list[Instruction]) -> list[type]:
    return [type(instruction) for instruction in instructions]


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


def hello(*running: int) -> Send:
    return Send(replace(HELLO, running=running))


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


CHOOSING = replace(HELLO, masters=("iad1", "iad2", "iad3"))


def choosing(*, follow_s: float = 0.0, home: str = "iad1") -> Link:
    return Link(
        CHOOSING,
        first_pause_s=FIRST_S,
        longest_pause_s=MAX_S,
        jitter=lambda: 0.5,
        home=home,
        follow_s=follow_s,
    )


class LinkModel(RuleBasedStateMachine):
    """Random events that can happen; the model is a socket, the number of pods, those at work, the
    results held."""

    def __init__(self) -> None:
        super().__init__()
        self.link = choosing(follow_s=60.0)
        self.master = self.home = "iad1"  # what the socket is for; what is kept
        self.now = 0.0
        self.socket_open = False
        self.greeted = False  # a hello was sent on this socket
        self.at_work: set[int] = set()
        self.held: set[int] = set()
        self.pods = HELLO.pods
        self.most = HELLO.pods  # more than `pods` only while those at work finish
        self.heard_at = 0.0
        self.stopped = False
        self.outbox_joined = False

    def handle(self, event: Event) -> list[Instruction]:
        instructions = self.link.handle(event, self.now)
        for instruction in instructions:
            match instruction:
                case Open():
                    assert not self.socket_open
                    self.socket_open, self.greeted = True, False
                case Close():
                    assert self.socket_open
                    self.socket_open = False
                case UseMaster(iad, home):
                    assert not self.socket_open
                    self.master = iad
                    if home:
                        self.home = iad
                case Send(Hello() as sent):
                    assert self.socket_open
                    at_work = tuple(sorted(self.at_work | self.held))
                    assert sent == replace(
                        CHOOSING,
                        pods=self.pods,
                        running=at_work,
                        followed=self.master != self.home,
                    )
                    self.greeted = True
                case Send(_):
                    assert self.socket_open
                    assert self.greeted
                case Execute(subtask):
                    assert subtask.id not in self.at_work
                    self.at_work.add(subtask.id)
                case SendResult(number):
                    assert self.link.state in {State.JOINED, State.MOVING, State.GREETING}
                    self.held.remove(number)
                case Joined(takes_events):
                    assert not self.outbox_joined
                    assert not takes_events
                    self.outbox_joined = True
                case Cut():
                    assert self.outbox_joined
                    self.outbox_joined = False
        assert self.outbox_joined == (self.link.state is State.JOINED)
        return instructions

    @rule()
    @precondition(lambda self: self.link.state is State.NEW)
    def start(self) -> None:
        self.handle(Start())

    @rule(pause=st.sampled_from([0.0, 0.1, 0.9, 1.0, 5.0, 40.0]))
    def tick(self, pause: float) -> None:
        self.now += pause
        due = self.now >= self.link.wake_at
        before = (self.link.state, self.link.wake_at)
        instructions = self.handle(Tick())
        assert due or instructions == []
        # A loop that sleeps until wake_at never spins.
        assert not due or (self.link.state, self.link.wake_at) != before
        assert self.link.wake_at > self.now or self.link.state is State.NEW
        if self.link.state is State.JOINED:
            assert self.now - self.heard_at < LOST_AFTER * 1.0

    @rule()
    @precondition(lambda self: self.socket_open)
    def welcome(self) -> None:
        self.heard_at = self.now
        moving = self.link.state is State.MOVING
        self.handle(WELCOME)
        assert self.link.state is (State.MOVING if moving else State.JOINED)
        assert self.held == set()

    @rule()
    @precondition(lambda self: self.socket_open)
    def heartbeat(self) -> None:
        self.heard_at = self.now
        assert self.handle(Heartbeat("here")) == []

    @rule()
    @precondition(lambda self: self.socket_open)
    def events_taken(self) -> None:
        self.heard_at = self.now
        assert self.handle(EventsTaken("here", "history", (1,))) == [Taken((1,))]

    @rule()
    @precondition(lambda self: self.socket_open)
    def hello_wanted(self) -> None:
        sent = self.handle(HelloWanted())
        assert self.link.state is State.GREETING
        assert len([i for i in sent if isinstance(i, Send)]) <= 2

    @rule(master=st.sampled_from(["iad1", "iad2", "iad3", "iad9"]))
    @precondition(lambda self: self.socket_open)
    def home_moved(self, master: str) -> None:
        self.heard_at = self.now
        before, joined = self.master, self.link.state is State.JOINED
        self.handle(HomeMoved("here", master))
        if joined and master not in ("iad9", before):
            # It goes when its pods are idle.
            assert (self.link.state is State.MOVING) == bool(self.at_work)
            assert self.at_work or self.master == self.home == master
        else:
            assert self.master == before

    @rule()
    @precondition(lambda self: not self.stopped)
    def history_reopened(self) -> None:
        moving = self.link.state is State.MOVING
        sent = self.handle(Reopened("history"))
        hellos = [i for i in sent if isinstance(i, Send)]
        assert len(hellos) == (self.socket_open and not moving)

    @rule()
    @precondition(lambda self: self.socket_open)
    def rejected(self) -> None:
        moving = self.link.state is State.MOVING
        self.handle(Rejected("no"))
        assert self.socket_open == moving  # to another master

    @rule(number=st.integers(0, 9))
    @precondition(lambda self: self.socket_open)
    def subtask(self, number: int) -> None:
        self.heard_at = self.now
        can = (
            self.link.state in {State.JOINED, State.MOVING}
            and len(self.at_work) < self.pods
            and number not in self.at_work
        )
        (instruction,) = self.handle(subtask(number))
        assert isinstance(instruction, Execute if can else Send)

    @rule(count=st.sampled_from([1, 2, 3, 7]))
    @precondition(lambda self: self.socket_open)
    def set_pods(self, count: int) -> None:
        self.heard_at = self.now
        resize = [Resize(count)] if count != self.pods else []
        self.pods = count
        assert self.handle(SetPods(count)) == [*resize, Send(PodsSet("here", count))]

    @rule(data=st.data())
    @precondition(lambda self: self.at_work)
    def finished(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.at_work)))
        self.at_work.remove(number)
        if self.link.state is not State.LEFT:
            self.held.add(number)
        joined = self.link.state in {State.JOINED, State.MOVING}
        done = self.handle(Finished(number))
        assert done[:1] == ([SendResult(number)] if joined else [])
        assert self.link.state is not State.MOVING or self.at_work

    @rule()
    @precondition(lambda self: not self.stopped)
    def stop(self) -> None:
        was_open = self.socket_open
        instructions = self.handle(Stop())
        assert (Send(Goodbye("here", "n1")) in instructions) == was_open
        self.stopped = True

    @invariant()
    def agrees_with_the_model(self) -> None:
        open_in = {State.GREETING, State.JOINED, State.MOVING}
        assert self.socket_open == (self.link.state in open_in)
        assert self.link.master == self.master
        assert self.link.running == self.at_work
        assert set(self.link.held) == self.held
        assert len(self.link.held) == len(self.held)
        self.most = max(self.pods, min(self.most, len(self.at_work | self.held)))
        assert len(self.at_work | self.held) <= self.most
        assert not self.stopped or self.link.state is State.LEFT


LinkModel.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=60, deadline=None
)
TestLinkModel = LinkModel.TestCase


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


# --- a home that moves ----------------------------------------------------------------------------


def at_home(**options: Any) -> Link:
    link = choosing(**options)
    link.handle(Start(), 0.0)
    link.handle(WELCOME, 0.0)
    return link


def gone(link: Link, instructions: list[Instruction], home: str, now: float) -> None:
    """These instructions end with the way to that home."""
    *_, goodbye, close, use, opened, hello = instructions
    assert goodbye == Send(Goodbye("here", "n1"))
    assert kinds([close, opened]) == [Close, Open]
    assert use == UseMaster(home, home=True)
    assert isinstance(hello, Send)
    assert isinstance(hello.message, Hello)
    assert not hello.message.followed
    assert link.state is State.GREETING
    assert link.wake_at == now + GREETING_S


def test_a_node_whose_home_has_moved_says_goodbye_and_goes_there() -> None:
    link = at_home()
    instructions = link.handle(HomeMoved("here", "iad2"), 1.0)
    assert instructions[0] == Cut()  # its events wait for the new home
    gone(link, instructions, "iad2", 1.0)
    assert kinds(link.handle(WELCOME, 1.1)) == [TellOperator, Joined]
    gone(link, link.handle(HomeMoved("here", "iad1"), 1.2), "iad1", 1.2)


def test_running_subtasks_are_answered_before_the_node_goes() -> None:
    link = at_home()
    link.handle(subtask(1), 0.5)
    assert link.handle(HomeMoved("here", "iad2"), 1.0) == [Cut()]
    assert link.state is State.MOVING
    assert kinds(link.handle(subtask(2), 1.1)) == [Execute]  # sent before the master knew
    assert link.handle(Finished(1), 1.2) == [SendResult(1)]
    instructions = link.handle(Finished(2), 1.3)
    assert instructions[0] == SendResult(2)
    gone(link, instructions, "iad2", 1.3)


def test_a_node_that_stays_busy_goes_all_the_same() -> None:
    link = at_home()
    link.handle(subtask(1), 0.5)
    link.handle(HomeMoved("here", "iad2"), 1.0)
    assert link.wake_at == 1.0 + MOVING_S
    assert link.handle(Tick(), 2.9) == []
    instructions = link.handle(Tick(), 3.0)
    gone(link, instructions, "iad2", 3.0)
    hello = instructions[-1]
    assert isinstance(hello, Send)
    assert hello.message.running == (1,)  # type: ignore[union-attr]  # gone() has looked
    assert link.handle(Finished(1), 3.1) == []
    assert SendResult(1) in link.handle(WELCOME, 3.2)


@pytest.mark.parametrize("name", ["iad9", "iad1"])
def test_a_home_that_is_none_of_its_other_masters_is_ignored_and_told(name: str) -> None:
    link = at_home()
    (told,) = link.handle(HomeMoved("here", name), 1.0)
    assert isinstance(told, TellOperator)
    assert name in told.line
    assert "its events wait" in told.line
    assert link.state is State.JOINED


def test_what_was_meant_for_an_earlier_process_is_ignored() -> None:
    link = at_home()
    assert link.handle(HomeMoved("before", "iad2"), 1.0) == []
    assert link.state is State.JOINED


def test_a_master_that_has_forgotten_the_node_does_not_keep_it() -> None:
    link = at_home()
    link.handle(subtask(1), 0.5)
    link.handle(HomeMoved("here", "iad2"), 1.0)
    gone(link, link.handle(HelloWanted(), 1.1), "iad2", 1.1)


def test_a_node_waits_for_its_home_unless_it_is_told_to_follow() -> None:
    link = at_home()
    for _ in range(50):
        assert UseMaster not in kinds(link.handle(Tick(), link.wake_at))
    assert link.master == "iad1"


def test_a_node_that_follows_goes_to_the_next_master_and_says_so() -> None:
    link = at_home(follow_s=60.0)
    now, went = 0.0, []
    while now < 250.0:
        now = link.wake_at
        for each in link.handle(Tick(), now):
            if isinstance(each, UseMaster):
                went.append((each.iad, each.home))
            if isinstance(each, Send) and isinstance(each.message, Hello):
                assert each.message.followed == (link.master != "iad1")
    # Its home is not another one for that: after a restart it looks there first.
    assert went == [("iad2", False), ("iad3", False), ("iad1", True)]
    assert link.home == "iad1"


def test_a_short_absence_is_not_followed() -> None:
    link = at_home(follow_s=60.0)
    for round_ in range(1, 30):
        now = 3.0 + round_ * 20.0
        while link.state is not State.GREETING:
            link.handle(Tick(), max(now, link.wake_at))
        link.handle(WELCOME, now + 5.0)
    assert link.master == "iad1"


def test_stopping_on_the_way_is_a_goodbye_to_the_master_that_it_leaves() -> None:
    link = at_home()
    link.handle(subtask(1), 0.5)
    link.handle(HomeMoved("here", "iad2"), 1.0)
    assert kinds(link.handle(Stop(), 1.1)) == [Send, Close]
    assert link.handle(Finished(1), 1.2) == []
