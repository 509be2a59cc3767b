"""A whole market with keys: nobody's allow-list names another IAD, and nobody gets what is not
theirs."""

import contextlib

import pytest
import zmq
from msgspec.structs import replace

from agent.client import NoReplyError, connection
from agent.net.keys import Handshake, read_secrets
from agent.scheduling.admission import LEAST_BURST
from agent.wire import messages as m
from agent.wire.codec import Decoder, encode
from agent.wire.directory import DirectoryReply, Discover, Register, Registered
from agent.wire.market import Join, Leave, Propose, Release, Terms
from agent.wire.unions import PeerReply
from testkit.waiting import PATIENCE_MS, wait_until
from tests.trust.market import LATENCY_MS, Market, ask
from tests.trust.rig import IADS, ROOMS
from tests.trust.rotation import Rotation, Stream

TASK = m.Task(
    "t1", ("b1/f4",), m.Window(last_s=60), 99.0, 5_000.0, 10_000.0, form="aggregate",
    service="climate",
)  # fmt: skip


@pytest.fixture
def market(tmp_path):
    made = Market(tmp_path, keyed=True)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def commanded(market, iad, *arguments):
    """The services that the command's report names."""
    code, report = market.command(iad, *arguments)
    assert code == 0, report
    return {s["id"]: [member["iad"] for member in s["members"]] for s in report["services"]}


def create(name):
    return ("create", name, "--capability", "temperature", "--area", "b1",
            "--slo", f"p99={LATENCY_MS / 1e3:g}s", "--rate", "50")  # fmt: skip


@contextlib.contextmanager
def connected(market, address, own, server):
    """A bare socket with somebody's keys, let in."""
    pair = read_secrets(str(market.folder / f"{own}.secret"))[0]
    with zmq.Context() as context:
        # Who is not known yet is refused once, and asked for at the registration service.
        for attempt in range(1, 21):
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            socket.setsockopt(zmq.IMMEDIATE, 1)
            Handshake(pair, market.publics(server)[0]).apply(socket)
            socket.connect(address)
            if socket.poll(500 * attempt, zmq.POLLOUT):
                break
            socket.close()
        else:
            raise AssertionError(f"{server} does not let {own} in")
        try:
            yield socket
        finally:
            socket.close()


def exchange(socket, message, union=PeerReply):
    socket.send(encode(message))
    assert socket.poll(PATIENCE_MS)
    return Decoder(union).decode(socket.recv())[0]


def test_a_market_under_keys(market, monkeypatch):
    # The commands, with the operator's key.
    assert commanded(market, "iad1", *create("climate")) == {"climate": ["iad1", "iad2"]}
    assert commanded(market, "iad2", "list") == {"climate": ["iad1", "iad2"]}
    check_clients(market, monkeypatch)
    check_who_may_send_tasks(market)
    check_who_owns_a_service(market)
    # The pool changes, and the service ends.
    assert commanded(market, "iad1", "remove", "climate", "iad2") == {"climate": ["iad1"]}
    with market.client("iad1") as client:
        assert ask(client).coverage == m.Coverage(1, 1)
    assert commanded(market, "iad1", "add", "climate", "iad2") == {"climate": ["iad1", "iad2"]}
    check_answered(market)
    assert commanded(market, "iad1", "show", "climate") == {"climate": ["iad1", "iad2"]}
    commanded(market, "iad1", "drop", "climate")
    assert commanded(market, "iad1", "list") == {}
    for iad in IADS:
        assert "Traceback" not in market.said(iad)


def check_answered(market):
    for iad in IADS:
        with market.client(iad) as client:
            answer = ask(client)
            assert answer.status == "complete", answer
            assert [result.area for result in answer.results] == sorted(ROOMS.values())


def check_clients(market, monkeypatch):
    check_answered(market)
    with market.client("iad2", "guest") as guest:
        answer = ask(guest)
        assert (answer.status, answer.reason) == ("refused", "not_authorised")
        assert "guest may not query service climate" in answer.message
        assert ask(guest, "other").reason == "unknown_service"
    with market.client("iad1", "busy") as busy:
        answers = [ask(busy) for _ in range(int(LEAST_BURST) + 1)]
        assert [answer.status for answer in answers[:-1]] == ["complete"] * int(LEAST_BURST)
        assert (answers[-1].status, answers[-1].reason) == ("refused", "over_rate")
        assert "this client may ask 0.001 queries/s" in answers[-1].message
    check_answered(market)  # the others have a rate of their own
    with monkeypatch.context() as patched:
        patched.setattr(connection, "CONNECT_S", 0.0)
        patched.setattr(connection, "HANDSHAKE_MS", 500)
        for iad in IADS:
            with (
                market.client(iad, "stranger") as stranger,
                pytest.raises(NoReplyError, match="allow-list"),
            ):
                ask(stranger)


