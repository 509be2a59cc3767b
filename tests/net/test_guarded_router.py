"""A guarded ROUTER over real connections: who gets in, as whom, and what changes while it runs."""

import socket
import stat
import time
from contextlib import suppress

import psutil
import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from agent.net.allow_list import Party
from agent.net.dealer import EARLY_REDIAL_S, EARLY_REDIALS
from agent.net.keys import new
from agent.net.router import router
from agent.net.secure_sockets import SecureSockets
from agent.runtime.token_bucket import TokenBuckets
from agent.wire.config import ConfigError, Trust
from agent.wire.principals import Sender
from fleet.testbed.ports import free_address
from testkit.waiting import wait_until
from tests.net.conftest import PATIENCE_MS, ask, destroyed


def entry(role, name, *keys):
    return f'[[{role}]]\nname = "{name}"\nkeys = {[k.public for k in keys]}\n'


@pytest.fixture
def key(tmp_path):
    return lambda name: new(str(tmp_path / name))


def refusal(sock):
    """The event with which the socket learns that it is not let in."""
    monitor = sock.get_monitor_socket()
    assert monitor.poll(PATIENCE_MS), "neither let in nor refused"
    event = recv_monitor_message(monitor)
    return event["event"], event["value"]


REFUSED = (zmq.EVENT_HANDSHAKE_FAILED_AUTH, 400)


def test_a_key_tells_who_sends_over_req_too(serve, clients, key):
    app, other = key("app"), key("other")
    served = serve(allow=entry("client", "app", app) + entry("iad", "iad2", other))
    first = clients(served.address, app, served.key.public)
    assert ask(first) == b"client app: hello"
    second = clients(served.address, other, served.key.public, zmq.REQ)
    assert ask(second) == b"iad iad2: hello"
    assert ask(first, b"again") == b"client app: again"


def test_a_client_that_connects_too_often_gets_in_a_little_later(serve, clients, key):
    app = key("app")
    served = serve(allow=entry("client", "app", app))
    served.secure_sockets.zap.limit = TokenBuckets(burst=1, rate_per_s=5.0)
    for _ in range(4):
        assert ask(clients(served.address, app, served.key.public)) == b"client app: hello"
    assert served.secure_sockets.zap.refused == 0


def test_keys_that_are_unknown_or_of_another_role_get_nothing(serve, clients, key):
    app, stranger, node = key("app"), key("stranger"), key("node")
    served = serve(allow=entry("client", "app", app) + entry("node", "n1", node))
    for own in (stranger, node):
        sock = clients(served.address, own, served.key.public)
        sock.send(b"hello")
        assert refusal(sock) == REFUSED
    assert ask(clients(served.address, app, served.key.public)) == b"client app: hello"
    assert served.secure_sockets.zap.refused == 2


@pytest.mark.parametrize(
    ("domain", "role"), [("operator", "client"), ("nodes", "operator"), ("drs", "client")]
)
def test_each_socket_has_its_roles(serve, clients, key, domain, role):
    own = key("own")
    served = serve(domain, allow=entry(role, "somebody", own))
    sock = clients(served.address, own, served.key.public)
    sock.send(b"hello")
    assert refusal(sock) == REFUSED


def test_a_wrong_server_key_a_plain_client_and_noise_get_nothing(serve, clients, key):
    app, wrong = key("app"), key("wrong")
    served = serve(allow=entry("client", "app", app))
    deceived = clients(served.address, app, wrong.public)
    plain = clients(served.address)
    for sock in (deceived, plain):
        sock.send(b"hello")
    noise = socket.create_connection(("127.0.0.1", int(served.address.rpartition(":")[2])))
    noise.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
    friend = clients(served.address, app, served.key.public)
    for number in range(20):
        assert ask(friend, b"%d" % number) == b"client app: %d" % number
    assert not deceived.poll(0)
    assert not plain.poll(0)
    noise.close()


def test_clients_that_are_refused_for_ever_cost_no_memory(serve, clients, key):
    app, stranger = key("app"), key("stranger")
    served = serve(allow=entry("client", "app", app))
    friend = clients(served.address, app, served.key.public)

    def pester(times):
        for _ in range(times):
            sock = clients(served.address, stranger, served.key.public)
            with suppress(zmq.Again):  # it may be refused before it sends
                sock.send(b"x" * 1_000, zmq.NOBLOCK)
            assert refusal(sock) == REFUSED
            sock.close(0)

    pester(50)
    assert ask(friend) == b"client app: hello"
    before = psutil.Process().memory_info().rss
    pester(200)
    assert ask(friend) == b"client app: hello"
    # 200 connections with 1 kB each that was kept would be no less than this.
    assert psutil.Process().memory_info().rss - before < 4 << 20


