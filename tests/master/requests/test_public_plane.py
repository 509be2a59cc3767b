"""What is refused at the public socket before it is decoded."""

import pytest

from agent.master.requests.public_plane import PublicPlane
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import ClientRates
from agent.wire.codec import JSON, MESSAGEPACK, Decoder, encode
from agent.wire.messages import Query, Slo, Window
from agent.wire.principals import Sender
from agent.wire.unions import PublicReply
from agent.wire.watches import Acknowledge

ANN, BEN = Sender("client", "ann"), Sender("client", "ben")


class Router:
    """Frames that came, and replies."""

    socket = None

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

    def sender(self, _identity):
        return self.last

    def send(self, _identity, frame, _payer=None):
        self.replies.append(Decoder(PublicReply).decode(frame)[0])
        return True


class Rig:
    def __init__(self):
        reactor = Reactor(lambda: 10.0)
        reactor.listen = lambda _source, turn, **_: setattr(self, "turn", turn)
        self.router = Router()
        self.rates = ClientRates(1.0)
        self.plane = PublicPlane(reactor, self.router, self.rates)
        self.decoded = []
        self.plane.takes(Query, self.query)
        self.plane.takes(Acknowledge, lambda *_: self.decoded.append("acknowledge"))

    def query(self, origin, query, now):
        self.decoded.append(query.id)
        self.rates.refused(origin.sender, now, 10)

    def come(self, sender, *frames):
        self.router.coming += [(sender, frame) for frame in frames]
        self.turn()


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
