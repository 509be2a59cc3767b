"""Requests of subscribers: a few a turn, in order, and others are heard meanwhile."""

import tracemalloc

import msgspec
import pytest

from agent.alerts.inbox_events import SendPush
from agent.master.push import subscriber_queue
from agent.master.push.subscriber_plane import AGAIN_MS, SubscriberPlane
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.net.fair_turns import SLICE_S
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import ClientRates
from agent.wire.codec import Decoder, encode
from agent.wire.overlay_links import OverlayBeat
from agent.wire.predicate_language import read_recent
from agent.wire.predicates import Predicate
from agent.wire.principals import Sender
from agent.wire.push import AcknowledgeNotifications, Subscribe, Subscribed, Unsubscribe
from agent.wire.unions import PublicReply


class Router:
    """What came waits in it, the oldest first."""

    socket = -1
    gone = 0

    def __init__(self, sender):
        self.coming = []
        self.replies = []
        self._sender = sender

    def receive(self):
        return self.coming.pop(0) if self.coming else None

    @property
    def empty(self):
        return not self.coming

    def owner(self, _identity, before):
        return before

    def sender(self, identity):
        return self._sender or Sender("anyone", identity.hex())

    def send(self, identity, frame, _payer):
        self.replies.append((identity, Decoder(PublicReply).decode(frame)[0]))


class Rig:
    def __init__(self, rate_per_s=1e6, sender=None):
        self.now, self.costs_s = 10.0, 0.0
        reactor = Reactor(lambda: self.now)
        reactor.listen = lambda source, turn, **_: setattr(self, "turn", turn)
        self.router = Router(sender)
        self.public = PublicPlane(reactor, self.router, ClientRates(rate_per_s, 2.0))
        self.disk_takes = True
        self.done = []
        self.turns = self.public.turns
        self.plane = SubscriberPlane(reactor, self.public, self.take)

    def take(self, origin, client, request):
        self.now += self.costs_s
        if self.disk_takes:
            self.done.append((client, request.id))
            self.done += [(client, id_) for id_, _ in getattr(request, "also", ())]
        return self.disk_takes

    def come(self, *messages, of=b"c"):
        self.router.coming += [(of, encode(each)) for each in messages]

    def hear(self):
        """All that comes gets as far as the plane."""
        while self.router.coming or self.turns.next_due is not None:
            self.turn()
            self.turns.tick(10.0)

    def round(self):
        """One turn of the reactor."""
        due = self.turns.next_due is not None
        if self.router.coming:
            self.turn()
        if due:
            self.turns.tick(10.0)
        if self.plane.next_due is not None:
            self.plane.tick(10.0)


@pytest.fixture
def rig():
    return Rig()


def in_rounds(rig):
    """How much each turn did."""
    rounds = []
    while rig.router.coming or rig.turns.next_due is not None or rig.plane.next_due is not None:
        before = len(rig.done)
        rig.round()
        rounds.append(len(rig.done) - before)
    return rounds


def test_requests_are_done_in_order_a_few_a_turn(rig):
    names = [f"s{n}" for n in range(12)]
    rig.come(*[Subscribe(each, "*") for each in names])
    assert in_rounds(rig) == [4, 4, 4]
    assert rig.done == [("", each) for each in names]
    assert rig.plane.next_due is None


def test_what_takes_long_ends_the_turn(rig):
    rig.costs_s = SLICE_S
    rig.come(*[Subscribe(f"s{n}", "*") for n in range(3)])
    assert in_rounds(rig) == [1, 1, 1]


def test_a_long_text_is_read_in_one_turn_and_opened_in_another(rig):
    read_recent.cache_clear()
    text = " or ".join(f"value = {n}" for n in range(30))
    rig.come(Subscribe("long", text), Subscribe("short", "*"))
    rig.hear()
    rig.plane.tick(rig.now)
    assert rig.done == []
    assert rig.plane.next_due == 0.0
    assert read_recent.cache_info().currsize == 1
    rig.plane.tick(rig.now)
    assert rig.done == [("", "long")]
    rig.plane.tick(rig.now)
    assert rig.done == [("", "long"), ("", "short")]
    assert rig.plane.next_due is None


def test_a_long_text_that_is_wrong_is_handled_like_others(rig):
    rig.come(Subscribe("long", "value > " * 20), Unsubscribe("other"))
    rig.hear()
    rig.plane.tick(rig.now)
    rig.plane.tick(rig.now)
    assert rig.done == [("", "long")]
    rig.plane.tick(rig.now)
    assert rig.done == [("", "long"), ("", "other")]


def test_acknowledgements_are_done_as_they_come(rig):
    rig.come(*[AcknowledgeNotifications(f"s{n}", 1) for n in range(48)])
    assert in_rounds(rig) == [16, 16, 16]


