"""The ZAP handler against requests that no libzmq would send."""

import random

import pytest
import zmq

from agent.net.zap import BURST, ENDPOINT, RATE_PER_S, Zap
from agent.runtime.token_bucket import MAX_REMEMBERED, TokenBuckets
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


def test_a_key_makes_so_many_connections_at_once_and_then_so_many_a_second():
    limit = TokenBuckets(burst=3, rate_per_s=2.0)
    assert [limit.admits("a", 10.0) for _ in range(4)] == [True, True, True, False]
    assert limit.admits("b", 10.0)
    assert [limit.admits("a", 10.5) for _ in range(2)] == [True, False]
    assert [limit.admits("a", 1e6) for _ in range(4)] == [True, True, True, False]


def test_keys_of_long_ago_are_forgotten():
    limit = TokenBuckets(burst=1, rate_per_s=1.0)
    for number in range(10 * MAX_REMEMBERED):
        assert limit.admits(str(number), number / 100)
    assert len(limit) <= 2 * MAX_REMEMBERED


def test_hundreds_of_nodes_come_back_at_once_after_a_power_cut():
    limit = TokenBuckets(BURST, RATE_PER_S)
    assert all(limit.admits(f"node{number}", 5.0) for number in range(1_000) for _ in range(3))


def test_a_connection_too_many_is_to_try_again(zap):
    """Status 300 of RFC 27: libzmq ends the connection without an error, and its client retries."""
    zap.limit = TokenBuckets(burst=1, rate_per_s=0.001)
    assert request(zap, [b"", *GOOD])[3] == b"200"
    reply = request(zap, [b"", *GOOD])
    assert reply[3:6] == [b"300", b"too many connections with this key at once; try again", b""]
    assert (zap.admitted, zap.refused, zap.deferred) == (1, 0, 1)


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
