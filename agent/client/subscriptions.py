"""Subscriptions in a client: an iterator of notifications that survives reconnections."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, Self

from msgspec.structs import replace

from agent.client.connection import ConnectionCutError, NoReplyError
from agent.client.masters import Given
from agent.wire.base import Count, Identifier, Message, Text
from agent.wire.messages import Answer
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Notified,
    PushReply,
    ShortForm,
    Subscribe,
    Subscribed,
    Unsubscribe,
)

# An unanswered request to subscribe is repeated after the first of these; the interval doubles each
# time, up to the second.
ANSWER_S = 5.0
MAX_ANSWER_S = 60.0
# Renewal interval if the master does not state how long a client may be silent.
RENEW_S = 60.0
CANCEL_MS = 1_000.0
# Positions acknowledged at a time if the subscription is not durable: a quarter of the window.
MAX_OWED = 16
# `unknown` replies within the renewal interval, over one connection, after which this client gives
# up: another client with the same id takes the subscription over each time.
MAX_TAKEN_OVER = 3
# Attributes of alerts and of topics' messages, which a master need not spell out.
NAMES = ("iad", "kind", "trigger", "metric", "value", "area", "topic", "peer")
# Of the subscriptions of this process: one may move from a connection to another.
_NUMBERS = itertools.count()
# Identical refusals after which a refusal is final: it cannot be a late reply to an earlier
# request.
MAX_IN_VAIN = 3


def short_form() -> ShortForm:
    """The short form of a new subscription."""
    return ShortForm(next(_NUMBERS), NAMES)


class SubscriptionError(ValueError):
    """The master refused a subscription or ended it; one line gives the reason."""


class UnknownLoss(Message, frozen=True, tag="unknown_loss"):
    """The master lost its state of the subscription, for instance by a restart; `message` gives the
    reason. The subscription was created again: notifications published since position `after` may
    be lost or repeated. Positions continue after `position`. Never on the wire."""

    id: Identifier
    after: Count
    position: Count
    message: Text


Received = Notified | Gap | UnknownLoss


class Taker(Protocol):
    """The part of `Client` that a subscription uses."""

    def send_message(self, message: Message) -> None:
        """Send to the master."""

    def take(self, timeout_ms: float, *, until_cut: bool = False) -> None:
        """Receive one message and dispatch it; `NoReplyError` after `timeout_ms`."""

    def forget_subscription(self, subscription_id: str) -> None:
        """Ignore further messages of a subscription."""

    def hand_subscription(self, subscription: Notifications, master: str) -> Taker | None:
        """Talk about a subscription to the master of that address from now on; None if it is none
        of this client's."""

    def given_masters(self) -> Given:
        """Those among which a durable subscription may move, this one first; none if it is
        alone."""


def _ignore(_word: str) -> None:
    """Default callback: does nothing."""


