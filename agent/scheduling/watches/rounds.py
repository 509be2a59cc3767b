"""A watch and its open rounds: windows, answers, in-order delivery."""

from __future__ import annotations

import math
from collections.abc import Callable, Container

from msgspec.structs import replace

from agent.runtime.back_off import BackOff
from agent.runtime.state_machine import StateMachine
from agent.scheduling.aggregation import merge_missing
from agent.scheduling.channels import channels_of, only
from agent.scheduling.events import ANYONE, Peer
from agent.scheduling.lifecycle import ROUND_TRANSITIONS, WATCH_TRANSITIONS
from agent.scheduling.watches.alerts import WatchedAlerts
from agent.scheduling.watches.events import Cursor, SavedWatch, SendWatch, Trigger, WatchKey
from agent.wire.messages import (
    Aggregate,
    Answer,
    AreaResult,
    ChannelAggregate,
    Coverage,
    Missing,
    Query,
    Series,
    Window,
)
from agent.wire.principals import Sender
from agent.wire.quality import counts
from agent.wire.watches import Round, Watch

# --- watches and rounds ---------------------------------------------------------------------------

# Rounds that may be open at a time: asked, or sent and not acknowledged. This bounds the cost of a
# client that does not acknowledge, or is gone.
MAX_AHEAD = 8
# A temporarily refused round is asked again after 0.25 s, 0.5 s …, one round at a time.
FIRST_PAUSE_S = 0.25
MAX_PAUSE_S = 30.0
# A query's id has room for 64 characters: this many of the watch's, a dot and the number.
ID_CHARACTERS = 48


class RoundEntry(StateMachine):
    """One round from the time that it is asked until the client has it."""

    __slots__ = ("answer", "ends", "fired", "number", "window_ms")

    TRANSITIONS = ROUND_TRANSITIONS

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        # As it was asked, whatever the clock is set to meanwhile.
        self.window_ms: tuple[int, int] | None = None
        # As long as rounds before it are missing.
        self.answer: Answer | None = None
        # Whether the watch ends with it: its refusal would repeat for all later rounds.
        self.ends = False
        self.fired: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<round {self.number} {self.state}>"


