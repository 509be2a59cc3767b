"""What the kernel counts of a TCP connection: bytes that this process has read and written."""

from __future__ import annotations

import array
import ctypes
import fcntl
import socket
import struct
import termios
from typing import Final

TCP_INFO_BYTES: Final = 256
# struct tcp_info in linux/tcp.h: eight bytes, 24 words, then double words.
BYTES_ACKED, BYTES_RECEIVED = 120, 128


class TcpCounters:
    """Reads counters of connections by descriptor; for one thread."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._info = ctypes.create_string_buffer(TCP_INFO_BYTES)
        self._queued = array.array("i", [0])

    def read(self, fd: int) -> int:
        """Bytes that this process has read from a connection; zero if it is gone or no TCP
        connection."""
        received, queued = self._counted(fd, BYTES_RECEIVED, termios.FIONREAD)
        return received - queued

    def written(self, fd: int) -> tuple[int, int]:
        """Bytes that this process has written to a connection, and those of them that the other
        end's kernel does not have; zeros as for `read`."""
        acknowledged, queued = self._counted(fd, BYTES_ACKED, termios.TIOCOUTQ)
        return acknowledged + queued, queued

    def _counted(self, fd: int, offset: int, request: int) -> tuple[int, int]:
        """A double word of TCP's information about a connection, and the bytes in one of its
        buffers."""
        size = ctypes.c_uint32(TCP_INFO_BYTES)
        failed = self._libc.getsockopt(
            fd, socket.IPPROTO_TCP, socket.TCP_INFO, self._info, ctypes.byref(size)
        )
        if failed or size.value < offset + 8:
            return 0, 0
        (count,) = struct.unpack_from("=Q", self._info, offset)
        try:
            fcntl.ioctl(fd, request, self._queued)
        except OSError:
            return 0, 0
        return int(count), self._queued[0]