def test_an_acknowledgement_of_many_subscriptions_is_that_many(rig):
    also = tuple((f"s{n}", n) for n in range(1, 64))
    rig.come(AcknowledgeNotifications("s0", 0, also), AcknowledgeNotifications("t0", 0, also[:40]))
    assert in_rounds(rig) == [16, 16, 16, 16, 16, 16, 9]
    assert rig.done[:64] == [("", f"s{n}") for n in range(64)]
    assert rig.done[64:] == [("", "t0")] + [("", f"s{n}") for n in range(1, 41)]


def test_a_turn_is_never_twice_as_long(rig):
    also = tuple((f"s{n}", n) for n in range(1, 16))
    for n in range(15):
        rig.come(AcknowledgeNotifications("t", 1), of=b"%d" % n)
    for n in range(15):
        rig.come(AcknowledgeNotifications("s0", 0, also), of=b"%d" % n)
    assert max(in_rounds(rig)) == 31


def test_a_neighbour_is_heard_long_before_all_clients_have_subscribed(rig):
    heard = []
    rig.public.takes(OverlayBeat, lambda *_: heard.append(len(rig.done)))
    for n in range(5_000):
        rig.come(Subscribe(f"s{n}", 'metric = "temperature" and value > 30'), of=b"%d" % n)
    rig.come(OverlayBeat(1, 0, 0))
    while not heard:
        rig.round()
    # 16 are taken from the socket for 4 that are done.
    assert heard[0] <= 5_000 / 4
    assert not rig.router.replies


def test_what_there_is_no_room_for_is_refused_or_comes_again(rig, monkeypatch):
    request = Subscribe("s0", "*")
    one = subscriber_queue.OVERHEAD_BYTES + len(msgspec.msgpack.encode(request))
    monkeypatch.setattr(subscriber_queue, "MAX_BYTES", 3 * one)
    rig.come(*[Subscribe(f"s{n}", "*") for n in range(4)], AcknowledgeNotifications("b", 1))
    rig.turn()
    line = "too many requests wait here; try again later"
    refused = Subscribed("s3", "refused", renew_ms=AGAIN_MS, message=line)
    assert rig.router.replies == [(b"c", refused)]
    rig.plane.tick(10.0)
    assert rig.done == [("", "s0"), ("", "s1"), ("", "s2")]
    # There is room again.
    rig.come(*[Subscribe(f"t{n}", "*") for n in range(4)])
    rig.turn()
    assert [reply.id for _, reply in rig.router.replies] == ["s3", "t3"]


def test_what_waits_takes_the_room_of_its_bytes(rig):
    large = tuple(tuple(Predicate(f"a{n}", "=", (n + 0.5,)) for n in range(8)) for _ in range(60))
    frame = encode(Subscribe("x", large))
    assert 7_000 < len(frame) <= 8_192
    rig.router.coming = [(b"c", frame)] * 16
    rig.turn()
    tracemalloc.start()
    try:
        rig.router.coming = [(b"c", frame)] * 64
        rig.hear()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 64 * len(frame) < grown < 64 * (len(frame) + subscriber_queue.OVERHEAD_BYTES)


def test_a_client_has_room_for_a_hundred_large_subscriptions(rig):
    wide = Predicate("co2", "in", tuple(["x" * 500] * 16))
    large = encode(Subscribe("s", ((wide,),)))
    assert 8_000 < len(large) < 8_192
    rig.router.coming = [(b"c", large)] * 110
    rig.hear()
    assert len(rig.plane._waiting) >= 100
    assert {reply.message for _, reply in rig.router.replies} == {
        "too many of your requests wait; send more when these are answered"
    }
    # What has no room takes none from others.
    rig.come(Subscribe("mine", "*"), of=b"d")
    rig.turn()
    assert b"d" not in {identity for identity, _ in rig.router.replies}


def test_who_asks_once_does_not_wait_for_who_asks_all_the_time(rig):
    flood = [(b"f", encode(AcknowledgeNotifications("u", 1)))] * 4_000
    rig.router.coming = list(flood)
    rig.hear()
    rig.router.coming = [(b"m", encode(Subscribe("mine", "*"))), *flood]
    rig.round()
    assert ("", "mine") in rig.done


def test_a_client_gets_no_more_by_more_connections():
    queue = subscriber_queue.SubscriberQueue()
    for n in range(6):
        queue.put(RequestOrigin(b"%d" % n, b"M", Sender("client", "ann")), Unsubscribe(f"a{n}"))
    for n in range(3):
        queue.put(RequestOrigin(b"b", b"M", Sender("client", "bob")), Unsubscribe(f"b{n}"))
    order = [queue.pop()[1].id for _ in range(9)]
    assert order == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "a4", "a5"]


