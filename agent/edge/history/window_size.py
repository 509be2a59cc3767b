"""Size check of series: estimates bytes from the groups' rows, before any column is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from agent.edge.history.columns import layout_of
from agent.edge.history.row_groups import columns_of
from agent.wire.base import MAX_CHANNELS, RAW
from agent.wire.too_large import too_large

if TYPE_CHECKING:
    from agent.edge.history.columns import RecordBatch
    from agent.wire.node_messages import TooLarge

# Bytes per reading: time, source time and age, plus value and flags of each channel.
WIDEST: Final = 8 + 8 + 4 + MAX_CHANNELS * (4 + 1)


class TooLargeError(Exception):
    """A series would be larger than a message may be."""

    def __init__(self, found: TooLarge) -> None:
        super().__init__(found)
        self.found = found


def check(
    rows: Sequence[Any],
    batches: Sequence[RecordBatch],
    start_ms: int,
    end_ms: int,
    channels: tuple[str, ...],
    most: int,
) -> None:
    """TooLargeError if the readings of [start_ms, end_ms) take more than `most` bytes.

    `rows` are groups of the file (sequence, shift, layout, first, last, count), `batches` those in
    memory. Readings of a group that the window cuts are assumed evenly spaced. O(groups).
    """
    readings = sum([len(batch) for batch in batches]) + sum([row[5] for row in rows])
    if readings * WIDEST <= most:
        return
    readings = sum([len(batch) for batch in batches])
    first_ms = min([batch.first_ms for batch in batches], default=end_ms)
    last_ms = max([batch.last_ms for batch in batches], default=start_ms)
    for _, _, _, first, last, count in rows:
        inside_first, inside_last = max(first, start_ms), min(last, end_ms - 1)
        readings += round(count * (inside_last - inside_first + 1) / (last - first + 1))
        first_ms, last_ms = min(first_ms, inside_first), max(last_ms, inside_last)
    layouts = {row[2] for row in rows}
    layouts.update([layout_of(batch) for batch in batches])
    size = readings * _width(layouts, channels)
    if size > most:
        raise TooLargeError(too_large(size, most, (last_ms + 1 - first_ms) / 1000))


def _width(layouts: Iterable[str], channels: tuple[str, ...]) -> int:
    """Bytes per reading; a column of one group counts for all."""
    there = {column for layout in layouts for column in columns_of(layout)}
    names = {name for kind, _, name in there if kind == "v"}
    wanted = {c for c in channels if c in names or c.removesuffix(RAW) in names} or names
    width = 4 * len(wanted) + sum([width for kind, width, _ in there if kind in "tsa"])
    flagged = {name for kind, _, name in there if kind == "q"}
    return width + len({name for name in wanted if name.removesuffix(RAW) in flagged})
