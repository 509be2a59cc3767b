"""What peers can know of a ROUTER."""

import subprocess
import sys

import pytest
import zmq

from agent.net.dealer import unconnected
from agent.net.options import IO_THREADS, OF_OTHERS, OF_STRANGERS
from agent.net.router import router
from fleet.testbed.ports import free_address

FIRST_IDENTITY = """
import zmq
from agent.net.router import router
from fleet.testbed.ports import free_address

context, address = zmq.Context(), free_address()
made = router(context, address)
peer = context.socket(zmq.DEALER)
peer.connect(address)
peer.send(b"hello")
assert made.socket.poll(20_000)
print(made.receive()[0].hex())
context.destroy(linger=0)
"""


def test_nobody_knows_the_identities_that_connections_will_get():
    """A peer that takes one in advance aborts the process (libzmq 4.3)."""
    found = {
        subprocess.run(
            [sys.executable, "-c", FIRST_IDENTITY], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(3)
    }
    assert len(found) == 3


@pytest.mark.parametrize("strangers", [True, False])
def test_what_strangers_send_is_read_by_a_thread_of_its_own(strangers):
    with zmq.Context(IO_THREADS) as context:
        made = router(context, free_address(), requests_only=strangers)
        thread = made.socket.getsockopt(zmq.AFFINITY)
        made.socket.close(0)
        peer = unconnected(context, 1 << 10)
        assert peer.getsockopt(zmq.AFFINITY) == OF_OTHERS
        peer.close(0)
    assert thread == (OF_STRANGERS if strangers else OF_OTHERS)


def test_a_process_with_one_thread_for_its_sockets_uses_that():
    with zmq.Context() as context:
        made = router(context, free_address(), requests_only=True)
        assert made.socket.getsockopt(zmq.AFFINITY) == 0
        made.socket.close(0)


def test_an_address_that_is_taken_is_named_once():
    address = free_address()
    with zmq.Context() as context:
        first = router(context, address)
        with pytest.raises(OSError) as error:
            router(context, address)
        first.socket.close(0)
    assert str(error.value) == f"cannot listen on {address}: Address already in use"
