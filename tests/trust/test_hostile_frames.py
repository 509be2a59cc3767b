"""Mutated frames over the encrypted sockets of a keyed fleet, by each of the keys that get in; and
what was recorded on the network, sent again."""

import random
import socket

import zmq

from agent.net.keys import Handshake, read_secrets
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire import unions as u
from testkit.waiting import PATIENCE_S
from tests.fuzz.frames import Frames
from tests.fuzz.targets import kinds_of
from tests.trust.rig import ask
from tests.trust.tap import Tap

FRAMES = 500
# Whose key, at which socket, and what that takes.
HOLDERS = {
    "app": ("public", u.PublicRequest),
    "iad2": ("public", u.PublicRequest),
    "operator": ("operator", u.OperatorRequest),
    "pi-heron": ("nodes", nm.NodeMessage),
}


def flood(context, fleet, name):
    """Send the frames, and wait until the last of them was read."""
    kind, union = HOLDERS[name]
    dealer = context.socket(zmq.DEALER)
    dealer.linger = 0
    dealer.setsockopt(zmq.SNDHWM, 0)
    dealer.setsockopt(zmq.RCVHWM, 0)
    secret = read_secrets(str(fleet.folder / f"{name}.secret"))[0]
    Handshake(secret, fleet.publics("iad1")[0]).apply(dealer)
    dealer.connect(fleet.sockets["iad1"][kind])
    frames = Frames(kinds_of(union), f"keyed {name}", [])
    for _ in range(FRAMES):
        dealer.send(frames.next())
    # Of those that get no reply it is not known when they were read: the last one gets one.
    dealer.send(b"the last")
    while b"b'the'" not in receive(dealer):
        continue
    dealer.close()


def receive(dealer):
    assert dealer.poll(PATIENCE_S * 1e3)
    return dealer.recv()


def test_no_key_gives_frames_that_end_a_master_or_keep_it_from_others(fleet):
    keyed = fleet(keyed=True, overlay=True)
    keyed.start()
    pid = keyed.processes["iad1"].pid
    with zmq.Context() as context:
        names = list(HOLDERS)
        random.Random(1).shuffle(names)
        for name in names:
            flood(context, keyed, name)
    assert keyed.processes["iad1"].poll() is None
    keyed.wait_until("iad1", lambda s: s.nodes[0].state == "live")
    with keyed.client("iad1") as client:
        client.send(m.Query("q", ("b1/f4/r413",), m.Window(last_s=600), m.Slo(99.0, 5_000.0)))
        assert client.receive(PATIENCE_S * 1e3).id == "q"
    assert keyed.processes["iad1"].pid == pid


def test_what_was_recorded_on_the_network_is_worth_nothing(fleet):
    """A connection has keys of its own: its bytes, sent again, do not even end the handshake."""
    keyed = fleet(keyed=True)
    tap = Tap(keyed.sockets["iad1"]["public"])
    try:
        keyed.start()
        own, keyed.sockets["iad1"]["public"] = keyed.sockets["iad1"]["public"], tap.address
        with keyed.client("iad1") as client:
            ask(client)
        keyed.sockets["iad1"]["public"] = own
    finally:
        tap.close()
    recorded = bytes(tap.streams[0])
    assert recorded.startswith(b"\xff")
    before = keyed.status("iad1").counters
    host, port = own.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as thief:
        thief.sendall(recorded)
        try:
            while thief.recv(1 << 16):
                continue
        except ConnectionError:
            pass
    after = keyed.status("iad1").counters
    assert after["queries"] == before["queries"]
    assert after["malformed_frames"] == before["malformed_frames"]
