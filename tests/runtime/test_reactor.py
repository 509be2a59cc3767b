"""The loop knows how late it is: how long what it reads may have waited for its turn."""

import socket
from contextlib import suppress

import pytest
import zmq

from agent.runtime.reactor import Reactor


class Stop:
    """Asks the loop to stop, when the test says so."""

    filenos = ()
    requested = False


class Rig:
    """Two sockets; reading from one takes the time that its message says."""

    def __init__(self, context):
        self.now = 100.0
        self.late = []
        self.stop = Stop()
        self.reactor = Reactor(lambda: self.now)
        self.ends = {}
        for name in ("slow", "nodes"):
            receiver, sender = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
            receiver.bind(f"inproc://{name}")
            sender.connect(f"inproc://{name}")
            self.ends[name] = (receiver, sender)
        self.reactor.listen(self.ends["slow"][0], self.slow_turn)
        self.reactor.listen(self.ends["nodes"][0], self.node_turn)

    def send(self, name, text):
        self.ends[name][1].send_string(text)

    def slow_turn(self):
        """``4 a b``: take 4 s, in which a and b come to the other socket."""
        took_s, *coming = self.ends["slow"][0].recv_string().split()
        for text in coming:
            self.send("nodes", text)
        self.now += float(took_s)

    def node_turn(self):
        socket = self.ends["nodes"][0]
        while True:
            try:
                text = socket.recv_string(zmq.NOBLOCK)
            except zmq.Again:
                self.reactor.drained(socket)
                return
            self.late.append(self.reactor.late_s(socket, self.now))
            if text == "last":
                self.stop.requested = True
                return

    def serve(self):
        self.stop.requested = False
        self.reactor.serve(self.stop)


@pytest.fixture
def rig():
    with zmq.Context() as context:
        rig = Rig(context)
        yield rig
        for pair in rig.ends.values():
            for socket in pair:
                socket.close(0)


def test_what_came_while_the_loop_was_busy_may_have_waited_as_long(rig):
    rig.send("slow", "4 a")
    rig.send("slow", "1 b")
    rig.send("slow", "2 last")
    rig.serve()
    # The first two are read after both turns; then the socket was empty.
    assert rig.late == [5.0, 5.0, 2.0]


def test_what_is_not_read_to_the_end_goes_on_being_late(rig):
    rig.send("nodes", "a")
    rig.reactor.ignore(rig.ends["nodes"][0])
    turns = []

    def turn():
        turns.append(rig.reactor.late_s(rig.ends["nodes"][0], rig.now))
        rig.stop.requested = len(turns) == 3

    rig.reactor.listen(rig.ends["nodes"][0], turn)
    for _ in range(3):
        rig.send("slow", "3")
    rig.serve()
    assert turns == [3.0, 6.0, 9.0]


def test_an_idle_loop_is_not_late(rig):
    rig.send("nodes", "last")
    rig.serve()
    assert rig.late == [0.0]


class SlowPoller:
    """Comes back late although it was to wait for nothing: another thread has the interpreter."""

    def __init__(self, rig, real):
        self.rig = rig
        self.real = real

    def __getattr__(self, name):
        return getattr(self.real, name)

    def poll(self, timeout):
        found = self.real.poll(timeout)
        if timeout == 0:
            self.rig.now += 0.25
        return found


class AlwaysDue:
    """Somebody has work in each turn."""

    next_due = 0.0

    def tick(self, now):
        """Nothing."""


def test_a_poll_that_was_not_to_wait_makes_nobody_punctual(rig, monkeypatch):
    rig.reactor.add_timer(AlwaysDue())
    monkeypatch.setattr(rig.reactor, "_poller", SlowPoller(rig, rig.reactor._poller))
    rig.send("slow", "4 last")
    rig.serve()
    # Since it was seen empty: both polls, and the turn between them.
    assert rig.late == [4.5]


def test_nobody_is_late_before_the_loop_runs(rig):
    assert rig.reactor.late_s(rig.ends["nodes"][0], rig.now) == 0.0


