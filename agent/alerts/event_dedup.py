"""Which events of the edge nodes a master has taken over, so that each is recorded once.

An event is (node, history, sequence). A node sends again whatever it does not know to be taken,
live events before older ones, and says below which sequence nothing waits there any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.alerts.dedup_window import DedupWindow, Taken

# Of one node: the histories before were put aside, or belong to a card that was flashed anew.
MAX_HISTORIES = 4


class EventLedger:
    """What was taken, by node and history; in memory, for whoever keeps it on disk."""

    def __init__(self) -> None:
        self._nodes: dict[str, DedupWindow[str]] = {}

    def knows(self, node: str, history: str, sequence: int) -> bool:
        """Whether that event was taken, or given up by the node. O(1)."""
        ledger = self._nodes.get(node)
        return ledger is not None and ledger.knows(history, sequence)

    def take(self, node: str, history: str, sequences: Iterable[int], oldest: int) -> None:
        """These are taken, and nothing below `oldest` waits at the node any more. As
        `DedupWindow.take`."""
        self._of(node).take(history, sequences, oldest)

    def of(self, node: str) -> dict[str, Taken]:
        """What was taken of a node, by history, to be kept for `restore`."""
        ledger = self._nodes.get(node)
        return {} if ledger is None else ledger.all()

    def restore(self, node: str, taken: dict[str, Taken]) -> None:
        """What `of` gave before a restart."""
        for history, each in taken.items():
            self._of(node).restore(history, each)

    def _of(self, node: str) -> DedupWindow[str]:
        return self._nodes.setdefault(node, DedupWindow(MAX_HISTORIES))
