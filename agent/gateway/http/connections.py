"""Connections: accepted here, counted before TLS begins, and bounded in number.

uvicorn bounds requests, not connections, and asyncio accepts whatever comes: silent connections
took all places and all open files. At the cap the host with the most connections loses its newest
idle one (docs/decisions/0075-connections-of-the-gateway.md).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from agent.gateway.http.counted_host import counted_host, unmapped
from agent.gateway.http.patience import is_idle
from agent.net.intake import crowding
from agent.runtime.console import Say
from agent.runtime.rate_limited_lines import RateLimitedLines
from agent.runtime.token_bucket import TokenBuckets

BACKLOG: Final = 256
# Accepted in one turn of the loop: requests get theirs during a flood of connections.
AT_ONCE: Final = 32
HANDSHAKE_S: Final = 5.0
# Of one host with TLS: a handshake takes the loop a millisecond, before any request is counted.
# The same of all hosts that are only told that they are not served, which are one.
HANDSHAKES_BURST: Final = 500
HANDSHAKES_PER_S: Final = 100.0
STRANGERS: Final = "hosts that are not in http.proxies"
MAX_STRANGERS: Final = 64  # connections of these
RETRY_S: Final = 0.1  # after an accept that failed: the kernel keeps the connection
# Read at once: queries fit one record, and so does the largest head that h11 waits for. asyncio
# gives each connection with TLS a buffer of this size; by default both are 256 KiB.
READ_BYTES: Final = 16 << 10
SSLProtocol.max_size = READ_BYTES
# Beyond it a stream waits for its reader; there may be a thousand that read nothing.
MAX_UNWRITTEN: Final = 16 << 10
# Of a head: each takes the loop some 2 µs; a browser sends some twenty.
MAX_LINES: Final = 128
# Of a body: each costs the loop as much as a request's line, however small it is.
MAX_CHUNKS: Final = 256


class _Requests(h11.Connection):
    """h11's reader, which takes no head of very many lines, nor a body in very many chunks: what no
    endpoint reads is parsed, too, a whole read in one turn."""

    _chunks = 0

    def next_event(self) -> Any:
        """As h11's. RemoteProtocolError."""
        if self.their_state is h11.IDLE and _is_long_head(bytes(self._receive_buffer)):
            raise h11.RemoteProtocolError(f"a head of more than {MAX_LINES} lines")
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = 0
        elif isinstance(event, h11.Data) and event.chunk_start:
            self._chunks += 1
            if self._chunks > MAX_CHUNKS:
                raise h11.RemoteProtocolError(f"a body of more than {MAX_CHUNKS} chunks")
        return event


def _is_long_head(received: bytes) -> bool:
    """Whether what begins with a head has too many lines before its end, or so far."""
    if received.count(b"\n") <= MAX_LINES:
        return False
    ends = [at for end in (b"\n\r\n", b"\n\n") if (at := received.find(end)) >= 0]
    return received.count(b"\n", 0, min(ends, default=len(received)) + 1) > MAX_LINES


class Protocol(H11Protocol):
    """uvicorn's, which tells its end, and reads no more in a turn than the head of a request may
    have: what comes at once is parsed at once, beyond h11's own limit."""

    on_lost: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.conn = _Requests(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the transport."""
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # asyncio's for sockets
        transport.set_write_buffer_limits(MAX_UNWRITTEN)

    def send_400_response(self, msg: str) -> None:
        """Called for what is no HTTP. Once an answer has begun there can be no other: uvicorn tries
        it all the same, and asyncio writes each failure to the log."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport."""
        super().connection_lost(exc)
        self.on_lost()


class _Accepted:
    """A connection. Without a protocol it has no transport yet; a protocol without a transport
    waits for the end of the TLS handshake."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.task: asyncio.Task[None] | None = None
        self.protocol: Protocol | None = None

    @property
    def transport(self) -> asyncio.Transport | None:
        """The protocol's transport, once it has one."""
        return None if self.protocol is None else self.protocol.transport

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being served, and no answer waits to be read."""
        return self.transport is None or is_idle(self.protocol)

    def close(self) -> None:
        """Close it at once, whatever it does."""
        if self.task is not None:
            self.task.cancel()
        if self.protocol is None:
            self.socket.close()
        elif self.transport is not None:
            self.transport.abort()


class Listener:
    """Accepts at most `most` connections of `listening`, for the running loop's thread. `say` gets
    at most one line a second. `serves(address)`: whether requests from there are served at all.
    Accepting one is O(1), at the cap, and of those that are not served, O(connections)."""

    def __init__(
        self,
        listening: socket.socket,
        most: int,
        make: Callable[[], Protocol],
        context: ssl.SSLContext | None,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
        serves: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._serves = serves
        self._listening = listening
        self._most = most
        self._make = make
        self._context = context
        self._lines = RateLimitedLines(say, clock)
        self._clock = clock
        self._handshakes = TokenBuckets(HANDSHAKES_BURST, HANDSHAKES_PER_S)
        self._hosts: dict[_Accepted, str] = {}  # in order of arrival
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._loop.add_reader(listening, self._readable)

    def __len__(self) -> int:
        return len(self._hosts)

    def close(self) -> None:
        """Accept no more, and close what is in a handshake; uvicorn closes the rest."""
        self._loop.remove_reader(self._listening)
        self._listening.close()
        if self._retry is not None:
            self._retry.cancel()
        for each in list(self._hosts):
            if each.transport is None:
                each.close()

    def _readable(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file, no memory
                self._lines.tell(f"cannot accept connections: {error.strerror}")
                self._loop.remove_reader(self._listening)
                self._retry = self._loop.call_later(
                    RETRY_S, self._loop.add_reader, self._listening, self._readable
                )
                return
            connection.setblocking(False)
            host = counted_host(str(address[0]))
            if not self._serves(unmapped(str(address[0]))):
                host = STRANGERS
            if why := self._why_not(host):
                self._lines.tell(f"{why}: closed some of {host}")
                connection.close()
            else:
                self._accepted(_Accepted(connection), host)

    def _why_not(self, host: str) -> str:
        """Why a new connection of a host is closed; empty if it is not."""
        is_strange = host == STRANGERS
        if is_strange and Counter(self._hosts.values())[host] >= MAX_STRANGERS:
            return f"more than {MAX_STRANGERS} connections"
        is_limited = is_strange or self._context is not None
        if is_limited and not self._handshakes.admits(host, self._clock()):
            return f"more than {HANDSHAKES_PER_S:g} connections a second"
        return ""

    def _accepted(self, accepted: _Accepted, host: str) -> None:
        self._hosts[accepted] = host
        crowded = crowding(self._hosts, self._most, lambda each: each.is_idle)
        if crowded is not None:
            fullest = self._hosts.pop(crowded)
            self._lines.tell(f"more than {self._most} connections: closed some of {fullest}")
            crowded.close()
        if crowded is not accepted:
            accepted.task = self._loop.create_task(self._serve(accepted))

    async def _serve(self, accepted: _Accepted) -> None:
        def made() -> Protocol:
            accepted.protocol = self._make()
            accepted.protocol.on_lost = partial(self._hosts.pop, accepted, None)
            return accepted.protocol

        try:
            await self._loop.connect_accepted_socket(
                made,
                accepted.socket,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_S if self._context else None,
            )
        except OSError:  # it is gone, or its TLS is none, or too slow
            self._hosts.pop(accepted, None)