def test_what_is_done_leaves_no_trace():
    queue = subscriber_queue.SubscriberQueue()
    for n in range(3):
        queue.put(RequestOrigin(b"%d" % n, b"M", Sender("anyone", f"{n}")), Unsubscribe("s"))
    while queue:
        queue.pop()
    assert queue._bytes == 0
    assert not queue._bytes_of


def test_what_waits_is_done_as_it_came():
    queue = subscriber_queue.SubscriberQueue()
    origin = RequestOrigin(b"c", b"J", Sender("client", "ann"))
    requests = [
        Subscribe("a", ((Predicate("co2", "in", (1, 2.5, True, "x")), Predicate("v", "present")),)),
        Subscribe("b", 'area under "b1"', durable=True, after=7),
        AcknowledgeNotifications("a", 3, (("b", 9),)),
        Unsubscribe("a"),
    ]
    assert [queue.put(origin, each) for each in requests] == [""] * 4
    assert [queue.pop() for _ in requests] == [(origin, each) for each in requests]
    assert not queue


def test_who_may_not_subscribe_is_told_before_anything_waits():
    rig = Rig(sender=Sender("node", "n1"))
    rig.come(*[Subscribe(f"s{n}", "*") for n in range(3)], AcknowledgeNotifications("s0", 1))
    rig.turn()
    assert rig.plane.next_due is None
    assert {reply.state for _, reply in rig.router.replies} == {"refused"}
    assert "a key of role node may not subscribe" in rig.router.replies[0][1].message
    assert len(rig.router.replies) == 4


def test_who_changes_too_much_is_refused_before_anything_waits():
    rig = Rig(rate_per_s=1.0)
    rig.come(*[Subscribe(f"s{n}", "*") for n in range(16)])
    rig.turn()
    # Ten may come at once, however slow the rate.
    assert [reply.id for _, reply in rig.router.replies] == [f"s{n}" for n in range(10, 16)]


def filter_of(strings):
    """Of some 400 bytes for each."""
    return ((Predicate("v", "in", tuple(f"{n}" + "x" * 400 for n in range(strings))),),)


def test_a_filter_takes_of_its_clients_rate_by_its_size():
    rig = Rig(rate_per_s=10.0)  # a burst of 20
    rig.come(*[Subscribe(f"s{n}", filter_of(3)) for n in range(5)], Subscribe("small", "v > 1"))
    rig.turn()
    # Each of the large ones counts as 5.
    assert [reply.id for _, reply in rig.router.replies] == ["s4", "small"]
    line = "this client may ask 10 queries/s, and this counts as 5; try again in 0.5 s"
    assert rig.router.replies[0][1].message == line


def test_a_filter_that_is_too_large_takes_of_the_rate():
    rig = Rig(rate_per_s=10.0)
    rig.come(Subscribe("large", filter_of(30)), Subscribe("small", "v > 1"))
    rig.turn()
    large, small = [reply.message for _, reply in rig.router.replies]
    assert "over 8192" in large
    assert small == "this client may ask 10 queries/s; try again in 1.4 s"


def test_large_filters_are_taken_one_a_turn(rig):
    rig.come(*[Subscribe(f"s{n}", filter_of(19)) for n in range(3)], *[Unsubscribe("x")] * 8)
    rig.hear()
    turns = []
    while rig.plane.next_due is not None:
        before = len(rig.done)
        rig.plane.tick(10.0)
        turns.append(len(rig.done) - before)
    assert turns[:3] == [1, 1, 1]
    assert max(turns) == 4


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
    again = Subscribed("a", "refused", renew_ms=AGAIN_MS, message=line)
    assert rig.router.replies == [(b"c", again)]


def test_who_changes_too_much_is_refused_and_may_acknowledge():
    rig = Rig(rate_per_s=1.0)
    rig.come(*[Subscribe(f"s{n}", "*") for n in range(40)], AcknowledgeNotifications("s0", 1))
    while rig.router.coming or rig.turns.next_due is not None or rig.plane.next_due is not None:
        rig.round()
    assert rig.router.replies
    assert {reply.state for _, reply in rig.router.replies} == {"refused"}
    assert rig.done[-1] == ("", "s0")


def test_what_is_not_open_is_told_within_the_rate():
    rig = Rig(rate_per_s=10.0)
    origin = RequestOrigin(b"c", b"M", Sender("client", "app"))
    for n in range(64):
        rig.plane._send(SendPush(origin, Subscribed(f"s{n}", "unknown"), waits=False))
    assert [reply.id for _, reply in rig.router.replies] == [f"s{n}" for n in range(20)]
    rig.plane._send(SendPush(origin, Subscribed("s", "open"), waits=False))
    assert rig.router.replies[-1][1].state == "open"
    assert rig.public.rates.refused(Sender("client", "other"), 10.0) is None
