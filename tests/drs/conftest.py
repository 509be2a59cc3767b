"""Fixtures: a registration service and its mirrors, gone after the test."""

import pytest
import zmq

from tests.drs.rig import Asker, DrsProcess


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
def start_drs(tmp_path):
    running = []

    def start(name="drs", **options):
        running.append(DrsProcess(tmp_path / name, **options))
        return running[-1]

    yield start
    for drs in running:
        drs.stop()


@pytest.fixture
def drs(start_drs):
    return start_drs()


@pytest.fixture
def asker(context):
    def connect(drs, handshake=None):
        return Asker(context, drs.public, handshake)

    return connect
