"""Links to other masters that several parts use."""

from __future__ import annotations

import pytest
import zmq

from agent.master.requests.peers import CONFIGURED, MAX_WAITING, TRIAL, Peers
from agent.net.secure_sockets import SecureSockets
from agent.runtime.console import operator_log
from agent.runtime.reactor import Reactor
from agent.wire.config import Trust
from agent.wire.topics import Publish
from testkit.waiting import wait_until

MIB = 1 << 20

# Nobody listens there.
AT, ELSEWHERE = "ipc:///run/sanderling-nobody", "ipc:///run/sanderling-nowhere"


@pytest.fixture
def peers(tmp_path):
    with zmq.Context() as context:
        reactor, say = Reactor(lambda: 0.0), operator_log("iad1")
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