def test_hundreds_of_half_open_handshakes_stop_nobody(serve, clients, key):
    app = key("app")
    served = serve(allow=entry("client", "app", app))
    port = int(served.address.rpartition(":")[2])
    greeting = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + b"\0" * 32
    half_open = []
    for number in range(300):
        half_open.append(socket.create_connection(("127.0.0.1", port)))
        half_open[-1].sendall(greeting[: 1 + number % len(greeting)])
    assert ask(clients(served.address, app, served.key.public)) == b"client app: hello"
    for sock in half_open:
        sock.close()
    assert ask(clients(served.address, app, served.key.public)) == b"client app: hello"


def test_the_allow_list_may_change_while_connections_live(serve, clients, key):
    app, other = key("app"), key("other")
    served = serve(allow=entry("client", "app", app))
    friend = clients(served.address, app, served.key.public)
    assert ask(friend) == b"client app: hello"
    allow = served.folder / "allow.toml"
    allow.write_text("[[client")
    while not served.warnings:
        assert ask(friend) == b"client app: hello"
    allow.write_text(entry("client", "other", other))
    # Within a second; before that its messages count.
    while (reply := ask(friend)) != b"revoked":
        assert reply == b"client app: hello"
    again = clients(served.address, app, served.key.public)
    again.send(b"hello")
    assert refusal(again) == REFUSED
    assert ask(clients(served.address, other, served.key.public)) == b"client other: hello"
    allow.write_text(entry("client", "app", app))
    while (reply := ask(friend)) == b"revoked":
        pass
    assert reply == b"client app: hello"
    assert len(served.warnings) == 1
    assert "stays in force" in served.warnings[0]


def test_parties_of_the_market_get_in_once_they_are_known(serve, clients, key):
    shop = key("shop")
    served = serve()
    asked = []

    def learn(unknown):
        asked.append(unknown)
        served.secure_sockets.set_parties("accounts", [Party(Sender("csp", "shop"), (unknown,))])

    served.secure_sockets.on_unknown = learn
    sock = clients(served.address, shop, served.key.public)
    sock.send(b"hello")
    assert refusal(sock) == REFUSED
    assert ask(clients(served.address, shop, served.key.public)) == b"csp shop: hello"
    assert asked == [shop.public]


def test_a_server_changes_its_key_and_nobody_is_cut_off(serve, clients, key):
    app, second, third = key("app"), key("second"), key("third")
    served = serve(allow=entry("client", "app", app))
    secret = served.folder / "server.secret"
    current, known = served.key, []
    for following in (second, third):
        known.append((current, clients(served.address, app, current.public)))
        ask(known[-1][1])
        secret.write_text(f"{following.secret}\n{current.secret}\n")
        fresh = clients(served.address, app, following.public)
        assert ask(fresh) == b"client app: hello"  # it tries again until the key is there
        stale = clients(served.address, app, current.public)
        stale.send(b"hello")
        for _, sock in known:
            assert ask(sock, b"still") == b"client app: still"
        for _ in range(20):
            assert ask(clients(served.address, app, following.public)) == b"client app: hello"
        assert not stale.poll(0)
        current = following


def test_a_rotation_leaves_no_door_open_to_another_process(serve, clients, key):
    app, second = key("app"), key("second")
    served = serve(allow=entry("client", "app", app))
    (served.folder / "server.secret").write_text(second.secret)
    ask(clients(served.address, app, second.public))
    with destroyed(zmq.Context()) as context:
        for _ in range(2):
            other = SecureSockets(context, Trust(), ".", clock=time.monotonic, warn=print)
            with pytest.raises(OSError, match="Address already in use"):
                other.router("public", served.address)


def test_a_broken_key_file_changes_nothing(serve, clients, key):
    app = key("app")
    served = serve(allow=entry("client", "app", app))
    (served.folder / "server.secret").chmod(0o644)
    friend = clients(served.address, app, served.key.public)
    while not served.warnings:
        ask(friend)
    assert "chmod 600" in served.warnings[0]
    assert ask(clients(served.address, app, served.key.public)) == b"client app: hello"


def test_a_socket_file_of_a_keyed_process_is_for_its_user(tmp_path, key):
    key("server")
    with destroyed(zmq.Context()) as context:
        secure_sockets = SecureSockets(
            context, Trust(key="server.secret"), tmp_path, clock=time.monotonic, warn=print
        )
        made = secure_sockets.router("operator", f"ipc://{tmp_path}/operator")
        assert stat.S_IMODE((tmp_path / "operator").stat().st_mode) == 0o600
        with context.socket(zmq.DEALER) as sock:
            sock.linger = 0
            sock.connect(f"ipc://{tmp_path}/operator")
            sock.send(b"hello")
            assert made.socket.poll(PATIENCE_MS)
            identity, payload = made.receive()
            sender = made.sender(identity)
            assert (payload, sender.role, sender.host) == (b"hello", "anyone", "")
        made.socket.close(0)
        secure_sockets.zap.socket.close(0)


