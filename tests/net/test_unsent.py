"""What waits for a peer that does not read is bounded in bytes, counted and told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from agent.master.requests.request_plane import UNREAD, RequestOrigin, RequestPlane
from agent.net.router import Router, router
from agent.net.unsent import LARGE, MAX_A_PEER, Unsent
from agent.runtime.reactor import Reactor
from agent.wire.codec import MESSAGEPACK, Decoder
from agent.wire.messages import Answer, AreaResult, Coverage, Query, Series
from agent.wire.packed import Int64Column
from agent.wire.principals import Sender

MIB = 1 << 20
MAX_BYTES = 8 * MIB


class Tracker:
    """A frame that libzmq lets go of when the test says so."""

    done = False


def test_large_frames_are_counted_until_they_are_let_go() -> None:
    unsent = Unsent(most_a_peer=10, most=16)
    frames: list[Any] = [Tracker() for _ in range(4)]
    assert unsent.has_room("a", 100)
    unsent.add("a", frames[0], 6)
    assert unsent.has_room("a", 4)
    assert not unsent.has_room("a", 5)
    unsent.add("a", frames[1], 4)
    unsent.add("b", frames[2], 5)
    assert unsent.has_room("c", 1)
    assert not unsent.has_room("c", 2)
    frames[0].done = True
    assert unsent.has_room("c", 7)
    assert unsent.bytes == 9
    frames[1].done = frames[2].done = True
    assert unsent.has_room("c", 100)
    assert unsent.bytes == 0


def test_one_payer_may_have_as_much_waiting_at_all_its_peers_as_is_left_free() -> None:
    unsent = Unsent(most_a_peer=50, most=100)
    frames: list[Any] = [Tracker() for _ in range(4)]
    assert unsent.has_share("greedy", 1_000), "there is nothing of it"
    for frame, peer in zip(frames, ("a1", "a2", "a3"), strict=False):
        assert unsent.has_share("greedy", 15)
        unsent.add(peer, frame, 15, "greedy")
    assert not unsent.has_share("greedy", 15), "60 of 100, and 40 left"
    assert unsent.has_share("honest", 50)
    unsent.add("b", frames[3], 20, "honest")
    assert unsent.has_share("honest", 7)
    assert not unsent.has_share("honest", 8)
    frames[0].done = True
    assert unsent.has_share("honest", 15)
    assert unsent.bytes == 50


def test_who_counts_for_others_is_told_of_what_comes_and_leaves() -> None:
    unsent, told = Unsent(), []
    unsent.tell = lambda payer, size: told.append((payer, size))
    frames: list[Any] = [Tracker() for _ in range(3)]
    for frame, peer, payer, size in zip(
        frames, ("a", "a", "b"), ("k", "k", "l"), (5, 6, 7), strict=True
    ):
        unsent.add(peer, frame, size, payer)
    frames[0].done = frames[2].done = True
    unsent.collect()
    assert told == [("k", 5), ("k", 6), ("l", 7), ("k", -5), ("l", -7)]
    assert unsent.bytes == 6


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as made:
        yield made


@pytest.fixture
def pair(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[tuple[Router, Any, bytes]]:
    """A router, a client that lets others wait, and its identity."""
    bound = router(context, "tcp://127.0.0.1:*")
    client = context.socket(zmq.DEALER)
    for option in (zmq.RCVHWM, zmq.LINGER):
        client.setsockopt(option, 1)
    client.setsockopt(zmq.RCVBUF, 1 << 16)
    client.connect(bound.socket.getsockopt_string(zmq.LAST_ENDPOINT))
    client.send(b"hello")
    assert bound.socket.poll(30_000)
    received = bound.receive()
    assert received is not None
    yield bound, client, received[0]
    client.close(0)
    bound.socket.close(0)


def test_a_peer_that_does_not_read_keeps_no_more_than_its_share(
    pair: tuple[Router, Any, bytes],
) -> None:
    bound, client, identity = pair
    bound.unsent = Unsent(most_a_peer=MAX_BYTES)
    sent = 0
    while bound.send(identity, b"%8d" % sent + bytes(MIB)):
        sent += 1
        # Buffers of the kernel and one message on its way.
        assert sent < 64
        assert bound.unsent.bytes <= MAX_BYTES + MIB
    assert bound.dropped == 1
    # What is small goes on, and in its order.
    assert bound.send(identity, b"small")
    for number in range(sent):
        assert client.poll(30_000)
        assert client.recv()[:8] == b"%8d" % number
    assert client.recv() == b"small"
    while not bound.send(identity, bytes(MIB)):
        assert client.poll(0) == 0


def test_a_reply_to_a_connection_that_is_gone_says_so(pair: tuple[Router, Any, bytes]) -> None:
    bound, client, identity = pair
    answer = Answer("q", "complete", 1.0, True, Coverage(0, 0))
    plane = RequestPlane(Reactor(lambda: 0.0), bound, Query, lambda *_: answer)
    here, gone = (
        RequestOrigin(each, MESSAGEPACK, Sender("anyone", "")) for each in (identity, b"gone")
    )
    assert not plane.reply(here, answer)
    assert plane.reply(gone, answer)
    assert client.poll(30_000)
    assert bound.gone == bound.dropped == 1


def test_who_does_not_read_its_answers_is_told(pair: tuple[Router, Any, bytes]) -> None:
    bound, client, identity = pair
    bound.unsent = Unsent(most_a_peer=MAX_BYTES)
    plane = RequestPlane(
        Reactor(lambda: 0.0),
        bound,
        Query,
        lambda id_, reason, line: Answer(
            id_, "refused", 0.0, False, Coverage(0, 0), reason=reason, message=line
        ),
    )
    origin = RequestOrigin(identity, MESSAGEPACK, Sender("anyone", ""))
    series = Series(Int64Column(bytes(MIB)), {})
    told = 0
    while not bound.dropped:
        told += 1
        answer = Answer(
            f"q{told}", "complete", 1.0, True, Coverage(1, 1), (AreaResult("b1", series),)
        )
        plane.reply(origin, answer)
    decoder: Decoder[Answer] = Decoder(Answer, 2 * MIB)
    for number in range(1, told + 1):
        assert client.poll(30_000)
        answer, codec = decoder.decode(client.recv())
        assert (answer.id, codec) == (f"q{number}", MESSAGEPACK)
    assert (answer.status, answer.reason, answer.message) == ("refused", "overloaded", UNREAD)


def test_what_is_copied_is_small() -> None:
    """pyzmq tracks nothing below its own threshold."""
    assert zmq.COPY_THRESHOLD <= LARGE < MAX_A_PEER
