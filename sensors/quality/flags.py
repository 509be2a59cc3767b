"""What may be wrong with a value: one byte of flags, 0 for nothing.

A *bad* value is no measurement, and no aggregate counts it; a *suspect* one may be right, and is
counted and told.
"""

from __future__ import annotations

from typing import Final

GOOD: Final = 0
NO_RESPONSE: Final = 1  # the sensor gave nothing: the value is NaN
CHECKSUM: Final = 2  # what it gave was damaged: the value is NaN
OUT_OF_RANGE: Final = 4  # beyond what the sensor can measure, or what is plausible here
SPIKE: Final = 8  # a jump that nothing in the room can make
FLATLINE: Final = 16  # the same number for too long
DRIFT: Final = 32  # away from what co-located channels say

BAD: Final = NO_RESPONSE | CHECKSUM | OUT_OF_RANGE | SPIKE
SUSPECT: Final = FLATLINE | DRIFT

# By bit, as they are written everywhere; `agent.wire.quality` has the same for clients.
NAMES: Final = ("no_response", "checksum", "out_of_range", "spike", "flatline", "drift")


def names(flags: int) -> tuple[str, ...]:
    """The names of the flags that are set; () for a good value."""
    return tuple([name for bit, name in enumerate(NAMES) if flags >> bit & 1])
