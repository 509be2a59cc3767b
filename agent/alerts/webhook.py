"""A webhook: a durable subscription whose notifications are posted one at a time, in order.

A notification is acknowledged only when the receiver has confirmed it, so a crash of either side
causes at most one repetition. Attempts follow `agent.runtime.retrying`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from agent.alerts.webhook_events import (
    AskInbox,
    InboxSaid,
    Post,
    TellOperator,
    WebhookDue,
    WebhookEvent,
    WebhookInstruction,
    WebhookStarted,
)
from agent.runtime.retrying import Answered, Retrying, Verdict
from agent.wire.predicates import Filter
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Notified,
    Subscribe,
    Subscribed,
    Unsubscribe,
)

SUBSCRIBE_AGAIN_S: Final = 10.0
# Share of the lease after which the subscription is renewed.
RENEW: Final = 1.0 / 3.0


class Webhook:
    """Events in, instructions out; `now` is monotonic seconds.

    `own_id` identifies this incarnation of the subscription: together with the position it makes
    every posted notification unique. `jitter` returns random numbers in [0, 1). A notification that
    the receiver refuses with 4xx is given up after `give_up_s`, because it would block all that
    follow; 410 ends the webhook and its subscription. All O(1), but O(window) when it subscribes
    again.
    """

    def __init__(
        self,
        own_id: str,
        wanted: Filter,
        *,
        jitter: Callable[[], float],
        longest_pause_s: float = 300.0,
        give_up_s: float = 86_400.0,
    ) -> None:
        self._id = own_id
        self._wanted = wanted
        self.state = "new"  # then subscribing, open, subscribing, …, gone
        self._line: deque[Notified | Gap] = deque()  # to be posted, in order
        self._under_way: Notified | Gap | None = None
        self._had = 0  # the receiver has, or will never get, all up to here
        self._period_s = SUBSCRIBE_AGAIN_S
        self._renew_s = 0.0
        self._retrying = Retrying(
            jitter=jitter, longest_pause_s=longest_pause_s, give_up_s=give_up_s
        )
        self._why_not = ""
        self._doubt = ""
        self.counters = {"webhook_delivered": 0, "webhook_failed": 0, "webhook_given_up": 0}

    def __repr__(self) -> str:
        return f"<webhook {self._id} {self.state}: {self._had} had, {len(self._line)} in line>"

    @property
    def up(self) -> bool:
        """Whether the last attempt, if there was one, went well."""
        return self.state != "gone" and self._retrying.up

    @property
    def next_tick(self) -> float | None:
        """When `WebhookDue` is due."""
        if self.state in ("new", "gone"):
            return None
        if self._line and self._under_way is None:
            return min(self._renew_s, self._retrying.again_s)
        return self._renew_s

    def handle(self, event: WebhookEvent, now: float) -> list[WebhookInstruction]:
        """Handle one event; returns the instructions, in order."""
        if self.state == "gone":
            return []
        match event:
            case WebhookStarted():
                return self._subscribe(now)
            case InboxSaid(message):
                if isinstance(message, Subscribed):
                    return self._subscribed(message, now)
                return self._came(message, now)
            case Answered():
                return self._answered(event, now)
            case WebhookDue():
                return [*self._renew(now), *self._post(now)]

    # --- the inbox -----------------------------------------------------------------------------

    def _subscribe(self, now: float) -> list[WebhookInstruction]:
        self.state = "subscribing"
        self._line.clear()  # it will be sent again
        self._period_s = SUBSCRIBE_AGAIN_S
        self._renew_s = now + self._period_s
        return [AskInbox(Subscribe(self._id, self._wanted, durable=True))]

    def _subscribed(self, message: Subscribed, now: float) -> list[WebhookInstruction]:
        match message.state:
            case "open":
                self.state, self._why_not = "open", ""
                self._line.clear()
                self._period_s = message.renew_ms / 1e3 * RENEW
                self._had = max(self._had, message.position)
                said: list[WebhookInstruction] = []
                if message.message != self._doubt:
                    self._doubt = message.message
                    said = [TellOperator(message.message)] if message.message else []
                return [*said, *self._acknowledge(now)]
            case "unknown":
                return self._subscribe(now)
            case "refused" if message.message != self._why_not:
                self._why_not = message.message
                return [TellOperator(f"no subscription yet: {message.message}")]
        return []

    def _came(self, message: Notified | Gap, now: float) -> list[WebhookInstruction]:
        if self.state == "open" and _last(message) > self._had:
            self._line.append(message)
        return self._post(now)

    def _acknowledge(self, now: float) -> list[WebhookInstruction]:
        self._renew_s = now + self._period_s
        return [AskInbox(AcknowledgeNotifications(self._id, self._had))]

    def _renew(self, now: float) -> list[WebhookInstruction]:
        if now < self._renew_s:
            return []
        return self._acknowledge(now) if self.state == "open" else self._subscribe(now)

    # --- the receiver --------------------------------------------------------------------------

    def _post(self, now: float) -> list[WebhookInstruction]:
        if self._under_way is not None or not self._line or now < self._retrying.again_s:
            return []
        first = self._under_way = self._line[0]
        return [Post(self._name(first), first)]

    def _answered(self, event: Answered, now: float) -> list[WebhookInstruction]:
        done, self._under_way = self._under_way, None
        assert done is not None
        verdict = self._retrying.answered(event, now)
        self.counters["webhook_delivered" if verdict is Verdict.DONE else "webhook_failed"] += 1
        if verdict is Verdict.GONE:
            return self._gone(event)
        said = self._retrying.said
        if verdict is Verdict.GIVEN_UP:
            self.counters["webhook_given_up"] += 1
            said = f"gave up position {_last(done)}, refused for too long: {event.line}"
        told: list[WebhookInstruction] = [TellOperator(said)] if said else []
        return told if verdict is Verdict.AGAIN else [*told, *self._done(done, now)]

    def _done(self, done: Notified | Gap, now: float) -> list[WebhookInstruction]:
        self._had = max(self._had, _last(done))
        while self._line and _last(self._line[0]) <= self._had:
            self._line.popleft()
        if self.state != "open":
            return []
        return [*self._acknowledge(now), *self._post(now)]

    def _gone(self, event: Answered) -> list[WebhookInstruction]:
        self.state = "gone"
        self._line.clear()
        why = f"ended, with what waited for it, until the master is started again: {event.line}"
        return [AskInbox(Unsubscribe(self._id)), TellOperator(why)]

    def _name(self, message: Notified | Gap) -> str:
        """A gap that has grown is a different notification."""
        if isinstance(message, Gap):
            return f"{self._id}_{message.first}_{message.last}"
        return f"{self._id}_{message.position}"

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        places = [(_first(message), _last(message)) for message in self._line]
        assert all(a[1] + 1 == b[0] for a, b in pairwise(places))
        assert all(last > self._had for _, last in places)
        assert self.state == "open" or not self._line


def _first(message: Notified | Gap) -> int:
    return message.first if isinstance(message, Gap) else message.position


def _last(message: Notified | Gap) -> int:
    return message.last if isinstance(message, Gap) else message.position
