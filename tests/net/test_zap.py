"""The ZAP handler against requests that no libzmq would send."""

import random

import pytest
import zmq

from agent.net.zap import ENDPOINT, Zap
from testkit.waiting import PATIENCE_MS

GOOD = [b"1.0", b"7", b"public", b"127.0.0.1", b"", b"CURVE", bytes(range(32))]


@pytest.fixture
def zap():
    context = zmq.Context()
    asked = []

    def decide(domain, key):
        asked.append((domain, key))
        return None if domain == "public" else "no"

    handler = Zap(context, decide)
    handler.asked, handler.context = asked, context
    yield handler
    context.destroy(linger=0)


def request(zap, frames):
    """What comes back to `frames`; None for nothing."""
    with zap.context.socket(zmq.DEALER) as inside:
        inside.linger = 0
        inside.connect(ENDPOINT)
        inside.send_multipart(frames)
        assert zap.socket.poll(PATIENCE_MS)
        zap.turn()
        return inside.recv_multipart() if inside.poll(0) else None


def test_a_request_is_answered_with_the_key_as_the_user(zap):
    reply = request(zap, [b"", *GOOD])
    assert reply[:4] == [b"", b"1.0", b"7", b"200"]
    ((domain, key),) = zap.asked
    assert (domain, reply[5]) == ("public", key.encode())
    assert request(zap, [b"", *GOOD[:2], b"nodes", *GOOD[3:]])[3:6] == [b"400", b"no", b""]


@pytest.mark.parametrize(
    "frames",
    [
        [b"", *GOOD[:5], b"NULL"],
        [b"", *GOOD[:5], b"PLAIN", b"user", b"password"],
        [b"", *GOOD[:6]],
        [b"", *GOOD[:6], b"short"],
        [b"", *GOOD, b"more"],
    ],
)
def test_other_mechanisms_and_credentials_are_refused(zap, frames):
    assert request(zap, frames)[3] == b"400"
    assert zap.asked == []


def test_what_is_no_request_is_counted_and_stops_nothing(zap):
    choose = random.Random(1)
    for _ in range(500):
        frames = [b"", *GOOD]
        for _ in range(choose.randint(1, 4)):
            number = choose.randrange(len(frames))
            match choose.randrange(4):
                case 0 if len(frames) > 1:
                    del frames[number]
                case 1:
                    frames.insert(number, choose.randbytes(choose.randrange(40)))
                case 2:
                    frames[number] = choose.randbytes(choose.randrange(40))
                case 3:
                    frames[number] = frames[number] * choose.randint(0, 50)
        reply = request(zap, frames)
        assert reply is None or reply[3] in (b"200", b"400")
        # Only a key of the right length was ever asked about.
        assert all(len(key) == 40 for _, key in zap.asked)
    assert zap.malformed > 50
    assert request(zap, [b"", *GOOD])[3] == b"200"
