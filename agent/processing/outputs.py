"""Outputs of a processor, read from what its worker wrote. A worker is never trusted."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from agent.wire.base import LONGEST_TEXT, Channel, Finite

MAX_FIELDS: Final = 64
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Output = Annotated[
    dict[Channel, Whole | Finite | bool | Text], Meta(min_length=1, max_length=MAX_FIELDS)
]

_DECODER: Final = msgspec.msgpack.Decoder(list[Output])


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
    return tuple(found)
