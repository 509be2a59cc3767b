"""A keyed fleet of real processes: who gets an answer, and rotations that nobody notices."""

import json
import subprocess
from contextlib import contextmanager

import psutil
import pytest
import zmq
from msgspec.structs import replace

from agent.client import Client, NoReplyError, Operator, connection
from agent.net.keys import Handshake, new, read_secrets
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.codec import Decoder, encode
from agent.wire.unions import ClientReply, PeerReply
from agent.wire.watches import Round, Watch
from testkit.waiting import PATIENCE_MS
from tests.master.rig import COMMAND
from tests.trust.rig import IADS, NODES, ROOMS, ask
from tests.trust.rotation import Rotation, Stream


@pytest.fixture
def running(fleet):
    keyed = fleet(keyed=True)
    keyed.start()
    return keyed


@contextmanager
def impatience():
    """For those whom nobody lets in: they try once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "CONNECT_S", 0.0)
        patch.setattr(connection, "HANDSHAKE_MS", 500)
        yield


def dealer(context, fleet, address, own, server):
    """A bare socket with somebody's keys."""
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    Handshake(read_secrets(str(fleet.folder / f"{own}.secret"))[0], fleet.publics(server)[0]).apply(
        socket
    )
    socket.connect(address)
    return socket


def receive(socket, union):
    assert socket.poll(PATIENCE_MS)
    return Decoder(union).decode(socket.recv())[0]


QUERY = m.Query("q", ("b1/f4",), m.Window(last_s=60), m.Slo(99.0, 5_000.0), form="aggregate")
TASK = m.Task("t1", ("b1/f4",), m.Window(last_s=60), 99.0, 10_000.0, 40_000.0)


def test_who_gets_what_from_a_keyed_fleet(running, tmp_path):
    with running.client("iad1") as client:
        answer = ask(client)
        assert [r.area for r in answer.results] == sorted(ROOMS.values())
        assert answer.status == "complete"

    public, operator = running.sockets["iad1"]["public"], running.sockets["iad1"]["operator"]
    new(str(tmp_path / "stranger"))
    with impatience():
        for name in ("stranger", "operator", NODES["iad1"]):
            with running.client("iad1", name) as client, pytest.raises(NoReplyError, match="allow"):
                ask(client)
        with (
            Client(public, running.keys("app", "stranger")) as client,
            pytest.raises(NoReplyError, match="its keys"),
        ):
            ask(client)
        with Client(public) as plain:
            plain.send(m.Query("q", ("b1",), m.Window(last_s=60), m.Slo(99.0, 100.0)))
            with pytest.raises(NoReplyError):
                plain.receive(300)
        files = running.keys("app", "iad1")
        with Operator(operator, files) as intruder, pytest.raises(NoReplyError):
            intruder.status()

    with zmq.Context() as context:
        # An IAD that is in the pool may send tasks in its own name only; a client none at all.
        with dealer(context, running, public, "iad2", "iad1") as socket:
            socket.send(encode(replace(TASK, origin="iad7")))
            result = receive(socket, PeerReply)
            assert (result.status, result.reason) == ("refused", "not_authorised")
            socket.send(encode(replace(TASK, id="t2")))
            assert receive(socket, PeerReply).status != "refused"
        with dealer(context, running, public, "app", "iad1") as socket:
            socket.send(encode(TASK))
            result = receive(socket, PeerReply)
            assert (result.status, result.reason) == ("refused", "not_authorised")
        # A node's key speaks for that node only.
        nodes = running.sockets["iad1"]["nodes"]
        with dealer(context, running, nodes, NODES["iad1"], "iad1") as socket:
            socket.send(encode(nm.Hello("n2", "i", "h", ("b1/f4",), ("temperature",), 1, "t")))
            assert "not of node n2" in receive(socket, nm.MasterMessage).message
    assert ask_once(running).status == "complete"


def ask_once(fleet):
    with fleet.client("iad1") as client:
        return ask(client)


def test_an_iad_that_is_no_member_of_the_service_gets_no_task_served(running, tmp_path):
    new(str(tmp_path / "iad9"))
    allow = tmp_path / "iad1.allow"
    allow.write_text(
        allow.read_text() + f'[[iad]]\nname = "iad9"\nkeys = {running.publics("iad9")}\n'
    )
    with zmq.Context() as context:
        address = running.sockets["iad1"]["public"]
        with dealer(context, running, address, "iad9", "iad1") as socket:
            socket.send(encode(TASK))
            result = receive(socket, PeerReply)
    assert (result.status, result.reason) == ("refused", "not_authorised")
    assert "iad9 is not in the pool" in result.message


