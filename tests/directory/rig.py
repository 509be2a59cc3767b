"""A real registration service, and somebody who asks it."""

from __future__ import annotations

from pathlib import Path

import zmq

from agent.wire import directory as d
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, encode
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess, installed
from testkit.waiting import PATIENCE_MS, wait_until

COMMAND = installed("sanderling-drs")


class DrsProcess(AgentProcess):
    """`sanderling-drs` on a free loopback port; a mirror if `primary` is given."""

    command = (COMMAND,)

    def __init__(
        self,
        folder: Path,
        primary: str = "",
        primary_keys: str = "",
        longest_lease_s: float = 3_600.0,
        trust: str = "",
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.public = free_address()
        self.config = folder / "drs.toml"
        mirror = (
            f'[mirror]\nprimary = "{primary}"\nprimary_keys = "{primary_keys}"\nevery_s = 0.05\n'
            if primary
            else ""
        )
        self.config.write_text(
            f'[sockets]\npublic = "{self.public}"\n'
            f"[directory]\nlongest_lease_s = {longest_lease_s}\n{mirror}{trust}"
        )
        self.start()


class Asker:
    """A DEALER that asks one thing at a time."""

    def __init__(self, context, address, handshake=None):
        self.decoder = Decoder(d.DirectoryReply, MAX_RESULT_BYTES)
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        if handshake is not None:
            handshake.apply(self.socket)
        self.socket.connect(address)

    def ask(self, request):
        self.socket.send(encode(request))
        return self.receive()

    def receive(self):
        assert self.socket.poll(PATIENCE_MS), "no reply"
        return self.decoder.decode(self.socket.recv())[0]

    def ask_until(self, request, condition):
        """Ask again until `condition(reply)` holds."""

        def look():
            assert not self.socket.poll(0), "something came unasked"
            return self.ask(request)

        return wait_until(look, condition)