class WatchEntry(StateMachine):
    """A watch. Times are seconds of wall clock, windows milliseconds since 1970 UTC."""

    __slots__ = (
        "_total", "acknowledged", "alerts", "away", "back_s", "held_until_s", "key", "looked_s",
        "owner", "passed_ms", "payer", "peer", "reached_ms", "refusals", "rounds", "saved",
        "seen_s", "sender", "sent", "settled", "start_ms", "timer", "trigger", "trouble", "warned",
        "watch",
    )  # fmt: skip

    TRANSITIONS = WATCH_TRANSITIONS

    def __init__(
        self,
        key: WatchKey,
        saved: SavedWatch,
        trigger: Trigger | None,
        alerts: WatchedAlerts | None,
        now: float,
    ) -> None:
        super().__init__()
        self.key = key
        self.watch: Watch = saved.watch
        self.start_ms: int = saved.start_ms
        # The end of the last round that was asked before the clock was set back, by how much; 0: it
        # was not.
        self.reached_ms = 0
        # By how much its rounds were moved when the clock was set forward last.
        self.passed_ms = 0
        self.back_s = 0.0
        self.trigger = trigger
        self.alerts = alerts
        # The client whose quota it counts towards; a connection, for clients without a key.
        self.owner = saved.client
        # The owner for the limit on readings; a host, for clients without a key.
        self.payer = saved.payer or saved.client
        self.peer: Peer = None
        self.sender: Sender = ANYONE
        self._total = rounds_of(saved.watch)
        self.rounds: dict[int, RoundEntry] = {}
        self.acknowledged = 0
        self.settled = 0
        # Every round up to this one was sent, or was skipped as not worth sending.
        self.sent = 0
        self.seen_s = now
        # When it was last looked whether its client is there; whether that was found to be gone:
        # then no round is asked.
        self.looked_s = now
        self.away = False
        # Temporarily refused: no query before this time.
        self.held_until_s = -math.inf
        self.refusals = BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)
        # Why less comes than was asked for, in words; empty: nothing is wrong.
        self.trouble = ""
        # Whether its client was told about unknown channels of its trigger.
        self.warned = False
        self.timer = -1

    def __repr__(self) -> str:
        return f"<watch {self.key} {self.state}, settled {self.settled}, {self.rounds}>"

    def restore(self, cursor: Cursor) -> None:
        """Restore the state from disk."""
        settled = cursor.settled
        if self.alerts is not None:
            self.alerts.is_new = False
            # The document that was saved last is ahead; neither is ahead of the client.
            settled = min(max(settled, self.alerts.settled), self.alerts.made)
        self.acknowledged = min(cursor.acknowledged, settled)
        self.settle(settled)
        self.become("detached")

    @property
    def total(self) -> int | None:
        """The total number of rounds; None: no end is known."""
        return self._total if self.alerts is None else self.alerts.total

    @property
    def word(self) -> str:
        """Why less arrives than was asked for, in words; empty: no problem."""
        if self.alerts is None or not self.alerts.word:
            return self.trouble
        return "; ".join(filter(None, (self.alerts.word, self.trouble)))[:500]

    @property
    def cursor(self) -> Cursor:
        """The progress as kept on disk."""
        return Cursor(self.acknowledged, self.settled)

    def settle(self, number: int) -> None:
        """All rounds up to `number` are settled, and those after it that were skipped."""
        for done in [n for n in self.rounds if n <= number]:
            del self.rounds[done]
        self.settled = max(self.settled, number)
        while (entry := self.rounds.get(self.settled + 1)) and entry.state == "passed":
            del self.rounds[entry.number]
            self.settled = entry.number
        self.sent = max(self.sent, self.settled)
        if self.alerts is not None:
            self.alerts.settle(self.settled)

    def resume(self, after: int | None) -> None:
        """The client has all rounds up to `after` (None: it does not say), and no more."""
        if after is not None and after < self.acknowledged:
            # The client lost rounds that it had acknowledged. They are asked again, except rounds
            # of alerts: their alerts are deleted, so these continue after the acknowledged ones.
            if self.alerts is None:
                self.rounds.clear()
                self.settled = after
            else:
                gone = f"{after + 1} to {self.acknowledged}"
                self.trouble = f"rounds {gone} were acknowledged, and nothing is kept of them"
            self.acknowledged = after
        elif after is not None:
            self.acknowledged = after if self.total is None else min(after, self.total)
            self.settle(self.acknowledged)
        # Later rounds may have been sent to a connection that is closed.
        self.sent = self.settled
        for sent in self.rounds.values():
            if sent.state == "sent":
                sent.become("waiting")

    def put_off(self, asked: RoundEntry, answer: Answer, now: float) -> None:
        """A round was temporarily refused: it, and those after it, wait twice as long each time."""
        asked.become("waiting")
        self.trouble = f"rounds come late: {answer.message or answer.reason}"[:500]
        if now >= self.held_until_s:
            self.held_until_s = now + self.refusals.next()

    def set_back(self, now: float) -> None:
        """The clock was set back: no delay may exceed its maximum."""
        self.held_until_s = min(self.held_until_s, now + MAX_PAUSE_S)
        if self.alerts is not None:
            self.alerts.set_back(now)

    def put_right(self, now: float, by_s: float, most_s: float) -> bool:
        """Whether a round that was asked ends more than `most_s` from now: the clock was ahead, and
        may have been set by `by_s` just now. Then the rounds after it follow from now on, by whole
        intervals: else none would come until that time. If they were passed over by as much before,
        they follow as they would have without. Those of alerts do so by themselves."""
        last = self._last_asked
        ahead_ms = self._follows_ms(last) - now * 1e3 if self.alerts is None and last else 0.0
        if ahead_ms <= most_s * 1e3:
            return False
        interval_ms = self.watch.interval_s * 1e3
        back_ms = round(math.ceil(ahead_ms / interval_ms) * interval_ms)
        off_ms = max(abs(by_s * 1e3 + self.passed_ms), ahead_ms - self.passed_ms)
        if self.passed_ms and off_ms <= most_s * 1e3:
            back_ms = self.passed_ms
        self.passed_ms = 0
        start_ms = self.start_ms - back_ms
        if start_ms < 0:
            return False
        self.reached_ms, self.back_s = self._follows_ms(last), ahead_ms / 1e3
        self.start_ms = start_ms
        for known in self.rounds.values():
            if known.state == "waiting":  # else it would wait until that time
                known.window_ms = None
        return True

    def go_on(self, now: float, by_s: float, most_s: float) -> bool:
        """Whether the clock, which had been set back, was set forward by this much to where it was:
        then rounds go on after those that were asked before, and none of the time between is asked
        once more."""
        reached_s = self.reached_ms / 1e3
        if by_s < self.back_s - most_s or not now - by_s < reached_s <= now + most_s:
            return False
        missing_ms = self.reached_ms - self._follows_ms(self._last_asked)
        self.reached_ms = 0
        self.start_ms += max(0, missing_ms)
        return missing_ms > 0

    def pass_over(self, now: float, by_s: float, most_s: float) -> bool:
        """Whether the clock was set forward by more than `most_s`, past rounds that are not asked
        yet: then those follow from now on, by whole intervals. Nothing took place in the time
        between, in which there may be a hundred thousand rounds; those that were late before the
        step stay late. Those of alerts are not of the clock."""
        if by_s <= most_s or self.alerts is not None:
            return False
        interval_ms = self.watch.interval_s * 1e3
        late_ms = now * 1e3 - self._follows_ms(self._last_asked + 1)
        passed_ms = round(min(by_s * 1e3, late_ms) // interval_ms * interval_ms)
        if passed_ms <= 0:
            return False
        self.passed_ms = passed_ms
        self.start_ms += passed_ms
        return True

    @property
    def _last_asked(self) -> int:
        return max(self.settled, *self.rounds) if self.rounds else self.settled

    def sent_before(self, number: int) -> int:
        """The last round before `number` that the client has or will get."""
        sent = [n for n, entry in self.rounds.items() if n < number and entry.state == "sent"]
        return max(sent, default=self.acknowledged)

    def next_to_ask(self) -> int | None:
        """The first round that is to be asked, now or when it is due; None: wait for something
        else. O(`MAX_AHEAD`)."""
        if self.state != "attached" or self.away:
            return None
        if self.refusals.failures and any(r.state == "asked" for r in self.rounds.values()):
            return None  # one finds out whether the others have a chance
        for number in range(self.settled + 1, self.settled + 1 + MAX_AHEAD):
            if self.alerts is not None and number > self.alerts.made:
                return None
            if self.total is not None and number > self.total:
                return None
            known = self.rounds.get(number)
            if known is None or known.state == "waiting":
                return number
        return None

    def window_ms(self, number: int) -> tuple[int, int]:
        """[start, end) that round `number`, from 1, covers."""
        known = self.rounds.get(number)
        if known is not None and known.window_ms is not None:
            return known.window_ms
        end_ms = self._follows_ms(number) if self.alerts is None else self.alerts.end_ms(number)
        if self.watch.style == "streaming":
            return end_of(self.watch, self.start_ms, number - 1), end_ms
        length_ms = max(1, round((self.watch.window_s or self.watch.interval_s) * 1e3))
        return max(0, end_ms - length_ms), end_ms

    def end_ms(self, number: int) -> int:
        """When the window of round `number` ends."""
        return self.window_ms(number)[1]

    def _follows_ms(self, number: int) -> int:
        """The same of a round that is not asked yet, and where one more would begin."""
        return end_of(self.watch, self.start_ms, number)

    def is_to_come(self, number: int, now: float) -> bool:
        """Whether no client can have this round by `now`."""
        if self.alerts is not None:
            return number > self.alerts.made
        return self._follows_ms(number) > now * 1e3

    def query(self, number: int) -> Query:
        """The query of round `number`, whose window is fixed by it."""
        watch, trigger = self.watch, self.trigger
        known = self.rounds[number]
        start_ms, end_ms = known.window_ms = self.window_ms(number)
        form, channels = watch.form, watch.channels
        if trigger is not None:
            if trigger.needs_series:
                form = "series"
            if channels:
                channels = tuple(dict.fromkeys((*channels, *trigger.channels)))
        return Query(
            id=f"{watch.id[:ID_CHARACTERS]}.{number}",
            areas=watch.areas,
            window=Window(start_ms=start_ms, end_ms=end_ms),
            slo=watch.slo,
            channels=channels,
            form=form,
            timeout_ms=watch.timeout_ms,
            service=watch.service,
            label=watch.label,
            takes_too_large=watch.takes_too_large,
        )

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        assert self.acknowledged <= self.settled <= self.sent
        assert len(self.rounds) <= MAX_AHEAD
        for number, known in self.rounds.items():
            assert number > self.settled
            assert (known.state == "answered") == (known.answer is not None)
            assert number > self.sent or known.state in ("sent", "passed")
        if self.alerts is not None:
            self.alerts.check_invariants()
            assert self.alerts.settled == self.settled


def end_of(watch: Watch, start_ms: int, number: int) -> int:
    """When the window of round `number` ends. Computed from the start each time, so that adjacent
    windows stay adjacent and no error accumulates."""
    return start_ms + round(number * watch.interval_s * 1e3)


def rounds_of(watch: Watch) -> int | None:
    """The number of rounds of a watch; None: no end, or rounds depend on alerts."""
    if watch.lasting_s is None or watch.on:
        return None
    # 0.3 s of every 0.1 s are three rounds, despite rounding.
    return math.floor(watch.lasting_s / watch.interval_s * (1 + 1e-12))


# --- answers --------------------------------------------------------------------------------------


def fired_areas(answer: Answer, trigger: Trigger) -> tuple[str, ...]:
    """The areas in which the trigger holds. O(readings)."""
    return tuple(result.area for result in answer.results if trigger.holds(result))


def unknown_channels(answer: Answer, trigger: Trigger, known: Callable[[], Container[str]]) -> str:
    """Channels of the trigger that no area gives and that are not `known` either, in words; empty:
    there are none. A misspelt channel would otherwise never fire and never be noticed. O(areas).

    A channel is not given while a window has no reading of it: `known` are those that nodes have,
    with or without readings; it is evaluated only if a channel is not given.
    """
    given = {name for result in answer.results for name in channels_of(result)}
    lacking = [name for name in trigger.channels if name not in given]
    if not lacking or not answer.results:
        return ""
    have = known()
    lacking = [name for name in lacking if name not in have]
    if not lacking:
        return ""
    there = f"; there is {', '.join(sorted(given))}" if given else ""
    return f"the trigger: no area that answered gives {' or '.join(lacking)}{there}"


def as_asked(answer: Answer, watch: Watch) -> Answer:
    """The answer without what only the trigger needed: further channels, or whole series. An area
    that has nothing else is missing, as if nothing else had been asked."""
    results = [_as_asked(result, watch) for result in answer.results]
    there = tuple([result for result in results if channels_of(result)])
    if len(there) == len(results):
        return replace(answer, results=there)
    without = [
        Missing(each.area, "no_data", name=each.name) for each in results if not channels_of(each)
    ]
    return replace(
        answer,
        status="partial",
        slo_met=False,
        coverage=Coverage(len(there), answer.coverage.asked),
        results=there,
        missing=merge_missing([*answer.missing, *without], there),
    )


def _as_asked(result: AreaResult, watch: Watch) -> AreaResult:
    result = only(watch.channels, result)
    series, aggregate = result.series, result.aggregate
    if watch.form == "aggregate" and series is not None:
        return AreaResult(result.area, aggregate=aggregate_of(series), name=result.name)
    return AreaResult(result.area, series, aggregate, name=result.name)


def aggregate_of(series: Series) -> Aggregate:
    """The aggregate that nodes would have made of the same readings, of which there is at least
    one. O(readings).

    A missing value without a flag was not asked for: its reading is another sensor's. Channels
    without any other values are left out.
    """
    times = series.time_ms.numbers()
    channels = {}
    for name in series.values:
        count, _, last, low, high, total, suspect = series.summary(name)
        bad = counts(series.quality[name].data)[0] if name in series.quality else 0
        if count:
            newest: tuple[float | None, int | None] = None, None
            # A node may send times in any order, and any between the two that were checked.
            if times[0] <= times[last] <= times[-1]:
                newest = series.values[name].numbers()[last], times[last]
            channels[name] = ChannelAggregate(
                count, low, total / count, high, bad, suspect, *newest
            )
        elif bad:
            channels[name] = ChannelAggregate(0, bad=bad)
    return Aggregate(*series.time_ms.bounds, channels)


# --- in-order delivery ----------------------------------------------------------------------------


def send_in_turn(entry: WatchEntry) -> list[SendWatch]:
    """The rounds to send now: answered, and all earlier ones sent or skipped."""
    instructions: list[SendWatch] = []
    while (next_one := entry.rounds.get(entry.sent + 1)) is not None:
        if next_one.ends:
            break
        if next_one.state == "answered":
            instructions += _send_or_pass(entry, next_one)
        elif next_one.state != "passed":
            break
        entry.sent += 1
    entry.settle(entry.settled)
    return instructions


def _send_or_pass(entry: WatchEntry, due: RoundEntry) -> list[SendWatch]:
    answer, due.answer = due.answer, None
    assert answer is not None
    if entry.trigger is not None:
        # A refusal means that nothing was evaluated, which must not look like a negative result.
        if not due.fired and answer.status != "refused":
            due.become("passed")
            return []
        answer = as_asked(answer, entry.watch)
    due.become("sent")
    start_ms, end_ms = entry.window_ms(due.number)
    previous = entry.sent_before(due.number)
    message = Round(entry.watch.id, due.number, previous, start_ms, end_ms, answer, due.fired)
    if entry.alerts is not None:
        made_of = entry.alerts.rounds[due.number]
        message = replace(message, alerts=made_of.alerts, alert_count=made_of.count)
    return [SendWatch(entry.peer, message)]
