"""Which events of the edge nodes a master has taken over, so that each is recorded once.

An event is (node, history, sequence). A node sends again whatever it does not know to be taken,
live events before older ones, and its sequences have gaps; so what was taken is a mark, below which
nothing waits at the node any more, and a set above it. The node itself says where the mark is.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

# Above the mark, of one history: some 60 kB. Beyond it what was taken longest ago is forgotten, and
# would be recorded twice if the node still had it.
MOST_REMEMBERED = 1_024
# Of one node: the histories before were put aside, or belong to a card that was flashed anew.
MOST_HISTORIES = 4


class TakenEvents(Struct, frozen=True, array_like=True):
    """What was taken of one history: all below `mark` is settled, and so are these, in the order in
    which they came."""

    mark: int
    sequences: tuple[int, ...]


class _History:
    __slots__ = ("mark", "sequences")

    def __init__(self, taken: TakenEvents) -> None:
        self.mark = taken.mark
        self.sequences = dict.fromkeys(taken.sequences)

    def take(self, sequences: Iterable[int], oldest: int) -> None:
        for sequence in sequences:
            if sequence >= self.mark:
                self.sequences[sequence] = None
        if oldest > self.mark:
            self.mark = oldest
            self.sequences = dict.fromkeys(s for s in self.sequences if s >= oldest)
        for sequence in list(self.sequences)[: max(0, len(self.sequences) - MOST_REMEMBERED)]:
            del self.sequences[sequence]


class EventLedger:
    """What was taken, by node and history; in memory, for whoever keeps it on disk."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, _History]] = {}

    def knows(self, node: str, history: str, sequence: int) -> bool:
        """Whether that event was taken, or given up by the node. O(1)."""
        found = self._nodes.get(node, {}).get(history)
        return found is not None and (sequence < found.mark or sequence in found.sequences)

    def take(self, node: str, history: str, sequences: Iterable[int], oldest: int) -> None:
        """These are taken, and nothing below `oldest` waits at the node any more. O(events)."""
        histories = self._nodes.setdefault(node, {})
        # The one heard of last stands last.
        found = histories.pop(history, None) or _History(TakenEvents(0, ()))
        histories[history] = found
        found.take(sequences, oldest)
        if len(histories) > MOST_HISTORIES:
            del histories[next(iter(histories))]

    def of(self, node: str) -> dict[str, TakenEvents]:
        """What was taken of a node, by history, to be kept for `restore`."""
        return {
            name: TakenEvents(history.mark, tuple(history.sequences))
            for name, history in self._nodes.get(node, {}).items()
        }

    def restore(self, node: str, taken: dict[str, TakenEvents]) -> None:
        """What `of` gave before a restart."""
        self._nodes[node] = {name: _History(each) for name, each in taken.items()}
