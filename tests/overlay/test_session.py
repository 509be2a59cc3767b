"""A link over channels that lose messages and are cut, between ends that start again: what comes
out between up and down is what went in, of each flow in order, up to some point."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.overlay import session as s
from agent.overlay.limits import Limits
from agent.overlay.round_robin_queue import Flow
from agent.overlay.session import (
    Arrived,
    Cut,
    Down,
    Due,
    Heard,
    PassedOver,
    Put,
    Session,
    Transmit,
    Up,
)
from agent.runtime.state_machine import InvalidTransition
from agent.wire.overlay_links import OverlayBeat, OverlayFrame, OverlayHello
from tests.examples import examples

WINDOW = 4
MAX_QUEUED = 12
# What of the other groups is lost is sent again by whoever keeps it.
FLOWS = [
    Flow("a", 1, kept=False),
    Flow("b", 1, kept=True),
    Flow("b", 2, kept=True),
    Flow("c", 1, kept=True),
]


class End:
    """One process after the other at one end; what it puts is numbered through all of them."""

    def __init__(self, wire, name, first_session):
        self.wire = wire
        self.name = name
        self.next_session = first_session
        self.put_so_far = 0
        # By own session and the other end's: flows and numbers.
        self.went_in = {}
        self.came_out = {}
        self.start()

    def draw(self):
        self.next_session += 2
        return self.next_session

    def start(self):
        hello = OverlayHello(self.name, "v", 0, "overlay", 1, 0, False)
        self.session = Session(
            hello,
            self.draw,
            window=WINDOW,
            most_queued=MAX_QUEUED,
        )

    @property
    def pair(self):
        return self.session._own, self.session.theirs

    def do(self, event, now):
        for instruction in self.session.handle(event, now):
            match instruction:
                case Transmit(message):
                    self.wire(self, message)
                case Arrived(message):
                    assert self.session.up
                    self.came_out[self.pair].append(message)
                case Up():
                    assert self.pair not in self.came_out, "up twice in one session"
                    self.came_out[self.pair] = []
                case PassedOver((flow, _) as message):
                    assert FLOWS[flow].kept
                    assert self.went_in[self.pair].pop() == message
                case Down(reason):
                    assert reason

    def put(self, now, flow=0):
        """Remember what is put while the link is up, by the session that it is put in."""
        if self.session.up:
            self.put_so_far += 1
            message = flow, self.put_so_far
            self.went_in.setdefault(self.pair, []).append(message)
            self.do(Put(message, FLOWS[flow]), now)


class Links(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.now = 0.0
        self.under_way = {}
        self.ends = []
        self.ends = [End(self.send, "a", 1), End(self.send, "b", 2)]
        self.under_way = {id(end): deque() for end in self.ends}

    def send(self, end, message):
        self.under_way[id(end)].append(message)

    def other(self, end):
        return self.ends[1 - self.ends.index(end)]

    def deliver(self, end, lost=False):
        queue = self.under_way[id(end)]
        if queue:
            message = queue.popleft()
            if not lost:
                self.other(end).do(Heard(message), self.now)

    @rule(
        n=st.integers(0, 1),
        flow=st.integers(0, len(FLOWS) - 1),
        count=st.integers(1, MAX_QUEUED + WINDOW + 3),
    )
    def put(self, n, flow, count):
        for _ in range(count):
            self.ends[n].put(self.now, flow)

    @rule(n=st.integers(0, 1), count=st.integers(1, 10))
    def some_arrive(self, n, count):
        for _ in range(count):
            self.deliver(self.ends[n])

    @rule()
    def all_arrives(self):
        for _ in range(1_000):
            if not any(self.under_way.values()):
                return
            for end in self.ends:
                self.deliver(end)
        raise AssertionError("they greet each other without end")

    @rule(n=st.integers(0, 1))
    def one_is_lost(self, n):
        self.deliver(self.ends[n], lost=True)

    @rule(n=st.integers(0, 1), told=st.booleans(), pause=st.sampled_from([0.0, 5.0]))
    def the_connection_is_cut(self, n, told, pause):
        self.under_way[id(self.ends[n])].clear()
        if told:
            self.ends[n].do(Cut("nobody is there", pause), self.now)

    @rule(n=st.integers(0, 1))
    def an_end_starts_again(self, n):
        """What it sent before may still arrive."""
        self.ends[n].start()

    @rule(seconds=st.sampled_from([0.1, 0.25, 1.0, 3.0, 10.0]))
    def time_passes(self, seconds):
        until = self.now + seconds
        while (due := min(end.session.next_tick for end in self.ends)) <= until:
            self.now = max(self.now, due)
            for end in self.ends:
                if end.session.next_tick <= self.now:
                    end.do(Due(), self.now)
                    assert end.session.next_tick > self.now
        self.now = until

    @invariant()
    def what_comes_out_went_in(self):
        if not self.ends:
            return
        for end in self.ends:
            assert len(end.session) <= MAX_QUEUED
            went_in = self.other(end).went_in
            for (own, theirs), came in end.came_out.items():
                put = went_in.get((theirs, own), [])
                for flow in range(len(FLOWS)):
                    of_flow = of(flow, came)
                    assert of(flow, put)[: len(of_flow)] == of_flow

    def teardown(self):
        """When all is well the link comes up, and all that is put arrives."""
        if not self.ends:
            return
        for _ in range(20):
            self.time_passes(1.0)
            self.all_arrives()
        assert all(end.session.up for end in self.ends)
        for end in self.ends:
            before = end.put_so_far
            for _ in range(MAX_QUEUED):
                end.put(self.now)
            self.all_arrives()
            for _ in range(4):
                self.time_passes(1.0)
                self.all_arrives()
            assert end.put_so_far == before + MAX_QUEUED
            assert self.other(end).came_out[end.pair[::-1]][-MAX_QUEUED:] == [
                (0, number) for number in range(before + 1, before + MAX_QUEUED + 1)
            ]


def of(flow, messages):
    return [message for message in messages if message[0] == flow]


Links.TestCase.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None
)
TestLinks = Links.TestCase


def up(*, window=WINDOW, most_queued=MAX_QUEUED, **options):
    """A session that is up, of number 11, with one of number 7 at the other end."""
    numbers = iter(range(11, 1_000))
    hello = OverlayHello("a", "v", 0, "overlay", 1, 0, False)
    session = Session(
        hello,
        lambda: next(numbers),
        window=window,
        most_queued=most_queued,
        **options,
    )
    assert session.handle(Heard(OverlayHello("b", "w", 0, "overlay", 7, 11, True)), 5.0) == [Up()]
    return session


def test_three_greetings_make_a_link():
    numbers = {"a": iter([11]), "b": iter([7])}
    a, b = (Session(OverlayHello(n, "v", 0, "o", 1, 0, False), numbers[n].__next__) for n in "ab")
    [first] = a.handle(Due(), 0.0)
    assert first == Transmit(OverlayHello("a", "v", 0, "o", 11, 0, False))
    [second] = b.handle(Heard(first.message), 0.0)
    assert second == Transmit(OverlayHello("b", "v", 0, "o", 7, 11, False))
    raised, third = a.handle(Heard(second.message), 0.0)
    assert (raised, third) == (Up(), Transmit(OverlayHello("a", "v", 0, "o", 11, 7, True)))
    assert b.handle(Heard(third.message), 0.0) == [Up()]


def test_greetings_that_waited_are_not_each_answered():
    numbers = {"a": iter([11]), "b": iter([7])}
    a, b = (Session(OverlayHello(n, "v", 0, "o", 1, 0, False), numbers[n].__next__) for n in "ab")
    waited = [a.handle(Due(), n * s.GREETING_S) for n in range(200)]
    answers = [out for [each] in waited for out in b.handle(Heard(each.message), 50.0)]
    assert answers == [Transmit(OverlayHello("b", "v", 0, "o", 7, 11, False))]
    assert b.next_tick == 50.0 + s.GREETING_S
    [again] = b.handle(Due(), b.next_tick)
    assert again == answers[0]


def test_a_window_is_under_way_and_the_rest_waits():
    session = up(window=2)
    assert session.handle(Put("m1"), 5.0) == [Transmit(OverlayFrame(11, 1, "m1"))]
    assert session.handle(Put("m2"), 5.0) == [Transmit(OverlayFrame(11, 2, "m2"))]
    assert session.handle(Put("m3"), 5.0) == []
    assert len(session) == 1
    sent = session.handle(Heard(OverlayBeat(7, 0, 1)), 5.0)
    assert sent == [Transmit(OverlayFrame(11, 3, "m3"))]
    assert len(session) == 0


def test_a_full_queue_takes_the_link_down():
    session = up(window=1, most_queued=2)
    assert len(session.handle(Put("m1"), 5.0)) == 1
    assert session.handle(Put("m2"), 5.0) == session.handle(Put("m3"), 5.0) == []
    assert session.handle(Put("m4"), 5.0) == [Down("more than 2 messages wait for it")]
    assert (len(session), session.up, session.next_tick) == (0, False, 5.0 + s.GREETING_S)
    assert session.handle(Put("m5"), 5.0) == []


def test_what_was_lost_last_is_found_by_a_beat():
    session = up()
    assert session.handle(Heard(OverlayFrame(7, 1, "m1")), 5.0) == [Arrived("m1")]
    down, greeting = session.handle(Heard(OverlayBeat(7, 2, 0)), 5.5)
    assert down == Down("a message was lost")
    assert greeting.message.session == 12


def test_silence_takes_the_link_down_and_a_beat_prevents_it():
    session = up()
    assert session.handle(Heard(OverlayBeat(7, 0, 0)), 8.0) == []
    assert session.handle(Due(), 8.0) == [Transmit(OverlayBeat(11, 0, 0))]
    down, greeting = session.handle(Due(), 8.0 + s.SILENCE_S)
    assert down == Down("nothing was heard for 3.5 s")
    assert not greeting.message.open


def greeting(instructions):
    return [each.message for each in instructions if isinstance(each, Transmit)]


def beats_until(session, seconds, *, confirmed, first=6):
    """Each second one beat comes, until something is done about it."""
    for second in range(first, seconds + 1):
        session.handle(Heard(OverlayBeat(session.theirs, 0, confirmed)), float(second))
        out = session.handle(Due(), float(second))
        if any(isinstance(each, Down) for each in out):
            return second, out
    return None


def test_an_end_that_beats_and_takes_nothing_has_no_link_for_a_while() -> None:
    session = up()
    session.handle(Put("m1"), 5.0)
    assert beats_until(session, 100, confirmed=0) == (35, [Down("it took nothing for 30 s")])
    # Neither end greets the other one into it.
    hello = OverlayHello("b", "w", 0, "overlay", 8, 12, True)
    assert session.handle(Heard(hello), 39.9) == []
    assert (session.up, session.theirs, session.next_tick) == (False, 0, 40.0)
    [first] = greeting(session.handle(Due(), 40.0))
    assert (first.session, first.heard) == (12, 0)
    assert session.handle(Heard(hello), 40.1) == [Up()]
    # The next time for longer.
    session.handle(Put("m1"), 41.0)
    assert beats_until(session, 100, confirmed=0, first=42) == (
        71,
        [Down("it took nothing for 30 s")],
    )
    assert session.next_tick == 81.0


def test_an_end_that_takes_what_it_is_sent_keeps_its_link() -> None:
    session = up()
    assert beats_until(session, 100, confirmed=0) is None
    session.handle(Put("m1"), 100.0)
    assert beats_until(session, 129, confirmed=0, first=101) is None
    session.handle(Put("m2"), 129.0)
    assert beats_until(session, 158, confirmed=1, first=130) is None
    assert beats_until(session, 170, confirmed=1, first=159)[0] == 160
    assert session.next_tick == 165.0


def test_a_link_that_was_cut_for_a_while_is_not_greeted_into() -> None:
    session = up()
    assert session.handle(Cut("it settles nothing", 20.0), 6.0) == [Down("it settles nothing")]
    assert session.next_tick == 26.0
    assert session.handle(Heard(OverlayHello("b", "w", 0, "overlay", 8, 0, False)), 25.9) == []
    assert len(session.handle(Heard(OverlayHello("b", "w", 0, "overlay", 8, 0, False)), 26.0)) == 1


def ups(session, seconds, *, lasts):
    """How often it comes up in this time, where the other end begins anew after `lasts` seconds."""
    count, now, since, number = 0, 5.0, 5.0, 100
    while now < 5.0 + seconds:
        now += s.GREETING_S
        if session.up and now < since + lasts:
            session.handle(Heard(OverlayBeat(session.theirs, 0, 0)), now)
            continue
        number += 1
        told = session.handle(Heard(OverlayHello("b", "w", 0, "overlay", number, 0, False)), now)
        greeted = [each.message for each in told if isinstance(each, Transmit)]
        for own in (each.session for each in greeted):
            hello = OverlayHello("b", "w", 0, "overlay", number, own, True)
            came = session.handle(Heard(hello), now).count(Up())
            count, since = count + came, now if came else since
    return count


def test_a_neighbour_that_begins_anew_all_the_time_is_let_in_less_often():
    """Each time all that is held for it is routed anew."""
    assert ups(up(), 120.0, lasts=0.0) < 25
    assert ups(up(), 120.0, lasts=1.0) < 25


def test_a_link_that_goes_down_now_and_then_comes_up_at_once():
    assert ups(up(), 120.0, lasts=s.BRIEF_S + 0.5) > 9


def test_frames_of_another_session_are_passed_over():
    session = up()
    assert session.handle(Heard(OverlayFrame(6, 1, "old")), 5.0) == []
    assert session.handle(Heard(OverlayBeat(6, 3, 9)), 5.0) == []
    assert session.up


def frames(instructions):
    return [each.message.message for each in instructions if isinstance(each, Transmit)]


def test_flows_take_turns_whatever_waits_of_one() -> None:
    session = up(window=1, most_queued=1_000)
    for number in range(500):
        session.handle(Put(f"flood {number}", FLOWS[1]), 5.0)
    session.handle(Put("b2", FLOWS[2]), 5.0)
    session.handle(Put("a1", FLOWS[0]), 5.0)
    session.handle(Put("a2", FLOWS[0]), 5.0)
    sent = []
    for confirmed in range(1, 8):
        sent += frames(session.handle(Heard(OverlayBeat(7, 0, confirmed)), 5.0))
    # Half is of group a while some of it waits, and of group b half of its other flow.
    assert sent == ["flood 1", "a1", "b2", "a2", "flood 2", "flood 3", "flood 4"]


def flooded(session, flow, count):
    """How many of so many that one flow puts are passed over."""
    out = [session.handle(Put(f"{flow} {n}", FLOWS[flow]), 5.0) for n in range(count)]
    return sum(each == [PassedOver(f"{flow} {n}")] for n, each in enumerate(out))


def test_too_much_that_is_kept_elsewhere_takes_no_link_down() -> None:
    # Of a queue of 12, 9 are for what may be lost: one group has 6 of them, and one is under way.
    session = up(window=1, most_queued=12)
    assert flooded(session, 1, 30) == 23
    assert flooded(session, 2, 1) == 1
    # The other group finds 3 free and leaves 1: twice of what is free then is what it has.
    assert flooded(session, 3, 30) == 28
    assert (len(session), session.up) == (8, True)
    # There is room again.
    assert frames(session.handle(Heard(OverlayBeat(7, 0, 1)), 5.0)) == ["1 1"]
    assert flooded(session, 3, 2) == 1
    # The rest is for what may not be lost.
    for number in range(4):
        assert session.handle(Put(f"a{number}", FLOWS[0]), 5.0) == []
    assert (len(session), session.up) == (12, True)
    assert flooded(session, 1, 1) == flooded(session, 3, 1) == 1
    assert isinstance(session.handle(Put("a4", FLOWS[0]), 5.0)[0], Down)


def test_few_messages_may_be_too_much_as_well() -> None:
    """Of 1,200 bytes 900 are for what may be lost, and a group alone has 600 of them."""
    session = up(window=1, most_queued=1_000, most_bytes=1_200, size=lambda _: 100)
    # The first one does not wait.
    assert flooded(session, 1, 30) == 30 - 1 - 6
    assert flooded(session, 3, 30) == 30 - 2
    assert (len(session), session.up) == (8, True)
    assert frames(session.handle(Heard(OverlayBeat(7, 0, 1)), 5.0)) == ["1 1"]
    assert flooded(session, 3, 2) == 1
    for number in range(4):
        assert session.handle(Put(f"a{number}", FLOWS[0]), 5.0) == []
    assert (len(session), session.up) == (12, True)
    down = session.handle(Put("a4", FLOWS[0]), 5.0)[0]
    assert down == Down("more than 1,200 bytes wait for it")
    assert len(session) == session._queue.bytes == 0


def test_a_group_that_is_alone_has_room_for_all_that_custody_holds() -> None:
    session = up(window=1, most_queued=s.MAX_QUEUED)
    assert flooded(session, 1, 1 + Limits().most_held + 5) == 5


def test_a_link_goes_along_the_arrows_of_its_table_and_no_others() -> None:
    session = up()
    session.become("paused")
    with pytest.raises(InvalidTransition, match="paused → up is not allowed for a link"):
        session.become("up")
