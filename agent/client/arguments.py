"""What callers give: an error in words for what no message can have."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agent.wire.base import Identifier


def listed(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Areas or channels as a caller gave them. ValueError for what is no list of texts, such as one
    text, which Python takes for a sequence of its letters."""
    if isinstance(given, str):
        raise ValueError(f"{name} is a list: {[given]}")
    try:
        texts = tuple(given)
    except TypeError:
        raise ValueError(f"{name} is a list of texts; got {given!r}") from None
    if not all(isinstance(each, str) for each in texts):
        raise ValueError(f"{name} is a list of texts; got {given!r}")
    return texts


def checked_id(given: str) -> str:
    """The id of a watch or a subscription. ValueError for one that no message can have: a master's
    refusal could not name it, so that the client would wait for a reply to it."""
    try:
        return msgspec.convert(given, Identifier)
    except msgspec.ValidationError as error:
        raise ValueError(f"id: {error}") from None
