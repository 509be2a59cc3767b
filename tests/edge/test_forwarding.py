"""What forwarding does about a store that refuses."""

from __future__ import annotations

from collections.abc import Iterable

from agent.edge.events.forwarding import AGAIN_S, Forwarding
from agent.edge.events.outbox import Joined, Taken, Tick
from agent.edge.history.file import HistoryError
from agent.runtime.disk_writer import InlineDiskWriter
from agent.wire.node_messages import NodeEvent


class Store:
    """Holds sequences; removes none while it is broken."""

    dropped = 0

    def __init__(self, *sequences: int) -> None:
        self.held = set(sequences)
        self.broken = False

    @property
    def count(self) -> int:
        return len(self.held)

    @property
    def oldest(self) -> int | None:
        return min(self.held, default=None)

    def is_older_copy(self, settled: int, to: int) -> bool:
        return False

    def number_anew(self, settled: int, to: int) -> None:
        raise AssertionError("it is no older copy")

    def waiting(self, after: int, most: int) -> list[NodeEvent]:
        return []

    def remove(self, sequences: Iterable[int]) -> None:
        if self.broken:
            raise HistoryError("the card does not answer")
        self.held -= set(sequences)


def test_what_could_not_be_removed_is_removed_later() -> None:
    store, complaints, now = Store(1, 2, 3), list[str](), 5.0
    forwarding = Forwarding(
        store,
        lambda: "h",
        "start 1",
        backlog_per_s=8.0,
        send=lambda _: None,
        complain=complaints.append,
        disk=InlineDiskWriter(),
        clock=lambda: now,
    )
    forwarding.handle(Joined(takes_events=True), 0.0)
    store.broken = True
    forwarding.handle(Taken((1, 2)), now)
    assert complaints == ["the card does not answer"]
    store.broken = False
    while now < 5.0 + AGAIN_S:
        assert store.held == {1, 2, 3}
        now = forwarding.wake_at
        forwarding.handle(Tick(), now)
    assert store.held == {3}
