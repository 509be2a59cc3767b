"""Time limit of an attempt over one connection, whatever the peer sends meanwhile."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress


class AttemptLimit:
    """Within its block, the connection made by `connect` is shut down after `limit_s`: a socket's
    own time-out restarts with each byte, and with each of a name's addresses. Name resolution
    cannot be cut."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._end_s = time.monotonic() + limit_s
        self._late = threading.Event()
        self._made: socket.socket | None = None
        self._timer = threading.Timer(limit_s, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> AttemptLimit:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._made is not None:
            self._made.close()

    @property
    def is_over(self) -> bool:
        """Whether the time is up: what went wrong since then did so for that reason."""
        return self._late.is_set()

    def ended(self, error: Exception) -> str:
        """In words, if the attempt failed with this error because its time was up; else empty."""
        # A library may have made an error of its own from the socket's.
        timed_out = isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError)
        late = self.is_over or timed_out
        return f"no answer within {self._limit_s:g} s" if late else ""

    def connect(
        self,
        address: tuple[str, int],
        timeout: float | None = None,
        source_address: tuple[str, int] | None = None,
    ) -> socket.socket:
        """As `socket.create_connection`; TimeoutError if the time is up then."""
        made = self._connected(address, source_address)
        made.settimeout(timeout)
        # TLS takes the file descriptor away from the socket that it wraps.
        self._made = made.dup()
        if self.is_over:
            made.close()
            raise TimeoutError
        return made

    def _connected(
        self, address: tuple[str, int], source_address: tuple[str, int] | None
    ) -> socket.socket:
        """At the first of the addresses that takes it."""
        failed: OSError = OSError(f"{address[0]} has no address")
        for family, kind, protocol, _, found in socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM
        ):
            if (left_s := self._end_s - time.monotonic()) <= 0.0:
                raise TimeoutError
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(left_s)
                if source_address is not None:
                    made.bind(source_address)
                made.connect(found)
            except OSError as error:
                made.close()
                failed = error
            else:
                return made
        raise failed

    def _cut(self) -> None:
        self._late.set()
        if (made := self._made) is not None:
            with suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
