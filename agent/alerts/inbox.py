"""The inbox of one subscription: what its client has yet to get, in positions 1, 2, 3, …"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator

from agent.alerts.inbox_events import Peer
from agent.alerts.items import Item
from agent.alerts.lifecycle import SUBSCRIPTION_TRANSITIONS
from agent.runtime.state_machine import StateMachine
from agent.wire.predicates import Filter
from agent.wire.push import Gap, Lost, Notified, PushReply

# Positions are forgotten so many at a time, which is fewer writes.
FORGOTTEN_AT_ONCE = 64


class Inbox(StateMachine):
    """Keeps a run of items that ends with the one that came last, and remembers a longer such run,
    so that what comes again is no news."""

    __slots__ = (
        "_known", "acknowledged", "bytes", "client", "durable", "filter", "id", "in_flight", "kept",
        "last", "number", "owner", "peer", "seen_s", "sent", "timer",
    )  # fmt: skip

    TRANSITIONS = SUBSCRIPTION_TRANSITIONS

    def __init__(
        self, number: int, client: str, client_id: str, wanted: Filter, *, durable: bool
    ) -> None:
        super().__init__()
        self.number = number
        self.client = client
        # Whose it counts as: the client's, or its connection's if nobody can tell the client.
        self.owner: Hashable = client
        self.id = client_id  # what its client calls it
        self.filter = wanted
        self.durable = durable
        self.peer: Peer = None
        self.acknowledged = 0  # its client has all up to here
        self.last = 0
        self.sent = 0  # its client was sent, or has, all up to here
        self.kept: deque[Item] = deque()  # the last positions
        self.bytes = 0
        # The last positions that are remembered, by the number of their item.
        self._known: dict[int, Item] = {}
        # Of messages that were sent, the last positions that they are about.
        self.in_flight: deque[int] = deque()
        self.seen_s = 0.0
        self.timer = -1

    def __repr__(self) -> str:
        return (
            f"<inbox {self.number} {self.client}/{self.id} {self.state}: {self.acknowledged} had, "
            f"{self.sent} sent, {self.first}…{self.last} kept>"
        )

    @property
    def name(self) -> str:
        """What the broker calls the subscription: nothing of its client's."""
        return str(self.number)

    @property
    def first(self) -> int:
        """The first position that is kept; one after the last, if none is."""
        return self.last - len(self.kept) + 1

    @property
    def known(self) -> Iterable[Item]:
        """The items that are remembered, by position, ascending."""
        return self._known.values()

    def knows(self, item: Item) -> bool:
        """Whether it came before. O(1)."""
        return item.number in self._known

    def put(self, item: Item) -> None:
        """It is at the next position."""
        self.last += 1
        self.kept.append(item)
        self.bytes += item.bytes
        self._known[item.number] = item

    def overflow(self, most: int, most_bytes: int) -> list[Item]:
        """Drop the oldest that there is no room for; what came last stays. Returns the dropped."""
        dropped = []
        while len(self.kept) > most or (self.bytes > most_bytes and len(self.kept) > 1):
            dropped.append(self._drop())
        return dropped

    def acknowledge(self, position: int) -> list[Item]:
        """Its client has all up to `position`. Returns what need not be kept for it any more."""
        self.acknowledged = position
        while self.in_flight and self.in_flight[0] <= position:
            self.in_flight.popleft()
        return [self._drop() for _ in range(max(0, position - self.first + 1))]

    def send_again(self, after: int) -> None:
        """Its client has all up to `after`, and what was sent beyond may be lost."""
        self.sent = after
        self.in_flight.clear()

    def messages(self, window: int) -> Iterator[PushReply]:
        """What is to be sent now: at most `window` messages are not acknowledged."""
        while self.sent < self.last and len(self.in_flight) < window:
            position = self.sent + 1
            if position < self.first:
                self.sent = self.first - 1
                yield Gap(self.id, position, self.sent)
            else:
                self.sent = position
                content = self.kept[position - self.first].content
                assert content is not None
                if isinstance(content, Lost):
                    yield Gap(self.id, position, position, content)
                else:
                    yield Notified(self.id, position, content)
            self.in_flight.append(self.sent)

    def forget(self, most: int) -> tuple[int, list[Item]]:
        """Remember at most `most` items, and those that are kept, or a few more. Returns up to
        which position all are forgotten, and what was now."""
        excess = len(self._known) - max(most, len(self.kept))
        if excess < FORGOTTEN_AT_ONCE:
            return 0, []
        forgotten = list(self._known.values())[:excess]
        for item in forgotten:
            del self._known[item.number]
        return self.last - len(self._known), forgotten

    def restore(
        self, acknowledged: int, last: int, items: list[Item], most: int, most_bytes: int
    ) -> None:
        """Take in what was on disk: the items at the positions up to `last`. Kept are those at the
        end that have a content, are not acknowledged, and that there is room for."""
        self.acknowledged = self.sent = acknowledged
        self.last = last
        self._known = {item.number: item for item in items}
        for item in reversed(items[max(0, acknowledged - (last - len(items))) :]):
            full = len(self.kept) == most or self.bytes + item.bytes > most_bytes
            if item.content is None or (self.kept and full):
                break
            self.kept.appendleft(item)
            self.bytes += item.bytes

    def check_invariants(self, most: int, most_bytes: int, window: int) -> None:
        """For tests: what must hold between any two events."""
        assert 0 <= self.acknowledged <= self.last
        assert self.acknowledged < self.first
        assert 0 <= self.sent <= self.last
        assert len(self.kept) <= most
        assert self.bytes <= most_bytes or len(self.kept) == 1
        assert self.bytes == sum(item.bytes for item in self.kept)
        assert len(self.in_flight) <= window
        assert list(self.known)[len(self._known) - len(self.kept) :] == list(self.kept)

    def _drop(self) -> Item:
        item = self.kept.popleft()
        self.bytes -= item.bytes
        return item


def last_run(
    rows: Iterator[tuple[int, int, int]], items: dict[int, Item]
) -> tuple[int, list[Item]]:
    """The last position, and the items of those before it without a hole. A hole is damage that
    the check of the file did not find."""
    run: list[Item] = []
    last = 0
    for _, position, number in rows:
        item = items.get(number)
        if position != last + 1 or item is None:
            run = []
        if item is not None:
            run.append(item)
        last = position
    return last, run
