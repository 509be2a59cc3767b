"""A replica's link to its leader: one DEALER, which carries the requests of
`agent.directory.replica`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import zmq

from agent.directory.directory import Edit
from agent.directory.replica import Mirror
from agent.net.frames import one_frame
from agent.runtime.reactor import Reactor
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, WireError, encode
from agent.wire.directory import DirectoryReply


class PrimaryLink:
    """Carries out the instructions of a replica. `keep(edit, now)` writes and applies an edit;
    undecodable frames are counted as `malformed_frames`."""

    def __init__(
        self,
        reactor: Reactor,
        socket: zmq.Socket[bytes],
        mirror: Mirror,
        keep: Callable[[Edit, float], bool],
        counters: Counter[str],
    ) -> None:
        self._reactor = reactor
        self._socket = socket
        self._mirror = mirror
        self._keep = keep
        self._counters = counters
        self._decoder: Decoder[DirectoryReply] = Decoder(DirectoryReply, MAX_RESULT_BYTES)
        reactor.listen(socket, self._turn)
        reactor.add_timer(self)

    @property
    def next_due(self) -> float | None:
        """When to poll the leader."""
        return self._mirror.next_due

    def tick(self, now: float) -> None:
        """Request the changes since the last reply."""
        if (question := self._mirror.tick(now)) is None:
            return
        try:
            self._socket.send(encode(question), zmq.NOBLOCK)
        except zmq.Again:
            self._mirror.undelivered(now)

    def _turn(self) -> None:
        if (frame := one_frame(self._socket)) is None:
            return
        try:
            reply, _codec = self._decoder.decode(frame)
        except WireError:
            self._counters["malformed_frames"] += 1
            return
        now = self._reactor.clock()
        if (edit := self._mirror.received(reply, now)) is not None:
            self._keep(edit, now)
