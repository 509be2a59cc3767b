"""The quality of a value on the wire: one byte of flags, 0 for a good value."""

from __future__ import annotations

from typing import Final

# By bit, from 1. With any of the first four a value is bad: not a measurement, and not counted.
# With only the others it is suspect: it may be right, and is counted.
FLAGS: Final = ("no_response", "checksum", "out_of_range", "spike", "flatline", "drift")
BAD: Final = 0b1111

_NOT_BAD: Final = bytes(flags for flags in range(256) if not flags & BAD)


def names(flags: int) -> tuple[str, ...]:
    """The names of the flags that are set; () for a good value."""
    return tuple([name for bit, name in enumerate(FLAGS) if flags >> bit & 1])


def counts(flags: bytes) -> tuple[int, int]:
    """How many of the values with these flags, a byte each, are bad and how many suspect; O(n)."""
    bad = len(flags.translate(None, _NOT_BAD))
    return bad, len(flags) - flags.count(0) - bad
