"""Alerts of a watch: received from its inbox, gathered into rounds, kept until they are settled.

The alerts of a round are on disk before they are acknowledged to the inbox, in one document with
the position up to which they came. So every alert is in exactly one round, even after a crash.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from agent.runtime.state_machine import StateMachine
from agent.scheduling.lifecycle import ALERTS_TRANSITIONS
from agent.scheduling.watches.events import (
    AskInbox,
    Gathered,
    SaveAlerts,
    SavedAlerts,
    WatchInstruction,
    WatchKey,
)
from agent.wire.overlay import Notification
from agent.wire.predicates import Filter
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Notified,
    PushReply,
    PushRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from agent.wire.watches import MAX_ALERTS

# When this many are gathered they are saved and acknowledged: half of what an inbox sends without
# acknowledgement.
SAVE_EVERY = 32
SUBSCRIBE_AGAIN_S = 10.0
# A date further ahead of this master's clock, or further back than nodes' histories go, is invalid.
AHEAD_S = 1.5
HISTORY_S = 3 * 86_400.0
NOT_NOW = "this master's disk takes nothing now"


class WatchedAlerts(StateMachine):
    """State of a watch `on` alerts beyond its rounds' queries.

    Times are seconds of wall clock, dates milliseconds since 1970 UTC. Alerts dated after `ends_s`
    do not count (inf: there is no end), and earlier ones have `lag_s` to arrive. `new_id` returns
    the ids of subscriptions: positions restart in each, so no id is used twice. Everything is O(1)
    but `instructions`, which copies what is kept: O(`most_open` · `MAX_ALERTS`).
    """

    __slots__ = (
        "_again_s", "_doubt", "_ends_s", "_gathered", "_id", "_interval_s", "_lag_s", "_latest",
        "_losses", "_most_open", "_new_id", "_opened_s", "_outbox", "_position", "_saved_position",
        "_to_save", "_wanted", "_why_not", "is_new", "made", "made_s", "missed", "rounds",
    )  # fmt: skip

    TRANSITIONS = ALERTS_TRANSITIONS

    def __init__(
        self,
        wanted: Filter,
        interval_s: float,
        new_id: Callable[[], str],
        saved: SavedAlerts | None,
        *,
        ends_s: float,
        lag_s: float,
        most_open: int,
    ) -> None:
        super().__init__()
        self.is_new = saved is None  # and was never open
        if saved is None:
            saved = SavedAlerts(new_id())
        self._wanted = wanted
        self._interval_s = interval_s
        self._new_id = new_id
        self._ends_s = ends_s
        self._lag_s = lag_s
        self._opened_s = math.inf
        self._most_open = most_open
        self._id = saved.subscription
        self._position = self._saved_position = saved.position
        self.made = saved.made
        self.made_s = saved.made_ms / 1e3
        first = saved.made - len(saved.rounds) + 1
        self.rounds: dict[int, Gathered] = dict(enumerate(saved.rounds, first))
        self._gathered = saved.gathered
        self._latest = deque(saved.gathered.alerts, MAX_ALERTS)
        self.missed = saved.missed
        self._losses = saved.losses
        self._again_s = 0.0
        self._why_not = ""
        self._doubt = ""
        self._outbox: list[PushRequest] = []
        self._to_save = ""  # then later, then at once
        if saved.subscription:
            self._subscribe()
        else:
            self.become("ended")
        if self.is_new:
            self._to_save = "at once"

    def __repr__(self) -> str:
        return f"<alerts {self._id} {self.state} at {self._position}, {self.made} rounds made>"

    @property
    def total(self) -> int | None:
        """The total number of rounds, once it is known."""
        return self.made if self.state == "ended" and not self._gathered.count else None

    @property
    def settled(self) -> int:
        """Rounds up to this one are no longer kept."""
        return self.made - len(self.rounds)

    @property
    def word(self) -> str:
        """Why fewer alerts arrive than were asked for; empty: no problem is known."""
        words = []
        if self._why_not:
            words.append(f"no alerts come: {self._why_not}")
        if self._doubt:
            words.append(self._doubt)
        if self.missed:
            alerts = "alert was" if self.missed == 1 else "alerts were"
            words.append(f"{self.missed} {alerts} given up on the way, perhaps some of these")
        if self._losses:
            words.append("alerts may be missing: what was kept of them here was lost")
        return "; ".join(words)

    # --- the inbox -----------------------------------------------------------------------------

    def take(self, message: PushReply, now: float) -> None:
        """Handle a message of the inbox."""
        if self.state == "ended" or message.id != self._id:
            return
        if isinstance(message, Subscribed):
            self._subscribed(message, now)
        elif self.state == "open":
            first, last = _positions(message)
            if first > self._position + 1:
                self._subscribe()
            elif last > self._position:
                self._came(message, last, now)

    def put_off(self, now: float) -> None:
        """The inbox is unavailable. What it sent before that will be sent again."""
        if self.state in ("subscribing", "open"):
            self._wait(NOT_NOW, now)

    def end(self) -> list[PushRequest]:
        """End the subscription; returns the request to the inbox. Gathered alerts stay."""
        if self.state == "ended":
            return []
        self.become("ended")
        self._outbox.clear()
        self._why_not = ""
        ending, self._id = self._id, ""
        return [Unsubscribe(ending)]

    def _subscribe(self) -> None:
        self.become("subscribing")
        # Not while later alerts are in memory alone: the request would acknowledge them.
        after = self._saved_position or None
        self._outbox.append(Subscribe(self._id, self._wanted, durable=True, after=after))

    def _subscribed(self, message: Subscribed, now: float) -> None:
        if message.state == "unknown" and self.state == "open":
            self._subscribe()
        elif message.state == "open" and self.state == "subscribing":
            self.become("open")
            self._opened_s = now
            self._why_not, self._doubt = "", message.message
            self.is_new = False
        elif message.state == "refused" and self.state == "subscribing":
            if self._saved_position:
                self._anew()
            else:
                self._wait(message.message, now)

    def _anew(self) -> None:
        """The inbox no longer has the subscription: its file was lost, or it was not renewed in
        time."""
        self._id = self._new_id()
        self._position = self._saved_position = 0
        self._losses += 1
        self._to_save = "at once"
        self._subscribe()

    def _wait(self, why_not: str, now: float) -> None:
        self.become("waiting")
        self._why_not = why_not
        self._again_s = now + SUBSCRIBE_AGAIN_S

    def _came(self, message: Notified | Gap, last: int, now: float) -> None:
        if isinstance(message, Notified):
            self._doubt = ""
            self._gather(message.notification, now)
        else:
            self.missed += last - self._position if message.lost is None else message.lost.count
        self._position = last
        if self._position - self._saved_position >= SAVE_EVERY:
            self._to_save = "at once"

    def _gather(self, alert: Notification, now: float) -> None:
        date_ms = _date_ms(alert, now)
        if date_ms > self._ends_s * 1e3:
            return
        self._latest.append(alert)
        before = self._gathered
        self._gathered = Gathered(before.count + 1, max(before.latest_ms, date_ms))

    # --- rounds --------------------------------------------------------------------------------

    def end_ms(self, number: int) -> int:
        """When the window of an open round ends: after the latest of its alerts."""
        return self.rounds[number].latest_ms + 1

    def settle(self, number: int) -> None:
        """Rounds up to `number` need not be kept any more."""
        for done in range(self.settled + 1, min(number, self.made) + 1):
            del self.rounds[done]
            self._to_save = self._to_save or "later"

    def next_tick(self, held_until_s: float, *, attached: bool) -> float:
        """When to call `work`."""
        due_s = self._again_s if self.state == "waiting" else math.inf
        if self.state == "open":
            due_s = min(due_s, self._closes_s)
        if attached and self._may_make:
            due_s = min(due_s, max(self.made_s + self._interval_s, held_until_s))
        return due_s

    def work(self, now: float, held_until_s: float, *, attached: bool) -> None:
        """Do what is due: subscribe again, end, make a round. No round is made before
        `held_until_s`."""
        if self.state == "waiting" and now >= self._again_s:
            self._subscribe()
        if self.state == "open" and now >= self._closes_s:
            # The end must be on disk before the inbox ends, or alerts would be missed.
            self._to_save = "at once"
            ending = self.end()
            self._outbox += ending
        if not attached or not self._may_make or now < held_until_s:
            return
        # After the clock was set back, elapsed time is unknown.
        if now >= self.made_s + self._interval_s or now < self.made_s:
            self._make(now)

    def set_back(self, now: float) -> None:
        """The clock was set back: the inbox is asked again as soon as possible; `work` makes
        rounds."""
        self._again_s = min(self._again_s, now + SUBSCRIBE_AGAIN_S)

    @property
    def _closes_s(self) -> float:
        """Notifications waiting in the inbox arrive as soon as it is open."""
        return max(self._ends_s, self._opened_s) + self._lag_s

    @property
    def _may_make(self) -> bool:
        return self._gathered.count > 0 and len(self.rounds) < self._most_open

    def _make(self, now: float) -> None:
        self.made += 1
        self.made_s = now
        self.rounds[self.made] = self._whole
        self._gathered = Gathered()
        self._latest.clear()
        self._to_save = "at once"

    @property
    def _whole(self) -> Gathered:
        gathered = self._gathered
        return Gathered(gathered.count, gathered.latest_ms, tuple(self._latest))

    # --- instructions --------------------------------------------------------------------------

    def instructions(self, key: WatchKey) -> list[WatchInstruction]:
        """The documents to save and requests to send since the last call, in order."""
        todo: list[WatchInstruction] = []
        outbox, self._outbox = self._outbox, []
        if self._to_save:
            at_once = self._to_save == "at once"
            todo.append(SaveAlerts(key, self._saved(), at_once))
            if at_once:
                self._saved_position = self._position
                if self.state == "open":
                    outbox.insert(0, AcknowledgeNotifications(self._id, self._position))
            self._to_save = ""
        return todo + [AskInbox(key, message) for message in outbox]

    def _saved(self) -> SavedAlerts:
        return SavedAlerts(
            self._id,
            self._position,
            self.made,
            round(self.made_s * 1e3),
            tuple(self.rounds.values()),
            self._whole,
            self.missed,
            self._losses,
        )

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        assert list(self.rounds) == list(range(self.settled + 1, self.made + 1))
        assert len(self.rounds) <= self._most_open
        assert 0 <= self._position - self._saved_position < SAVE_EVERY or self._to_save
        assert (self._id == "") == (self.state == "ended")
        for gathered in (*self.rounds.values(), self._whole):
            assert len(gathered.alerts) == min(gathered.count, MAX_ALERTS)


def _positions(message: Notified | Gap) -> tuple[int, int]:
    if isinstance(message, Gap):
        return message.first, message.last
    return message.position, message.position


def _date_ms(alert: Notification, now: float) -> int:
    """An alert from an implausible clock is dated at its arrival."""
    if -HISTORY_S <= alert.time_ms / 1e3 - now <= AHEAD_S:
        return alert.time_ms
    return round(now * 1e3)