def test_a_revoked_client_and_node_are_refused_while_connected(running):
    with running.client("iad1") as client:
        assert ask(client).status == "complete"
        running.allow("iad1", "app")
        answer = running.wait_for(
            "iad1",
            lambda: client.query(["b1/f4"], last_s=60, form="aggregate", latency_ms=5_000),
            lambda answer: answer.status == "refused",
        )
        assert answer.reason == "not_authorised"
        assert "not allowed here any more" in answer.message
        running.allow("iad1", NODES["iad1"])
        running.wait_until("iad1", lambda s: s.nodes[0].state == "left")
        running.allow("iad1")
        running.wait_until("iad1", lambda s: s.nodes[0].state == "live")
        assert ask(client).status == "complete"
    assert "rejected this node" in running.said(NODES["iad1"])


@pytest.mark.parametrize("without", ["its key", "the service"])
def test_a_client_hears_no_more_of_what_it_asked_for_before_it_lost_the_right(running, without):
    def dropped():
        return running.status("iad1").counters["messages_dropped"]

    def revoke():
        if without == "its key":
            running.allow("iad1", "app")
        else:
            listed, mark = (running.folder / "iad1.allow").read_text(), 'name = "app"\n'
            running.replace("iad1.allow", listed.replace(mark, f'{mark}services = ["other"]\n'))

    with zmq.Context() as context:
        address = running.sockets["iad1"]["public"]
        with dealer(context, running, address, "app", "iad1") as socket:
            slo = m.Slo(99.0, 5_000.0)
            socket.send(encode(Watch("w", ("b1/f4",), slo, "periodic", 0.5, form="aggregate")))
            assert receive(socket, ClientReply).state == "open"
            assert isinstance(receive(socket, ClientReply), Round)
            before = dropped()
            revoke()

            def is_refused():
                socket.send(encode(QUERY))
                found = receive(socket, ClientReply) if socket.poll(0) else None
                return isinstance(found, m.Answer) and found.reason == "not_authorised"

            running.wait_for("iad1", is_refused, bool)
            running.wait_for("iad1", dropped, lambda now: now > before)
            while socket.poll(100):
                assert isinstance(receive(socket, ClientReply), m.Answer)


def test_a_node_speaks_for_no_areas_but_its_own_while_connected_too(running):
    listed = (running.folder / "iad1.allow").read_text()  # the node is the last in it
    running.replace("iad1.allow", f'{listed}areas = ["b9"]\n')
    running.wait_until("iad1", lambda s: s.nodes[0].state == "left")
    why_not = f"rejected this node: the allow-list does not give {IADS['iad1']}"
    running.wait_for("iad1", lambda: running.said(NODES["iad1"]), lambda said: why_not in said)
    running.replace("iad1.allow", f'{listed}areas = ["{IADS["iad1"]}"]\n')
    running.wait_until("iad1", lambda s: s.nodes[0].state == "live")
    with running.client("iad1") as client:
        assert ask(client).status == "complete"


def test_a_revoked_master_is_asked_no_more_and_its_node_leaves_it(running, tmp_path):
    with running.client("iad1") as client:
        assert ask(client).status == "complete"
        other = new(str(tmp_path / "nobodys"))
        running.replace("iad2.public", f"{other.public}\n")
        running.allow("iad1", "iad2")
        answer = running.wait_for(
            "iad1",
            lambda: ask(client),
            lambda answer: [gap.reason for gap in answer.missing] == ["iad_unreachable"],
        )
    assert [result.area for result in answer.results] == [ROOMS["iad1"]]
    assert running.status("iad1").unreachable_iads == ("iad2",)
    running.wait_for("iad2", lambda: links_to_nodes(running, "iad2"), lambda found: not found)


def links_to_nodes(fleet, iad):
    """The connections of a node to its master."""
    port = int(fleet.sockets[iad]["nodes"].rpartition(":")[2])
    connections = psutil.Process(fleet.processes[NODES[iad]].pid).net_connections()
    return [each for each in connections if each.raddr and each.raddr.port == port]


