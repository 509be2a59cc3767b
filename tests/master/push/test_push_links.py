"""Links between two masters without sockets: who may have one, and in which order things go."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import pytest
import zmq

from agent.master.push.broker_links import BrokerLinks
from agent.master.push.place import place_of
from agent.master.requests.request_plane import RequestOrigin
from agent.overlay import events as overlay
from agent.overlay.link_congestion import WINDOW_S
from agent.overlay.scot import BrokerId
from agent.overlay.session import MAX_QUEUED, SILENCE_S, WINDOW
from agent.runtime.reactor import Reactor
from agent.wire.codec import Decoder, encode
from agent.wire.config import parse
from agent.wire.master_config import MasterConfig
from agent.wire.overlay import AdvertisementVersion, Notify, Relay
from agent.wire.overlay_links import OverlayHello, OverlayRefused
from agent.wire.principals import Sender
from agent.wire.unions import PublicRequest
from tests.alerts.samples import notification

ANYONE = Sender("anyone", "61")
PLACES = {"iad1": "a", "iad2": "b"}
SOCKETS = {"public": "ipc:///run/p", "operator": "ipc:///run/o"}


class Socket:
    """To the public socket of the other master; frames wait until `Pair.carry`."""

    closed = False

    def __init__(self, pair):
        self.pair = pair
        self.frames = deque()
        self.replies = deque()

    def recv(self, _flags, copy):
        if not self.replies:
            raise zmq.Again
        return zmq.Frame(self.replies.popleft())

    def getsockopt(self, _option):
        return 0

    def send(self, frame, _flags, **_):
        if self.pair.cut:
            raise zmq.Again
        self.frames.append(frame)


class End:
    """One master's links, and what its broker would hear; it sends at once when a link is up."""

    def __init__(self, pair, iad, links=(("a", "b"),)):
        (other,) = PLACES.keys() - {iad}
        neighbour = {"iad": other, "vertex": PLACES[other], "cluster": 0}
        place = {
            "vertex": PLACES[iad],
            "links": [list(link) for link in links],
            "neighbour": [neighbour | {"address": "tcp://127.0.0.1:5800"}],
        }
        table = {"iad": {"name": iad}, "sockets": SOCKETS, "overlay": place}
        self.socket = Socket(pair)
        self.handlers, self.replies = {}, []
        self.heard, self.said = [], []
        self.beside = BrokerId(PLACES[other], 0)
        self.reactor = reactor = Reactor(lambda: pair.now)
        reactor.listen = lambda source, turn, **_: None
        self.links = BrokerLinks(
            reactor, self, self, iad, place_of(parse(table, MasterConfig, "t")), self.said.append
        )
        self.links.start(self.hear)

    # What the links take for their guard and their public plane.

    def dealer(self, _address, _max_bytes, _keys):
        return self.socket

    def takes(self, kind, handler):
        self.handlers[kind] = handler

    def reply(self, _origin, message):
        self.replies.append(message)

    # Its broker.

    def hear(self, event):
        self.heard.append(event)
        if isinstance(event, overlay.LinkUp):
            for number in range(3):
                self.links.send(overlay.Send(event.neighbour, AdvertisementVersion(1, number)))

    def received(self):
        return [e.message.version for e in self.heard if isinstance(e, overlay.Received)]


class Pair:
    def __init__(self, **options):
        self.now = 5.0
        self.cut = False
        self.decoder = Decoder(PublicRequest)
        self.ends = [End(self, "iad1"), End(self, "iad2", **options)]

    def carry(self, sender=ANYONE):
        """Until all is said."""
        a, b = self.ends
        while a.socket.frames or b.socket.frames:
            for end, other in ((a, b), (b, a)):
                while end.socket.frames:
                    message, _ = self.decoder.decode(end.socket.frames.popleft())
                    origin = RequestOrigin(b"i", b"M", sender)
                    other.handlers[type(message)](origin, message, self.now)

    def tick(self, seconds=0.0):
        self.now += seconds
        for end in self.ends:
            if end.links.next_due is not None and end.links.next_due <= self.now:
                end.links.tick(self.now)


