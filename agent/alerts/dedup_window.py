"""Deduplication window for at-least-once delivery: a cumulative acknowledgement and the sequences
above it.

A sender that renumbers its items starts a new history. Within one history items arrive in any order
and with gaps in their sequences, so the window consists of a mark, below which the sender has
nothing left to send, and the set of received sequences above it. The sender reports the mark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from math import inf
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct

# Sequences kept above the mark, per history: some 60 kB. Beyond it the sequence received longest
# ago is forgotten; if the sender still had that item, it would be accepted twice.
MAX_REMEMBERED = 1_024
# Histories per node: earlier ones were set aside, or belong to a card that was flashed anew.
MAX_HISTORIES = 4

History = TypeVar("History", bound=Hashable)
Sequence = Annotated[int, Meta(gt=-(2**53), lt=2**53)]


class Taken(Struct, frozen=True, array_like=True):
    """The window of one history, as kept on disk: everything below `mark` is settled at the sender,
    and so are these sequences, in order of arrival."""

    mark: Sequence = 0
    sequences: tuple[Sequence, ...] = ()


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
        for each in list(islice(self.sequences, max(0, len(self.sequences) - MAX_REMEMBERED))):
            del self.sequences[each]


class DedupWindow(Generic[History]):
    """Deduplication windows by history, in memory; the caller persists them. Beyond
    `most_histories` the least recently updated history is forgotten: of all, or of the owner that
    has most, so that one which invents histories pushes out its own. Beyond `most_sequences` above
    the marks of all, likewise of the owner that has most of these."""

    def __init__(
        self,
        most_histories: int,
        owner: Callable[[History], Hashable] = lambda _: None,
        most_sequences: float = inf,
    ) -> None:
        self._most = most_histories
        self._most_sequences = most_sequences
        self._owner = owner
        self._sequences: Counter[Hashable] = Counter()  # above the marks, by owner
        self._total = 0
        self._histories: dict[History, _Taken] = {}
        # By owner; least recently updated first.
        self._of_owner: dict[Hashable, dict[History, None]] = {}

    def __len__(self) -> int:
        return len(self._histories)

    def knows(self, history: History, sequence: int) -> bool:
        """Whether the item was received, or given up by its sender. O(1)."""
        found = self._histories.get(history)
        return found is not None and (sequence < found.mark or sequence in found.sequences)

    def take(self, history: History, sequences: Iterable[int], oldest: int) -> list[History]:
        """Record these sequences as received, and that the sender has nothing below `oldest` left
        to send. Returns the histories that are evicted. O(sequences that are remembered), and
        O(owners) if one is evicted."""
        found = self._histories.pop(history, None) or _Taken(Taken())
        self._put(history, found)
        before = len(found.sequences)
        found.take(sequences, oldest)
        self._count(self._owner(history), len(found.sequences) - before)
        evicted = [self._forget() for _ in range(len(self._histories) - self._most)]
        while self._total > self._most_sequences:
            evicted.append(self._forget_of(max(self._sequences, key=self._sequences.__getitem__)))
        return evicted

    def _count(self, owner: Hashable, more: int) -> None:
        self._total += more
        self._sequences[owner] += more
        if not self._sequences[owner]:
            del self._sequences[owner]

    def _put(self, history: History, taken: _Taken) -> None:
        self._histories[history] = taken
        owner = self._owner(history)
        owned = self._of_owner.pop(owner, {})
        owned.pop(history, None)
        owned[history] = None
        self._of_owner[owner] = owned  # the owner heard of last comes last, too

    def _forget(self) -> History:
        """O(owners)."""
        return self._forget_of(max(self._of_owner, key=lambda each: len(self._of_owner[each])))

    def _forget_of(self, owner: Hashable) -> History:
        owned = self._of_owner[owner]
        history = next(iter(owned))
        self._count(owner, -len(self._histories.pop(history).sequences))
        del owned[history]
        if not owned:
            del self._of_owner[owner]
        return history

    def of(self, history: History) -> Taken:
        """The window of a history, to be passed to `restore`. O(its sequences)."""
        found = self._histories.get(history)
        return Taken() if found is None else Taken(found.mark, tuple(found.sequences))

    def merge(self, history: History, taken: Taken) -> list[History]:
        """Know what `of` returned elsewhere, too. Returns the histories that are evicted."""
        return self.take(history, taken.sequences, taken.mark)

    def all(self) -> dict[History, Taken]:
        """All windows, the most recently updated last. O(sequences)."""
        return {history: self.of(history) for history in self._histories}

    def restore(self, history: History, taken: Taken) -> None:
        """Restore a window that `of` returned before a restart."""
        found = _Taken(taken)
        self._put(history, found)
        self._count(self._owner(history), len(found.sequences))


class EventDedup:
    """Deduplication windows of the edge nodes' events by node and history, in memory; the caller
    persists them, so that the master records each event once.

    An event is (node, history, sequence). A node retransmits every event that it does not know to
    be received, live events before older ones, and reports the sequence below which it has nothing
    left to send.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, DedupWindow[str]] = {}

    def knows(self, node: str, history: str, sequence: int) -> bool:
        """Whether the event was received, or given up by the node. O(1)."""
        windows = self._nodes.get(node)
        return windows is not None and windows.knows(history, sequence)

    def extent(self, node: str, history: str) -> tuple[int, int]:
        """Below the first sequence the node has nothing left to send, and beyond the second nothing
        was received. O(sequences that are remembered)."""
        windows = self._nodes.get(node)
        taken = Taken() if windows is None else windows.of(history)
        return taken.mark, max((taken.mark - 1, *taken.sequences))

    def take(self, node: str, history: str, sequences: Iterable[int], oldest: int) -> None:
        """Record these sequences as received, and that the node has nothing below `oldest` left to
        send."""
        self._of(node).take(history, sequences, oldest)

    def of(self, node: str) -> dict[str, Taken]:
        """The windows of a node by history, to be passed to `restore`."""
        windows = self._nodes.get(node)
        return {} if windows is None else windows.all()

    def restore(self, node: str, taken: dict[str, Taken]) -> None:
        """Restore what `of` returned before a restart."""
        for history, each in taken.items():
            self._of(node).restore(history, each)

    def merge(self, node: str, taken: dict[str, Taken]) -> None:
        """Know what `of` returned at another master, too."""
        for history, each in taken.items():
            self._of(node).merge(history, each)

    def _of(self, node: str) -> DedupWindow[str]:
        return self._nodes.setdefault(node, DedupWindow(MAX_HISTORIES))
