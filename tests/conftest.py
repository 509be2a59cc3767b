"""A ZeroMQ context that is gone after the test."""

import pytest
import zmq


class TestContext:
    """Makes sockets and keeps them, so that none is collected before it is closed."""

    __test__ = False

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
