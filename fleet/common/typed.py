"""Types that worker threads decode."""

from __future__ import annotations

from typing import Any

import msgspec


def made_ready(*kinds: Any) -> None:
    """Have msgspec work out what it needs of these types, in the thread that imports them.

    It does so on first use otherwise, and two threads that are first at once crash the process.
    """
    for kind in kinds:
        msgspec.json.Decoder(kind)
