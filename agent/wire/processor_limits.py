"""Limits of the messages and areas of processors, for masters and processors."""

from __future__ import annotations

from typing import Final

# By so much clocks of masters differ. A message is never further ahead of its reception.
MAX_AHEAD_MS: Final = 60_000
# More areas than this in one topic are a mistake, and their state would grow without bound: those
# that came first count, but one that was not heard of for so long makes room.
MAX_AREAS: Final = 4_096
AREA_KEPT_S: Final = 3_600.0
