"""What clients ask of their subscriptions, and what is sent to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from agent.board import Board
from agent.master.public_plane import PublicPlane
from agent.master.request_plane import Origin
from agent.scheduling.admission import ClientRates, may_subscribe
from agent.topics.inbox_events import SendPush
from agent.topics.inbox_requests import check_size
from agent.wire.master_config import MasterClients
from agent.wire.push import (
    AcknowledgeNotifications,
    Notified,
    PushRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from agent.wire.senders import Sender

# Requests that are done in one turn: a filter takes a millisecond, a large one twenty.
TURN: Final = 4
# Of those that wait, with 8 KiB of filter each; beyond it they wait in the socket, and all that
# comes by it with them.
MOST_WAITING: Final = 8_192

# `ask(peer, client, request)`: whether it was taken; it is not while the disk refuses.
Ask = Callable[[Any, str, PushRequest], bool]


class SubscriberPlane:
    """Requests wait here and are done a few a turn, in order: when thousands of clients subscribe
    at once, as after a restart, what comes by the same socket from neighbours does not wait for all
    of them."""

    def __init__(self, board: Board, clients: MasterClients, public: PublicPlane, ask: Ask) -> None:
        self._clock = board.clock
        self._public = public
        self._ask = ask
        self._rates = ClientRates(clients.rate_per_s, clients.burst_s, "changes of subscriptions")
        self._waiting: deque[tuple[Origin, PushRequest]] = deque()
        for kind in (Subscribe, AcknowledgeNotifications, Unsubscribe):
            public.takes(kind, self._arrived)
        board.performs(SendPush, self._send)
        board.keeps_time(self)

    @property
    def next_due(self) -> float | None:
        """At once, if a request waits."""
        return 0.0 if self._waiting else None

    def tick(self, _now: float) -> None:
        """Do some of what waits."""
        for _ in range(min(TURN, len(self._waiting))):
            self._take(*self._waiting.popleft())

    def _arrived(self, origin: Origin, request: PushRequest, _now: float) -> None:
        if isinstance(request, Subscribe):
            try:
                check_size(request.filter)
            except ValueError as error:
                self._refuse(origin, request, f"filter: {error}")
                return
        if len(self._waiting) >= MOST_WAITING:
            self._take(*self._waiting.popleft())
        self._waiting.append((origin, request))

    def _take(self, origin: Origin, request: PushRequest) -> None:
        refused = may_subscribe(origin.sender)
        comes_again = isinstance(request, AcknowledgeNotifications)
        if refused is None and not comes_again:
            refused = self._rates.refused(origin.sender, self._clock())
        problem = "" if refused is None else refused.message
        if not problem and not self._ask(origin, _client(origin.sender), request):
            if comes_again:
                return
            problem = "this master's disk takes nothing now; try again later"
        if problem:
            self._refuse(origin, request, problem)

    def _refuse(self, origin: Origin, request: PushRequest, why: str) -> None:
        self._public.reply(origin, Subscribed(request.id, "refused", message=why))

    def _send(self, instruction: SendPush) -> None:
        peer, message = instruction.peer, instruction.message
        if isinstance(peer, Origin):
            self._public.reply(peer, message)
        elif isinstance(message, Notified):
            for each in message.apart():
                peer(each)
        else:
            peer(message)


def _client(sender: Sender) -> str:
    """Whose subscriptions these are. Without keys all are of one client: on loopback nobody is told
    from anybody else, and a connection that is new has to find what it subscribed before."""
    return sender.name if sender.role == "client" else ""
