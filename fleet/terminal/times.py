"""Times as people write and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from fleet.terminal.units import parse_ago

UNKNOWN_TIME: Final = "unknown time"


def local(time_ms: int) -> datetime | None:
    """The time in this machine's zone; None if no calendar has it: a clock may be anywhere, and who
    holds a key may say anything."""
    try:
        return datetime.fromtimestamp(time_ms / 1e3).astimezone()
    except (OverflowError, OSError, ValueError):
        return None


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """``24h`` ago, or ``2026-11-21`` or ``2026-11-21T13:00``, UTC unless it says otherwise.
    ValueError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        ago_s = parse_ago(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time; write 24h, 2026-11-21 or 2026-11-21T13:00"
        ) from None
    return (now or datetime.now(UTC)) - timedelta(seconds=ago_s)
