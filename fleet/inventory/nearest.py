"""`Did you mean …?` suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent.wire.listing import alike

MAX_LISTED: Final = 8


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """``did you mean iad4?``, or a list of the valid names."""
    if near := alike(name, known, 0.5):
        return f"did you mean {near}?"
    if not known:
        return "there is none"
    more = f", … ({len(known)} in all)" if len(known) > MAX_LISTED else ""
    return f"known: {', '.join(known[:MAX_LISTED])}{more}"