class Notifications:
    """The notifications of one subscription, each position once and in order, even if the
    connection is cut or the master restarts; created by `Client.subscribe`.

    A notification counts as taken when the loop requests the next one; `after` is the last position
    taken. Only then is it acknowledged, so untaken notifications are delivered again to the next
    client that subscribes. The master considers a client gone after `renew_s` without a message.
    The loop renews the subscription while it waits, so its body should take less time; otherwise
    new notifications are kept only if the subscription is durable, else an `UnknownLoss` follows.
    The end of a ``with`` block ends the subscription, unless it is durable.
    """

    def __init__(self, client: Taker, subscribe: Subscribe, patience_s: float) -> None:
        self.subscribe = subscribe
        self.after = subscribe.after or 0
        self.renew_s = RENEW_S
        # Why no alert will ever arrive, if the master knows that.
        self.doubt = ""
        # Whether there was something to end, as far as the master says.
        self.was_kept = True
        self._ends = 0  # requests to end it
        # Called while the loop waits, with each reason why nothing arrives.
        self.on_word: Callable[[str], None] = _ignore
        self._client = client
        self._patience_s = patience_s
        self._state = "new"
        self._message = ""
        self._received: deque[Received] = deque()
        self._in_loop: Received | None = None
        self._last = self.after  # the last position received
        self._acknowledged = self.after
        self._losses = 0  # `UnknownLoss`es not taken yet: `after` is beyond them
        # Whether to subscribe with `after`: not if it is unknown, or the master has no state.
        self._knows_after = subscribe.after is not None
        self._kept_nothing: str | None = None  # the master's reason
        self._to_ask = False
        self._refused_again = False  # with the same text
        self._put_off = False  # refused for now
        self._in_vain = 0  # requests in a row that ended in this refusal
        self._wait_s = ANSWER_S
        now = time.monotonic()
        self._asked_s = self._asked_first_s = self._said_s = self._heard_s = now
        self._unknown_s: deque[float] = deque(maxlen=MAX_TAKEN_OVER)

    @property
    def id(self) -> str:
        """The subscription's id. Any client that knows it can continue a durable subscription;
        without keys it is the only protection."""
        return self.subscribe.id

    @property
    def is_open(self) -> bool:
        """Whether the subscription continues, as far as the client knows."""
        return self._state in ("new", "asked", "open")

    @property
    def is_delivering(self) -> bool:
        """Whether the master has confirmed the subscription since the last cut."""
        return self._state == "open" and not self._to_ask

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.acknowledge()
        if self.subscribe.durable:
            self._client.forget_subscription(self.id)
        else:
            self.cancel()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received:
        found = self.wait(math.inf)
        assert found is not None
        return found

    def wait(self, timeout_s: float) -> Received | None:
        """The next notification; None if none arrives within `timeout_s`, with keys a few seconds
        more while there is no connection. `NoReplyError` after `patience_s` without a message from
        the master; `SubscriptionError` once the subscription has ended."""
        if self._took() and self._owes:
            self._say_open()
        give_up_s = time.monotonic() + timeout_s
        while not self._received:
            self._check()
            try:
                due_s = min(self._keep_up(), give_up_s)
                self._client.take(max(0.0, (due_s - time.monotonic()) * 1e3), until_cut=True)
            except ConnectionCutError:
                pass  # the client has informed all its subscriptions
            except NoReplyError:
                if self._state == "asked" and self._silent_s() > self._patience_s:
                    raise
                if time.monotonic() >= give_up_s:
                    return None
        self._in_loop = self._received.popleft()
        return self._in_loop

    def open(self, timeout_ms: float = 2_000.0) -> None:
        """Subscribe and wait for the master's reply; part of `Client.subscribe`."""
        self._ask()
        try:
            self._leave("asked", self._ask, timeout_ms)
        except NoReplyError:
            if not (self._refused_again or self._put_off):
                raise
            self._state, self._message = "refused", self._kept_nothing or self._message
        self._check()

    def cancel(self, timeout_ms: float = CANCEL_MS) -> bool:
        """End the subscription and delete what is kept for it; whether the master confirmed in
        time. If the request was lost, the subscription expires without renewals, a durable one
        after days."""
        try:
            self.end(timeout_ms)
        except (NoReplyError, SubscriptionError):
            return False
        return True

    def end(self, timeout_ms: float) -> None:
        """As `cancel`, but `NoReplyError` if the master does not confirm in time, and
        `SubscriptionError` if it cannot end the subscription."""
        try:
            if self.is_open:
                self._state = "ending"
                self._say_end()
                self._leave("ending", self._say_end, timeout_ms)
                if self._state == "refused":
                    self._check()
        finally:
            if self._state == "ending":
                self._state = "lost"
            self._received.clear()
            self._client.forget_subscription(self.id)

    def acknowledge(self) -> None:
        """Acknowledge the last notification; requesting the next one does so too, in batches."""
        if self._took() or self.after > self._acknowledged:
            self._say_open()

    def _took(self) -> bool:
        """Mark the last notification as taken; whether `after` changed."""
        taken, self._in_loop = self._in_loop, None
        if taken is None:
            return False
        self._losses -= isinstance(taken, UnknownLoss)
        if not self._losses:
            self.after = taken.last if isinstance(taken, Gap) else taken.position
        return not self._losses

    @property
    def _owes(self) -> bool:
        """Whether to acknowledge now. For a subscription that is not durable, acknowledgements only
        make the master send more."""
        return self.subscribe.durable or self.after - self._acknowledged >= MAX_OWED

    # --- received messages --------------------------------------------------------------------

    def take(self, message: PushReply | Answer) -> None:
        """Handle a message of this subscription."""
        self._heard_s = time.monotonic()
        match message:
            case Notified(position=position):
                if self._is_next(position, position):
                    self._last = position
                    self._received.append(message)
            case Gap(first=first, last=last):
                if self._is_next(first, last):
                    self._received.append(replace(message, first=self._last + 1))
                    self._last = last
            case Subscribed():
                self._told(message)
            case Answer():  # the master could not decode a message
                self._state, self._message = "refused", message.message

    def cut(self) -> None:
        """The connection was cut: requests sent over it will not be answered."""
        self._unknown_s.clear()
        self._to_ask = True

    def _is_next(self, first: int, last: int) -> bool:
        """Whether these positions follow the last one received; requests the missing ones again if
        positions before them were lost."""
        if not self._has_place:
            return False  # the first position is not known yet
        if first > self._last + 1:
            self._to_ask |= self._state == "open"
        return first <= self._last + 1 <= last

    @property
    def _has_place(self) -> bool:
        """Whether positions continue after `after`, as far as the client knows."""
        return self._knows_after and self._kept_nothing is None

    def _told(self, message: Subscribed) -> None:
        if message.master and message.state in ("refused", "unknown"):
            self._moved(message)
            return
        if self._state == "ending":
            if message.state == "cancelled":
                self._state = "cancelled"
                # Once asked again, it may have been ended by the request before.
                self.was_kept = not message.message or self._ends > 1
            return
        match message.state:
            case "open":
                self._opened(message)
            case "cancelled":
                self._state = "cancelled"
            case "unknown":
                # While a request is pending or due, this refers to an earlier one.
                if self._state == "open" and not self._to_ask:
                    self._told_unknown()
            case "refused":
                if self._state == "asked" and message.renew_ms and self._has_place:
                    self._refused_for_now(message)
                elif self._state == "asked":
                    self._refused(message.message)

    def _moved(self, message: Subscribed) -> None:
        """The subscription lives at another master: go on there."""
        master = self._client.hand_subscription(self, message.master)
        if master is None:
            self._state, self._message = "refused", message.message
            return
        self._client = master
        self._ends = 0
        self._unknown_s.clear()
        self._to_ask = True
        self.on_word(f"goes on at {message.master}")

    def _opened(self, message: Subscribed) -> None:
        self._state, self._in_vain = "open", 0
        self.doubt = message.message
        if message.renew_ms:
            self.renew_s = message.renew_ms / 1e3
        if self._kept_nothing is not None:
            loss = UnknownLoss(self.id, self._last, message.position, self._kept_nothing)
            self._kept_nothing = None
            self._received.append(loss)
            self._losses += 1
            self._knows_after = False
        if not self._knows_after:
            self._knows_after = True
            self.after = self._last = self._acknowledged = message.position

    def _told_unknown(self) -> None:
        self._unknown_s.append(self._heard_s)
        if (
            len(self._unknown_s) == MAX_TAKEN_OVER
            and self._heard_s - self._unknown_s[0] < self.renew_s
        ):
            self._state = "refused"
            self._message = f"another client took subscription {self.id!r} over; take another id"
        else:
            self._to_ask = True

    def _refused(self, why: str) -> None:
        if self._has_place:
            self._kept_nothing, self._to_ask = why, True
        elif why == self._kept_nothing:
            # It may be a reply to an earlier request; it counts if no other follows.
            self._refused_again = True
        else:
            self._state, self._message = "refused", why

    def _refused_for_now(self, message: Subscribed) -> None:
        """What is kept stays, so the next request has the same place."""
        self._message, self._put_off = message.message, True
        self._asked_s, self._wait_s = time.monotonic(), min(message.renew_ms / 1e3, MAX_ANSWER_S)
        self.on_word(message.message)

    # --- sent messages ------------------------------------------------------------------------

    def _keep_up(self) -> float:
        """Send what is due; returns when the next message is due."""
        now = time.monotonic()
        if self._state == "asked" and now >= self._asked_s + self._wait_s:
            self._not_answered()
        # A master silent for so long may be gone, even without a cut.
        elif self._to_ask or (self._state == "open" and now >= self._heard_s + self.renew_s):
            self._ask()
        elif self._state == "open" and (
            (self.after > self._acknowledged and self._owes)
            or now >= self._said_s + self.renew_s / 3
        ):
            self._say()
        if self._state == "asked":
            return self._asked_s + self._wait_s
        if not self.is_open:
            return now
        return min(self._said_s + self.renew_s / 3, self._heard_s + self.renew_s)

    def _not_answered(self) -> None:
        if self._put_off:
            self._wait_s = ANSWER_S
            self._ask()
            return
        self._in_vain += self._refused_again
        if self._in_vain == MAX_IN_VAIN:
            self._state, self._message = "refused", self._kept_nothing or ""
            return
        self._wait_s = min(2 * self._wait_s, MAX_ANSWER_S)
        self.on_word(f"no word from the master for {self._silent_s():.0f} s; asking again")
        self._ask()

    def _silent_s(self) -> float:
        """Seconds for which the pending request has been unanswered."""
        return time.monotonic() - max(self._heard_s, self._asked_first_s)

    def _ask(self) -> None:
        self._asked_s = self._said_s = time.monotonic()
        if self._state != "asked":
            self._state, self._wait_s, self._asked_first_s = "asked", ANSWER_S, self._asked_s
        self._to_ask = self._refused_again = self._put_off = False
        after = self.after if self._has_place else None
        masters = self._client.given_masters() if self.subscribe.durable else ()
        self._client.send_message(replace(self.subscribe, after=after, masters=masters))
        self._acknowledged = self.after

    def _say_open(self) -> None:
        if self._state == "open" and not self._to_ask:
            self._say()

    def _say(self) -> None:
        """Renew the subscription and acknowledge everything up to `after`."""
        self._said_s = time.monotonic()
        try:
            self._client.send_message(AcknowledgeNotifications(self.id, self.after))
        except NoReplyError:
            self._to_ask = True  # the connection is down
        else:
            self._acknowledged = self.after

    def _say_end(self) -> None:
        self._to_ask = False
        self._ends += 1
        self._client.send_message(Unsubscribe(self.id))

    def _leave(self, state: str, say_again: Callable[[], None], timeout_ms: float) -> None:
        """Wait for the master to confirm the end, by a change of state."""
        give_up_s = time.monotonic() + timeout_ms / 1e3
        while self._state == state:
            with suppress(ConnectionCutError):
                self._client.take(max(0.0, (give_up_s - time.monotonic()) * 1e3), until_cut=True)
            if self._to_ask:
                say_again()

    def _check(self) -> None:
        if not self.is_open:
            raise SubscriptionError(self._message or "the subscription was ended")
