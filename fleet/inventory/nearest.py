"""`Did you mean …?` suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

MAX_LISTED: Final = 8


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """``did you mean iad4?``, or a list of the valid names."""
    if near := difflib.get_close_matches(name, known, n=1, cutoff=0.5):
        return f"did you mean {near[0]}?"
    if not known:
        return "there is none"
    more = f", … ({len(known)} in all)" if len(known) > MAX_LISTED else ""
    return f"known: {', '.join(known[:MAX_LISTED])}{more}"
