"""A replica's link to its leader: one DEALER, which carries the requests of
`agent.directory.replica`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import zmq

from agent.directory.directory import Edit
from agent.directory.replica import ReadReplica
from agent.net.message_socket import MessageSocket
from agent.runtime.reactor import Reactor
from agent.wire.codec import MAX_RESULT_BYTES, Decoder
from agent.wire.directory import DirectoryReply


class LeaderLink:
    """Carries out the instructions of a replica. `keep(edit, now)` writes and applies an edit;
    undecodable frames are counted as `malformed_frames`."""

    def __init__(
        self,
        reactor: Reactor,
        connect: Callable[[], zmq.Socket[bytes]],
        replica: ReadReplica,
        keep: Callable[[Edit, float], bool],
        counters: Counter[str],
    ) -> None:
        self._reactor = reactor
        self._replica = replica
        self._keep = keep
        self._counters = counters
        decoder: Decoder[DirectoryReply] = Decoder(DirectoryReply, MAX_RESULT_BYTES)
        self._socket = MessageSocket(reactor, connect, decoder, self._take, self._malformed)
        reactor.add_timer(self)

    @property
    def next_due(self) -> float | None:
        """When to poll the leader."""
        return self._replica.next_due

    def tick(self, now: float) -> None:
        """Request the changes since the last reply."""
        question = self._replica.tick(now)
        if question is not None and not self._socket.send(question):
            self._replica.undelivered(now)

    def _malformed(self) -> None:
        self._counters["malformed_frames"] += 1

    def _take(self, reply: DirectoryReply) -> None:
        now = self._reactor.clock()
        if (edit := self._replica.received(reply, now)) is not None:
            self._keep(edit, now)
