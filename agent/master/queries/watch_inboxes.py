"""Inboxes of watches on alerts: durable clients of the inboxes within this master."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from typing import Final

from agent.master.push.push_plane import PushPlane
from agent.runtime.reactor import Reactor
from agent.scheduling.watches.events import AskInbox, InboxSaid, WatchKey
from agent.wire.push import AcknowledgeNotifications, PushReply, Subscribe, Unsubscribe

# No authenticated client has this name: a name has no slash.
CLIENT: Final = "watch/"
# Inboxes detach a client that is silent for a minute. All are renewed within this many ticks.
RENEW_S: Final = 1.0
RENEW_TICKS: Final = 20
# Messages of inboxes handed on per turn: each may start a query.
TURN: Final = 64


class _Kept:
    """A subscription, and its acknowledged position."""

    __slots__ = ("id", "peer", "position")

    def __init__(self, peer: Callable[[PushReply], None], message: Subscribe) -> None:
        # One object per watch: an inbox recognises its client's connection by it.
        self.peer = peer
        self.id = message.id
        self.position = message.after or 0


class WatchInboxes:
    """Connects standing queries to inboxes.

    Messages of an inbox wait for the next tick, because they may arrive during another call;
    `handle` gets them then. Requests to inboxes wait until all messages of a turn are handed on.
    `when_saved` runs an action as soon as the state that a watch acknowledges is on disk; while the
    disk refuses it returns False and never runs the action.
    """

    def __init__(
        self,
        reactor: Reactor,
        push: PushPlane,
        handle: Callable[[InboxSaid], None],
        when_saved: Callable[[WatchKey, Callable[[], object]], bool],
    ) -> None:
        self._clock = reactor.clock
        self._push = push
        self._handle = handle
        self._when_saved = when_saved
        self._kept: dict[WatchKey, _Kept] = {}
        self._came: deque[InboxSaid] = deque()
        self._to_ask: deque[AskInbox] = deque()
        # Cancellations that the inboxes did not accept.
        self._ending: list[tuple[str, str]] = []
        self._renew_s = 0.0
        reactor.performs(AskInbox, self._to_ask.append)
        reactor.add_timer(self)

    def begin(self, watches: Collection[str]) -> None:
        """End the subscriptions of watches that are not among these, by their documents' keys: the
        process was killed between ending the watch and its subscription."""
        for client, subscription in self._push.inboxes.kept_for(CLIENT):
            if client.removeprefix(CLIENT) not in watches:
                self._end(client, subscription)

    def _ask(self, instruction: AskInbox) -> None:
        key = instruction.key
        match instruction.message:
            case Subscribe() as message:
                kept = self._kept[key] = _Kept(partial(self._say, key), message)
                self._tell(key, kept, message)
            case AcknowledgeNotifications() as message:
                kept = self._kept[key]
                kept.position = message.position
                self._tell(key, kept, message)
            case Unsubscribe() as message:
                self._kept.pop(key, None)
                # The end must be on disk first, or later notifications would be missed.
                ending = partial(self._end, client_of(key), message.id)
                if not self._when_saved(key, ending):
                    self._ending.append((client_of(key), message.id))

    def _say(self, key: WatchKey, message: PushReply) -> None:
        self._came.append(InboxSaid(key, message))

    def _tell(
        self, key: WatchKey, kept: _Kept, message: Subscribe | AcknowledgeNotifications
    ) -> None:
        if not self._when_saved(key, partial(self._tell_saved, key, kept, message)):
            self._came.append(InboxSaid(key, None))

    def _tell_saved(
        self, key: WatchKey, kept: _Kept, message: Subscribe | AcknowledgeNotifications
    ) -> None:
        if not self._push.ask(kept.peer, client_of(key), message):
            self._came.append(InboxSaid(key, None))

    def _end(self, client: str, subscription: str) -> None:
        if not self._push.ask(_ignore, client, Unsubscribe(subscription)):
            self._ending.append((client, subscription))

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When an inbox sent something, or a request to it is due."""
        if self._came or self._to_ask:
            return 0.0
        return self._renew_s if self._kept or self._ending else None

    def tick(self, now: float) -> None:
        """Hand on messages; renew some clients, in turn."""
        # Messages that arrive meanwhile wait for the next tick.
        for _ in range(min(TURN, len(self._came))):
            self._handle(self._came.popleft())
        while self._to_ask:
            self._ask(self._to_ask.popleft())
        if now < self._renew_s:
            return
        self._renew_s = now + RENEW_S
        ending, self._ending = self._ending, []
        for each in ending:
            self._end(*each)
        count = math.ceil(len(self._kept) / RENEW_TICKS)
        for key in list(islice(self._kept, count)):
            kept = self._kept[key] = self._kept.pop(key)  # moved to the end of the rotation
            self._tell(key, kept, AcknowledgeNotifications(kept.id, kept.position))


def client_of(key: WatchKey) -> str:
    """The watch's client name at the inboxes."""
    return f"{CLIENT}{document_of(key)}"


def document_of(key: WatchKey) -> str:
    """The key of the watch's document on disk. A client's name holds no slash, so the key is
    unique."""
    client, watch_id = key
    return f"{client}/{watch_id}"


def _ignore(_message: PushReply) -> None:
    pass
