"""The inboxes of a master's subscribers: notifications are kept until their clients acknowledge
them.

A notification for a durable subscription is on disk, at a position that never changes, before it is
sent to the client. After a crash at any point, every unacknowledged notification is sent again at
the same position, and no notification has two positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import groupby

from msgspec.structs import replace

from _core.queue.edf import EdfQueue
from agent.alerts.choice import masters_bytes, masters_in, topics_in
from agent.alerts.coalesce import together
from agent.alerts.inbox import Inbox, check_size, filter_bytes, last_run, refusal, why_not_again
from agent.alerts.inbox_events import (
    AcknowledgeArrived,
    Content,
    ContentArrived,
    EndSubscription,
    ForgetPosition,
    ForgetPositions,
    ForgetSubscription,
    InboxChange,
    InboxesDue,
    InboxEvent,
    InboxInstruction,
    SaveCursor,
    SavedInboxes,
    SavedSubscription,
    SaveSubscription,
    SendPush,
    SetPositionApart,
    StartSubscription,
    StorePosition,
    SubscribeArrived,
    UnsubscribeArrived,
)
from agent.alerts.items import Item, Items
from agent.alerts.limits import Limits
from agent.alerts.unmatchable import Names, Nearest, doubt
from agent.wire.areas import AreaSet
from agent.wire.predicates import Filter
from agent.wire.push import Subscribe, Subscribed

# Clients within this process that begin so are homes of clones, which hear what these put out.
ANCHOR = "clone/"
LIMITS = Limits()


class Inboxes:
    """Accepts subscriptions, keeps notifications for them, and sends them.

    `read_filter` parses the text form of a filter, or checks its parts; ValueError says what is
    wrong. `areas` returns the areas that some node is known to cover; `nearest` is for hints.
    `names` gives the known values of an attribute.
    `now` is monotonic seconds. A notification is O(subscriptions that match); every other event is
    O(log subscriptions) and what it sends.
    """

    def __init__(
        self,
        read_filter: Callable[[str | Filter], Filter],
        limits: Limits = LIMITS,
        *,
        areas: Callable[[], Sequence[AreaSet]] = tuple,
        nearest: Nearest = lambda *_: "",
        names: Names = lambda _: (),
    ) -> None:
        self._read_filter = read_filter
        self._areas, self._nearest, self._names = areas, nearest, names
        self._limits = limits
        self._by_key: dict[tuple[str, str], Inbox] = {}
        self._by_name: dict[str, Inbox] = {}
        self._owned: Counter[Hashable] = Counter()
        # Bytes of the filters, by owner, and of all.
        self._filter_bytes: Counter[Hashable] = Counter()
        self._filter_bytes_in_all = 0
        self._items = Items()
        self._timers: EdfQueue[Inbox] = EdfQueue()
        self._numbers = 0
        self.counters = {
            "notifications_sent": 0,
            "notifications_repeated": 0,
            "notifications_dropped": 0,
            "subscriptions_expired": 0,
        }

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def waiting(self) -> int:
        """Positions that are kept and not acknowledged."""
        return sum(len(inbox.kept) for inbox in self._by_key.values())

    def has(self, client: str, id_: str) -> bool:
        """Whether the client has a subscription of this id."""
        return (client, id_) in self._by_key

    def ids_of(self, client: str) -> list[str]:
        """The client's subscription ids. O(subscriptions)."""
        return [id_ for owner, id_ in self._by_key if owner == client]

    def kept_for(self, prefix: str) -> list[tuple[str, str]]:
        """Client and id of the subscriptions of all clients whose name has this prefix.
        O(subscriptions)."""
        return [key for key in self._by_key if key[0].startswith(prefix)]

    def bytes_for(self, prefix: str) -> dict[str, int]:
        """The bytes that are kept for each client whose name has this prefix, by the rest of the
        name. O(subscriptions)."""
        found: dict[str, int] = {}
        for (client, _), inbox in self._by_key.items():
            if client.startswith(prefix):
                name = client.removeprefix(prefix)
                found[name] = found.get(name, 0) + inbox.bytes
        return found

    def topics_named(self) -> Counter[str]:
        """How many subscriptions of clients name each topic. O(subscriptions)."""
        found: Counter[str] = Counter()
        for (client, _), inbox in self._by_key.items():
            # Not a topic's own; what a clone puts out goes to its home.
            if "/" not in client or client.startswith(ANCHOR):
                found.update(topics_in(inbox.filter))
        return found

    @property
    def next_tick(self) -> float | None:
        """When `InboxesDue` is due; None if no timer is set."""
        return self._timers.peek_key() if len(self._timers) else None

    def restore(self, saved: SavedInboxes, now: float) -> list[InboxInstruction]:
        """Restore from disk, before any event; MsgspecError if this version cannot read it. Expiry
        timers start anew."""
        items = {number: self._items.restore(number, k, body) for number, k, body in saved.items}
        early: dict[int, list[tuple[int, Item]]] = {}
        runs: dict[int, tuple[int, list[Item]]] = {}
        for number, rows in groupby(saved.positions, key=lambda row: row[0]):
            if number < 0:
                early[-number] = [(at, items[n]) for _, at, n in rows if n in items]
            else:
                runs[number] = last_run(rows, items)
        instructions: list[InboxInstruction] = []
        for number, kept, acknowledged in saved.subscriptions:
            inbox = Inbox(number, kept.client, kept.id, kept.filter, durable=True)
            last, run = runs.get(number, (acknowledged, []))
            inbox.restore(
                acknowledged,
                max(last, acknowledged),
                early.get(number, ()),
                run,
                self._limits.most,
                self._limits.most_bytes,
            )
            for item in inbox.known:
                item.known += 1
            for item in inbox.kept:
                item.kept += 1
            inbox.become("detached")
            self._add(inbox, now, filter_bytes(kept.filter))
            self._numbers = max(self._numbers, number)
            instructions.append(StartSubscription(inbox.name, inbox.filter))
        return [*self._items.tidy(), *instructions]

    def handle(self, event: InboxEvent, now: float) -> list[InboxInstruction]:
        """Handle one event; returns the instructions, in order."""
        match event:
            case ContentArrived():
                return self._content(event)
            case AcknowledgeArrived():
                return self._acknowledged(event, now)
            case SubscribeArrived():
                return self._subscribed(event, now)
            case UnsubscribeArrived():
                return self._unsubscribed(event)
            case InboxesDue():
                return self._due(now)

    # --- from the broker -----------------------------------------------------------------------

    def _content(self, event: ContentArrived) -> list[InboxInstruction]:
        item = self._items.find(event.content)
        at_once: list[list[SendPush]] = []
        stored: list[InboxInstruction] = []
        to_send: list[list[SendPush]] = []
        for name in event.names:
            inbox = self._by_name.get(name)
            if inbox is None:
                continue  # the subscription ended while this was in flight
            if inbox.knows(item):
                self.counters["notifications_repeated"] += 1
            else:
                stored += self._put(inbox, item, event.content)
                if inbox.choice is not None:
                    inbox.choice.count(event.content)
                (to_send if inbox.durable else at_once).append(self._send(inbox))
        self._items.drop_unheld(item)
        # What needs no disk does not wait for it.
        return [*together(at_once), *stored, *together(to_send)]

    def _put(self, inbox: Inbox, item: Item, content: Content) -> list[InboxChange]:
        limits = self._limits
        changes = self._items.hold(item, content, durable=inbox.durable)
        inbox.put(item)
        if inbox.durable:
            changes.append(StorePosition(inbox.number, inbox.last, item.number))
        most = limits.items(durable=inbox.durable)
        if dropped := inbox.overflow(most, self._room(inbox, item)):
            self.counters["notifications_dropped"] += len(dropped)
            changes += self._give_up(dropped)
        share = limits.most_remembered_in_all // len(self._by_key)
        if len(self._items) > limits.most_remembered_items:
            share = min(share, limits.most_remembered_items // len(self._by_key))
        upto, early, left, items = inbox.forget(min(limits.most_remembered, share))
        changes += [change for each in items for change in self._items.forget(each)]
        if inbox.durable and upto:
            changes += [ForgetPosition(inbox.number, position) for position in left]
            changes += [SetPositionApart(inbox.number, position) for position in early]
            changes.append(ForgetPositions(inbox.number, upto))
        return changes

    def _room(self, inbox: Inbox, item: Item) -> int:
        """Bytes that it may keep. Beyond its share it drops twice what came, not all in a turn."""
        share = self._limits.most_bytes_owned
        if self._items.bytes > self._limits.most_bytes_in_all:
            share = min(share, self._limits.most_bytes_in_all // len(self._owned))
        share //= self._owned[inbox.owner]
        return min(self._limits.most_bytes, max(share, inbox.bytes - 2 * item.bytes))

    def _give_up(self, items: Iterable[Item]) -> list[InboxChange]:
        return [change for item in items for change in self._items.give_up(item)]

    def _send(self, inbox: Inbox) -> list[SendPush]:
        if inbox.state != "attached":
            return []
        messages = inbox.messages(self._limits.window)
        sent = [SendPush(inbox.peer, message, inbox.durable) for message in messages]
        self.counters["notifications_sent"] += len(sent)
        return sent

    # --- from clients --------------------------------------------------------------------------

    def _subscribed(self, event: SubscribeArrived, now: float) -> list[InboxInstruction]:
        message = event.message
        try:
            # Checked first, because parsing a large filter takes long.
            check_size(message.filter)
            wanted = self._read_filter(message.filter)
            size = check_size(wanted) + masters_bytes(masters_in(message))
        except ValueError as error:
            return refusal(event.peer, message, f"filter: {error}")
        inbox = self._by_key.get((event.client, message.id))
        owner: Hashable = event.client or event.peer
        problem = (
            self._why_not_new(owner, message) if inbox is None else why_not_again(inbox, message)
        )
        if problem := problem or self._why_not_of_this_size(owner, inbox, size):
            return refusal(event.peer, message, problem)
        instructions: list[InboxInstruction] = []
        if inbox is None:
            self._numbers += 1
            inbox = Inbox(self._numbers, event.client, message.id, wanted, durable=message.durable)
            inbox.owner = owner
            self._add(inbox, now, size)
            instructions = self._start(inbox)
        elif inbox.filter != wanted:
            inbox.filter = wanted
            instructions = self._start(inbox)
        self._resize(inbox, size)
        self._give(inbox, owner)
        inbox.become("attached")
        self._timers.rekey(inbox.timer, now + self._limits.lease_s)
        inbox.peer, inbox.short = event.peer, message.short
        inbox.choose(message)
        after = inbox.acknowledged if message.after is None else message.after
        instructions += self._had(inbox, after, now)
        inbox.send_again(after)
        doubts = doubt(wanted, self._areas(), self._nearest, self._names)
        reply = Subscribed(inbox.id, "open", after, self._limits.lease_s * 1e3, doubts)
        instructions.append(SendPush(event.peer, reply, inbox.durable))
        return instructions + self._send(inbox)

    def _start(self, inbox: Inbox) -> list[InboxInstruction]:
        starting = StartSubscription(inbox.name, inbox.filter)
        if not inbox.durable:
            return [starting]
        saved = SavedSubscription(inbox.client, inbox.id, inbox.filter)
        return [SaveSubscription(inbox.number, saved), starting]

    def _why_not_new(self, owner: Hashable, message: Subscribe) -> str:
        if message.after is not None:
            return (
                f"no subscription {message.id!r} is kept here: it was ended, its master lost it, "
                "or nothing was heard of its client for too long; subscribe anew without 'after'"
            )
        if message.kept_only:
            return f"subscription {message.id!r} is not kept at this master"
        if self._owned[owner] >= (most := self._limits.most_owned):
            return f"{most} subscriptions are open for you; unsubscribe one"
        if len(self._by_key) >= (most := self._limits.most_subscriptions):
            return f"{most} subscriptions are open here; try another master"
        return ""

    def _why_not_of_this_size(self, owner: Hashable, inbox: Inbox | None, size: int) -> str:
        """Why the owner may not have a filter of so many bytes, in place of that of `inbox`."""
        before = 0 if inbox is None else inbox.filter_bytes
        of_owner = before if inbox is not None and inbox.owner == owner else 0
        if size > of_owner and self._filter_bytes[owner] + size - of_owner > (
            most := self._limits.most_filter_bytes
        ):
            return f"your filters would have more than {most} bytes; unsubscribe one"
        in_all = self._filter_bytes_in_all + size - before
        if size > before and in_all > (most := self._limits.most_filter_bytes_in_all):
            return f"all filters here would have more than {most} bytes; try another master"
        return ""

    def _acknowledged(self, event: AcknowledgeArrived, now: float) -> list[InboxInstruction]:
        message = event.message
        changes: list[InboxChange] = []
        runs: list[list[SendPush]] = []
        for id_, position in {message.id: message.position, **dict(message.also)}.items():
            inbox = self._by_key.get((event.client, id_))
            if inbox is None or inbox.state != "attached" or inbox.peer != event.peer:
                runs.append([SendPush(event.peer, Subscribed(id_, "unknown"), waits=False)])
            else:
                changes += self._had(inbox, min(position, inbox.sent), now)
                runs.append(self._send(inbox))
        return [*changes, *together(runs)]

    def _had(self, inbox: Inbox, position: int, now: float) -> list[InboxChange]:
        """The client is connected, and has all up to `position`."""
        inbox.seen_s = now
        if position <= inbox.acknowledged:
            return []
        released = inbox.acknowledge(position)
        changes = self._give_up(released)
        if inbox.durable:
            changes.append(SaveCursor(inbox.number, position))
        return changes

    def _unsubscribed(self, event: UnsubscribeArrived) -> list[InboxInstruction]:
        reply = Subscribed(event.message.id, "cancelled")
        inbox = self._by_key.get((event.client, event.message.id))
        if inbox is None:
            # No error: the reply to an earlier request may have been lost.
            reply = replace(reply, message=f"no subscription {event.message.id!r} is kept here")
            return [SendPush(event.peer, reply, waits=True)]
        return [*self._end(inbox, "cancelled"), SendPush(event.peer, reply, inbox.durable)]

    def _resize(self, inbox: Inbox, size: int) -> None:
        """Its filter takes so many bytes from now on."""
        self._filter_bytes[inbox.owner] += size - inbox.filter_bytes
        self._filter_bytes_in_all += size - inbox.filter_bytes
        inbox.filter_bytes = size

    # --- begin and end -------------------------------------------------------------------------

    def _add(self, inbox: Inbox, now: float, size: int) -> None:
        self._by_key[inbox.client, inbox.id] = inbox
        self._by_name[inbox.name] = inbox
        self._owned[inbox.owner] += 1
        self._resize(inbox, size)
        inbox.seen_s = now
        inbox.timer = self._timers.push(now + self._patience_s(inbox), inbox)

    def _give(self, inbox: Inbox, owner: Hashable) -> None:
        """From now on the subscription counts against this owner."""
        if owner != inbox.owner:
            self._disown(inbox)
            inbox.owner = owner
            self._owned[owner] += 1
            self._filter_bytes[owner] += inbox.filter_bytes

    def _disown(self, inbox: Inbox) -> None:
        self._owned[inbox.owner] -= 1
        self._filter_bytes[inbox.owner] -= inbox.filter_bytes
        if not self._owned[inbox.owner]:
            del self._owned[inbox.owner], self._filter_bytes[inbox.owner]

    def _patience_s(self, inbox: Inbox) -> float:
        """How long the client may be silent."""
        return self._limits.expire_s if inbox.state == "detached" else self._limits.lease_s

    def _due(self, now: float) -> list[InboxInstruction]:
        instructions: list[InboxInstruction] = []
        while len(self._timers) and self._timers.peek_key() <= now:
            inbox = self._timers.pop()
            inbox.timer = -1
            if self._stays(inbox):
                inbox.seen_s = now
            if inbox.seen_s + self._patience_s(inbox) <= now:
                if not inbox.durable or inbox.state == "detached":
                    self.counters["subscriptions_expired"] += 1
                    instructions += self._end(inbox, "expired")
                    continue
                inbox.become("detached")
                inbox.peer = None
            # Activity does not move the timer: when it expires it is set again.
            due_s = inbox.seen_s + self._patience_s(inbox)
            inbox.timer = self._timers.push(due_s, inbox)
        return instructions

    def _stays(self, _inbox: Inbox) -> bool:
        """Whether it does not expire, however long its client is away."""
        return False

    def _end(self, inbox: Inbox, state: str) -> list[InboxInstruction]:
        inbox.become(state)
        del self._by_key[inbox.client, inbox.id]
        del self._by_name[inbox.name]
        self._resize(inbox, 0)
        self._disown(inbox)
        if inbox.timer >= 0:
            self._timers.remove(inbox.timer)
            inbox.timer = -1
        changes = self._give_up(inbox.kept)
        for item in inbox.known:
            changes += self._items.forget(item)
        ending: list[InboxInstruction] = [EndSubscription(inbox.name), *changes]
        return [*ending, ForgetSubscription(inbox.number)] if inbox.durable else ending

    def _collected_by(self, _inbox: Inbox) -> Iterable[Item]:
        """What a standby inbox has besides."""
        return ()

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        inboxes = list(self._by_key.values())
        assert {inbox.name for inbox in inboxes} == self._by_name.keys()
        assert len(self._timers) == len(inboxes) == sum(self._owned.values())
        named = [() if each.choice is None else each.choice.masters for each in inboxes]
        in_all = sum(map(masters_bytes, named)) + sum(filter_bytes(each.filter) for each in inboxes)
        assert self._filter_bytes.total() == self._filter_bytes_in_all == in_all
        assert self._filter_bytes.keys() <= self._owned.keys()
        kept, known = Counter[Item](), Counter[Item]()
        for inbox in inboxes:
            most = self._limits.items(durable=inbox.durable)
            inbox.check_invariants(most, self._limits.most_bytes, self._limits.window)
            assert inbox.state == "attached" or inbox.durable
            assert all(item.whole for item in inbox.kept if inbox.durable)
            collected = list(self._collected_by(inbox))
            kept.update([*inbox.kept, *collected])
            known.update([*inbox.known, *collected])
        self._items.check_invariants()
        assert len(known) == len(self._items)
        assert all(item.kept == kept[item] and item.known == known[item] for item in known)
