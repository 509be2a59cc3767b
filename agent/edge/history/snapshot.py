"""Memtable snapshot: the part of a window that is in memory, for a reader."""

from __future__ import annotations

from msgspec import Struct

from agent.edge.history.columns import RecordBatch


class Recent(Struct, frozen=True):
    """Record batches of the groups in memory, by sequence, and which groups to read from the file.

    Groups in `held`, and all from `before` on, are not read from the file: memory has them
    completely. `before` is None if the file has nothing for the window; `immutable` means that the
    file can only be opened in SQLite's immutable mode.
    """

    batches: list[tuple[int, RecordBatch]]
    held: tuple[int, ...]
    before: int | None
    immutable: bool