def test_a_source_is_told_that_it_is_writable_while_that_is_wanted():
    ours, its = socket.socketpair()
    ours.setblocking(False)
    stop = Stop()
    reactor = Reactor(lambda: 100.0)
    unsent = bytearray(4_000_000)
    received = 0

    def flush():
        with suppress(BlockingIOError):
            del unsent[: ours.send(unsent)]
        if not unsent:
            reactor.await_room(ours.fileno(), wanted=False)
            its.send(b"done")
        with suppress(BlockingIOError):
            stop.requested = ours.recv(4) == b"done"

    def drain():
        nonlocal received
        received += len(its.recv(100_000))
        if received == 4_000_000:
            reactor.ignore(its.fileno())

    with ours, its:
        reactor.listen(ours.fileno(), flush)
        reactor.listen(its.fileno(), drain)
        reactor.await_room(ours.fileno(), wanted=True)
        reactor.serve(stop)
    assert (received, stop.requested) == (4_000_000, True)


def test_what_is_served_last_waits_for_others_that_are_readable(rig):
    rig.reactor.serve_last(rig.ends["slow"][0])
    rig.send("nodes", "a")
    rig.send("slow", "1")
    rig.send("nodes", "last")
    rig.serve()
    # Otherwise the turn of `slow` takes its second first.
    assert rig.late == [0.0, 0.0]


class Part:
    """Counts how often it is asked when it is due; ticks write down the time."""

    def __init__(self, due=None):
        self.next = due
        self.asked = 0
        self.ticks = []

    @property
    def next_due(self):
        self.asked += 1
        return self.next

    def tick(self, now):
        self.ticks.append(now)
        self.next = None


class Turns(Rig):
    """What comes to `nodes`, whose turn is brief, says when a part is due: a whole number the one
    asked seldom."""

    def __init__(self, context):
        super().__init__(context)
        self.rest, self.often = Part(), Part()
        source, _ = self.ends["nodes"]
        self.reactor.ignore(source)
        self.reactor.listen(source, self.brief_turn, brief=True)
        self.reactor.add_timer(self.rest)
        self.reactor.add_timer(self.often, often=True)
        self.reactor.performs(int, self.sets_rest)
        self.reactor.performs(float, self.sets_often, brief=True)
        self.seen = []

    def brief_turn(self):
        text = self.ends["nodes"][0].recv_string()
        if text == "last":
            self.stop.requested = True
        elif text != "nothing":
            self.reactor.perform([int(text) if text.isdigit() else float(text)])
        self.seen.append((self.rest.asked, self.often.asked))

    def sets_rest(self, due):
        self.rest.next = due

    def sets_often(self, due):
        self.often.next = due


@pytest.fixture
def turns():
    with zmq.Context() as context:
        turns = Turns(context)
        yield turns
        for name in ("slow", "nodes"):
            for socket in turns.ends[name]:
                socket.close(0)


def test_brief_turns_ask_only_the_parts_that_are_asked_often(turns):
    for text in ("nothing", "nothing", "nothing", "last"):
        turns.send("nodes", text)
    turns.serve()
    rest, often = zip(*turns.seen, strict=True)
    assert rest == (1, 1, 1, 1)
    assert often == (1, 2, 3, 4)


def test_an_instruction_in_a_brief_turn_may_make_any_part_due(turns):
    # 99 is past: its part is served in the turn after, before the next message.
    for text in ("nothing", "99", "nothing", "last"):
        turns.send("nodes", text)
    turns.serve()
    assert turns.rest.ticks == [100.0]


def test_an_often_asked_part_is_served_in_time_after_brief_turns_alone(turns):
    for text in ("nothing", "99.5", "nothing", "last"):
        turns.send("nodes", text)
    turns.serve()
    assert turns.often.ticks == [100.0]
    assert turns.rest.asked == 1


def test_a_turn_that_is_not_brief_asks_all_parts(turns):
    turns.send("slow", "0 nothing nothing last")
    turns.serve()
    assert turns.seen[0][0] == 2


def test_a_part_that_ticks_may_make_any_other_due(turns):
    def tick(now):
        turns.often.ticks.append(now)
        turns.often.next = None
        turns.reactor.perform([99])

    turns.often.tick = tick
    for text in ("99.5", "nothing", "last"):
        turns.send("nodes", text)
    turns.serve()
    assert (turns.often.ticks, turns.rest.ticks) == ([100.0], [100.0])
