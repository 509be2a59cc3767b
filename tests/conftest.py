"""A ZeroMQ context that is gone after the test; Ctrl-C for the processes that tests start."""

import signal

import pytest
import zmq

# In the background a shell may have it ignored, which every process of the tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
