"""A link over channels that lose messages and are cut, between ends that start again: what comes
out between up and down is what went in, in order, up to some point."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.overlay import session as s
from agent.overlay.session import Arrived, Cut, Down, Due, Heard, Put, Session, Transmit, Up
from agent.wire.overlay_links import OverlayBeat, OverlayFrame, OverlayHello

WINDOW = 4
MOST = 12


class End:
    """One process after the other at one end; what it puts is numbered through all of them."""

    def __init__(self, wire, name, first_session):
        self.wire = wire
        self.name = name
        self.next_session = first_session
        self.put_so_far = 0
        # By own session and the other end's.
        self.went_in = {}
        self.came_out = {}
        self.start()

    def draw(self):
        self.next_session += 2
        return self.next_session

    def start(self):
        hello = OverlayHello(self.name, "v", 0, "overlay", 1, 0, False)
        self.session = Session(hello, self.draw, window=WINDOW, most_queued=MOST)

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
                case Down(reason):
                    assert reason

    def put(self, now):
        """Remember what is put while the link is up, by the session that it is put in."""
        if self.session.up:
            self.put_so_far += 1
            self.went_in.setdefault(self.pair, []).append(self.put_so_far)
            self.do(Put(self.put_so_far), now)


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

    @rule(n=st.integers(0, 1), count=st.integers(1, MOST + WINDOW + 3))
    def put(self, n, count):
        for _ in range(count):
            self.ends[n].put(self.now)

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

    @rule(n=st.integers(0, 1), told=st.booleans())
    def the_connection_is_cut(self, n, told):
        self.under_way[id(self.ends[n])].clear()
        if told:
            self.ends[n].do(Cut("nobody is there"), self.now)

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
            assert len(end.session) <= MOST
            went_in = self.other(end).went_in
            for (own, theirs), came in end.came_out.items():
                assert went_in.get((theirs, own), [])[: len(came)] == came

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
            for _ in range(MOST):
                end.put(self.now)
            self.all_arrives()
            for _ in range(4):
                self.time_passes(1.0)
                self.all_arrives()
            assert end.put_so_far == before + MOST
            assert self.other(end).came_out[end.pair[::-1]][-MOST:] == list(
                range(before + 1, before + MOST + 1)
            )


Links.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestLinks = Links.TestCase


def up(*, window=WINDOW, most_queued=MOST):
    """A session that is up, of number 11, with one of number 7 at the other end."""
    numbers = iter(range(11, 1_000))
    hello = OverlayHello("a", "v", 0, "overlay", 1, 0, False)
    session = Session(hello, lambda: next(numbers), window=window, most_queued=most_queued)
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


def test_frames_of_another_session_are_passed_over():
    session = up()
    assert session.handle(Heard(OverlayFrame(6, 1, "old")), 5.0) == []
    assert session.handle(Heard(OverlayBeat(6, 3, 9)), 5.0) == []
    assert session.up
