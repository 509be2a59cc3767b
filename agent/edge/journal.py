"""Client of the systemd journal's native protocol: one datagram of fields per entry.

https://systemd.io/JOURNAL_NATIVE_PROTOCOL
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

SOCKET: Final = "/run/systemd/journal/socket"
STDERR: Final = 2


class Journal:
    """Writes one program's entries. OSError if there is no journal at `path`."""

    def __init__(self, program: str, path: str = SOCKET) -> None:
        import socket  # 0.3 MiB that only a node under systemd needs

        self._program = program
        # Logging must not block: if the journal is stalled, entries are dropped.
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_UNIX, kind)
        self._path = path
        if not os.access(path, os.W_OK):
            self._socket.close()
            raise FileNotFoundError(path)

    def send(self, message: str, fields: Mapping[str, str]) -> bool:
        """Send an entry; whether the journal accepted it. Empty fields are omitted.

        Newlines become spaces, as a newline would begin another field.
        """
        entry = {"MESSAGE": message, "SYSLOG_IDENTIFIER": self._program, **fields}
        lines = [f"{key}={value.replace(chr(10), ' ')}\n" for key, value in entry.items() if value]
        try:
            # Address by path each time: the journal may have been restarted.
            self._socket.sendto("".join(lines).encode("utf-8", "replace"), self._path)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()


def journal_of_stderr(
    program: str, stream: str | None, path: str = SOCKET, fileno: int = STDERR
) -> Journal | None:
    """The journal if that is where standard error goes; `stream` is systemd's JOURNAL_STREAM,
    device and inode of what it connected. None for a terminal, a file, a pipe."""
    try:
        status = os.fstat(fileno)
        if stream != f"{status.st_dev}:{status.st_ino}":
            return None
        return Journal(program, path)
    except OSError:
        return None
