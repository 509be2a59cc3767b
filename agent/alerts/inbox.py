"""The inbox of one subscription: undelivered notifications at positions 1, 2, 3, …; why a request
about it is refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator

import msgspec

from agent.alerts.inbox_events import InboxInstruction, Peer, SendPush
from agent.alerts.items import Item
from agent.alerts.lifecycle import SUBSCRIPTION_TRANSITIONS
from agent.runtime.state_machine import StateMachine
from agent.wire.predicates import MAX_FILTER_BYTES, Filter
from agent.wire.push import (
    Gap,
    Lost,
    Notified,
    SentPush,
    ShortForm,
    ShortNotified,
    Subscribe,
    Subscribed,
)

# Positions are forgotten in batches of this size, which costs fewer writes.
FORGOTTEN_AT_ONCE = 64
# A text has at most 512 characters, but they may take as long as 8 KiB of a filter in parts:
# parentheses are multiplied out.
TEXT_WEIGHT = 16


class Inbox(StateMachine):
    """Keeps a run of items that ends with the one that came last, and remembers a longer such run,
    so that what comes again is no news."""

    __slots__ = (
        "_known", "acknowledged", "bytes", "client", "durable", "filter", "filter_bytes", "id",
        "in_flight", "kept", "last", "number", "owner", "peer", "seen_s", "sent", "short", "timer",
    )  # fmt: skip

    TRANSITIONS = SUBSCRIPTION_TRANSITIONS

    def __init__(
        self, number: int, client: str, client_id: str, wanted: Filter, *, durable: bool
    ) -> None:
        super().__init__()
        self.number = number
        self.client = client
        # The owner that the quota counts against: the client, or its connection if the client has
        # no name.
        self.owner: Hashable = client
        self.id = client_id  # the client's name for the subscription
        self.filter = wanted
        self.filter_bytes = 0  # its size in MessagePack
        self.durable = durable
        self.peer: Peer = None
        self.short: ShortForm | None = None  # as its client asked on this connection
        self.acknowledged = 0  # the client has acknowledged all up to here
        self.last = 0
        self.sent = 0  # its client was sent, or has, all up to here
        self.kept: deque[Item] = deque()  # the last positions
        self.bytes = 0
        # The last positions that are remembered, by the number of their item.
        self._known: dict[int, Item] = {}
        # Of the messages sent, the last positions that they contain.
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
        """The broker's name for the subscription; it contains nothing that the client chose."""
        return str(self.number)

    @property
    def first(self) -> int:
        """The first position that is kept; last + 1 if none is."""
        return self.last - len(self.kept) + 1

    @property
    def known(self) -> Iterable[Item]:
        """The items that are remembered, by position, ascending."""
        return self._known.values()

    def knows(self, item: Item) -> bool:
        """Whether the item was received before. O(1)."""
        return item.number in self._known

    def put(self, item: Item) -> None:
        """Add the item at the next position."""
        self.last += 1
        self.kept.append(item)
        self.bytes += item.bytes
        self._known[item.number] = item

    def overflow(self, most: int, most_bytes: int) -> list[Item]:
        """Drop the oldest items that exceed the capacity; the most recent one stays. Returns the
        dropped."""
        dropped = []
        while len(self.kept) > most or (self.bytes > most_bytes and len(self.kept) > 1):
            dropped.append(self._drop())
        return dropped

    def acknowledge(self, position: int) -> list[Item]:
        """The client has all up to `position`. Returns the items that need not be kept for it any
        more."""
        self.acknowledged = position
        while self.in_flight and self.in_flight[0] <= position:
            self.in_flight.popleft()
        return [self._drop() for _ in range(max(0, position - self.first + 1))]

    def send_again(self, after: int) -> None:
        """The client has all up to `after`; whatever was sent beyond that may be lost and is sent
        again."""
        self.sent = after
        self.in_flight.clear()

    def messages(self, window: int) -> Iterator[SentPush]:
        """The messages to send now: at most `window` messages may be unacknowledged."""
        if self.sent == self.last:
            return
        in_flight, first = self.in_flight, self.first
        while self.sent < self.last and len(in_flight) < window:
            position = self.sent + 1
            if position < first:
                self.sent = first - 1
                yield Gap(self.id, position, self.sent)
            else:
                self.sent = position
                yield self._told(position, self.kept[position - first])
            in_flight.append(self.sent)

    def _told(self, position: int, item: Item) -> SentPush:
        form = self.short
        if form is not None and (short := item.short(form.names)) is not None:
            return ShortNotified(((form.number, position),), short)
        content = item.content
        assert content is not None
        if isinstance(content, Lost):
            return Gap(self.id, position, position, content)
        return Notified(self.id, position, content)

    def forget(self, most: int) -> tuple[int, list[Item]]:
        """Remember at most `most` items, those that are kept, and a few more. Returns the position
        up to which all are forgotten, and the items forgotten by this call."""
        if len(self._known) < most + FORGOTTEN_AT_ONCE:
            return 0, []
        excess = len(self._known) - max(most, len(self.kept))
        if excess < FORGOTTEN_AT_ONCE:
            return 0, []
        forgotten = list(self._known.values())[:excess]
        for item in forgotten:
            del self._known[item.number]
        return self.last - len(self._known), forgotten

    def remember(self, item: Item) -> None:
        """Add an item without content at the next position, that the client had elsewhere."""
        self.last += 1
        self._known[item.number] = item

    def begin_at(self, position: int) -> None:
        """An inbox that keeps nothing has nothing before this position, its next one."""
        assert not self.kept
        self.last = position - 1
        self._known.clear()

    def restore(
        self, acknowledged: int, last: int, items: list[Item], most: int, most_bytes: int
    ) -> None:
        """Restore the items at the positions up to `last` from disk. Kept are the trailing items
        that have content, are not acknowledged and fit the capacity."""
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
    """The last position, and the items before it without a gap. A gap means damage that the check
    of the file did not find."""
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


# --- requests -------------------------------------------------------------------------------------


def filter_bytes(given: str | Filter) -> int:
    """Size of a filter in MessagePack. O(size)."""
    return len(msgspec.msgpack.encode(given))


def parsed_bytes(given: str | Filter) -> int:
    """Bytes of a filter by which its cost is judged before it is parsed. O(size)."""
    return TEXT_WEIGHT * len(given) if isinstance(given, str) else filter_bytes(given)


def check_size(given: str | Filter) -> int:
    """The size of the filter; ValueError if it is more than `MAX_FILTER_BYTES`. O(size)."""
    if (size := filter_bytes(given)) > MAX_FILTER_BYTES:
        raise ValueError(f"{size} bytes, over {MAX_FILTER_BYTES}; take two subscriptions")
    return size


def why_not_again(inbox: Inbox, message: Subscribe) -> str:
    """Why the request does not match the existing subscription of that id; empty if it does."""
    if inbox.durable != message.durable:
        return (
            f"subscription {inbox.id!r} is open and {'' if inbox.durable else 'not '}durable; "
            "unsubscribe it or take another id"
        )
    if message.after is not None and message.after > inbox.last:
        return (
            f"position {message.after} of subscription {inbox.id!r} is yet to come: its master "
            "lost what it had, or the id was used before; unsubscribe it, and subscribe anew"
        )
    return ""


def refusal(peer: Peer, message: Subscribe, why: str) -> list[InboxInstruction]:
    """The reply that refuses the request, to be sent at once."""
    reply = Subscribed(message.id, "refused", message=why[:500])
    return [SendPush(peer, reply, waits=False)]
