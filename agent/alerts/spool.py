"""The spool of a publisher's home master: notifications that some subscriber may not have yet.

A notification is spooled before its node may forget it, and stays until the overlay reports that
every subscriber has it. Until then it is published again: after a restart, when the overlay reports
that a subscriber may not have it, and when the overlay reports nothing for long. The overlay and
the subscribers' masters drop duplicates by origin.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter

import msgspec

from _core.queue.edf import EdfQueue
from agent.alerts.dedup_window import DedupWindow, Taken
from agent.alerts.lifecycle import SPOOLED_TRANSITIONS
from agent.alerts.losses import Losses
from agent.alerts.spool_events import (
    Accepted,
    Brought,
    ForgetSpooled,
    ForgetTaken,
    LostTold,
    PublishSpooled,
    SavedSpool,
    SaveTaken,
    Settled,
    SpoolDue,
    SpoolEvent,
    SpoolInstruction,
    StoreSpooled,
    Undeliverable,
)
from agent.runtime.back_off import pause_after
from agent.runtime.state_machine import StateMachine
from agent.wire.overlay import Notification, Origin

MAX_SPOOLED = 10_000
MAX_BYTES = 16 << 20
# Rate of republishing; new notifications overtake republished ones.
BACKLOG_PER_S = 100.0
BURST = 20
# Wait for an outcome of a publication: the broker keeps what it could not pass on for longer than
# that.
AGAIN_S = 300.0
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0
# Histories of all nodes, including those from before a card was flashed anew.
MAX_HISTORIES = 4_096
# Sequences above the marks that are remembered for all clients: 18 MB, and 2 MB on disk. One that
# leaves gaps in 4,096 histories would take 280 MB, for good.
MAX_CLIENT_SEQUENCES = 1 << 18
# Whoever is no node begins so: a node's name has no slash.
CLIENTS = "client/"


class _Spooled(StateMachine):
    __slots__ = ("bytes", "client", "handle", "notification", "number", "refusals")

    TRANSITIONS = SPOOLED_TRANSITIONS

    def __init__(
        self, number: int, notification: Notification, size: int, client: str = ""
    ) -> None:
        super().__init__()
        self.client = client  # that published it since the start; empty: nobody knows, or a node
        self.number = number
        self.notification = notification
        self.bytes = size
        self.refusals = 0
        self.handle = -1

    def __repr__(self) -> str:
        return f"<spooled {self.number} {self.notification.origin} {self.state}>"


class Spool:
    """Keeps at most `most` notifications with `most_bytes` in all, as MessagePack. When it is full,
    the oldest are dropped, counted, and reported to subscribers as ranges. `now` is monotonic
    seconds. Every event is O(log spooled) per notification, and the deduplication window of its
    history."""

    def __init__(
        self,
        *,
        most: int = MAX_SPOOLED,
        most_bytes: int = MAX_BYTES,
        backlog_per_s: float = BACKLOG_PER_S,
        again_s: float = AGAIN_S,
        most_histories: int = MAX_HISTORIES,
        most_client_sequences: int = MAX_CLIENT_SEQUENCES,
    ) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._spacing_s = 1.0 / backlog_per_s
        self._again_s = again_s
        # Keyed (node, history). Clients choose their histories: a thousand of them must not make
        # those of the nodes forgotten, nor those of other clients.
        self._node_windows: DedupWindow[tuple[str, str]] = DedupWindow(most_histories)
        self._client_windows: DedupWindow[tuple[str, str]] = DedupWindow(
            most_histories, itemgetter(0), most_client_sequences
        )
        self._spooled: dict[Origin, _Spooled] = {}  # oldest first
        self._due: EdfQueue[_Spooled] = EdfQueue()
        self._bytes = 0
        # Of these, entries and bytes by client.
        self._client_entries: Counter[str] = Counter()
        self._client_bytes: Counter[str] = Counter()
        self._numbers = 0
        # The rate limit is respected if evenly spaced republications would end here.
        self._paced_until_s = -math.inf
        self._losses = Losses(again_s)
        self.counters = {
            "spooled": 0,
            "spooled_alerts": 0,  # of these, those of nodes' triggers
            "spooled_repeated": 0,
            "spooled_published_again": 0,
            "spooled_settled": 0,
            "spooled_undeliverable": 0,
            "spooled_given_up": 0,
        }

    def __len__(self) -> int:
        return len(self._spooled)

    @property
    def bytes(self) -> int:
        """Size of the spooled notifications, as MessagePack."""
        return self._bytes

    def of(self, history: str) -> set[Origin]:
        """Spooled notifications of this history. O(spooled)."""
        return {origin for origin in self._spooled if origin.history == history}

    def unsettled(self, history: str) -> list[Notification]:
        """The same, as notifications, oldest first."""
        entries = self._spooled.items()
        return [entry.notification for origin, entry in entries if origin.history == history]

    @property
    def crowded(self) -> bool:
        """Whether it is half full: the rest is for the nodes' alerts."""
        return len(self._spooled) * 2 >= self._most or self._bytes * 2 >= self._most_bytes

    def is_crowded_by(self, client: str) -> bool:
        """Whether a client has more here than it leaves free of that half, so that one which
        publishes while masters are away leaves room for others. One alone has a quarter. O(1)."""
        entries, size = self._client_entries[client], self._client_bytes[client]
        return bool(entries) and (
            (entries + len(self._spooled)) * 2 >= self._most
            or (size + self._bytes) * 2 >= self._most_bytes
        )

    def has_room_for(self, notifications: Collection[Notification]) -> bool:
        """Whether these leave half of it to the nodes' alerts. More than half at once have to push
        nothing out, or only one another. O(notifications)."""
        if self.crowded:
            return False
        more = len(notifications)
        size = sum([len(msgspec.msgpack.encode(each)) for each in notifications])
        count, total = len(self._spooled) + more, self._bytes + size
        if more * 2 <= self._most and size * 2 <= self._most_bytes:
            return count * 2 <= self._most and total * 2 <= self._most_bytes
        return not self._spooled or (count <= self._most and total <= self._most_bytes)

    @property
    def next_tick(self) -> float | None:
        """When `SpoolDue` is due; None if no timer is set."""
        due_s = self._losses.due_s
        if len(self._due):
            due_s = min(due_s, max(self._due.peek_key(), self._next_turn_s))
        return None if due_s == math.inf else due_s

    def restore(self, saved: SavedSpool, now: float) -> None:
        """Restore from disk, before any event; MsgspecError if this version cannot read it."""
        decode = msgspec.msgpack.Decoder(Notification).decode
        for number, body in saved.spooled:
            entry = _Spooled(number, decode(body), len(body))
            self._keep(entry)
            self._wait(entry, now)
            self._numbers = max(self._numbers, number)
        for node, history, taken in saved.taken:
            self._window_of(node).restore((node, history), taken)
        for lost in saved.lost:
            self._losses.restore(lost, now)

    def taken_of(self, node: str, histories: Iterable[str]) -> dict[str, Taken]:
        """Spooled events of these histories of a node, by history. O(those known)."""
        window = self._window_of(node)
        return {history: window.of((node, history)) for history in histories}

    def adopt(self, node: str, taken: Mapping[str, Taken]) -> list[SpoolInstruction]:
        """Another master spooled these: they are not spooled here. Returns the changes to write."""
        window = self._window_of(node)
        changes: list[SpoolInstruction] = []
        for history, each in taken.items():
            evicted = window.merge((node, history), each)
            changes.append(SaveTaken(node, history, window.of((node, history))))
            changes += [ForgetTaken(*gone) for gone in evicted]
        return changes

    def has_of(self, histories: Collection[str]) -> bool:
        """Whether some notification whose origin has one of these histories is still here.
        O(spooled)."""
        return any(origin.history in histories for origin in self._spooled)

    def handle(self, event: SpoolEvent, now: float) -> list[SpoolInstruction]:
        """Handle one event; returns the instructions, in order."""
        match event:
            case Brought():
                return self._brought(event, now)
            case Settled(origin):
                return self._settled(origin)
            case Undeliverable(origin):
                return self._undeliverable(origin, now)
            case LostTold(lost):
                return self._losses.told(lost)
            case SpoolDue():
                return self._turns(now)

    # --- in ------------------------------------------------------------------------------------

    def _brought(self, event: Brought, now: float) -> list[SpoolInstruction]:
        # By sequence, because one message may contain an event twice.
        history = (event.node, event.history)
        window = self._window_of(event.node)
        taken: dict[int, None] = {}
        new: dict[Origin, Notification] = {}
        for each in event.events:
            if each.sequence in taken or window.knows(history, each.sequence):
                self.counters["spooled_repeated"] += len(each.notifications)
                continue
            taken[each.sequence] = None
            for notification in each.notifications:
                # An event that the deduplication window forgot may still be spooled.
                if notification.origin in self._spooled:
                    self.counters["spooled_repeated"] += 1
                else:
                    new[notification.origin] = notification
        forgotten = window.take(history, taken, event.oldest)
        if not taken:
            return [Accepted(event.token)]
        if "/" not in event.node:  # which the names of topics and clients have here
            self.counters["spooled_alerts"] += len(new)
        instructions: list[SpoolInstruction] = []
        for notification in new.values():
            client = event.node if event.node.startswith(CLIENTS) else ""
            instructions += self._add(notification, client, now)
        instructions += self._drop(now)
        instructions.append(SaveTaken(*history, window.of(history)))
        instructions += [ForgetTaken(*each) for each in forgotten]
        instructions.append(Accepted(event.token))
        return instructions

    def _window_of(self, node: str) -> DedupWindow[tuple[str, str]]:
        return self._client_windows if node.startswith(CLIENTS) else self._node_windows

    def _add(self, notification: Notification, client: str, now: float) -> list[SpoolInstruction]:
        body = msgspec.msgpack.encode(notification)
        self._numbers += 1
        entry = _Spooled(self._numbers, notification, len(body), client)
        self._keep(entry)
        self.counters["spooled"] += 1
        self._publish(entry, now)
        return [StoreSpooled(entry.number, body), PublishSpooled(notification)]

    def _keep(self, entry: _Spooled) -> None:
        self._spooled[entry.notification.origin] = entry
        self._bytes += entry.bytes
        if entry.client:
            self._client_entries[entry.client] += 1
            self._client_bytes[entry.client] += entry.bytes

    def _drop(self, now: float) -> list[SpoolInstruction]:
        """Drop the oldest notifications; the most recent one stays, however large it is."""
        instructions: list[SpoolInstruction] = []
        given_up = []
        while len(self._spooled) > self._most or (
            self._bytes > self._most_bytes and len(self._spooled) > 1
        ):
            oldest = next(iter(self._spooled.values()))
            instructions.append(self._take_out(oldest, "given_up"))
            self.counters["spooled_given_up"] += 1
            given_up.append(oldest.notification.origin)
        return [*instructions, *self._losses.add(given_up, now)]

    # --- out -----------------------------------------------------------------------------------

    @property
    def _next_turn_s(self) -> float:
        return self._paced_until_s - (BURST - 1) * self._spacing_s

    def _turns(self, now: float) -> list[SpoolInstruction]:
        """Republish what is due, as fast as the rate limit allows, and report losses."""
        instructions: list[SpoolInstruction] = []
        while len(self._due) and self._due.peek_key() <= now and self._next_turn_s <= now:
            entry = self._due.pop()
            self._paced_until_s = max(self._paced_until_s, now) + self._spacing_s
            self._publish(entry, now)
            self.counters["spooled_published_again"] += 1
            instructions.append(PublishSpooled(entry.notification))
        return [*instructions, *self._losses.tell(now)]

    def _publish(self, entry: _Spooled, now: float) -> None:
        entry.become("published")
        entry.handle = self._due.push(now + self._again_s, entry)

    def _wait(self, entry: _Spooled, due_s: float) -> None:
        entry.become("waiting")
        entry.handle = self._due.push(due_s, entry)

    def _settled(self, origin: Origin) -> list[SpoolInstruction]:
        entry = self._spooled.get(origin)
        if entry is None:
            return []  # reported twice, or dropped
        self.counters["spooled_settled"] += 1
        return [self._take_out(entry, "settled")]

    def _undeliverable(self, origin: Origin, now: float) -> list[SpoolInstruction]:
        entry = self._spooled.get(origin)
        if entry is None or entry.state == "waiting":
            return []
        self.counters["spooled_undeliverable"] += 1
        pause_s = pause_after(entry.refusals, FIRST_PAUSE_S, MAX_PAUSE_S)
        entry.refusals += 1
        self._due.remove(entry.handle)
        self._wait(entry, now + pause_s)
        return []

    def _take_out(self, entry: _Spooled, state: str) -> ForgetSpooled:
        entry.become(state)
        del self._spooled[entry.notification.origin]
        self._bytes -= entry.bytes
        if client := entry.client:
            self._client_entries[client] -= 1
            self._client_bytes[client] -= entry.bytes
            if not self._client_entries[client]:
                del self._client_entries[client], self._client_bytes[client]
        self._due.remove(entry.handle)
        return ForgetSpooled(entry.number)

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        assert len(self._due) == len(self._spooled) <= self._most
        assert self._bytes == sum(entry.bytes for entry in self._spooled.values())
        assert self._bytes <= self._most_bytes or len(self._spooled) == 1
        self._losses.check_invariants()
        of_clients = Counter([e.client for e in self._spooled.values() if e.client])
        assert of_clients == self._client_entries
        assert self._client_bytes.keys() == of_clients.keys()
        numbers = [entry.number for entry in self._spooled.values()]
        assert numbers == sorted(numbers)
        assert {entry.state for entry in self._spooled.values()} <= {"waiting", "published"}
