"""Turns at a socket: who floods it waits for itself, and what a closed connection queued goes."""

from collections import Counter, deque

import pytest

from agent.net.fair_turns import MAX_WAITING_OF_ONE, SERVED, FairTurns
from agent.wire.codec import JSON
from agent.wire.principals import Sender


class Socket:
    """A router: who sends by which connection, and what it has not taken yet."""

    def __init__(self):
        self.on_gone = None
        self.parties = {}
        self.waits = deque()

    def receive(self):
        return self.waits.popleft() if self.waits else None

    @property
    def empty(self):
        return not self.waits

    def sender(self, identity):
        return self.parties.get(identity, Sender("anyone", identity.hex()))


class World:
    """Turns with a clock that goes on by what each request costs."""

    def __init__(self):
        self.now = 0.0
        self.costs = {}
        self.served, self.refused = [], []
        self.socket = Socket()
        self.turns = FairTurns(self.socket, self.serve, self.refuse, clock=lambda: self.now)

    def serve(self, identity, frame, sender):
        self.now += self.costs.get(identity, 0.0001)
        self.served.append((identity, frame, sender))

    def refuse(self, *answer):
        self.refused.append(answer)

    def sends(self, identity, count, frame=b"10J{}"):
        self.socket.waits += [(identity, frame)] * count

    def take_all(self):
        while self.socket.waits:
            self.turns.turn()

    def serve_all(self):
        while self.turns.next_due is not None:
            self.turns.tick(self.now)


@pytest.fixture
def world():
    return World()


def test_who_asks_once_is_served_soon_whatever_another_has_sent(world):
    world.costs[b"flood"] = 0.1
    world.sends(b"flood", 500)
    world.take_all()
    world.sends(b"honest", 1)
    world.take_all()
    before = len(world.served)
    world.serve_all()
    assert b"honest" in [identity for identity, _, _ in world.served[before : before + 2]]


def test_one_that_comes_alone_is_served_at_once_and_owes_nothing(world):
    world.costs[b"dear"] = 1.0
    for _ in range(3):
        world.sends(b"dear", 1)
        world.turns.turn()
        assert world.turns.next_due is None
    assert len(world.served) == 3
    world.sends(b"dear", 1)
    world.sends(b"cheap", 1)
    world.turns.turn()
    assert world.served[-1][0] == b"dear", "first come, first served: what it cost is forgotten"


def test_one_that_comes_alone_waits_behind_what_waits(world):
    world.costs[b"a"] = 1.0
    world.sends(b"a", 2)
    world.turns.turn()
    world.sends(b"b", 1)
    world.turns.turn()
    assert [identity for identity, _, _ in world.served] == [b"a"]
    world.serve_all()
    assert sorted(identity for identity, _, _ in world.served) == [b"a", b"a", b"b"]


def test_all_connections_of_a_party_share_its_turns(world):
    flood = Sender("iad", "flood")
    for n in range(10):
        world.socket.parties[b"flood%d" % n] = flood
        world.sends(b"flood%d" % n, 50)
    world.socket.parties[b"honest"] = Sender("iad", "honest")
    world.sends(b"honest", 50)
    world.take_all()
    before = len(world.served)
    world.serve_all()
    turns = Counter(sender.name for _, _, sender in world.served[before : before + 20])
    assert turns["honest"] >= 9


def test_a_turn_serves_some_and_leaves_the_loop_to_others(world):
    world.sends(b"a", 60)
    world.turns.turn()
    assert 0 < len(world.served) <= SERVED
    assert world.turns.next_due == 0.0
    world.serve_all()
    assert len(world.served) == 60
    assert world.turns.next_due is None


def test_what_a_closed_connection_queued_goes_and_its_partys_other_requests_stay(world):
    world.socket.parties = dict.fromkeys((b"gone", b"here"), Sender("iad", "one"))
    world.costs = dict.fromkeys((b"gone", b"here"), 1.0)
    for identity in (b"gone", b"here", b"gone", b"here", b"gone"):
        world.sends(identity, 1)
    world.turns.turn()
    assert world.socket.on_gone(b"gone") == 2, "one was served"
    assert world.socket.on_gone(b"gone") == 0
    assert world.socket.on_gone(b"never seen") == 0
    world.serve_all()
    assert [identity for identity, _, _ in world.served] == [b"gone", b"here", b"here"]


def test_a_party_that_takes_the_identity_of_one_that_went_is_told_from_it(world):
    world.costs = {b"x": 1.0, b"y": 1.0}
    world.sends(b"y", 1)
    world.socket.parties[b"x"] = Sender("iad", "first")
    world.sends(b"x", 2)
    world.take_all()
    world.socket.parties[b"x"] = Sender("iad", "second")
    world.sends(b"x", 2)
    world.take_all()
    assert world.socket.on_gone(b"x") + len(world.served) == 5
    world.serve_all()
    world.sends(b"x", 3)
    world.take_all()
    world.serve_all()
    assert world.turns._connections == {}


def test_one_that_has_too_much_waiting_is_refused_with_its_id(world):
    frame = b'10J{"id":"mine"' + b" " * (1 << 20) + b"}"
    world.costs[b"a"] = 1.0
    world.sends(b"a", 2)
    world.turns.turn()
    assert len(world.served) == 1, "the other waits"
    world.sends(b"a", 6, frame)
    world.take_all()
    assert world.refused == [(b"a", JSON, "mine")] * (6 - MAX_WAITING_OF_ONE // len(frame))
    world.serve_all()
    assert len(world.served) + len(world.refused) == 8
