"""The node's clocks, as the kernel gives them."""

# ruff: noqa: PTH123 - pathlib takes 0.6 MiB; see history_file

from __future__ import annotations

import ctypes
import time
from typing import Final

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
TIMEX_BYTES: Final = 256  # struct timex has 208
TIME_ERROR: Final = 5  # adjtimex(2): the clock is not synchronised


class Clocks:
    """The clocks of this machine; a test gives others."""

    def __init__(self) -> None:
        self._adjtimex = ctypes.CDLL(None).adjtimex
        self._timex = ctypes.create_string_buffer(TIMEX_BYTES)

    def monotonic(self) -> float:
        """Seconds since some moment of this boot."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970 UTC, as far as this node knows."""
        return time.time()

    def synchronised(self) -> bool:
        """Whether the kernel holds the wall clock for set from the network, whichever daemon did
        it; setting it by hand ends that."""
        # All zero, the request only reads.
        ctypes.memset(self._timex, 0, TIMEX_BYTES)
        return self._adjtimex(self._timex) not in (-1, TIME_ERROR)


def boot_id() -> str:
    """The kernel's name for this boot."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
