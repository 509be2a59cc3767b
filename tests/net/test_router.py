"""What peers can know of a ROUTER."""

import subprocess
import sys

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
