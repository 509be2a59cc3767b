"""What is refused at the public socket before it is decoded."""

import pytest

from agent.master.requests.public_plane import (
    FACTS_BURST_S,
    FACTS_SHARE,
    TOO_MUCH,
    PublicPlane,
)
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import ClientRates
from agent.wire.codec import JSON, MESSAGEPACK, Decoder, encode
from agent.wire.messages import Query, Slo, Window
from agent.wire.placement import PlacementFacts, TopicFacts
from agent.wire.principals import Sender
from agent.wire.unions import PublicReply
from agent.wire.watches import Acknowledge

ANN, BEN = Sender("client", "ann"), Sender("client", "ben")


class Router:
    """Frames that came, and replies."""

    socket = None
    gone = 0

    def __init__(self):
        self.coming, self.replies = [], []

    def receive(self):
        if not self.coming:
            return None
        self.last, frame = self.coming.pop(0)
        return self.last.name.encode(), frame

    @property
    def empty(self):
        return not self.coming

    def owner(self, _identity, before):
        return before

    def sender(self, _identity):
        return self.last

    def send(self, _identity, frame, _payer=None):
        self.replies.append(Decoder(PublicReply).decode(frame)[0])
        return True


class Rig:
    def __init__(self):
        self.now = 10.0
        reactor = Reactor(lambda: self.now)
        reactor.listen = lambda _source, turn, **_: setattr(self, "turn", turn)
        self.router = Router()
        self.rates = ClientRates(1.0)
        self.plane = PublicPlane(reactor, self.router, self.rates)
        self.decoded = []
        self.plane.takes(Query, self.query)
        self.plane.takes(Acknowledge, lambda *_: self.decoded.append("acknowledge"))

        self.plane.takes(PlacementFacts, self.facts)
        self.facts_take_s = 0.0

    def facts(self, _origin, told, _now):
        self.decoded.append(told.number)
        self.now += self.facts_take_s

    def query(self, origin, query, now):
        self.decoded.append(query.id)
        self.rates.refused(origin.sender, now, 10)

    def come(self, sender, *frames):
        self.router.coming += [(sender, frame) for frame in frames]
        self.turn()
        while self.plane.turns.next_due is not None:
            self.plane.turns.tick(self.now)


def query(name, count, codec):
    areas = tuple(f"b1/f4/room{n}" for n in range(count))
    return encode(Query(name, areas, Window(last_s=60.0), Slo(99.0, 500.0)), codec)


@pytest.mark.parametrize("codec", [JSON, MESSAGEPACK])
def test_a_large_query_over_its_senders_rate_is_not_decoded(codec):
    rig = Rig()
    first = query("first", 1_024, codec)
    rig.come(ANN, first, query("second", 1_024, codec), first[:-1])
    assert rig.decoded == ["first"]
    for refused, name in zip(rig.router.replies, ("second", "first"), strict=True):
        assert (refused.id, refused.status, refused.reason) == (name, "refused", "over_rate")
        assert refused.message.startswith("this client may ask 1 queries/s, and this counts as 1")


def test_what_is_small_or_no_query_is_decoded_and_others_are_served():
    rig = Rig()
    rig.come(ANN, query("large", 1_024, MESSAGEPACK), query("small", 1, MESSAGEPACK))
    rig.come(ANN, encode(Acknowledge("w", 1), JSON) + b" " * 2_000)
    rig.come(BEN, query("other", 1_024, MESSAGEPACK))
    assert rig.decoded == ["large", "small", "acknowledge", "other"]
    assert rig.router.replies == []


def facts(number, topics=500):
    told = tuple(TopicFacts(f"topic{n}", processor="a" * 40) for n in range(topics))
    return encode(PlacementFacts("iad2", 1, number, 5.0, topics=told))


def test_what_others_tell_of_their_placement_takes_a_small_part_of_a_masters_time():
    rig, other = Rig(), Sender("iad", "iad2")
    rig.facts_take_s = 2 * FACTS_BURST_S
    rig.come(other, *map(facts, range(9)))
    assert rig.decoded == [0]
    assert {(each.reason, each.message) for each in rig.router.replies} == {("over_rate", TOO_MUCH)}
    rig.come(other, facts(9, topics=1))
    rig.come(Sender("iad", "iad3"), facts(10))
    assert rig.decoded == [0, 9, 10]
    rig.now += 2 * FACTS_BURST_S / FACTS_SHARE
    rig.come(other, facts(11))
    assert rig.decoded == [0, 9, 10, 11]