def test_what_is_sent_as_soon_as_the_link_is_up_arrives():
    pair = Pair()
    pair.tick()
    pair.carry()
    for end in pair.ends:
        assert end.links.up == dict.fromkeys(end.links.up, True)
        assert end.heard[0] == overlay.LinkUp(end.beside)
        assert end.received() == [0, 1, 2]
        assert end.links.went_down == 0
    assert not any(end.said for end in pair.ends)


def test_nobody_at_the_other_end_takes_the_link_down_at_once():
    pair = Pair()
    pair.tick()
    pair.carry()
    a, b = pair.ends
    pair.cut = True
    a.links.send(overlay.Send(a.beside, AdvertisementVersion(1, 9)))
    assert a.heard[-1] == overlay.LinkDown(a.beside)
    assert a.said == ["overlay: the link to iad2 is down: nobody is at the other end\n"]
    pair.tick(SILENCE_S)
    assert b.heard[-1] == overlay.LinkDown(b.beside)
    pair.cut = False
    pair.tick(1.0)
    pair.carry()
    assert [end.heard.count(overlay.LinkUp(end.beside)) for end in pair.ends] == [2, 2]
    assert all(end.received() == [0, 1, 2] * 2 for end in pair.ends)


def test_a_silent_master_has_no_links_until_it_speaks():
    pair = Pair()
    pair.tick()
    pair.carry()
    a, b = pair.ends
    a.links.fall_silent()
    pair.carry()
    assert b.heard[-1] == overlay.LinkDown(b.beside)
    assert a.links.next_due is None
    pair.tick(1.0)
    pair.carry()
    assert not any(a.links.up.values())
    a.links.speak()
    pair.tick(1.0)
    pair.carry()
    assert all(a.links.up.values())


def test_queues_are_measured_while_there_is_traffic_and_no_longer():
    pair = Pair()
    pair.tick()
    pair.carry()
    a, _ = pair.ends
    beat = a.links.next_due
    a.links.send(overlay.Send(a.beside, Notify(notification(1), b"")))
    assert a.links.next_due == pair.now + WINDOW_S < beat
    pair.tick(WINDOW_S)
    assert a.heard[-1] == overlay.LinkMeasured(a.beside, 1, 1, 0)
    pair.tick(WINDOW_S)
    assert a.heard[-1] == overlay.LinkMeasured(a.beside, 0, 0, 0)
    assert a.links.next_due > pair.now + WINDOW_S


def test_more_notifications_than_custody_holds_do_not_wait_and_take_no_link_down():
    pair = Pair()
    pair.tick()
    pair.carry()
    a, b = pair.ends
    room = WINDOW - len(b.received())  # not confirmed yet
    most = MAX_QUEUED // 2  # of a group that is alone
    for number in range(room + most + 3):
        a.links.send(overlay.Send(a.beside, Notify(notification(number), b"")))
    assert (a.links.waiting, a.links.passed_over) == (most, 3)
    told = [each for each in a.heard if isinstance(each, overlay.PassedOver)]
    assert [each.message.notification for each in told] == [
        notification(room + most + number) for number in range(3)
    ]
    pair.tick(WINDOW_S)
    entered = room + most
    assert a.heard[-1] == overlay.LinkMeasured(a.beside, entered, room, most)
    assert all(a.links.up.values())


