"""A serial port of Linux: 8 data bits, no parity, one stop bit, any rate.

With pyserial the same would take a node 0.4 MiB, as it knows all systems and all that a port can
do. Numbers are those of asm-generic/termbits.h and ioctls.h, which x86, ARM and RISC-V share.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
from struct import Struct
from typing import Final

TCGETS2: Final = 0x802C542A
TCSETS2: Final = 0x402C542B
TCFLSH: Final = 0x540B
TCIFLUSH: Final = 0
# struct termios2: flags of input, output, control and local modes, line discipline, control
# characters, rates of input and output.
TERMIOS2: Final = Struct("=4IB19s2I")
CS8: Final = 0o60
CREAD: Final = 0o200
HUPCL: Final = 0o2000
CLOCAL: Final = 0o4000  # a modem's lines do not matter
BOTHER: Final = 0o10000  # the rate is the number in c_ospeed
VMIN: Final = 6  # which control character
HIGHEST_BAUD: Final = 4_000_000
AT_ONCE: Final = 4096  # bytes


class Port:
    """The port at `path`, open, and locked against other programs that ask; OSError. One thread
    reads and closes; any may cancel."""

    def __init__(self, path: str, baud: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            # An advisory lock, which the kernel frees with the process: TIOCEXCL would outlive a
            # killed agent on ports that stay open at their other end.
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._set(baud)
            self._cancelled = os.eventfd(0, os.EFD_CLOEXEC)
        except BaseException:
            os.close(self._fd)
            raise
        self._poller = select.poll()
        self._poller.register(self._fd, select.POLLIN)
        self._poller.register(self._cancelled, select.POLLIN)

    def _set(self, baud: int) -> None:
        """Bytes come as they are, at that rate; what came at another one is forgotten."""
        before = TERMIOS2.unpack(fcntl.ioctl(self._fd, TCGETS2, bytes(TERMIOS2.size)))
        # Whether the lines fall when the port is closed is left as it is.
        modes = CS8 | CREAD | CLOCAL | BOTHER | (before[2] & HUPCL)
        characters = bytearray(19)
        characters[VMIN] = 1
        after = TERMIOS2.pack(0, 0, modes, 0, 0, bytes(characters), baud, baud)
        fcntl.ioctl(self._fd, TCSETS2, after)
        fcntl.ioctl(self._fd, TCFLSH, TCIFLUSH)

    def read(self) -> bytes:
        """Wait for bytes; none: it was cancelled. OSError when the port is gone."""
        while True:
            ready = dict(self._poller.poll())
            if self._cancelled in ready:
                return b""
            try:
                data = os.read(self._fd, AT_ONCE)
            except BlockingIOError:
                continue
            if not data:
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
            return data

    def cancel(self) -> None:
        """End a read that waits, and all to come."""
        os.eventfd_write(self._cancelled, 1)

    def close(self) -> None:
        """Let go of the port."""
        os.close(self._fd)
        os.close(self._cancelled)
