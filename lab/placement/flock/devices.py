"""All devices of a run in one thread: each has its own connection to its master, as an edge node
has, and numbers its readings. A hundred node processes would not leave two cores for masters."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

import zmq

from agent.wire.codec import Decoder, encode
from agent.wire.derived import Derived, DerivedTaken
from agent.wire.messages import Aggregate, ChannelAggregate
from agent.wire.node_messages import Hello, HelloWanted, MasterMessage, Subtask, SubtaskResult
from lab.placement.flock.counting import CHANNEL

LOOK_MS: Final = 200


class _Device:
    """One node: it answers each subtask with the number of its answer."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, name: str, area: str
    ) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(address)
        self._boot = os.urandom(8).hex()
        self._hello = Hello(
            name, self._boot, os.urandom(8).hex(), (area,), (CHANNEL,), 1, "lab", takes_derived=True
        )
        self._decode = Decoder[MasterMessage](MasterMessage).decode
        self._readings = 0
        self.socket.send(encode(self._hello))

    def serve(self) -> None:
        """Answer what has come."""
        while self.socket.poll(0):
            message, _ = self._decode(self.socket.recv())
            if isinstance(message, HelloWanted):
                self.socket.send(encode(self._hello))
            elif isinstance(message, Subtask):
                self.socket.send(encode(self._answer(message)))
            elif isinstance(message, Derived):
                taken = DerivedTaken(self._boot, message.source, message.values[-1].position)
                self.socket.send(encode(taken))

    def _answer(self, subtask: Subtask) -> SubtaskResult:
        self._readings += 1
        value = float(self._readings)
        now_ms = time.time_ns() // 1_000_000
        reading = ChannelAggregate(1, value, value, value, last=value, last_ms=now_ms)
        aggregate = Aggregate(now_ms, now_ms, {CHANNEL: reading})
        return SubtaskResult(subtask.id, "ok", 0.1, 0.1, aggregate=aggregate)


class Devices:
    """They answer until `close`."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, 4_096)
        self._wanted: list[tuple[str, str, str]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="devices")

    def add(self, address: str, name: str, area: str) -> None:
        """A device of the master at that address, before `start`."""
        self._wanted.append((address, name, area))

    def start(self) -> None:
        """Connect all of them."""
        self._thread.start()

    def close(self) -> None:
        """Disconnect all of them."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._context.destroy(linger=0)

    def _run(self) -> None:
        poller = zmq.Poller()
        devices = {}
        for each in self._wanted:
            device = _Device(self._context, *each)
            devices[device.socket] = device
            poller.register(device.socket, zmq.POLLIN)
        while not self._ended.is_set():
            for socket, _ in poller.poll(LOOK_MS):
                devices[socket].serve()
        for socket in devices:
            socket.close()
