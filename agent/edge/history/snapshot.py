"""What memory has of a window, for a reader."""

from __future__ import annotations

from msgspec import Struct

from agent.edge.history.columns import Piece


class Recent(Struct, frozen=True):
    """Pieces of groups in memory, by their sequence, and what is to be taken from the file.

    Groups `held`, and all from `before` on, are not: memory has them as a whole. `before` is None
    if the file has nothing for the window; `immutable` says that it can only be opened as a file
    that nobody changes.
    """

    pieces: list[tuple[int, Piece]]
    held: tuple[int, ...]
    before: int | None
    immutable: bool
