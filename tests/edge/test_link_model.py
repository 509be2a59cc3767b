"""The link under random events, against what any run of it has to keep."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from agent.edge.events.outbox import Cut, Joined, Taken
from agent.edge.link import (
    LOST_AFTER,
    Close,
    Event,
    Execute,
    Finished,
    Instruction,
    Open,
    Reopened,
    Resize,
    Send,
    SendResult,
    Start,
    State,
    Stop,
    Tick,
    UseMaster,
)
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
)
from tests.edge.links import CHOOSING, HELLO, WELCOME, choosing, subtask
from tests.examples import examples


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
