"""Delta of a processor's state: a few bytes in place of a megabyte.

A patch is a list of pieces: a range of the earlier state, or bytes of the later one.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from _core.wire.elements import elements

# What the two have in common is found by runs of this length.
RUN = 32
# How far on in the later state a run is looked for, and how many runs are.
WINDOW = 1 << 16
TRIES = 64

# A state's limit, as `StateBytes` of agent.processing.definition. A patch may name one range many
# times: seven kilobytes stand for a gigabyte.
MAX_STATE_BYTES = 64 * 2**20

# A range has three values in three bytes: nine megabytes of them took 0.8 s and 500 MiB. A state of
# 4 MiB that differs everywhere has a quarter of these.
MAX_VALUES = 1 << 20

Piece = tuple[int, int] | bytes
_decode = msgspec.msgpack.Decoder(list[Piece]).decode


def patch(before: bytes, after: bytes) -> bytes:
    """From it and `before`, `applied` makes `after`. O(size) if little has changed; what is not
    found again in reasonable time is in the patch."""
    return msgspec.msgpack.encode([*_pieces(before, after)])


def applied(before: bytes, patch_: bytes) -> bytes:
    """The later state. ValueError if this is no patch of it, or if it were larger than a state
    may be."""
    if len(patch_) > MAX_VALUES and elements(patch_, 0, MAX_VALUES) > MAX_VALUES:
        raise ValueError(f"a patch of more than {MAX_VALUES} values")
    try:
        pieces = _decode(patch_)
    except msgspec.MsgspecError as error:
        raise ValueError(f"no patch: {error}") from None
    made, size = [], 0
    for piece in pieces:
        if isinstance(piece, bytes):
            start, end = 0, len(piece)
        else:
            start, end = piece
            if not 0 <= start <= end <= len(before):
                raise ValueError("a patch of another state")
        size += end - start
        if size > MAX_STATE_BYTES:
            raise ValueError(f"a patch that makes more than {MAX_STATE_BYTES >> 20} MiB")
        made.append(piece if isinstance(piece, bytes) else before[start:end])
    return b"".join(made)


def _pieces(before: bytes, after: bytes) -> Iterator[Piece]:
    old = new = 0
    while True:
        same = _common(before, old, after, new)
        if same:
            yield old, old + same
        old, new = old + same, new + same
        found = _next_run(before, old, after, new)
        if found is None:
            if new < len(after):
                yield after[new:]
            return
        if found[1] > new:
            yield after[new : found[1]]
        old, new = found


def _common(before: bytes, old: int, after: bytes, new: int) -> int:
    """How many bytes are the same from there on; compared in blocks."""
    most = min(len(before) - old, len(after) - new)
    same, step = 0, most
    while step:
        at = min(same + step, most)
        if before[old + same : old + at] == after[new + same : new + at]:
            same = at
            if same == most:
                return same
        step //= 2
    return same


def _next_run(before: bytes, old: int, after: bytes, new: int) -> tuple[int, int] | None:
    """Positions at which the two agree again, soon after these."""
    for n in range(TRIES):
        # The distance grows: most changes are short.
        at = old + (n if n < RUN else RUN << min(n - RUN, 10))
        run = before[at : at + RUN]
        if len(run) < RUN:
            return None
        if (found := after.find(run, new, new + WINDOW)) >= 0:
            return at, found
    return None
