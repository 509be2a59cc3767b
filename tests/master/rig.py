"""A real master process, and fake edge nodes whose every message the test decides."""

from __future__ import annotations

from pathlib import Path

import zmq

from agent.client import NoReplyError, Operator
from agent.wire.base import Message
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Series
from agent.wire.node_messages import Hello, MasterMessage, Subtask, SubtaskResult, Welcome
from agent.wire.packed import Float32Column, Int64Column
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess, installed
from testkit.waiting import PATIENCE_MS
from tests.scheduling.oracle import aggregate

COMMAND = installed("sanderling-master")
# Heartbeats, of a second each: the nodes of tests send none, and are not lost meanwhile.
LOST_AFTER = 600


class MasterProcess(AgentProcess):
    """`sanderling-master` with its sockets on free loopback ports."""

    command = (COMMAND,)

    def __init__(self, folder: Path, iad: str, areas: dict[str, list[str]], **addresses: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.iad = iad
        self.public = addresses.get(iad) or free_address()
        self.nodes = free_address()
        self.operator = free_address()
        pool = "".join(
            f'[[pool]]\niad = "{name}"\naddress = "{addresses.get(name, self.public)}"\n'
            f"areas = {offered}\n"
            for name, offered in areas.items()
        )
        self.config = folder / "master.toml"
        self.config.write_text(
            f'[iad]\nname = "{iad}"\n[sockets]\npublic = "{self.public}"\n'
            f'nodes = "{self.nodes}"\noperator = "{self.operator}"\n{pool}'
            f"[liveness]\nlost_after = {LOST_AFTER}\n"
            "[records]\nflush_s = 0.01\n"
        )
        self.start()

    def start(self) -> None:
        super().start()
        self.status()

    def status(self):
        """The operator's view, as soon as the master gives it."""
        with Operator(self.operator) as operator:
            try:
                return operator.status(PATIENCE_MS)
            except NoReplyError:
                if self.process.poll() is not None:
                    raise AssertionError(self.process.stderr.read()) from None
                raise

    def wait_until(self, condition):
        """Ask for the status until `condition(status)` holds."""
        return self.wait_for(self.status, condition)


class FakeNode:
    """An edge node in the hands of a test."""

    def __init__(self, context: zmq.Context, address: str, name: str, areas: tuple[str, ...]):
        self.name = name
        self.hello = Hello(name, f"boot-{name}", "history", areas, ("temperature",), 1, "test")
        self.decoder = Decoder(MasterMessage)
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(address)
        self.send(self.hello)
        assert isinstance(self.receive(), Welcome)

    def send(self, message: Message) -> None:
        self.socket.send(encode(message))

    def receive(self):
        assert self.socket.poll(PATIENCE_MS), f"{self.name}: nothing from the master"
        return self.decoder.decode(self.socket.recv())[0]

    def serve(self, value: float = 20.0) -> Subtask:
        """Take one subtask and answer it."""
        subtask = self.receive()
        assert isinstance(subtask, Subtask)
        self.answer(subtask, value)
        return subtask

    def answer(self, subtask: Subtask, value: float = 20.0) -> None:
        """Send what the subtask asks for: one reading of `value`."""
        series = Series(Int64Column.of([1]), {"temperature": Float32Column.of([value])})
        asked = {"series": series} if subtask.form == "series" else {"aggregate": aggregate(value)}
        self.send(SubtaskResult(subtask.id, "ok", 0.1, 0.2, **asked))

    def answer_all(self) -> None:
        """Answer every subtask that waits; pass over anything else."""
        while self.socket.poll(0):
            if isinstance(message := self.receive(), Subtask):
                self.answer(message)