@pytest.mark.parametrize(("source", "host"), [("127.0.0.9:0;", "127.0.0.9"), ("", "127.0.0.1")])
def test_without_a_key_a_sender_is_known_by_its_host(source, host):
    with destroyed(zmq.Context()) as context:
        address = free_address()
        made = router(context, address)
        with context.socket(zmq.DEALER) as sock:
            sock.linger = 0
            sock.connect(address.replace("tcp://", f"tcp://{source}"))
            sock.send(b"hello")
            assert made.socket.poll(PATIENCE_MS)
            identity, _ = made.receive()
            assert made.sender(identity).host == host
        made.socket.close(0)


def test_a_guard_connects_nowhere_without_keys_but_on_this_host(tmp_path, key):
    key("server")
    (tmp_path / "empty").write_text("")
    with destroyed(zmq.Context()) as context:
        plain = SecureSockets(context, Trust(), tmp_path, clock=time.monotonic, warn=print)
        with pytest.raises(OSError, match="leaves this host without keys"):
            plain.dealer("tcp://192.0.2.1:5700", 1_000)
        plain.dealer(free_address(), 1_000).close(0)
        keyed = SecureSockets(
            context, Trust(key="server.secret"), tmp_path, clock=time.monotonic, warn=print
        )
        with pytest.raises(OSError, match="none of its public keys is known"):
            keyed.dealer(free_address(), 1_000)
        with pytest.raises(ConfigError, match="no key in it"):
            keyed.dealer(free_address(), 1_000, "empty")
        keyed.zap.socket.close(0)


def test_a_node_may_join_if_it_stands_in_the_list_or_needs_no_key(tmp_path, key):
    key("server")
    (tmp_path / "allow.toml").write_text(entry("node", "n1", key("n1")))
    with destroyed(zmq.Context()) as context:
        plain = SecureSockets(context, Trust(), tmp_path, clock=time.monotonic, warn=print)
        assert plain.may_join("n2", "tcp://127.0.0.1:5701")
        trust = Trust(key="server.secret", allow="allow.toml")
        keyed = SecureSockets(context, trust, tmp_path, clock=time.monotonic, warn=print)
        assert keyed.may_join("n1", "tcp://127.0.0.1:5701")
        assert not keyed.may_join("n2", "tcp://127.0.0.1:5701")
        assert keyed.may_join("n2", "ipc:///run/nodes")
        keyed.zap.socket.close(0)


def test_a_dealer_finds_the_key_that_its_server_has_now(serve, clients, key, tmp_path):
    """Links to other agents hold both public keys, and their own two."""
    retired, fresh, known = key("retired"), key("fresh"), key("known")
    served = serve(allow=entry("iad", "iad2", known))
    (tmp_path / "me.secret").write_text(f"{fresh.secret}\n{known.secret}\n")
    (tmp_path / "me.secret").chmod(0o600)
    now = 0.0
    with destroyed(zmq.Context()) as context:
        secure_sockets = SecureSockets(
            context, Trust(key="me.secret"), tmp_path, clock=lambda: now, warn=print
        )
        sock = secure_sockets.dealer(served.address, 1_000, (served.key.public, retired.public))
        for attempt in range(40):  # more patient with each four pairs of keys
            if sock.poll(300 * (1 + attempt // 8), zmq.POLLOUT):
                break
            now += 1.0
            secure_sockets.tick(now)
        assert sock.poll(0, zmq.POLLOUT)
        assert ask(sock) == b"iad iad2: hello"
        sock.close(0)
        secure_sockets.tick(now + 1.0)  # a closed socket is forgotten
        secure_sockets.zap.socket.close(0)


def test_a_dealer_that_was_refused_tries_twice_early(serve, key, tmp_path):
    """The other end hears of a party of the market when it calls, and asks who that is."""
    me = key("me")
    served = serve()
    now = 0.0
    with destroyed(zmq.Context()) as context:
        secure_sockets = SecureSockets(
            context, Trust(key="me.secret"), tmp_path, clock=lambda: now, warn=print
        )
        sock = secure_sockets.dealer(served.address, 1_000, (served.key.public,))
        for attempt in range(1, EARLY_REDIALS + 1):
            wait_until(lambda times=attempt: served.secure_sockets.zap.refused >= times)
            assert not sock.poll(0, zmq.POLLOUT)
            assert secure_sockets.next_due <= now + EARLY_REDIAL_S
            if attempt == EARLY_REDIALS:
                served.secure_sockets.set_parties(
                    "accounts", [Party(Sender("iad", "iad2"), (me.public,))]
                )
            now += EARLY_REDIAL_S
            secure_sockets.tick(now)
        assert ask(sock) == b"iad iad2: hello"
        sock.close(0)
        secure_sockets.zap.socket.close(0)