def test_what_was_sent_is_what_left_the_queue_and_never_becomes_less():
    pair = Pair()
    pair.tick()
    pair.carry()
    a, b = pair.ends
    version = AdvertisementVersion(1, 9)
    before = a.links.sent
    assert (before["advertisement_version"], before["relay"]) == (3, 0)
    seen = [before]
    relay = Relay(BrokerId("c", 0), (BrokerId("a", 0), a.beside), 1, version)
    for _ in range(WINDOW + MAX_QUEUED // 2 + 3):
        a.links.send(overlay.Send(a.beside, relay, BrokerId("c", 0)))
        seen.append(a.links.sent)
    assert all(x["relay"] <= y["relay"] for x, y in pairwise(seen))
    room = WINDOW - len(b.received())  # not confirmed yet
    assert (seen[-1]["relay"], a.links.waiting) == (room, MAX_QUEUED // 2)
    assert a.links.passed_over == WINDOW - room + 3
    # A link that is down sends nothing.
    a.links.fall_silent()
    a.links.send(overlay.Send(a.beside, version))
    assert a.links.sent == seen[-1]


def test_a_link_that_the_broker_wants_reopened_is_down_for_a_while():
    pair = Pair()
    pair.tick()
    pair.carry()
    a, b = pair.ends
    a.reactor.perform([overlay.Reopen(a.beside, 5.0)])
    assert a.heard[-1] == overlay.LinkDown(a.beside)
    assert a.said == ["overlay: the link to iad2 is down: it is there and settles nothing\n"]
    for _ in range(8):
        pair.tick(0.6)
        pair.carry()
        assert not any(a.links.up.values())
    assert b.heard[-1] == overlay.LinkDown(b.beside)
    pair.tick(0.6)
    pair.carry()
    assert all(a.links.up.values())
    assert all(b.links.up.values())


@pytest.mark.parametrize(
    ("sender", "word"),
    [
        (Sender("client", "iad1"), "a key of client iad1 does not speak for iad1"),
        (Sender("iad", "iad7"), "a key of iad iad7 does not speak for iad1"),
    ],
)
def test_only_an_iads_own_key_speaks_for_it(sender, word):
    pair = Pair()
    pair.tick()
    pair.ends[1].socket.frames.clear()
    pair.carry(sender)
    assert pair.ends[1].replies == [OverlayRefused(word)]
    assert pair.ends[1].said == [f"overlay: no link to iad1: its hello was refused: {word}\n"]


def test_a_frame_needs_the_key_too():
    pair = Pair()
    pair.tick()
    pair.carry(ANYONE)
    a, b = pair.ends
    a.links.send(overlay.Send(a.beside, AdvertisementVersion(1, 9)))
    pair.carry(Sender("iad", "iad7"))
    assert b.received() == [0, 1, 2]


def test_another_overlay_is_refused_once_in_words():
    pair = Pair(links=(("a", "b"), ("x", "a")))
    for _ in range(3):
        pair.tick(1.0)
        pair.carry()
    for end in pair.ends:
        assert len(end.said) == 1
        assert "overlays with other links or another number of clusters" in end.said[0]
        assert not end.heard


def test_who_is_no_neighbour_or_stands_elsewhere_is_refused():
    a = Pair().ends[0]
    shape = a.links._fingerprint
    origin = RequestOrigin(b"i", b"M", ANYONE)
    for hello in (
        OverlayHello("iad9", "b", 0, shape, 1, 0, False),
        OverlayHello("iad2", "c", 0, shape, 1, 0, False),
    ):
        a.handlers[OverlayHello](origin, hello, 5.0)
    stranger, elsewhere = (reply.message for reply in a.replies)
    assert stranger == "iad9 is no neighbour of this master: see [[overlay.neighbour]] here"
    assert elsewhere == "iad2 is expected at vertex b, cluster 0, not at vertex c, cluster 0"


def test_what_the_other_end_refuses_is_said_once():
    a = Pair().ends[0]
    link = a.links._by_iad["iad2"]
    for _ in range(2):
        a.socket.replies.append(encode(OverlayRefused("no")))
        link.socket._turn()
    assert a.said == ["overlay: no link to iad2: it refuses this one: no\n"]


def test_of_what_a_neighbour_writes_one_printable_line_a_minute_is_said():
    pair = Pair()
    a = pair.ends[0]
    link = a.links._by_iad["iad2"]
    for number in range(61):
        text = f"{number}\n\x1b[2Jall is well" + "x" * 400
        a.socket.replies.append(encode(OverlayRefused(text)))
        link.socket._turn()
        pair.now += 1.0
    assert len(a.said) == 2
    assert a.said[0].startswith("overlay: no link to iad2: it refuses this one: 0 [2Jall is well")
    for line in a.said:
        assert line[:-1].isprintable()
        assert line.endswith("\n")
        assert len(line) < 300
