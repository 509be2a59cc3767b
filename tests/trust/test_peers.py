"""A link to another master whose keys change: the new connection takes over, nothing is lost."""

import sys
import time

import zmq

from agent.master.requests import peers as module
from agent.master.requests.peers import Peers
from agent.net.keys import new
from agent.net.secure_sockets import SecureSockets
from agent.runtime.reactor import Reactor
from agent.wire.codec import encode
from agent.wire.config import Trust
from agent.wire.messages import CancelTask, TaskResult
from agent.wire.principals import Sender
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_MS
from tests.net.conftest import destroyed


def test_replies_still_come_on_the_connection_before():
    now = 0.0
    board = Reactor(lambda: now)
    replies = []
    with destroyed(zmq.Context()) as context:
        secure_sockets = SecureSockets(context, Trust(), ".", clock=lambda: now, warn=print)
        links = Peers(board, secure_sockets, sys.stderr.write)
        links.takes(TaskResult, lambda iad, reply, _now: replies.append((iad, reply.id)))
        address = free_address()
        with context.socket(zmq.ROUTER) as master:
            master.linger = 0
            master.bind(address)

            def send(number):
                """Send over the link; the identity of the connection."""
                socket = links._links["iad2"].socket.socket
                assert socket.poll(PATIENCE_MS, zmq.POLLOUT)
                assert links.send("iad2", CancelTask(number))
                assert master.poll(PATIENCE_MS)
                return master.recv_multipart()[0]

            links.connect("iad2", address, ("old",))
            first, before = send("t1"), links._links["iad2"].socket.socket
            links.connect("iad2", address, ("old", "new"))
            following = links._links["iad2"].following.socket
            assert links.next_due == now
            # Until the other end has let the new connection in, the one before is used.
            assert send("t2") == first
            assert following.poll(PATIENCE_MS, zmq.POLLOUT)
            now += module.LOOK_S
            links.tick(now)
            assert send("t3") != first

            master.send_multipart([first, encode(TaskResult("t1", "complete", 1.0))])
            assert before.poll(PATIENCE_MS)
            board._turns[before]()
            assert replies == [("iad2", "t1")]
            assert links.next_due == now + module.DRAIN_S
            now += module.DRAIN_S
            links.tick(now)
            assert before.closed
            assert links.next_due is None
            assert send("t4")
            links.connect("iad2", address, ("old", "new"))  # nothing new
            assert links._links["iad2"].following is None
            links.connect("iad2", address, ("new",))
            links.drop("iad2")
            assert not board._turns


def test_the_markets_peers_may_connect_and_a_files_may_not():
    known = {}

    class Recorded(SecureSockets):
        def set_parties(self, source, parties, hearsay):
            known[source] = {p.sender.name: p.keys for p in parties}

    with destroyed(zmq.Context()) as context:
        secure_sockets = Recorded(context, Trust(), ".", clock=time.monotonic, warn=print)
        links = Peers(Reactor(time.monotonic), secure_sockets, sys.stderr.write)
        links.connect("iad2", free_address(), ("k" * 40,))
        links.connect("iad3", free_address(), "iad3.public")
        assert known == {"peers": {"iad2": ("k" * 40,)}}
        links.drop("iad2")
        assert known == {"peers": {}}
        links.drop("iad3")


def test_a_file_of_keys_that_cannot_be_read_keeps_no_other_link_from_a_new_key(tmp_path, capsys):
    own = tmp_path / "own.secret"
    own.touch(mode=0o600)
    own.write_text(new(str(tmp_path / "first")).secret)
    theirs = tmp_path / "iad2.public"
    theirs.write_text(new(str(tmp_path / "iad2x")).public)
    with destroyed(zmq.Context()) as context:
        secure_sockets = SecureSockets(
            context, Trust(key="own.secret"), tmp_path, clock=lambda: 0.0, warn=sys.stderr.write
        )
        links = Peers(Reactor(lambda: 0.0), secure_sockets, sys.stderr.write)
        links.connect("iad2", free_address(), "iad2.public")
        links.connect("iad3", free_address(), (new(str(tmp_path / "iad3")).public,))
        theirs.write_text("garbage")
        own.write_text(new(str(tmp_path / "second")).secret)
        secure_sockets.tick(1.0)
        assert f"iad2: {theirs}: line 1 is no key" in capsys.readouterr().err
        assert links._links["iad2"].following is None
        assert links._links["iad3"].following is not None
        # What looks like a key need not be one: its groups hold numbers over 32 bits.
        own.write_text("%" * 40)
        secure_sockets.tick(2.0)
        assert f"{own}: line 1 is no key" in capsys.readouterr().err


def test_a_link_ends_at_once_when_no_key_is_common():
    with destroyed(zmq.Context()) as context:
        secure_sockets = SecureSockets(context, Trust(), ".", clock=lambda: 0.0, warn=print)
        links = Peers(Reactor(lambda: 0.0), secure_sockets, sys.stderr.write)
        address = free_address()
        with context.socket(zmq.ROUTER) as master:
            master.linger = 0
            master.bind(address)
            links.connect("iad2", address, ("old",))
            before = links._links["iad2"].socket.socket
            assert before.poll(PATIENCE_MS, zmq.POLLOUT)
            # A link that works and that others use gets no other party either.
            links.connect("iad2", address, ("new",), by="member")
            assert before.closed
            assert links._links["iad2"].following is None
            assert links._links["iad2"].keys == ("new",)
            links.drop("iad2")
            links.drop("iad2", "member")


def test_keys_that_a_pool_names_are_admitted_while_its_owner_is(tmp_path):
    own, owner, ghost = (new(str(tmp_path / name)) for name in ("own", "owner", "ghost"))
    allow = tmp_path / "allow.toml"
    allow.write_text(f'[[csp]]\nname = "owner"\nkeys = ["{owner.public}"]\n')
    now, changes = 0.0, []
    with destroyed(zmq.Context()) as context:
        secure_sockets = SecureSockets(
            context,
            Trust(key="own.secret", allow="allow.toml"),
            tmp_path,
            clock=lambda: now,
            warn=print,
        )
        links = Peers(Reactor(lambda: now), secure_sockets, sys.stderr.write)
        links.connect("ghost", free_address(), (ghost.public,), owner="owner")
        assert secure_sockets.holder(ghost.public) == Sender("iad", "ghost")
        secure_sockets.party_listeners.append(lambda: changes.append(secure_sockets))
        allow.write_text(f'[[client]]\nname = "owner"\nkeys = ["{owner.public}"]\n')
        now = 1.0
        secure_sockets.tick(now)
        assert secure_sockets.holder(ghost.public) is None
        assert changes == [secure_sockets]
        links.connect("ghost", links._links["ghost"].address, (ghost.public,))
        assert secure_sockets.holder(ghost.public) is not None, "this master names it itself"
        links.drop("ghost")
        assert own.public in secure_sockets.public_keys
