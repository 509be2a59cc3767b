"""Services between real masters and a real registration service."""

import contextlib
import subprocess

import pytest
import zmq
from msgspec.structs import replace

from agent.client import Client, Operator
from agent.wire.codec import Decoder, encode
from agent.wire.market import Leave
from agent.wire.messages import Query, Slo, Window
from agent.wire.operator import AddIad, CreateService, DropService, RemoveIad
from agent.wire.unions import PublicReply
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed.processes import agent_command
from fleet.testbed.testbed import Testbed
from testkit.waiting import PATIENCE_MS, PATIENCE_S
from tests.fleet.conftest import PATIENT, ROWS

PLAN = part_of(building_fleet(emulate=False), 3, 2)
AREAS = {iad.name: set(iad.areas) for iad in PLAN.iads}


def assume_fast_nodes(config):
    """What a master takes for its nodes' response times before it has measured some decides what it
    sells: here more than a test can ask for."""
    text = config.read_text()
    assert "[scheduling]" not in text
    config.write_text(f"{text}\n[scheduling]\ncold_start_ms = 1.0\n")


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with Testbed(
        PLAN, tmp_path_factory.mktemp("market"), liveness=PATIENT, market=True, preload_rows=ROWS
    ) as bed:
        for iad in AREAS:
            assume_fast_nodes(bed.directory / iad / "config.toml")
        for _ in bed.start():
            pass
        yield bed


def ask(bed, wanted, iad="iad1"):
    with Operator(bed.operator(iad)) as operator:
        report = operator.ask_service(wanted, PATIENCE_MS)
    assert report.ok, "\n".join(map(str, report.steps))
    return report


def services(bed, iad):
    with Operator(bed.operator(iad)) as operator:
        return {service.id: service for service in operator.services(PATIENCE_MS)}


def create(name, **given):
    asked = {"slo": Slo(99.0, 10_000.0), "rate_per_s": 5.0, "timeout_ms": PATIENCE_MS}
    return CreateService("c", name, "temperature", ("b1",), **(asked | given))


@contextlib.contextmanager
def service(bed, name, **given):
    try:
        yield ask(bed, create(name, **given)).services[0]
    finally:
        ask(bed, DropService("d", name))


def a_query(name, number=0):
    return Query(
        id=f"q{number}",
        areas=("b1",),
        window=Window(last_s=60.0),
        slo=Slo(99.0, 10_000.0),
        form="aggregate",
        timeout_ms=PATIENCE_MS,
        service=name,
    )


