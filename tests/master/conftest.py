"""Fixtures: a context that is gone after the test, and a master with its areas."""

import pytest
import zmq

from tests.master.rig import FakeNode, MasterProcess


class TestContext:
    """Makes sockets and keeps them, so that none is collected before it is closed."""

    def __init__(self):
        self.context = zmq.Context()
        self.sockets = []

    def socket(self, kind):
        self.sockets.append(self.context.socket(kind))
        return self.sockets[-1]


@pytest.fixture
def context():
    made = TestContext()
    yield made
    made.context.destroy(linger=0)


@pytest.fixture
def start_master(tmp_path):
    masters = []

    def start(iad="iad1", areas=None, **addresses):
        master = MasterProcess(tmp_path / iad, iad, areas or {"iad1": ["b1/f4"]}, **addresses)
        masters.append(master)
        return master

    yield start
    for master in masters:
        master.stop()


@pytest.fixture
def master(start_master):
    return start_master()


@pytest.fixture
def join(context):
    def join(master, name="n1", areas=("b1/f4/r1",)):
        return FakeNode(context, master.nodes, name, areas)

    return join
