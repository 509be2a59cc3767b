"""Deduplication of the edge nodes' events, so that the master records each event once.

An event is (node, history, sequence). A node retransmits every event that it does not know to be
received, live events before older ones, and reports the sequence below which it has nothing left to
send.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.alerts.dedup_window import DedupWindow, Taken

# Per node: earlier histories were set aside, or belong to a card that was flashed anew.
MAX_HISTORIES = 4


class EventLedger:
    """Deduplication windows by node and history, in memory; the caller persists them."""

    def __init__(self) -> None:
        self._nodes: dict[str, DedupWindow[str]] = {}

    def knows(self, node: str, history: str, sequence: int) -> bool:
        """Whether the event was received, or given up by the node. O(1)."""
        ledger = self._nodes.get(node)
        return ledger is not None and ledger.knows(history, sequence)

    def take(self, node: str, history: str, sequences: Iterable[int], oldest: int) -> None:
        """Record these sequences as received, and that the node has nothing below `oldest` left to
        send. Returns as `DedupWindow.take` does."""
        self._of(node).take(history, sequences, oldest)

    def of(self, node: str) -> dict[str, Taken]:
        """The windows of a node by history, to be passed to `restore`."""
        ledger = self._nodes.get(node)
        return {} if ledger is None else ledger.all()

    def restore(self, node: str, taken: dict[str, Taken]) -> None:
        """Restore what `of` returned before a restart."""
        for history, each in taken.items():
            self._of(node).restore(history, each)

    def _of(self, node: str) -> DedupWindow[str]:
        return self._nodes.setdefault(node, DedupWindow(MAX_HISTORIES))