def said_from(host, address, message):
    """The reply to a message over a connection from that host."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(address.replace("tcp://", f"tcp://{host}:0;"))
        socket.send(encode(message))
        assert socket.poll(PATIENCE_MS)
        return Decoder(PublicReply).decode(socket.recv())[0]


def query(client, name):
    client.send(a_query(name))
    return client.receive(PATIENCE_MS)


def answered(answer):
    assert answer.status == "complete", (answer.status, answer.message, answer.missing)
    return {result.area for result in answer.results}


def test_every_member_has_the_service_and_schedules_for_it(bed):
    with service(bed, "climate", only=("iad1", "iad2"), schedulers=("iad3",)) as pool:
        assert {m.iad: set(m.areas) for m in pool.members} == AREAS | {"iad3": set()}
        for iad in AREAS:
            assert services(bed, iad) == {"climate": pool}
            with Client(bed.public(iad)) as client:
                assert answered(query(client, "climate")) == AREAS["iad1"] | AREAS["iad2"]
    assert not services(bed, "iad1")


def test_a_stranger_does_not_end_a_service(bed):
    with service(bed, "guarded", only=("iad1", "iad2")) as pool:
        leave = Leave("l", "guarded", pool.version + 1)
        for name in ("guarded", "others"):
            reply = said_from("127.0.0.9", bed.public("iad2"), replace(leave, service=name))
            assert "knows no party of the market at your address" in reply.message
        assert services(bed, "iad2") == {"guarded": pool}
        with Client(bed.public("iad1")) as client:
            assert answered(query(client, "guarded")) == AREAS["iad1"] | AREAS["iad2"]


def test_a_service_of_a_buyer_that_does_not_sell(bed):
    with service(bed, "far", only=("iad2", "iad3")) as pool:
        assert {m.iad for m in pool.members if not m.areas} == {"iad1"}
        with Client(bed.public("iad1")) as client:
            assert answered(query(client, "far")) == AREAS["iad2"] | AREAS["iad3"]


CSP = """
[iad]
name = "acme"
[sockets]
public = "ipc://{folder}/public"
operator = "ipc://{folder}/operator"
[market]
role = "csp"
directories = ["{directory}"]
"""


@pytest.fixture
def csp(bed, tmp_path):
    """A CSP's own agent; its folder."""
    config = tmp_path / "master.toml"
    config.write_text(CSP.format(folder=tmp_path, directory=bed.directory_address))
    command = [*agent_command("sanderling-master"), "--config", config, "--exit-on-stdin-eof"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield tmp_path
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_a_csp_without_nodes_sets_up_a_service_and_queries_it(bed, csp):
    with Operator(f"ipc://{csp}/operator") as operator:
        report = operator.ask_service(create("bought"), PATIENCE_MS)
        assert report.ok, report
        [pool] = report.services
        assert pool.owner == "acme"
        assert {m.iad: set(m.areas) for m in pool.members} == AREAS | {"acme": set()}
        for address in (f"ipc://{csp}/public", bed.public("iad2")):
            with Client(address) as client:
                assert answered(query(client, "bought")) == {n.area for n in PLAN.nodes}
        dropped = operator.ask_service(DropService("d", "bought"), PATIENCE_MS)
        assert dropped.ok


class Load:
    """Queries to every member's query scheduler, so many of each under way at once."""

    UNDER_WAY = 8

    def __init__(self, clients, name):
        self.clients = clients
        self.name = name
        self.sent = self.complete = 0
        for client in clients:
            for _ in range(self.UNDER_WAY):
                self.send(client)

    def send(self, client):
        client.send(a_query(self.name, self.sent))
        self.sent += 1

    def turn(self, least):
        """An answer from each, and another query to each."""
        for client in self.clients:
            self.check(client.receive(PATIENCE_MS), least)
            self.send(client)

    def drain(self, least):
        for client in self.clients:
            for _ in range(self.UNDER_WAY):
                self.check(client.receive(PATIENCE_MS), least)

    def check(self, answer, least):
        # Nothing slows these clients down to the agreed rate.
        if answer.reason != "over_rate":
            assert answered(answer) >= least
            self.complete += 1


def test_adding_and_removing_under_load_loses_no_query(bed):
    both = AREAS["iad1"] | AREAS["iad2"]
    with (
        # A busy machine's nodes keep a small share of what idle ones keep.
        service(bed, "steady", only=("iad1", "iad2"), rate_per_s=30.0),
        Operator(bed.operator("iad1")) as operator,
        Client(bed.public("iad1")) as first,
        Client(bed.public("iad2")) as second,
    ):
        load = Load((first, second), "steady")
        for wanted in [AddIad("x", "steady", "iad3"), RemoveIad("x", "steady", "iad3")] * 3:
            operator.send_message(wanted)
            while not operator.socket.poll(0):
                load.turn(both)
            report = operator.receive_message(0)
            assert report.ok, "\n".join(map(str, report.steps))
            for _ in range(5):
                load.turn(both)
        while load.complete <= 50:
            load.turn(both)
        load.drain(both)
        while (answer := query(first, "steady")).reason == "over_rate":
            pass
        assert answered(answer) == both


def test_members_that_are_killed_find_their_services_on_disk(bed):
    with service(bed, "lasting", only=("iad1", "iad2")) as pool:
        for iad in ("iad2", "iad1"):
            bed.kill(iad)
            bed.spawn(iad)
            bed.wait_until(lambda s: len([n for i in s.values() for n in i.nodes]) == 6)
            assert services(bed, iad)["lasting"] == pool
        bed.wait_until(lambda s: len(s) == 3 and not any(i.unreachable_iads for i in s.values()))
        with Client(bed.public("iad2")) as client:
            assert answered(query(client, "lasting")) == AREAS["iad1"] | AREAS["iad2"]
        # The owner goes on as before.
        ask(bed, AddIad("a", "lasting", "iad3"))
        assert services(bed, "iad2")["lasting"].version > pool.version


def test_a_member_that_was_away_hears_of_the_change_when_it_is_back(bed):
    with service(bed, "patient", only=("iad1", "iad2", "iad3")):
        bed.kill("iad3")
        with Operator(bed.operator("iad1")) as operator:
            operator.send_message(RemoveIad("r", "patient", "iad2"))
            bed.spawn("iad3")
            report = operator.receive_message(PATIENCE_MS)
        assert report.ok
        bed.wait_until(lambda s: len(s) == 3)
        [pool] = report.services
        while services(bed, "iad3")["patient"] != pool:
            pass
