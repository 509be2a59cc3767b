"""Freed memory: when and how glibc gives it back to the system.

What a flood of messages took stays with the process otherwise, up to gigabytes, and the next flood
comes on top of what else was allocated meanwhile.
"""

from __future__ import annotations

import ctypes
from typing import Final

# Freed memory is returned to the system if the process grew by this much, at this minimum interval.
TRIM_BYTES: Final = 12 << 20
TRIM_S: Final = 5.0
MAX_TRIM_S: Final = 300.0
# A block larger than the first value is a mapping of its own and returned as soon as it is freed;
# free memory at the end of a heap is returned beyond the second. glibc itself raises the first to
# the largest block freed so far, and the second to twice of that (mallopt(3)): what a flood took
# then stays in the heap, below whatever was allocated after it.
IN_FLOOD_BYTES: Final = 256 << 10, 1 << 20
# Pages of a mapping are zeroed each time: with the values of a flood a master gives a fifth fewer
# answers of 11 MB.
USUAL_BYTES: Final = 16 << 20, 32 << 20
_M_MMAP_THRESHOLD: Final = -3
_M_TRIM_THRESHOLD: Final = -1


class Trimmer:
    """Decides when to return freed memory to the system: glibc keeps it after a flood (3,600 MB,
    55 after trimming). Pure; sizes and times are arguments."""

    def __init__(self, resident: int, now: float) -> None:
        self._least = resident
        self._due_s = now
        self._pause_s = TRIM_S

    def wants(self, resident: int, now: float) -> bool:
        """Whether to trim now."""
        self._least = min(self._least, resident)
        return resident > self._least + TRIM_BYTES and now >= self._due_s

    def trimmed(self, before: int, after: int, now: float) -> None:
        """Record the effect of a trim: after one that freed little the next waits longer."""
        if before - after < TRIM_BYTES // 2:
            self._pause_s = min(MAX_TRIM_S, 2 * self._pause_s)
            if self._pause_s == MAX_TRIM_S:
                self._least = after  # the memory is in use
        else:
            self._pause_s = TRIM_S
        self._due_s = now + self._pause_s


def return_freed(libc: ctypes.CDLL, *, flood: bool) -> None:
    """Set how soon the process returns what it frees: in a flood of large messages at once."""
    mallopt = getattr(libc, "mallopt", None)
    if mallopt is not None:  # only glibc has it
        mapped, kept_at_end = IN_FLOOD_BYTES if flood else USUAL_BYTES
        mallopt(_M_MMAP_THRESHOLD, mapped)
        mallopt(_M_TRIM_THRESHOLD, kept_at_end)


def trim(libc: ctypes.CDLL) -> None:
    """Return freed memory to the system."""
    malloc_trim = getattr(libc, "malloc_trim", None)
    if malloc_trim is not None:  # only glibc has it
        malloc_trim(0)
