"""Links to other masters that several parts use."""

from __future__ import annotations

import msgspec
import pytest
import zmq

from agent.master.requests.peers import (
    CONFIGURED,
    LARGE_BURST_S,
    LARGE_SHARE,
    MAX_WAITING,
    TRIAL,
    Peers,
)
from agent.net.secure_sockets import SecureSockets
from agent.runtime.console import operator_log
from agent.runtime.reactor import Reactor
from agent.wire.codec import HEADER_BYTES, encode
from agent.wire.config import Trust
from agent.wire.membership import MemberAddress, Members
from agent.wire.messages import AreaResult, TaskResult
from agent.wire.topics import Publish
from testkit.waiting import wait_until

MIB = 1 << 20

# Nobody listens there.
AT, ELSEWHERE = "ipc:///run/sanderling-nobody", "ipc:///run/sanderling-nowhere"


class Clock:
    """Time passes with each look."""

    now = step_s = 0.0

    def __call__(self):
        self.now += self.step_s
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def peers(tmp_path, clock):
    with zmq.Context() as context:
        reactor, say = Reactor(clock), operator_log("iad1")
        made = Peers(
            reactor, SecureSockets(context, Trust(), tmp_path, clock=reactor.clock, warn=say), say
        )
        yield made
        for name in ("iad2", "iad3", AT):
            made._close(name)


def test_a_link_lives_as_long_as_somebody_uses_it(peers):
    peers.connect("iad2", AT)
    peers.connect("iad2", AT, by="member")
    peers.drop("iad2")
    assert peers.iads == ("iad2",)
    peers.drop("iad2", "member")
    peers.drop("iad2", "member")
    assert peers.iads == ()


def test_a_link_of_the_configuration_keeps_its_address_and_stays(peers):
    peers.connect("iad2", AT, by=CONFIGURED)
    peers.connect("iad2", ELSEWHERE)
    peers.drop("iad2")
    assert peers.iads == peers.unreachable == ("iad2",)
    assert peers._links["iad2"].address == AT


def test_links_on_trial_are_not_shown(peers):
    peers.connect(AT, AT, by=TRIAL)
    peers.connect("iad3", AT, by=TRIAL)
    assert peers.iads == peers.unreachable == ()
    assert not peers.connected("iad3")
    peers.connect("iad3", AT, by="member")
    assert peers.iads == ("iad3",)


def test_what_waits_for_a_master_that_does_not_read_is_bounded_by_its_bytes(peers, tmp_path):
    address = f"ipc://{tmp_path}/busy"
    with zmq.Context() as context, context.socket(zmq.ROUTER) as busy:
        busy.setsockopt(zmq.RCVHWM, 1)
        busy.setsockopt(zmq.LINGER, 0)
        busy.bind(address)
        peers.connect("iad2", address)
        wait_until(lambda: peers.connected("iad2"))
        message, sent = Publish("p", "notes", {"text": "x" * MIB}), 0
        while peers.send("iad2", message):
            sent += 1
            assert sent <= 4 * MAX_WAITING // MIB, "there is no bound"
        assert sent * MIB >= MAX_WAITING - 2 * MIB
        assert peers.dropped == 1
        assert peers.send("iad2", Publish("p", "notes", {"text": "x"}))


class Other:
    """Another master that replies what it likes."""

    def __init__(self, peers):
        self.peers, self.frames, self.taken = peers, [], []
        peers.connect("iad2", AT)
        self.link = peers._links["iad2"].socket
        self.link._receive = lambda: self.frames.pop(0) if self.frames else None
        for kind in (TaskResult, Members):
            peers.takes(kind, lambda _iad, reply, _now: self.taken.append(reply))

    def replies(self, *frames):
        """The replies that are passed on."""
        self.taken.clear()
        self.frames += [zmq.Frame(frame) for frame in frames]
        while self.frames:
            self.link._turn()
        return self.taken


ROOMS = tuple(AreaResult(f"b1/r{n}") for n in range(1_000))


def test_a_large_result_is_read_only_while_its_task_is_under_way(peers):
    other = Other(peers)
    peers.expects = lambda iad, task_id: (iad, task_id) == ("iad2", "t1")
    mine, late = (TaskResult(id_, "complete", 1.0, ROOMS) for id_ in ("t1", "t2"))
    assert other.replies(encode(mine), encode(late)) == [mine, TaskResult("t2", "refused", 0.0)]
    # Not a valid one: nobody looked.
    assert other.replies(encode(late)[:-1]) == [TaskResult("t2", "refused", 0.0)]
    assert peers.malformed == 0


def test_of_large_replies_that_nobody_asked_for_few_are_read(peers, clock):
    other = Other(peers)
    told = tuple(MemberAddress(f"{n:064}", f"tcp://{'h' * 200}:1", 1) for n in range(16))
    large, small = (Members("iad2", "tcp://h:1", known=known) for known in (told, ()))
    clock.step_s = 0.6 * LARGE_BURST_S
    assert other.replies(*[encode(large)] * 9, encode(small)) == [large, large, small]
    assert peers.malformed == 7
    clock.step_s, clock.now = 0.0, clock.now + LARGE_BURST_S / LARGE_SHARE
    assert other.replies(encode(large)) == [large]


def test_results_of_tasks_under_way_are_no_such_replies(peers, clock):
    other = Other(peers)
    peers.expects = lambda _iad, task_id: task_id == "t1"
    mine = TaskResult("t1", "complete", 1.0, ROOMS)
    clock.step_s = LARGE_BURST_S
    assert other.replies(*[encode(mine)] * 9) == [mine] * 9
    # But one that has another id behind this one is.
    body = encode(mine)[HEADER_BYTES:]
    fields = msgspec.msgpack.encode("id") + msgspec.msgpack.encode("t2")
    hidden = encode(mine)[:HEADER_BYTES] + bytes([body[0] + 1]) + body[1:] + fields
    assert [each.id for each in other.replies(*[hidden] * 9)] == ["t2", "t2"]
