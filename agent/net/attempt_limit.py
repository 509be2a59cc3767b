"""Time limit of an attempt over one connection, whatever the peer sends meanwhile."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Final

# OpenSSL's numbers for a chain that ends with a certificate which is not known here.
UNKNOWN_AUTHORITY: Final = frozenset((18, 19, 20, 21))
# OpenSSL's reasons; others are told as they are.
TLS: Final = {
    "WRONG_VERSION_NUMBER": "it speaks no TLS on that port",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate of its clients; none can be given",
}


def in_words(error: Exception) -> str:
    """Why there was no connection, for an operator; in the error's own words if they will do. The
    address is not named, as it may be a secret."""
    if isinstance(error, ssl.SSLCertVerificationError):
        known = error.verify_code not in UNKNOWN_AUTHORITY
        remedy = "" if known else "; ca names the file with that of its authority"
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}{remedy}"
    if isinstance(error, (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)):
        return "it ended the connection without an answer; is TLS expected on one side only?"
    # One that Python made has no reason.
    if isinstance(error, ssl.SSLError) and (reason := getattr(error, "reason", None)):
        return TLS.get(reason) or f"TLS fails: {reason.replace('_', ' ').lower()}"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens on that host and port"
    if isinstance(error, socket.gaierror):
        return f"its host name was not found: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


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
        late = self.is_over or isinstance(error, TimeoutError)
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
