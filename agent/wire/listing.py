"""Names in lines for people: some of many, and the one that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

# Of names that are less similar than this, from 0 to 1, none was meant.
SIMILAR = 0.6


def few(names: Sequence[str], most: int) -> str:
    """``a, b and 3 more``; empty if there are none."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def alike(name: str, known: Iterable[str], similar: float = SIMILAR) -> str:
    """The known name that is most similar to `name`; empty if none is. O(known · characters²)."""
    found = get_close_matches(name, list(known), 1, similar)
    return found[0] if found else ""


def hint(meant: str) -> str:
    """``; did you mean iad4?`` at the end of a line; empty if nothing was meant."""
    return f"; did you mean {meant}?" if meant else ""


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """``did you mean iad4?``, or what is said if no known name is similar."""
    found = alike(name, known)
    return f"did you mean {found}?" if found else otherwise