def check_who_may_send_tasks(market):
    public = market.sockets["iad1"]["public"]
    # iad3 has an account, and is in no pool.
    keys = tuple(market.publics("iad3"))
    register = Register("r", "iad3", "tcp://127.0.0.1:1", (), 60.0, keys)
    with connected(market, market.drs, "iad3", "drs") as socket:
        assert exchange(socket, register, DirectoryReply) == Registered("r", 60.0)
    with connected(market, public, "iad3", "iad1") as socket:
        for origin in ("", "iad2", "iad3"):
            result = exchange(socket, replace(TASK, origin=origin))
            assert (result.status, result.reason) == ("refused", "not_authorised")
            assert "iad3 is not in the pool of service climate" in result.message
    with connected(market, public, "iad2", "iad1") as socket:
        assert exchange(socket, replace(TASK, origin="iad2")).status == "complete"
        result = exchange(socket, replace(TASK, origin="iad1"))
        assert (result.status, result.reason) == ("refused", "not_authorised")
        # A pool of its own gives a member nothing of another service.
        assert exchange(socket, replace(TASK, service="other")).status == "refused"
    with connected(market, public, "app", "iad1") as socket:
        result = exchange(socket, TASK)
        assert (result.status, result.reason) == ("refused", "not_authorised")


def check_who_owns_a_service(market):
    before = {iad: market.services(iad)["climate"] for iad in IADS}
    assert before["iad1"] == before["iad2"]
    service = before["iad1"]
    later = service.version + 1
    terms = Terms(0.001, 99.0, LATENCY_MS)
    others = {
        "belongs to iad1": Join("j1", replace(service, owner="iad3", version=later)),
        "only iad1 may change climate": Join("j2", replace(service, version=later)),
        "only iad1": Leave("l1", "climate", later),
    }
    # Neither a stranger to the pool nor a member may, at the other member nor at the owner; nor a
    # client.
    for own, at in (("iad3", "iad2"), ("iad3", "iad1"), ("iad2", "iad1"), ("app", "iad2")):
        with connected(market, market.sockets[at]["public"], own, at) as socket:
            for text, message in others.items():
                joined = exchange(socket, message)
                assert not joined.ok
                assert text in joined.message
            offer = exchange(socket, Propose("p", "climate", "temperature", (IADS[at],), terms))
            assert offer.verdict == "refused"
            socket.send(encode(Release("p", "climate")))  # no reply
    # The owner's own key speaks for it: the test would see a change.
    with connected(market, market.sockets["iad2"]["public"], "iad1", "iad2") as socket:
        assert exchange(socket, Join("j3", service)).ok
    assert {iad: market.services(iad)["climate"] for iad in IADS} == before
    check_answered(market)


@pytest.mark.long
def test_a_member_restarts_while_the_registration_service_is_away(market):
    commanded(market, "iad1", *create("climate"))
    check_answered(market)
    market.stop("drs", "iad2")
    market.start_master("iad2")
    # Its owner's key is known to it from before.
    market.wait_until("iad2", lambda s: s.nodes and s.nodes[0].state == "live")
    with market.client("iad1") as client:
        wait_until(lambda: ask(client), lambda answer: answer.status == "complete")
    check_answered(market)


class Directory:
    """Somebody who asks the registration service all the while, on one connection."""

    def __init__(self, socket):
        self.socket = socket
        self.number = 0

    def found(self):
        """The IADs that are registered."""
        self.number += 1
        discover = Discover(f"d{self.number}", "temperature", ("b1",))
        found = exchange(self.socket, discover, DirectoryReply)
        assert (found.id, found.uncovered) == (discover.id, ()), found
        return [candidate.iad for candidate in found.candidates]


def ask_in_turn(client):
    """Ask again whenever the agreed rate is used up."""
    while (answer := ask(client)).reason == "over_rate":
        pass
    return answer


def shows(market, key):
    """Whether the registration service lets a new connection in that expects this key."""
    pair = read_secrets(str(market.folder / "iad1.secret"))[0]
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.setsockopt(zmq.IMMEDIATE, 1)
        Handshake(pair, key).apply(socket)
        socket.connect(market.drs)
        return bool(socket.poll(300, zmq.POLLOUT))


@pytest.mark.long
def test_the_registration_service_changes_its_key_and_nothing_is_lost(market):
    commanded(market, "iad1", *create("climate"))
    rotation = Rotation(market, ("drs",))
    streams = [Stream(market.client(iad), ask_in_turn) for iad in IADS]
    try:
        with connected(market, market.drs, "iad1", "drs") as socket:
            directory = Directory(socket)

            def go_on():
                assert directory.found() == sorted(IADS)
                for stream in streams:
                    stream.more()
                assert all(market.status(iad).registered for iad in IADS)

            go_on()
            rotation.announce()
            go_on()
            rotation.switch()
            for _ in range(100):
                if shows(market, rotation.new["drs"].public):
                    break
                go_on()
            assert not shows(market, rotation.old["drs"].public)
            go_on()
            rotation.forget()
            # The masters' connections, made with the key before, live on.
            commanded(market, "iad2", *create("second"))
            go_on()
        # A service that knows the new key alone: masters find it without being told.
        market.stop("drs")
        market.start_drs()
        for number, iad in enumerate(IADS):
            for _ in range(10):
                code, report = market.command(iad, *create(f"after{number}"))
                if code == 0:
                    break
                assert "registration service is silent" in report["message"]
            assert {m["iad"] for s in report["services"] for m in s["members"]} == set(IADS)
        with connected(market, market.drs, "iad2", "drs") as socket:
            assert Directory(socket).found() == sorted(IADS)
    finally:
        for stream in streams:
            stream.stop()
    assert {came for stream in streams for came in stream.came} == {"complete"}
    assert [market.services(iad).keys() for iad in IADS] == [
        {"climate", "second", "after0", "after1"}
    ] * 2
    assert all(market.processes[iad].poll() is None for iad in IADS)
