"""Requests of subscribers: a few a turn, in order, and others are heard meanwhile."""

import pytest

from agent.board import Board
from agent.master import subscriber_plane
from agent.master.public_plane import PublicPlane
from agent.master.subscriber_plane import TURN, SubscriberPlane
from agent.wire.codec import Decoder, encode
from agent.wire.master_config import MasterClients
from agent.wire.overlay_links import OverlayBeat
from agent.wire.predicates import Predicate
from agent.wire.push import AcknowledgeNotifications, Subscribe, Subscribed
from agent.wire.senders import Sender
from agent.wire.unions import PublicReply


class Router:
    """What came waits in it, the oldest first."""

    socket = -1

    def __init__(self):
        self.coming = []
        self.replies = []

    def receive(self):
        return self.coming.pop(0) if self.coming else None

    def sender(self, identity):
        return Sender("anyone", identity.hex())

    def send(self, identity, frame):
        self.replies.append((identity, Decoder(PublicReply).decode(frame)[0]))


class Rig:
    def __init__(self, rate_per_s=1e6):
        board = Board(lambda: 10.0)
        board.listen = lambda source, turn: setattr(self, "turn", turn)
        self.router = Router()
        self.public = PublicPlane(board, self.router)
        self.disk_takes = True
        self.done = []
        self.plane = SubscriberPlane(
            board, MasterClients(rate_per_s=rate_per_s), self.public, self.take
        )

    def take(self, origin, client, request):
        if self.disk_takes:
            self.done.append((client, request.id))
        return self.disk_takes

    def come(self, *messages):
        self.router.coming += [(b"c", encode(each)) for each in messages]

    def round(self):
        """One turn of the board."""
        if self.router.coming:
            self.turn()
        if self.plane.next_due is not None:
            self.plane.tick(10.0)


@pytest.fixture
def rig():
    return Rig()


def test_requests_are_done_in_order_a_few_a_turn(rig):
    names = [f"s{n}" for n in range(3 * TURN)]
    rig.come(*[Subscribe(each, "*") for each in names])
    rounds = []
    while rig.router.coming or rig.plane.next_due is not None:
        before = len(rig.done)
        rig.round()
        rounds.append(len(rig.done) - before)
    assert max(rounds) == TURN
    assert rig.done == [("", each) for each in names]
    assert rig.plane.next_due is None


def test_a_neighbour_is_heard_long_before_all_clients_have_subscribed(rig):
    heard = []
    rig.public.takes(OverlayBeat, lambda *_: heard.append(len(rig.done)))
    rig.come(*[Subscribe(f"s{n}", "*") for n in range(1_000)], OverlayBeat(1, 0, 0))
    while not heard:
        rig.round()
    # 16 are taken from the socket for 4 that are done.
    assert heard[0] <= 1_000 / 4


def test_a_crowd_waits_in_the_socket_from_some_number_on(rig, monkeypatch):
    monkeypatch.setattr(subscriber_plane, "MOST_WAITING", 3)
    rig.come(*[Subscribe(f"s{n}", "*") for n in range(10)])
    rig.turn()
    assert [name for _, name in rig.done] == [f"s{n}" for n in range(7)]


def test_what_is_large_does_not_wait(rig):
    large = Predicate("co2", "in", tuple(["x" * 512] * 17))
    rig.come(Subscribe("a", ((large,),)))
    rig.turn()
    ((_, refused),) = rig.router.replies
    assert refused.state == "refused"
    assert "over 8192" in refused.message
    assert rig.plane.next_due is None


def test_what_the_disk_does_not_take_is_refused_or_comes_again(rig):
    rig.disk_takes = False
    rig.come(Subscribe("a", "*"), AcknowledgeNotifications("b", 1))
    rig.round()
    line = "this master's disk takes nothing now; try again later"
    assert rig.router.replies == [(b"c", Subscribed("a", "refused", message=line))]


def test_who_changes_too_much_is_refused_and_may_acknowledge():
    rig = Rig(rate_per_s=1.0)
    rig.come(*[Subscribe(f"s{n}", "*") for n in range(40)], AcknowledgeNotifications("s0", 1))
    while rig.router.coming or rig.plane.next_due is not None:
        rig.round()
    assert rig.router.replies
    assert {reply.state for _, reply in rig.router.replies} == {"refused"}
    assert rig.done[-1] == ("", "s0")
