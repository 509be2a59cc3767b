"""The inboxes of watches on alerts: durable clients of them within this master."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from typing import Final

from agent.master.push_plane import PushPlane
from agent.runtime.reactor import Reactor
from agent.scheduling.watches.events import AskInbox, InboxSaid, WatchKey
from agent.wire.push import AcknowledgeNotifications, PushReply, Subscribe, Unsubscribe

# No client of a key is called so: a name has no slash.
CLIENT: Final = "watch/"
# Inboxes let go of a client that says nothing for a minute. All are renewed within so many ticks.
RENEW_S: Final = 1.0
RENEW_TICKS: Final = 20
# Of what inboxes said, so much is handed on in one turn: each may ask a query.
TURN: Final = 64


class _Kept:
    """A subscription, and how far it was acknowledged."""

    __slots__ = ("id", "peer", "position")

    def __init__(self, peer: Callable[[PushReply], None], message: Subscribe) -> None:
        # One object: an inbox knows its client's connection by it.
        self.peer = peer
        self.id = message.id
        self.position = message.after or 0


class WatchInboxes:
    """Glue of standing queries and inboxes.

    What an inbox says waits for the next tick: it comes in the middle of anything. `handle` takes
    it then. What inboxes are asked waits until all of a turn is handed on. `when_saved` calls what
    it is given as soon as that is on disk which a watch acknowledges; it returns False, and never
    calls it, while the disk refuses.
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
        # Those whose end the inboxes did not take.
        self._ending: list[tuple[str, str]] = []
        self._renew_s = 0.0
        reactor.performs(AskInbox, self._to_ask.append)
        reactor.add_timer(self)

    def begin(self, watches: Collection[str]) -> None:
        """End the subscriptions of watches that are not among these, by their documents' keys: what
        ended them was killed in between."""
        for client, subscription in self._push.kept_for(CLIENT):
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
                # It is on disk that it ended, or what came after would be missed.
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
        """When an inbox said something, or has to hear of its watch."""
        if self._came or self._to_ask:
            return 0.0
        return self._renew_s if self._kept or self._ending else None

    def tick(self, now: float) -> None:
        """Hand on what came; renew some, in turn."""
        # What comes meanwhile has its turn in the next round.
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
            kept = self._kept[key] = self._kept.pop(key)  # the last in turn now
            self._tell(key, kept, AcknowledgeNotifications(kept.id, kept.position))


def client_of(key: WatchKey) -> str:
    """How the inboxes know the watch."""
    return f"{CLIENT}{document_of(key)}"


def document_of(key: WatchKey) -> str:
    """How the disk knows it. A client's name holds no slash, so that nothing else gives the same
    text."""
    client, watch_id = key
    return f"{client}/{watch_id}"


def _ignore(_message: PushReply) -> None:
    pass
