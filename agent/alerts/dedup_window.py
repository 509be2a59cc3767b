"""What was taken of numbered things that are sent again until their sender knows that they were.

What a sender numbers anew is another history. Of one history, its things come in any order and with
gaps between their sequences; so what was taken is a mark, below which nothing waits at the sender
any more, and a set above it. The sender itself says where the mark is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from msgspec import Struct

# Above the mark, of one history: some 60 kB. Beyond it what was taken longest ago is forgotten, and
# would be taken twice if the sender still had it.
MAX_REMEMBERED = 1_024

History = TypeVar("History", bound=Hashable)


class Taken(Struct, frozen=True, array_like=True):
    """What was taken of one history, to be kept on disk: all below `mark` is settled at the sender,
    and so are these, in the order in which they came."""

    mark: int = 0
    sequences: tuple[int, ...] = ()


class _Taken:
    __slots__ = ("mark", "sequences")

    def __init__(self, taken: Taken) -> None:
        self.mark = taken.mark
        self.sequences = dict.fromkeys(taken.sequences)

    def take(self, sequences: Iterable[int], oldest: int) -> None:
        self.sequences |= dict.fromkeys(each for each in sequences if each >= self.mark)
        if oldest > self.mark:
            self.mark = oldest
            self.sequences = dict.fromkeys(each for each in self.sequences if each >= oldest)
        for each in list(self.sequences)[: max(0, len(self.sequences) - MAX_REMEMBERED)]:
            del self.sequences[each]


class DedupWindow(Generic[History]):
    """What was taken, by history; in memory, for whoever keeps it on disk. Of more than
    `most_histories` the one not heard of for longest is forgotten."""

    def __init__(self, most_histories: int) -> None:
        self._most = most_histories
        # The one heard of last stands last.
        self._histories: dict[History, _Taken] = {}

    def __len__(self) -> int:
        return len(self._histories)

    def knows(self, history: History, sequence: int) -> bool:
        """Whether that was taken, or given up by its sender. O(1)."""
        found = self._histories.get(history)
        return found is not None and (sequence < found.mark or sequence in found.sequences)

    def take(self, history: History, sequences: Iterable[int], oldest: int) -> list[History]:
        """These are taken, and nothing below `oldest` waits at the sender any more. Returns the
        histories that are forgotten for it. O(sequences that are remembered)."""
        found = self._histories.pop(history, None) or _Taken(Taken())
        self._histories[history] = found
        found.take(sequences, oldest)
        forgotten = list(self._histories)[: max(0, len(self._histories) - self._most)]
        for each in forgotten:
            del self._histories[each]
        return forgotten

    def of(self, history: History) -> Taken:
        """What was taken of a history, to be kept for `restore`. O(that)."""
        found = self._histories.get(history)
        return Taken() if found is None else Taken(found.mark, tuple(found.sequences))

    def all(self) -> dict[History, Taken]:
        """The same of every history, the one heard of last at the end. O(that)."""
        return {history: self.of(history) for history in self._histories}

    def restore(self, history: History, taken: Taken) -> None:
        """What `of` gave before a restart."""
        self._histories[history] = _Taken(taken)
