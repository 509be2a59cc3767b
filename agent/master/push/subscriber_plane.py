"""Subscriber plane: clients' requests about their subscriptions, and pushes to the clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from agent.alerts.inbox import check_size, parsed_bytes
from agent.alerts.inbox_events import SendPush
from agent.master.push.subscriber_queue import SubscriberQueue
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import NOT_NOW
from agent.net.fair_turns import SLICE_S
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import cost_of, may_subscribe
from agent.wire.predicate_language import read_recent
from agent.wire.predicates import MAX_FILTER_BYTES
from agent.wire.principals import Sender
from agent.wire.push import (
    AcknowledgeNotifications,
    Notified,
    PushRequest,
    SentPush,
    Subscribe,
    Subscribed,
    Unsubscribe,
)

# Acknowledged ids handled per turn, or up to as many more: each may free a window of messages.
TURN: Final = 16
# Cost of a change, in ids; a filter costs one more for each so many bytes: 8 KiB are parsed and
# matched in up to ten milliseconds.
CHANGE: Final = 4
FILTER_BYTES_AN_ID: Final = 512
# A text of so many characters is read in a turn of its own: the worst of 512 takes 0.6 ms.
LONG_TEXT: Final = 128
# After which a client may try again what could not be taken for now.
AGAIN_MS: Final = 2_000.0

# `ask(peer, client, request)`: whether it was accepted; it is not while the disk refuses.
Ask = Callable[[Any, str, PushRequest], bool]


class SubscriberPlane:
    """Requests wait here and are handled a few per turn: when thousands of clients subscribe at
    once, as after a restart, messages of neighbours on the same socket do not wait for all of
    them."""

    def __init__(self, reactor: Reactor, public: PublicPlane, ask: Ask) -> None:
        self._public = public
        self._clock = reactor.clock
        self._ask = ask
        # Takes out of a client's request what is about subscriptions that live elsewhere, or are on
        # their way; None: nothing is left of it.
        self.sift: Callable[[Any, str, PushRequest], PushRequest | None] = lambda *given: given[2]
        self._waiting = SubscriberQueue()
        # Taken from the queue, its filter read.
        self._begun: tuple[RequestOrigin, PushRequest] | None = None
        for kind in (Subscribe, AcknowledgeNotifications, Unsubscribe):
            public.takes(kind, self._arrived)
        reactor.performs(SendPush, self._send)
        reactor.add_timer(self)

    @property
    def next_due(self) -> float | None:
        """At once, if a request waits."""
        return 0.0 if self._waiting or self._begun else None

    def tick(self, _now: float) -> None:
        """Handle some of the waiting requests."""
        done, ends_s = 0, self._clock() + SLICE_S
        while (self._waiting or self._begun) and done < TURN:
            begun, self._begun = self._begun, None
            origin, request = begun or self._waiting.pop()
            if begun is None and (text := _long_text(request)):
                # To read it takes as long as to open the subscription: each has a turn.
                self._begun = origin, request
                with suppress(ValueError):  # its sender is told when the request is handled
                    read_recent(text)
                return
            self._take(origin, request)
            done += _cost(request)
            if begun is not None or self._clock() >= ends_s:
                return

    def _arrived(self, origin: RequestOrigin, request: PushRequest, now: float) -> None:
        if problem := self._why_not(origin.sender, request, now):
            self._refuse(origin, request, problem)
            return
        for part in _parts(request):
            if problem := self._waiting.put(origin, part):
                self._not_now(origin, part, problem)

    def _why_not(self, sender: Sender, request: PushRequest, now: float) -> str:
        """The reason to refuse a request before it is queued; empty if there is none."""
        if (refused := may_subscribe(sender)) is not None:
            return refused.message
        if isinstance(request, AcknowledgeNotifications):
            return ""
        wanted = request.filter if isinstance(request, Subscribe) else ""
        # One that is too large costs as much as the largest, and is not parsed.
        size = min(parsed_bytes(wanted), MAX_FILTER_BYTES)
        refused = self._public.rates.refused(sender, now, cost_of(filter_bytes=size))
        if refused is not None:
            return refused.message
        try:
            check_size(wanted)
        except ValueError as error:
            return f"filter: {error}"
        return ""

    def _take(self, origin: RequestOrigin, request: PushRequest) -> None:
        client = client_of(origin.sender)
        rest = self.sift(origin, client, request)
        if rest is not None and not self._ask(origin, client, rest):
            self.disk_refuses(origin, request)

    def disk_refuses(self, origin: RequestOrigin, request: PushRequest) -> None:
        """Tell the client that it may try again later."""
        self._not_now(origin, request, NOT_NOW)

    def _not_now(self, origin: RequestOrigin, request: PushRequest, why: str) -> None:
        # A client repeats its acknowledgements, and they are cumulative.
        if not isinstance(request, AcknowledgeNotifications):
            self._public.reply(
                origin, Subscribed(request.id, "refused", renew_ms=AGAIN_MS, message=why)
            )

    def _unknown_too_often(self, sender: Sender, message: SentPush) -> bool:
        """Acknowledgements are free but for what is not open here, which a client may invent: each
        names up to 64. A client that is not told now hears it when it acknowledges again."""
        if not isinstance(message, Subscribed) or message.state != "unknown":
            return False
        return self._public.rates.refused(sender, self._clock()) is not None

    def _refuse(self, origin: RequestOrigin, request: PushRequest, why: str) -> None:
        self._public.reply(origin, Subscribed(request.id, "refused", message=why))

    def _send(self, instruction: SendPush) -> None:
        peer, message = instruction.peer, instruction.message
        if isinstance(peer, RequestOrigin):
            if not self._unknown_too_often(peer.sender, message):
                self._public.reply(peer, message)
        elif isinstance(message, Notified):
            for each in message.apart():
                peer(each)
        else:
            peer(message)


def _long_text(request: PushRequest) -> str:
    """The filter, if it is a text that takes long to read; otherwise empty."""
    wanted = request.filter if isinstance(request, Subscribe) else ""
    return wanted if isinstance(wanted, str) and len(wanted) >= LONG_TEXT else ""


def _cost(request: PushRequest) -> int:
    match request:
        case AcknowledgeNotifications():
            return 1 + len(request.also)
        case Subscribe():
            return CHANGE + parsed_bytes(request.filter) // FILTER_BYTES_AN_ID
    return CHANGE


def _parts(request: PushRequest) -> Iterator[PushRequest]:
    """The same in requests that fit into a turn."""
    if not isinstance(request, AcknowledgeNotifications) or len(request.also) < TURN:
        yield request
        return
    places = ((request.id, request.position), *request.also)
    for start in range(0, len(places), TURN):
        (id_, position), *also = places[start : start + TURN]
        yield AcknowledgeNotifications(id_, position, tuple(also))


def client_of(sender: Sender) -> str:
    """The client that owns the subscriptions. Without keys all connections are one client: on
    loopback they cannot be distinguished, and a new connection has to find its earlier
    subscriptions."""
    return sender.name if sender.role == "client" else ""
