"""Which events a spool has taken, so that each becomes notifications once.

An event is (node, history, sequence): two nodes with copies of one file have one history. Its node
sends it again until it is told that it was taken, in any order and with gaps between the sequences;
so what was taken is a mark, below which nothing waits at the node any more, and a set above it. The
node itself says where the mark is.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

# Events above the mark, of one history: those of eight full messages of a node. Beyond it what was
# taken longest ago is forgotten, and would be published twice if the node still had it.
MOST_REMEMBERED = 1_024

History = tuple[str, str]  # node, history


class Taken(Struct, frozen=True, array_like=True):
    """What was taken of one history: all below `mark` is settled at the node, and so are these, in
    the order in which they came."""

    mark: int = 0
    sequences: tuple[int, ...] = ()


class _Taken:
    __slots__ = ("mark", "sequences")

    def __init__(self, taken: Taken) -> None:
        self.mark = taken.mark
        self.sequences = dict.fromkeys(taken.sequences)


class Ledger:
    """What was taken, by history; in memory, for whoever keeps it on disk. Of more than
    `most_histories` the one not heard of for longest is forgotten."""

    def __init__(self, most_histories: int) -> None:
        self._most = most_histories
        self._histories: dict[History, _Taken] = {}

    def __len__(self) -> int:
        return len(self._histories)

    def knows(self, history: History, sequence: int) -> bool:
        """Whether that event was taken, or given up by its node. O(1)."""
        found = self._histories.get(history)
        return found is not None and (sequence < found.mark or sequence in found.sequences)

    def take(self, history: History, sequences: Iterable[int], oldest: int) -> list[History]:
        """These are taken, and nothing below `oldest` waits at the node any more. Returns the
        histories that are forgotten for it. O(sequences that are remembered)."""
        # The one heard of last stands last.
        found = self._histories.pop(history, None) or _Taken(Taken())
        self._histories[history] = found
        found.sequences |= dict.fromkeys(s for s in sequences if s >= found.mark)
        if oldest > found.mark:
            found.mark = oldest
            found.sequences = dict.fromkeys(s for s in found.sequences if s >= oldest)
        for sequence in list(found.sequences)[: max(0, len(found.sequences) - MOST_REMEMBERED)]:
            del found.sequences[sequence]
        forgotten = list(self._histories)[: max(0, len(self._histories) - self._most)]
        for each in forgotten:
            del self._histories[each]
        return forgotten

    def of(self, history: History) -> Taken:
        """What was taken of a history, to be kept for `restore`."""
        found = self._histories.get(history)
        return Taken() if found is None else Taken(found.mark, tuple(found.sequences))

    def restore(self, history: History, taken: Taken) -> None:
        """What `of` gave before a restart."""
        self._histories[history] = _Taken(taken)
