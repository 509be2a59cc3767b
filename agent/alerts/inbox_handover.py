"""An inbox that moves from one master to another, positions kept.

The target has a *standby* inbox meanwhile, which collects and gives nothing to anybody; it learns
what the source's inbox remembers, so that little is left for the moment of the move. It *adopts*
the source's final copy then: the same positions, and after them what it has collected and the copy
does not know. The source's inbox goes on storing until it is taken: it *forwards* what still comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.alerts.inbox import Inbox, filter_bytes
from agent.alerts.inbox_events import (
    Content,
    ContentArrived,
    ForgetPosition,
    ForgetPositions,
    ForgetSubscription,
    InboxChange,
    InboxInstruction,
    Peer,
    SaveCursor,
    SavedInboxes,
    SavedSubscription,
    SaveSubscription,
    StartSubscription,
    StorePosition,
)
from agent.alerts.inboxes import LIMITS, Inboxes
from agent.alerts.items import Item, Key
from agent.alerts.limits import Limits
from agent.wire.base import Count
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Filter
from agent.wire.push import Lost, Subscribe

# Clients of inboxes that are on the move. No authenticated client has such a name.
STANDBY = "standby/"
FORWARDING = "moved/"
# What a standby inbox had no room for is known one by one, up to so many.
MAX_DROPPED = 10_000
# What a standby inbox learns at once: a group commit takes four times as much.
PART = 1_024
# No inbox and no topic counts so far. Of one that came with more, the next numbers would be none
# that a message can carry: who is told of them understands nothing, and is told again for ever.
MAX_REACHED = 1 << 52


def require_reached(*numbers: int) -> None:
    """ValueError if another master tells numbers that nothing reaches."""
    if max(numbers) > MAX_REACHED:
        raise ValueError(f"it has counted to {max(numbers)}, which nothing does")


class InboxCopy(Struct, frozen=True, array_like=True):
    """An inbox, or the end of one. At the positions up to `last`, without a gap, are the messages
    `sequences` of the `histories` with the numbers `of`; −1, −2, … stand for `losses`. Those at the
    end have `contents` (None for a loss), and are for a client that has all up to
    `acknowledged`."""

    filter: Filter
    acknowledged: Count
    last: Count
    histories: tuple[tuple[str, str], ...] = ()
    of: tuple[int, ...] = ()
    sequences: tuple[int, ...] = ()
    losses: tuple[Lost, ...] = ()
    contents: tuple[Notification | None, ...] = ()

    def __post_init__(self) -> None:
        fits = len(self.contents) <= len(self.of) == len(self.sequences) <= self.last
        if not fits or self.acknowledged > self.last:
            raise ValueError("the copy of an inbox contradicts itself")
        if self.of and not -len(self.losses) <= min(self.of) <= max(self.of) < len(self.histories):
            raise ValueError("the copy of an inbox names what it does not have")

    @classmethod
    def of_keys(
        cls,
        filter_: Filter,
        acknowledged: int,
        last: int,
        keys: Iterable[Key],
        contents: Iterable[Content | None],
    ) -> InboxCopy:
        """The copy with `keys` at the positions up to `last`, the latest of them with `contents`;
        `items` reads it. O(keys)."""
        histories: dict[tuple[str, str], int] = {}
        of: list[int] = []
        sequences: list[int] = []
        losses: list[Lost] = []
        for key in keys:
            if isinstance(key, Lost):
                losses.append(key)
                of.append(-len(losses))
                sequences.append(0)
            else:
                of.append(histories.setdefault((key.publisher, key.history), len(histories)))
                sequences.append(key.sequence)
        bodies = [None if isinstance(each, Lost) else each for each in contents]
        return cls(
            filter_, min(acknowledged, last), last, tuple(histories), tuple(of),
            tuple(sequences), tuple(losses), tuple(bodies),
        )  # fmt: skip

    @property
    def first(self) -> int:
        """Its first position; last + 1 if it has none."""
        return self.last - len(self.of) + 1

    def items(self) -> Iterator[tuple[Key, Content | None]]:
        """Items at its positions, ascending, with content where it is kept."""
        bodiless = len(self.of) - len(self.contents)
        for n, (of, sequence) in enumerate(zip(self.of, self.sequences, strict=True)):
            key: Key = self.losses[-1 - of] if of < 0 else Origin(*self.histories[of], sequence)
            if n < bodiless:
                yield key, None
            else:
                yield key, key if isinstance(key, Lost) else self.contents[n - bodiless]

    def parts(self, size: int = PART) -> Iterator[InboxCopy]:
        """The same in parts, of a copy without contents."""
        assert not self.contents
        for at in range(0, len(self.of), size):
            of, sequences = self.of[at : at + size], self.sequences[at : at + size]
            last = self.first - 1 + at + len(of)
            yield replace(self, acknowledged=0, last=last, of=of, sequences=sequences)


class MovableInboxes(Inboxes):
    """Inboxes that can be given to another master. Whatever one of these calls returns goes to the
    disk in one transaction. KeyError if there is no such inbox: its caller keeps account. Copies
    are O(items), the others O(items that they are about)."""

    def __init__(
        self,
        read_filter: Callable[[str | Filter], Filter],
        limits: Limits = LIMITS,
        **options: Any,
    ) -> None:
        super().__init__(read_filter, limits, **options)
        # What standby inboxes have collected, in order, by the number of the inbox.
        self._collected: dict[int, dict[Item, None]] = {}
        # What they had no room for since: it is lost only if the source is.
        self._dropped: dict[int, dict[Key, None]] = {}
        # Each tells by client and id whether an inbox is on the move.
        self.on_the_move: list[Callable[[str, str], bool]] = []

    def restore(self, saved: SavedInboxes, now: float) -> list[InboxInstruction]:
        """As of `Inboxes`. Standby inboxes are ended."""
        standby = [n for n, each, _ in saved.subscriptions if each.client.startswith(STANDBY)]
        rest = [each for each in saved.subscriptions if each[0] not in standby]
        ended: list[InboxInstruction] = [ForgetSubscription(number) for number in standby]
        return [*ended, *super().restore(replace(saved, subscriptions=tuple(rest)), now)]

    def has(self, client: str, id_: str) -> bool:
        """Whether there is such an inbox."""
        return (client, id_) in self._by_key

    def of_clients(self) -> list[tuple[str, str]]:
        """Client and id of the durable subscriptions from outside of this master.
        O(subscriptions)."""
        return [key for key in self._by_key if self.is_of_client(*key)]

    def is_of_client(self, client: str, id_: str) -> bool:
        """Whether that is one of these. What is in this process has a name with a slash."""
        inbox = self._by_key.get((client, id_))
        return inbox is not None and inbox.durable and "/" not in client

    def choosing(self) -> list[Inbox]:
        """Those of `of_clients` whose clients have named several masters. O(subscriptions)."""
        chosen = [inbox for inbox in self._by_key.values() if inbox.choice is not None]
        return [inbox for inbox in chosen if "/" not in inbox.client]

    def wanted(self, client: str, id_: str) -> Filter:
        """The filter of an inbox."""
        return self._by_key[client, id_].filter

    def again(self, client: str, id_: str) -> Subscribe:
        """What a client would ask that it has asked before."""
        inbox = self._by_key[client, id_]
        masters = () if inbox.choice is None else inbox.choice.masters
        return Subscribe(id_, inbox.filter, durable=True, short=inbox.short, masters=masters)

    def last(self, client: str, id_: str) -> int:
        """The last position of an inbox; 0 if there is no such inbox."""
        inbox = self._by_key.get((client, id_))
        return 0 if inbox is None else inbox.last

    # --- at the source -------------------------------------------------------------------------

    def detach(self, client: str, id_: str) -> Peer | None:
        """Give nothing more to the client of an inbox, until it subscribes again. Returns its
        connection, if it has one."""
        inbox = self._by_key[client, id_]
        peer, inbox.peer = inbox.peer, None
        if inbox.state == "attached":
            inbox.become("detached")
        return peer

    def remembered(self, client: str, id_: str) -> InboxCopy:
        """Origins that the inbox remembers and its client has: for a standby inbox to learn."""
        inbox = self._by_key[client, id_]
        items = list(inbox.run)
        beyond = max(0, inbox.last - inbox.acknowledged)
        return _copy(inbox, inbox.acknowledged, items[: max(0, len(items) - beyond)], ())

    def copy(self, client: str, id_: str, after: int = 0) -> InboxCopy:
        """The inbox as it is, without the positions up to `after`, which another copy has."""
        inbox = self._by_key[client, id_]
        items = list(inbox.run)
        items = items[max(0, len(items) - (inbox.last - after)) :]
        return _copy(inbox, inbox.last, items, inbox.contents(inbox.last - len(items) + 1))

    def release(self, client: str, id_: str, to: str, cut: int = 0) -> list[InboxInstruction]:
        """From now on the inbox is for `to`, a client that forwards: it has all up to `cut`, as the
        master that took the inbox."""
        inbox = self._by_key[client, id_]
        instructions = self._rename(inbox, to)
        instructions += self._had_up_to(inbox, min(cut, inbox.last))
        inbox.send_again(inbox.acknowledged)
        inbox.peer = None
        if inbox.state == "attached":
            inbox.become("detached")
        return instructions

    # --- at the target -------------------------------------------------------------------------

    def stand_by(self, client: str, id_: str, wanted: Filter, now: float) -> list[InboxInstruction]:
        """Begin to collect, or go on, if the source has begun anew. It does not survive a restart:
        all that it has is at the source, too."""
        if self.has(client, id_):
            return self._want(self._by_key[client, id_], wanted)
        self._numbers += 1
        inbox = Inbox(self._numbers, client, id_, wanted, durable=True)
        inbox.become("standby")
        self._add(inbox, now, filter_bytes(wanted))
        collected: dict[Item, None] = {}
        self._collected[inbox.number] = collected
        # If the inbox was here before, this came first.
        for item in self._forwarded(id_, client.removeprefix(STANDBY)):
            assert item.content is not None
            self._items.hold(item, item.content, durable=False)
            collected[item] = None
        saved = SavedSubscription(client, id_, wanted)
        return [SaveSubscription(inbox.number, saved), StartSubscription(inbox.name, wanted)]

    def learn(self, client: str, id_: str, part: InboxCopy) -> list[InboxInstruction]:
        """The standby inbox remembers these, too. Parts come in order, each without contents."""
        return [*self._extend(self._by_key[client, id_], part)]

    def forget_known(
        self, client: str, id_: str, knows: Callable[[Key], bool]
    ) -> list[InboxInstruction]:
        """Notifications that the standby inbox has collected, and the source's is known to have."""
        number = self._by_key[client, id_].number
        collected = self._collected[number]
        dropped = self._dropped.pop(number, {})
        if rest := {key: None for key in dropped if not knows(key)}:
            self._dropped[number] = rest
        known = [item for item in collected if knows(item.key)]
        for item in known:
            del collected[item]
        return [*self._let_go(known)]

    def adopt(
        self,
        client: str,
        id_: str,
        to: str,
        final: InboxCopy,
        now: float,
        *,
        source_is_dead: bool = False,
    ) -> list[InboxInstruction]:
        """The standby inbox becomes that of `to`. If its source is dead, what it had no room for
        comes from nowhere: the client is told how much that is."""
        inbox = self._by_key[client, id_]
        instructions: list[InboxInstruction] = [*self._extend(inbox, final)]
        # Its client may have changed it since the copy.
        instructions += self._want(inbox, final.filter)
        instructions += self._rename(inbox, to)
        instructions += self._had_up_to(inbox, final.acknowledged)
        inbox.send_again(inbox.acknowledged)
        inbox.become("detached")
        inbox.seen_s = now
        collected = self._collected.pop(inbox.number)
        instructions += self._put_all(inbox, collected)
        dropped = self._dropped.pop(inbox.number, {})
        if source_is_dead:
            # Last: before, it would itself be what there is no room for.
            instructions += self._put_lost(inbox, dropped)
        return [*instructions, *self._let_go(collected)]

    def take(
        self, client: str, id_: str, contents: Iterable[Content]
    ) -> tuple[list[InboxInstruction], int]:
        """Take what the source forwards, for the client's inbox, or, if it moved, for the one
        that forwards; and how many of these are new here."""
        if self.has(client, id_):
            inbox = self._by_key[client, id_]
        elif forwarding := self._forwarding(id_):
            inbox = forwarding[-1]
        else:
            raise KeyError(id_)
        before = inbox.last
        instructions = [
            each
            for content in contents
            for each in self._content(ContentArrived((inbox.name,), content))
        ]
        return instructions, inbox.last - before

    def absorb(self, client: str, id_: str, of: str | None = None) -> list[InboxInstruction]:
        """The inbox is back for good: what waits to be forwarded to where it was goes into it.
        Before, the master that has it may take it back, and needs what is forwarded. `of` is its
        name among those that forward, since clients choose their ids. None is fine, too: damage on
        disk may have taken it."""
        inbox = self._by_key.get((client, id_))
        return [] if inbox is None else self._merge(inbox, self._forwarding(id_, of))

    def end(self, client: str, id_: str) -> list[InboxInstruction]:
        """The inbox is no more. None is fine, too."""
        inbox = self._by_key.get((client, id_))
        return [] if inbox is None else self._end(inbox, "cancelled")

    # --- parts of these ------------------------------------------------------------------------

    def _put(self, inbox: Inbox, item: Item, content: Content) -> list[InboxChange]:
        if inbox.state != "standby":
            return super()._put(inbox, item, content)
        collected = self._collected[inbox.number]
        if item in collected:
            self.counters["notifications_repeated"] += 1
            return []
        collected[item] = None
        # Not for the disk. What is dropped for want of room comes from the source, if later.
        changes = self._items.hold(item, content, durable=False)
        if len(collected) > self._limits.most:
            oldest = next(iter(collected))
            changes += self._let_go([oldest])
            del collected[oldest]
            dropped = self._dropped.setdefault(inbox.number, {})
            dropped[oldest.key] = None
            if len(dropped) > MAX_DROPPED:
                del dropped[next(iter(dropped))]
        return changes

    def _put_lost(self, inbox: Inbox, dropped: Iterable[Key]) -> list[InboxChange]:
        """Put what stands for these at the next positions."""
        lost: list[Lost] = []
        sequences: dict[tuple[str, str], list[int]] = {}
        for key in dropped:
            if (item := self._items.get(key)) is not None and inbox.knows(item):
                continue
            if isinstance(key, Lost):
                lost.append(key)
            else:
                sequences.setdefault((key.publisher, key.history), []).append(key.sequence)
        lost += [Lost(*of, min(its), max(its), len(its)) for of, its in sequences.items()]
        changes: list[InboxChange] = []
        for each in lost:
            if not inbox.knows(item := self._items.find(each)):
                changes += super()._put(inbox, item, each)
        return changes

    def _stays(self, inbox: Inbox) -> bool:
        """One on the move is ended by its handover."""
        if inbox.state != "detached":
            return inbox.state == "standby"
        return any(moves(inbox.client, inbox.id) for moves in self.on_the_move)

    def _end(self, inbox: Inbox, state: str) -> list[InboxInstruction]:
        collected = self._collected.pop(inbox.number, {})
        self._dropped.pop(inbox.number, None)
        return [*super()._end(inbox, state), *self._let_go(collected)]

    def _forwarding(self, id_: str, of: str | None = None) -> list[Inbox]:
        return [
            inbox
            for (client, its_id), inbox in self._by_key.items()
            if its_id == id_
            and client.startswith(FORWARDING)
            and (of is None or client.removeprefix(FORWARDING).partition("/")[2] == of)
        ]

    def _forwarded(self, id_: str, of: str | None = None) -> list[Item]:
        """Notifications that wait to be forwarded from inboxes of this id and name."""
        return [item for inbox in self._forwarding(id_, of) for item in inbox.kept]

    def _put_all(self, inbox: Inbox, items: Iterable[Item]) -> list[InboxChange]:
        """Put what the inbox does not know at its next positions."""
        changes: list[InboxChange] = []
        for item in items:
            content = item.content
            assert content is not None
            if not inbox.knows(item):
                changes += super()._put(inbox, item, content)
        return changes

    def _merge(self, inbox: Inbox, others: Iterable[Inbox]) -> list[InboxInstruction]:
        """The others end; what waits in them goes into the inbox."""
        instructions: list[InboxInstruction] = []
        for other in others:
            instructions += self._put_all(inbox, list(other.kept))
            instructions += self._end(other, "cancelled")
        return [*instructions, *self._send(inbox)]

    def _let_go(self, items: Iterable[Item]) -> list[InboxChange]:
        """A standby inbox holds these no longer."""
        changes: list[InboxChange] = []
        for item in items:
            changes += self._items.give_up(item)
            changes += self._items.forget(item)
        return changes

    def _extend(self, inbox: Inbox, copy: InboxCopy) -> list[InboxChange]:
        """Append the copy, or begin with it if it does not follow what the inbox has."""
        changes: list[InboxChange] = []
        again = (self._items.get(key) for key, _ in copy.items())
        if copy.first != inbox.last + 1 or any(each and inbox.knows(each) for each in again):
            # The source has forgotten what is in between, so what is before that, too.
            changes += [each for item in inbox.known for each in self._items.forget(item)]
            changes += [ForgetPosition(inbox.number, position) for position in inbox.early]
            changes.append(ForgetPositions(inbox.number, inbox.last))
            inbox.begin_at(copy.first)
        for key, content in copy.items():
            item = self._items.at(key)
            if content is None:
                changes += self._items.remember(item)
                inbox.remember(item)
            else:
                changes += self._items.hold(item, content, durable=True)
                inbox.put(item)
            changes.append(StorePosition(inbox.number, inbox.last, item.number))
        return changes + self._give_up(inbox.overflow(self._limits.most, self._limits.most_bytes))

    def _want(self, inbox: Inbox, wanted: Filter) -> list[InboxInstruction]:
        """From now on the inbox has this filter; `_rename` saves it."""
        if inbox.filter == wanted:
            return []
        inbox.filter = wanted
        self._resize(inbox, filter_bytes(wanted))
        return [StartSubscription(inbox.name, wanted)]

    def _had_up_to(self, inbox: Inbox, position: int) -> list[InboxChange]:
        if position <= inbox.acknowledged:
            return []
        return [*self._give_up(inbox.acknowledge(position)), SaveCursor(inbox.number, position)]

    def _rename(self, inbox: Inbox, client: str) -> list[InboxInstruction]:
        """From now on the inbox is that of this client, with what waits in the one that it has."""
        instructions: list[InboxInstruction] = []
        if self.has(client, inbox.id):
            instructions = self._merge(inbox, [self._by_key[client, inbox.id]])
        del self._by_key[inbox.client, inbox.id]
        inbox.client = client
        self._by_key[client, inbox.id] = inbox
        self._give(inbox, client)
        saved = SavedSubscription(client, inbox.id, inbox.filter)
        return [*instructions, SaveSubscription(inbox.number, saved)]

    def _collected_by(self, inbox: Inbox) -> Iterable[Item]:
        return self._collected.get(inbox.number, ())


def _copy(
    inbox: Inbox, last: int, items: list[Item], contents: Iterable[Content | None]
) -> InboxCopy:
    keys = (each.key for each in items)
    return InboxCopy.of_keys(inbox.filter, inbox.acknowledged, last, keys, contents)
