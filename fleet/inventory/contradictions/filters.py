"""Validation of notification filters."""

from __future__ import annotations

from collections.abc import Iterator

from agent.wire.predicate_language import read_filter
from agent.wire.predicates import FilterError


def unreadable(where: str, text: str) -> Iterator[str]:
    """What is wrong with a filter, in a line that begins with `where`; nothing if it is one."""
    try:
        read_filter(text)
    except FilterError as error:
        yield f"{where} {text!r}: {error}"
