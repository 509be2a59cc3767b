"""Outputs of a processor, read from what its worker wrote. A worker is never trusted."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from agent.wire.base import MAX_TEXT, Finite

MAX_FIELDS: Final = 64
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Name = Annotated[str, Meta(max_length=32)]
Output = Annotated[
    dict[Name, Whole | Finite | bool | Text], Meta(min_length=1, max_length=MAX_FIELDS)
]

_DECODER: Final = msgspec.msgpack.Decoder(list[Output])


@lru_cache(1_024)
def _is_name(text: str) -> bool:
    """Whether a filter could name it: as `agent.wire.base.Channel`, remembered, because a topic's
    outputs have the same names again and again."""
    return re.fullmatch(r"[a-z][a-z0-9_]{0,31}", text) is not None


class Nonsense(ValueError):
    """The outputs cannot be published; one line says why."""


def read_outputs(data: bytes, most: int, most_bytes: int) -> tuple[Output, ...]:
    """The outputs in `data`, an array of maps from names to numbers, truth values and texts;
    Nonsense for anything else, for more than `most` and for more than `most_bytes`. O(bytes)."""
    if len(data) > most_bytes:
        raise Nonsense(f"its outputs take {len(data)} bytes; at most {most_bytes} are allowed")
    try:
        found = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Nonsense(f"its outputs are not publishable: {error}") from None
    if len(found) > most:
        raise Nonsense(f"it gave {len(found)} outputs for one message; at most {most} are allowed")
    for output in found:
        for name in output:
            if not _is_name(name):
                raise Nonsense(
                    f"its outputs are not publishable: {name!r} is no name of lower-case letters, "
                    "digits and _, at most 32, that begins with a letter"
                )
    return tuple(found)
