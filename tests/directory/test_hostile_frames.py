"""Hostile frames at the socket of a registration service: nothing changes, nothing ends."""

import itertools
import random
import socket

import pytest

from agent.wire import directory as d
from agent.wire.codec import JSON, MESSAGEPACK, Decoder, WireError, encode
from tests.directory.rig import PATIENCE_MS
from tests.wire.samples import SAMPLES
from tests.wire.samples import directory as own
from tests.wire.test_codec import mutated

# The first thousand of each series in `make test`.
FRAMES = pytest.mark.parametrize("count", [1_000, pytest.param(4_000, marks=pytest.mark.long)])
# A DEALER's side of ZMTP's handshake.
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 16 + b"\0" + b"\0" * 31
READY = b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER"
RECORD = d.Register(
    "r", "honest", "tcp://127.0.0.1:5700", (d.Offering("temperature", ("h/f1",)),), 3_600.0
)


@pytest.fixture
def target(start_drs, asker):
    """After the attack it is the same process, and tells the same of who is honest."""
    drs = start_drs()
    asker(drs).ask(RECORD)
    yield drs
    assert drs.process.poll() is None
    found = asker(drs).ask(d.LookUp("l", ("honest",)))
    assert found == d.Found("l", (d.Candidate("honest", "tcp://127.0.0.1:5700", (), ("h/f1",)),))


@FRAMES
def test_every_mutated_frame_gets_one_clear_refusal(target, asker, count):
    draw = random.Random("drs")
    good = [encode(s, c) for s, c in itertools.product(SAMPLES.values(), (JSON, MESSAGEPACK))]
    decoder = Decoder(d.DirectoryRequest)
    frames = []
    while len(frames) < count:
        frame = mutated(draw.choice(good), draw)
        try:
            decoder.decode(frame)
        except WireError:
            frames.append(frame)
    attacker = asker(target)
    before = asker(target).ask(d.Follow("f", "", 0))
    for start in range(0, count, 500):
        for frame in frames[start : start + 500]:
            attacker.socket.send(frame)
        for frame in frames[start : start + 500]:
            reply = attacker.receive()
            assert (reply.reason, bool(reply.message)) == ("malformed", True), frame
            assert "\n" not in reply.message
    assert not attacker.socket.poll(0)
    assert asker(target).ask(d.Follow("f", "", 0)) == before


@FRAMES
def test_frames_that_still_say_something_do_not_end_it(target, asker, count):
    """Well-formed, and nonsense: other names, areas, leases, epochs. Each gets a reply."""
    draw = random.Random("decodable")
    samples = [s for s in own.SAMPLES.values() if isinstance(s, d.DirectoryRequest)]
    good = [encode(s, c) for s, c in itertools.product(samples, (JSON, MESSAGEPACK))]
    decoder = Decoder(d.DirectoryRequest)
    attackers = [asker(target) for _ in range(4)]
    for _ in range(count // 50):
        asked = []
        while len(asked) < 50:
            frame = mutated(draw.choice(good), draw)
            try:
                request, _ = decoder.decode(frame)
            except WireError:
                continue
            attacker = draw.choice(attackers)
            attacker.socket.send(frame)
            asked.append((attacker, request))
        for attacker, request in asked:
            assert attacker.receive().id == request.id


def test_messages_of_many_frames_and_too_large_ones(target, asker):
    attacker = asker(target)
    good = encode(own.SAMPLES["register"])
    for frames in ([good, good], [b"", good, good], [b"", b""], [b""], [b"10J" + b" " * (1 << 20)]):
        attacker.socket.send_multipart(frames)
        assert attacker.socket.poll(PATIENCE_MS)
        reply = attacker.decoder.decode(attacker.socket.recv_multipart()[-1])[0]
        assert reply.reason == "malformed"


def test_json_of_very_many_areas_is_refused_before_it_is_decoded(target, asker):
    attacker = asker(target)
    areas = b",".join([b'"b1"'] * 150_000)
    attacker.socket.send(b'10J{"type":"register","id":"many","areas":[' + areas + b"]}")
    reply = attacker.receive()
    assert (reply.id, reply.reason) == ("many", "malformed")
    assert "more than 4096 elements" in reply.message


def test_a_message_that_never_ends_is_cut(target):
    host, port = target.public.removeprefix("tcp://").split(":")
    part = b"\x03" + (1 << 19).to_bytes(8) + b"x" * (1 << 19)
    with socket.create_connection((host, int(port)), 20.0) as attacker:
        attacker.sendall(GREETING)
        greeting = b""
        while len(greeting) < 64:
            greeting += attacker.recv(64)
        attacker.sendall(READY)
        with pytest.raises(ConnectionError):
            send_for_ever(attacker, part)


def send_for_ever(attacker, part):
    for _ in range(256):
        attacker.sendall(part)