def links(fleet):
    """The connections of each master to the other: (its IAD, its port)."""
    found = set()
    for iad, other in (("iad1", "iad2"), ("iad2", "iad1")):
        port = int(fleet.sockets[other]["public"].rpartition(":")[2])
        connections = psutil.Process(fleet.processes[iad].pid).net_connections()
        found |= {
            (iad, c.laddr.port)
            for c in connections
            if c.status == "ESTABLISHED" and c.raddr.port == port
        }
    return found


@pytest.mark.long
def test_every_key_is_changed_under_load_and_no_query_is_lost(running):
    streams = [Stream(running.client(iad), ask) for iad in IADS]
    try:
        rotation = Rotation(running, ("app", "operator", *IADS, *NODES.values()))
        before = links(running)
        for step in (rotation.announce, rotation.switch):
            for stream in streams:
                stream.more()
            step()
            # Connections made now, while those before live on.
            streams += [Stream(running.client(iad), ask) for iad in IADS]
        # Masters let go of the connections with old keys when their replies have come.
        while before & links(running):
            streams[0].more(1)
        rotation.forget()
        streams += [Stream(running.client(iad), ask) for iad in IADS]
        for stream in streams:
            stream.more(50)
    finally:
        for stream in streams:
            stream.stop()
    assert {came for stream in streams for came in stream.came} == {"complete"}
    # All that begins anew has the new keys alone.
    for iad in IADS:
        running.stop(NODES[iad])
        running.start_node(iad)
    for iad in IADS:
        running.wait_until(iad, lambda s: s.nodes[0].state == "live" and not s.unreachable_iads)
    for iad in IADS:
        with running.client(iad) as client:
            assert ask(client).status == "complete"
    assert all(running.processes[iad].poll() is None for iad in IADS)


def check(path):
    run = subprocess.run(
        [COMMAND, "--config", path, "--check"], capture_output=True, text=True, check=False
    )
    return run.returncode, run.stderr


def test_check_finds_what_is_wrong_with_keys(fleet, tmp_path):
    keyed = fleet(keyed=True)
    keyed.start()
    path = tmp_path / "iad1.toml"
    good = path.read_text()
    assert check(path) == (0, "")

    def refused(text, line):
        path.write_text(text)
        code, said = check(path)
        assert (code, said.count("\n")) == (2, 1)
        assert line in said
        path.write_text(good)

    refused(
        good.replace('allow = "iad1.allow"\n', "").replace("127.0.0.1", "192.0.2.1"),
        "leaves this host without an allow-list; set trust.allow",
    )
    refused(good.replace('keys = "iad2.public"', ""), "pool.keys of iad2 is missing")
    refused(good.replace('key = "iad1.secret"\n', ""), "set trust.key")
    refused(good.replace('allow = "iad1', 'allow = "iad7'), "iad7.allow: No such file")
    refused(good.replace('key = "iad1', 'key = "iad7'), "iad7.secret: No such file")
    (tmp_path / "iad1.secret").chmod(0o640)
    refused(good, "chmod 600")


def test_the_commands_take_keys(running, tmp_path):
    def run(*arguments):
        command = COMMAND.with_name("fleet")
        done = subprocess.run(
            [command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    at = running.sockets["iad1"]
    query = ("query", "--master", at["public"], "--area", "b1", "--aggregate")
    code, said = run(*query, "--key", "app.secret", "--server-keys", "iad1.public")
    assert (code, "complete: 2 of 2 areas" in said) == (0, True)
    status = ("status", "--operator", at["operator"])
    code, said = run(*status, "--key", "operator.secret", "--server-keys", "iad1.public")
    assert (code, NODES["iad1"] in said) == (0, True)
    services = ("service", "list", "--operator", at["operator"])
    code, said = run(*services, "--key", "operator.secret", "--server-keys", "iad1.public")
    assert (code, said) == (0, "no services\n")
    code, said = run(*status, "--key", "operator.secret")
    assert (code, "--key and --server-keys come together" in said) == (2, True)
    code, said = run(*status, "--key", "none", "--server-keys", "iad1.public")
    assert (code, said) == (2, "fleet: none: No such file or directory\n")


def test_the_records_name_the_client(running, tmp_path):
    assert ask_once(running).status == "complete"
    running.stop()
    lines = (tmp_path / "iad1/current.jsonl").read_text().splitlines()
    queries = [r for r in map(json.loads, lines) if r["record"] == "query"]
    assert queries[-1]["client"] == "app"
