"""What only the start needed is given back: once, when the agent has settled.

A process that imports, opens its files and connects for the first time runs through some MiB of its
libraries that it hardly ever sees again. These pages stay mapped until memory is short. They are
the files' own, so dropping the mapping loses nothing: what is used again comes back from the page
cache in a microsecond, and the rest is the kernel's to reuse (docs/footprint.md).
"""

# ruff: noqa: PTH123 - pathlib takes 0.6 MiB; see history_file

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

SMAPS: Final = "/proc/self/smaps"
MADV_DONTNEED: Final = 4  # madvise(2)


def shrink() -> None:
    """Give back what can be; where the kernel tells nothing of mappings, nothing happens."""
    gc.collect()
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with suppress(OSError), open(SMAPS, encoding="utf-8", errors="replace") as smaps:
        # All are known before the first goes: reading runs code, too.
        for start, size in list(code(smaps)):
            madvise(start, size, MADV_DONTNEED)


def code(smaps: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Address and size of the mappings of files' code; only those of which no page was changed, as
    a debugger does."""
    place: tuple[int, int] | None = None
    for line in smaps:
        words = line.split()
        if not words[0].endswith(":"):
            start, _, end = words[0].partition("-")
            is_code = words[1] == "r-xp" and len(words) > 5 and words[5].startswith("/")
            place = (int(start, 16), int(end, 16) - int(start, 16)) if is_code else None
        elif words[0] == "Private_Dirty:" and place is not None and words[1] == "0":
            yield place
