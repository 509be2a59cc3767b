"""Quality flags of a value: one byte, 0 for a good value.

A *bad* value is not a measurement and is excluded from aggregates; a *suspect* one may be right,
and is included and reported.
"""

from __future__ import annotations

from typing import Final

GOOD: Final = 0
NO_RESPONSE: Final = 1  # the sensor sent nothing: the value is NaN
CHECKSUM: Final = 2  # the sensor's data was damaged: the value is NaN
OUT_OF_RANGE: Final = 4  # outside the sensor's range, or the plausible range
SPIKE: Final = 8  # a jump that is physically implausible
FLATLINE: Final = 16  # the same number for too long
DRIFT: Final = 32  # deviates from co-located channels

BAD: Final = NO_RESPONSE | CHECKSUM | OUT_OF_RANGE | SPIKE
SUSPECT: Final = FLATLINE | DRIFT

# Names by bit, used everywhere; `agent.wire.quality` has the same for clients.
NAMES: Final = ("no_response", "checksum", "out_of_range", "spike", "flatline", "drift")


def names(flags: int) -> tuple[str, ...]:
    """The names of the flags that are set; () for a good value."""
    return tuple([name for bit, name in enumerate(NAMES) if flags >> bit & 1])
