"""A master, a registration service and a node after a short load, for all tests that read pages."""

import pytest
import zmq

from agent.client import Client
from agent.wire import codec
from agent.wire import directory as d
from agent.wire import messages as m
from agent.wire import node_messages as nm
from fleet.testbed.ports import free_address
from tests.conftest import TestContext
from tests.directory.rig import Asker
from tests.master.rig import PATIENCE_MS, FakeNode
from tests.metrics.rig import MeasuredDrs, MeasuredEdge, MeasuredMaster, scrape

EVENTS = nm.NodeEvents(
    "boot-n1",
    "history",
    (nm.NodeEvent(7, "fault_began", 0, synchronised=True),),
    backlog=3,
    dropped=1,
)


@pytest.fixture(scope="session")
def context():
    made = TestContext()
    yield made
    made.context.destroy(linger=0)


@pytest.fixture(scope="session")
def master_page(tmp_path_factory, context):
    """The page of a master that answered four queries completely and one partially, refused two and
    a frame, and took over an event that came twice."""
    nowhere = free_address()
    areas = {"iad1": ["b1/f4", "b1/f5"], "iad2": ["b2"]}
    master = MeasuredMaster(tmp_path_factory.mktemp("master"), "iad1", areas, iad2=nowhere)
    try:
        nodes = [
            FakeNode(context, master.nodes, "n1", ("b1/f4/r1",)),
            FakeNode(context, master.nodes, "n2", ("b1/f5/r1",)),
        ]
        with Client(master.public) as client:

            def ask(*areas, **fields):
                fields = {"slo": m.Slo(99.0, 10_000.0), "form": "aggregate"} | fields
                client.send(m.Query("q", areas, m.Window(last_s=60), **fields))

            for _ in range(4):
                ask("b1", label="1.1")
                for node in nodes:
                    node.serve()
                assert client.receive(PATIENCE_MS).status == "complete"
            ask("b1/f4", "b2", label="2")
            nodes[0].serve()
            assert client.receive(PATIENCE_MS).status == "partial"
            for _ in range(2):
                ask("b1", service="nothing")
                assert client.receive(PATIENCE_MS).status == "refused"
        for _ in range(2):
            nodes[0].send(EVENTS)
            assert isinstance(nodes[0].receive(), nm.EventsTaken)
        socket = context.socket(zmq.DEALER)
        socket.connect(master.public)
        socket.send(b"nonsense")
        assert socket.poll(PATIENCE_MS)
        nodes[1].send(nm.Goodbye(nodes[1].hello.incarnation))
        master.wait_until(lambda status: status.nodes[1].state == "left")
        yield scrape(master.metrics)
        assert master.stop() == (0, "")
    finally:
        master.stop()


@pytest.fixture(scope="session")
def drs_page(tmp_path_factory, context):
    """The page of a primary that has an IAD and a CSP, and denied a request."""
    drs = MeasuredDrs(tmp_path_factory.mktemp("drs"))
    try:
        asker = Asker(context, drs.public)
        offering = d.Offering("temperature", ("b1",))
        replies = [
            asker.ask(d.Register("r", "iad1", "tcp://127.0.0.1:5700", (offering,), 60.0)),
            asker.ask(d.OpenAccount("o", "csp1")),
            asker.ask(d.Discover("d", "temperature", ("b1",))),
            asker.ask(d.Renew("n", "iad9")),
        ]
        assert [type(reply) for reply in replies] == [d.Registered, d.Registered, d.Found, d.Denied]
        yield scrape(drs.metrics)
    finally:
        assert drs.stop() == (0, "")


@pytest.fixture(scope="session")
def edge_page():
    """The page of a node with two sensors, one of which is broken, that answered two subtasks."""
    with MeasuredEdge(free_address().removeprefix("tcp://")) as edge:
        for outcome in ("ok", "error"):
            edge.metrics.answered(codec.encode(nm.SubtaskResult(7, outcome, 0.04, 3.0)))
        return scrape(edge.address)


@pytest.fixture(scope="session")
def pages(master_page, drs_page, edge_page):
    """All families of all, by name."""
    return edge_page[1] | drs_page[1] | master_page[1]
