"""The inbox of one subscription: undelivered notifications at positions 1, 2, 3, …; why a request
about it is refused."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import msgspec

from agent.alerts.choice import Choice, masters_in
from agent.alerts.inbox_events import Content, InboxInstruction, Peer, SendPush
from agent.alerts.items import Item
from agent.alerts.lifecycle import SUBSCRIPTION_TRANSITIONS
from agent.alerts.shares import Shares
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

# Positions are forgotten in batches of this size, which costs fewer writes, and at most so many in
# a turn.
FORGOTTEN_AT_ONCE = 64
FORGOTTEN_IN_A_TURN = 1_024
# A text has at most 512 characters, but they may take as long as 8 KiB of a filter in parts:
# parentheses are multiplied out.
TEXT_WEIGHT = 16


class Forgotten(NamedTuple):
    """What an inbox forgets: the positions up to `upto` but those of `early`, which it still keeps,
    and the positions `left`, which were such before; and the items there."""

    upto: int = 0
    early: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    items: tuple[Item, ...] = ()


class Inbox(StateMachine):
    """Keeps items that its client lacks, and remembers the run of items that ends with the one that
    came last, so that what comes again is no news. When it is full, the oldest item goes of the
    publisher that has most: so what it keeps may have holes, and be older than that run."""

    __slots__ = (
        "_early", "_known", "_shares", "acknowledged", "bytes", "choice", "client", "durable",
        "filter", "filter_bytes", "id", "in_flight", "kept", "last", "number", "owner", "peer",
        "positions", "seen_s", "sent", "short", "timer",
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
        self.filter_bytes = 0  # its size in MessagePack, with the masters of the choice
        self.durable = durable
        self.peer: Peer = None
        self.short: ShortForm | None = None  # as its client asked on this connection
        # As its client said last; nothing else keeps it, as a node's masters.
        self.choice: Choice | None = None
        self.acknowledged = 0  # the client has acknowledged all up to here
        self.last = 0
        self.sent = 0  # its client was sent, or has, all up to here
        # Items that are kept and their positions, ascending. There are so few that to remove one
        # from the middle costs less than a structure for it.
        self.kept: list[Item] = []
        self.positions: list[int] = []
        self.bytes = 0
        # Only once it is nearly full, until it is empty.
        self._shares: Shares | None = None
        # The last positions that are remembered, by the number of their item.
        self._known: dict[int, Item] = {}
        # Items before these by number, with their positions: they were kept when the others there
        # were forgotten.
        self._early: dict[int, tuple[int, Item]] = {}
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
        return self.positions[0] if self.positions else self.last + 1

    @property
    def run(self) -> Iterable[Item]:
        """The items at the last positions that are remembered, ascending, without a gap."""
        return self._known.values()

    @property
    def early(self) -> list[int]:
        """The positions before these that are remembered."""
        return [position for position, _ in self._early.values()]

    @property
    def known(self) -> Iterable[Item]:
        """All items that are remembered, by position, ascending."""
        return chain((item for _, item in self._early.values()), self._known.values())

    def knows(self, item: Item) -> bool:
        """Whether the item was received before. O(1)."""
        return item.number in self._known or item.number in self._early

    def put(self, item: Item) -> None:
        """Add the item at the next position."""
        self.last += 1
        self._keep(self.last, item)
        self._known[item.number] = item

    def choose(self, message: Subscribe) -> None:
        """Its client has said, with the inbox's filter, among which masters it may move."""
        if not (masters := masters_in(message)):
            self.choice = None
        elif self.choice is None:
            self.choice = Choice(masters, self.filter)
        else:
            self.choice = self.choice.again(masters, self.filter)

    def overflow(self, most: int, most_bytes: int) -> list[Item]:
        """Drop items that exceed the capacity, each the oldest of the publisher that has most of
        it. Returns the dropped. O(log publishers) for each. O(kept) once before it is full: inboxes
        that get the same are full at the same time, and would all be counted in that turn."""
        if len(self.kept) > most - self.number % (most // 2 + 1):
            self._count()
        dropped: list[Item] = []
        while (many := len(self.kept) > most) or (self.bytes > most_bytes and len(self.kept) > 1):
            self._count()
            assert self._shares is not None
            at = bisect_left(self.positions, self._shares.oldest_of_largest(in_bytes=not many))
            dropped += self._take_out(at, at + 1)
        return dropped

    def _count(self) -> None:
        if self._shares is None:
            self._shares = Shares()
            for position, item in zip(self.positions, self.kept, strict=True):
                assert item.content is not None
                self._shares.add(item.content, item.bytes, position)

    def acknowledge(self, position: int) -> list[Item]:
        """The client has all up to `position`. Returns the items that need not be kept for it any
        more."""
        self.acknowledged = position
        while self.in_flight and self.in_flight[0] <= position:
            self.in_flight.popleft()
        return self._take_out(0, bisect_right(self.positions, position))

    def send_again(self, after: int) -> None:
        """The client has all up to `after`; whatever was sent beyond that may be lost and is sent
        again."""
        self.sent = after
        self.in_flight.clear()

    def messages(self, window: int) -> Iterator[SentPush]:
        """The messages to send now: at most `window` messages may be unacknowledged."""
        if self.sent == self.last:
            return
        in_flight, positions = self.in_flight, self.positions
        at = bisect_right(positions, self.sent)
        while self.sent < self.last and len(in_flight) < window:
            position = self.sent + 1
            following = positions[at] if at < len(positions) else self.last + 1
            if position < following:
                self.sent = following - 1
                yield Gap(self.id, position, self.sent)
            else:
                self.sent = position
                yield self._told(position, self.kept[at])
                at += 1
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

    def forget(self, most: int) -> Forgotten:
        """Remember at most `most` items of the run, or as many as are kept, and a few more; and
        what is kept. Of very many more it forgets some. Returns what is forgotten by this call."""
        if len(self._known) < most + FORGOTTEN_AT_ONCE:
            return Forgotten()
        excess = min(len(self._known) - max(most, len(self.kept)), FORGOTTEN_IN_A_TURN)
        if excess < FORGOTTEN_AT_ONCE:
            return Forgotten()
        before = self.last - len(self._known)
        upto = before + excess
        kept = set(self.positions[: bisect_right(self.positions, upto)])
        left = [(n, p, item) for n, (p, item) in self._early.items() if p not in kept]
        for number, _, _ in left:
            del self._early[number]
        early: list[int] = []
        items = [item for _, _, item in left]
        for position, item in enumerate(list(self._known.values())[:excess], before + 1):
            del self._known[item.number]
            if position in kept:
                self._early[item.number] = (position, item)
                early.append(position)
            else:
                items.append(item)
        return Forgotten(upto, tuple(early), tuple([p for _, p, _ in left]), tuple(items))

    def remember(self, item: Item) -> None:
        """Add an item without content at the next position, that the client had elsewhere."""
        self.last += 1
        self._known[item.number] = item

    def begin_at(self, position: int) -> None:
        """An inbox that keeps nothing has nothing before this position, its next one."""
        assert not self.kept
        self.last = position - 1
        self._known.clear()
        self._early.clear()

    def contents(self, first: int) -> list[Content | None]:
        """What is kept from the first such position on that is not below `first`, up to the last
        one; None where nothing is kept. O(last - first)."""
        kept = dict(zip(self.positions, self.kept, strict=True))
        begin = next((each for each in self.positions if each >= first), self.last + 1)
        found = (kept.get(position) for position in range(begin, self.last + 1))
        return [None if each is None else each.content for each in found]

    def restore(
        self,
        acknowledged: int,
        last: int,
        early: Iterable[tuple[int, Item]],
        run: list[Item],
        most: int,
        most_bytes: int,
    ) -> None:
        """Restore the items at the positions up to `last` from disk, and those before them. Kept is
        what has content, is not acknowledged and fits the capacity."""
        self.acknowledged = self.sent = acknowledged
        self.last = last
        # An earlier version, which does not know of positions set apart, may have left some.
        self._early = {n.number: (at, n) for at, n in early if at <= last - len(run)}
        self._known = {item.number: item for item in run}
        for position, item in chain(self._early.values(), enumerate(run, last - len(run) + 1)):
            if position > acknowledged and item.content is not None:
                self._keep(position, item)
        self.overflow(most, most_bytes)

    def check_invariants(self, most: int, most_bytes: int, window: int) -> None:
        """For tests: what must hold between any two events."""
        assert 0 <= self.acknowledged <= self.last
        assert self.acknowledged < self.first
        assert 0 <= self.sent <= self.last
        assert len(self.kept) == len(self.positions) <= most
        assert self.bytes <= most_bytes or len(self.kept) == 1
        assert self.bytes == sum(item.bytes for item in self.kept)
        assert len(self.in_flight) <= window
        before = self.last - len(self._known)
        at = {**dict(enumerate(self._known.values(), before + 1)), **dict(self._early.values())}
        assert [at[position] for position in self.positions] == self.kept
        assert list(self.positions) == sorted(set(self.positions))
        early = [position for position, _ in self._early.values()]
        assert early == sorted(early)
        assert not early or early[-1] <= before

    def _keep(self, position: int, item: Item) -> None:
        self.kept.append(item)
        self.positions.append(position)
        self.bytes += item.bytes
        if self._shares is not None:
            assert item.content is not None
            self._shares.add(item.content, item.bytes, position)

    def _take_out(self, start: int, stop: int) -> list[Item]:
        """Keep these no longer: the oldest, or the oldest of a publisher."""
        items = self.kept[start:stop]
        del self.kept[start:stop], self.positions[start:stop]
        for item in items:
            self.bytes -= item.bytes
            if self._shares is not None:
                assert item.content is not None
                self._shares.remove_oldest(item.content, item.bytes)
        if not self.kept:
            self._shares = None
        return items


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
