"""Standing queries: periodic, streaming and event-triggered; each round is one query.

Round k covers a window of wall-clock time that follows from the watch alone. So a round that was
not asked in time, or whose answer did not reach the client, is asked later of the nodes' histories
and gives the same readings: the master keeps no answer, only how far the client is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container

from msgspec.structs import fields, replace

from agent.scheduling.admission import may_query
from agent.scheduling.standing_answers import as_asked, fired_areas, unknown_channels
from agent.scheduling.standing_entry import MOST_AHEAD, RoundEntry, WatchEntry, end_of, rounds_of
from agent.scheduling.standing_events import (
    AcknowledgeArrived,
    AskRound,
    CancelArrived,
    Cursor,
    ForgetWatch,
    RoundAnswered,
    RoundsDue,
    SaveCursor,
    SavedWatch,
    SaveWatch,
    SendStanding,
    StandingEvent,
    StandingInstruction,
    WatchArrived,
    WatchKey,
)
from agent.scheduling.timers import Timers
from agent.scheduling.trigger import ReadTrigger, Trigger
from agent.wire.base import MAX_CHANNELS
from agent.wire.messages import Answer
from agent.wire.senders import Sender
from agent.wire.standing import Round, Watch, Watching

# After the end of its window a round waits for readings that a sensor takes long to give, and for
# nodes whose clock is behind the master's: by so much in all, or a stream misses readings.
LAG_S = 1.5
# After a restart edge nodes need this long, in seconds, to be there again.
SETTLE_S = 5.0
# What a watch costs after its client is gone for good, it costs for so long and two intervals.
EXPIRE_S = 3_600.0
MOST_WATCHES = 10_000
# Of all watches together; they are kept in memory and on disk.
MOST_WATCHED_AREAS = 500_000
# A refusal that only says "not now" is tried again after 0.25 s, 0.5 s …, each time of one round.
NOT_NOW = ("over_rate", "overloaded")
# Asked again, it would be refused again.
FOR_GOOD = ("unknown_service", "not_authorised", "malformed")
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 30.0
# A master that starts before its clock was set back may see clients that are ahead of it.
CLOCK_STEP_S = 60.0


class StandingScheduler:
    """Turns watches into rounds and rounds into queries.

    `now` is wall-clock time here, in seconds since 1970 UTC: windows are what nodes date their
    readings with. `most_watches` bounds those of one client; `read_trigger` reads the language of
    triggers. `capability_of` a service is the one channel that it gives, empty for all; None: it is
    not known here. `channels_of` areas are those that this IAD's nodes there have, whatever they
    give at the moment. Every event is O(log watches) and the answers that it sends.
    """

    def __init__(
        self,
        read_trigger: ReadTrigger,
        capability_of: Callable[[str], str | None],
        channels_of: Callable[[tuple[str, ...]], Container[str]],
        *,
        most_watches: int,
        lag_s: float = LAG_S,
        expire_s: float = EXPIRE_S,
    ) -> None:
        self._read_trigger = read_trigger
        self._capability_of = capability_of
        self._channels_of = channels_of
        self._most_watches = most_watches
        self._lag_s = lag_s
        self._expire_s = expire_s
        self._watches: dict[WatchKey, WatchEntry] = {}
        self._owned: Counter[str] = Counter()
        self._areas = 0
        self._asked: dict[int, tuple[WatchEntry, RoundEntry]] = {}
        self._tokens = 0
        self._timers: Timers[WatchEntry] = Timers()
        self.counters = {"rounds_asked": 0, "rounds_sent": 0, "rounds_put_off": 0}

    @property
    def open_watches(self) -> int:
        """Watches that are kept, paused ones included."""
        return len(self._watches)

    @property
    def next_tick(self) -> float | None:
        """When `RoundsDue` is due next, in wall-clock time."""
        return self._timers.next_due()

    def restore(self, saved: SavedWatch, cursor: Cursor, now: float) -> None:
        """Take in what was on disk; it goes on when its client says that it is there again.

        ValueError if this version cannot read its trigger.
        """
        key = (saved.client, saved.watch.id)
        entry = WatchEntry(key, saved, self._trigger(saved.watch), now)
        entry.acknowledged = cursor.acknowledged
        entry.settle(cursor.settled)
        entry.become("detached")
        # Rounds that were due while the process was away would miss the nodes that are not back.
        entry.held_until_s = now + SETTLE_S
        self._watches[key] = entry
        self._owned[entry.owner] += 1
        self._areas += len(saved.watch.areas)
        self._set_timer(entry)

    def handle(self, event: StandingEvent, now: float) -> list[StandingInstruction]:
        """Take one event at wall-clock time `now`; what to do follows, in order."""
        match event:
            case WatchArrived():
                return self._watch(event, now)
            case AcknowledgeArrived():
                return self._acknowledged(event, now)
            case CancelArrived():
                return self._cancelled(event)
            case RoundAnswered():
                return self._answered(event, now)
            case RoundsDue():
                return [i for entry in self._timers.due(now) for i in self._due(entry, now)]

    # --- from clients --------------------------------------------------------------------------

    def _watch(self, event: WatchArrived, now: float) -> list[StandingInstruction]:
        watch = event.watch
        if (refused := may_query(event.sender, watch.service)) is not None:
            return _refuse(event, refused.message)
        key = _key(event.sender, watch.id)
        entry = self._watches.get(key)
        if entry is not None:
            return self._watch_again(entry, event, now)
        total = rounds_of(watch)
        if watch.after is not None and total is not None and watch.after >= total:
            # All that it ever was is at the client, and so forgotten here.
            return [SendStanding(event.peer, Watching(watch.id, "finished", total + 1))]
        if watch.after is not None:
            return _refuse(
                event,
                f"no watch {watch.id!r} is open here: it was cancelled or refused, or nothing was "
                f"heard of its client for {self._expire_s / 60:g} min; watch anew without 'after'",
            )
        return self._new_watch(key, event, now)

    def _new_watch(
        self, key: WatchKey, event: WatchArrived, now: float
    ) -> list[StandingInstruction]:
        owner = event.sender.name
        if self._owned[owner] >= self._most_watches:
            return _refuse(event, f"{self._most_watches} watches are open for you; cancel one")
        if self.open_watches >= MOST_WATCHES:
            return _refuse(event, f"{MOST_WATCHES} watches are open here; try another master")
        if self._areas + len(event.watch.areas) > MOST_WATCHED_AREAS:
            return _refuse(event, f"{self._areas} areas are watched here; watch a parent of some")
        try:
            trigger = self._trigger(event.watch)
        except ValueError as error:
            return _refuse(event, f"trigger: {error}")
        if problem := self._not_given(event.watch, trigger):
            return _refuse(event, problem)
        saved = SavedWatch(key[0], max(0, round(now * 1e3)), event.watch)
        entry = WatchEntry(key, saved, trigger, now)
        self._watches[key] = entry
        self._areas += len(event.watch.areas)
        self._attach(entry, event)
        return [SaveWatch(key, saved), *self._reply_and_go_on(entry, now)]

    def _watch_again(
        self, entry: WatchEntry, event: WatchArrived, now: float
    ) -> list[StandingInstruction]:
        after, known = event.watch.after, entry.watch
        differing = _differing(known, event.watch)
        if differing:
            return _refuse(
                event,
                f"watch {known.id!r} is open with another {differing}; cancel it or take "
                "another id",
            )
        if after is not None and end_of(known, entry.start_ms, after) > (now + CLOCK_STEP_S) * 1e3:
            return _refuse(event, f"round {after} of watch {known.id!r} is yet to come")
        entry.seen_s = now
        before = entry.cursor
        if after is not None and after < entry.acknowledged:
            # The client lost what it had: from there again.
            entry.rounds.clear()
            entry.acknowledged = entry.settled = after
        elif after is not None:
            entry.acknowledged = after if entry.total is None else min(after, entry.total)
            entry.settle(entry.acknowledged)
        # Whatever was sent beyond may have gone to a connection that is no more.
        entry.sent = entry.settled
        for sent in entry.rounds.values():
            if sent.state == "sent":
                sent.become("waiting")
        self._attach(entry, event)
        saving = [SaveCursor(entry.key, entry.cursor)] if entry.cursor != before else []
        return [*saving, *self._reply_and_go_on(entry, now)]

    def _reply_and_go_on(self, entry: WatchEntry, now: float) -> list[StandingInstruction]:
        if entry.settled == entry.total:
            return self._finish(entry)
        reply = Watching(entry.watch.id, "open", entry.settled + 1, entry.trouble)
        return [SendStanding(entry.peer, reply), *self._go_on(entry, now)]

    def _acknowledged(self, event: AcknowledgeArrived, now: float) -> list[StandingInstruction]:
        entry = self._watches.get(_key(event.sender, event.message.id))
        if entry is None or entry.state == "detached":
            return []
        entry.seen_s = now
        entry.sender = event.sender
        number = min(event.message.round, entry.sent)
        if number <= entry.acknowledged:
            return []
        entry.acknowledged = number
        entry.settle(number)
        return [SaveCursor(entry.key, entry.cursor), *self._go_on(entry, now)]

    def _cancelled(self, event: CancelArrived) -> list[StandingInstruction]:
        watch_id = event.message.id
        entry = self._watches.get(_key(event.sender, watch_id))
        if entry is None:
            # Perhaps the reply to an earlier cancel was lost.
            return [SendStanding(event.peer, Watching(watch_id, "cancelled"))]
        entry.become("cancelled")
        reply = Watching(watch_id, "cancelled", entry.settled + 1)
        return [*self._forget(entry), SendStanding(event.peer, reply)]

    # --- rounds --------------------------------------------------------------------------------

    def _answered(self, event: RoundAnswered, now: float) -> list[StandingInstruction]:
        entry, round_entry = self._asked.pop(event.token)
        if entry.rounds.get(round_entry.number) is not round_entry:
            return []  # nobody waits for it any more
        answer = event.answer
        if answer.status == "refused" and answer.reason in NOT_NOW:
            self._put_off(entry, round_entry, answer, now)
            return self._go_on(entry, now)
        entry.refusals = 0
        entry.trouble = _trouble(round_entry.number, answer)
        round_entry.become("answered")
        round_entry.answer = answer
        round_entry.ends = self._ends(entry, round_entry.number, answer)
        if entry.trigger is None:
            return self._go_on(entry, now)
        round_entry.fired = fired_areas(answer, entry.trigger)
        return [*self._warn(entry, answer, entry.trigger), *self._go_on(entry, now)]

    def _ends(self, entry: WatchEntry, number: int, answer: Answer) -> bool:
        """Whether the watch has no future. Later than at its first round only this master's own
        refusals say so: another IAD may refuse while a service changes."""
        if answer.status != "refused" or answer.reason not in FOR_GOOD:
            return False
        service = entry.watch.service
        refused = may_query(entry.sender, service)
        return number == 1 or refused is not None or self._capability_of(service) is None

    def _warn(
        self, entry: WatchEntry, answer: Answer, trigger: Trigger
    ) -> list[StandingInstruction]:
        """Tell the client, once, that its trigger looks at what is not there."""
        word = unknown_channels(answer, trigger, lambda: self._channels_of(entry.watch.areas))[:500]
        if not word:
            return []
        entry.trouble = f"{entry.trouble}; {word}"[:500] if entry.trouble else word
        if entry.warned:
            return []
        entry.warned = True
        return [SendStanding(entry.peer, Watching(entry.watch.id, "open", entry.settled + 1, word))]

    def _put_off(
        self, entry: WatchEntry, round_entry: RoundEntry, answer: Answer, now: float
    ) -> None:
        round_entry.become("waiting")
        self.counters["rounds_put_off"] += 1
        entry.trouble = f"rounds come late: {answer.message or answer.reason}"[:500]
        if now >= entry.held_until_s:
            pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(entry.refusals, 20))
            entry.refusals += 1
            entry.held_until_s = now + pause_s

    def _go_on(self, entry: WatchEntry, now: float) -> list[StandingInstruction]:
        """Send what is next in turn, end what is at its end, ask what is due."""
        settled = entry.settled
        instructions = self._send(entry)
        if entry.settled != settled:
            instructions.append(SaveCursor(entry.key, entry.cursor))
        if entry.settled == entry.total:
            return instructions + self._finish(entry)
        if (next_one := entry.rounds.get(entry.sent + 1)) is not None and next_one.ends:
            return instructions + self._refuse_for_good(entry, next_one)
        instructions += self._ask(entry, now)
        self._set_timer(entry)
        return instructions

    def _send(self, entry: WatchEntry) -> list[StandingInstruction]:
        instructions: list[StandingInstruction] = []
        while (next_one := entry.rounds.get(entry.sent + 1)) is not None:
            if next_one.ends:
                break
            if next_one.state == "answered":
                instructions += self._send_or_pass(entry, next_one)
            elif next_one.state != "passed":
                break
            entry.sent += 1
        entry.settle(entry.settled)
        return instructions

    def _send_or_pass(self, entry: WatchEntry, due: RoundEntry) -> list[StandingInstruction]:
        answer, due.answer = due.answer, None
        assert answer is not None
        if entry.trigger is not None:
            # A refusal says that nobody looked, which must not pass for silence.
            if not due.fired and answer.status != "refused":
                due.become("passed")
                return []
            answer = as_asked(answer, entry.watch)
        due.become("sent")
        self.counters["rounds_sent"] += 1
        start_ms, end_ms = entry.window_ms(due.number)
        previous = entry.sent_before(due.number)
        message = Round(entry.watch.id, due.number, previous, start_ms, end_ms, answer, due.fired)
        return [SendStanding(entry.peer, message)]

    def _ask(self, entry: WatchEntry, now: float) -> list[StandingInstruction]:
        instructions: list[StandingInstruction] = []
        while (number := entry.next_to_ask()) is not None and self._due_s(entry, number) <= now:
            round_entry = entry.rounds.setdefault(number, RoundEntry(number))
            round_entry.become("asked")
            self._tokens += 1
            self._asked[self._tokens] = (entry, round_entry)
            self.counters["rounds_asked"] += 1
            instructions.append(AskRound(self._tokens, entry.query(number), entry.sender))
        return instructions

    # --- time ----------------------------------------------------------------------------------

    def _due(self, entry: WatchEntry, now: float) -> list[StandingInstruction]:
        entry.timer = -1
        if now >= self._expires_s(entry):
            entry.become("expired")
            return self._forget(entry)
        instructions = self._ask(entry, now)
        self._set_timer(entry)
        return instructions

    def _due_s(self, entry: WatchEntry, number: int) -> float:
        end_s = end_of(entry.watch, entry.start_ms, number) / 1e3
        return max(end_s + self._lag_s, entry.held_until_s)

    def _expires_s(self, entry: WatchEntry) -> float:
        return entry.seen_s + self._expire_s + 2 * entry.watch.interval_s

    def _set_timer(self, entry: WatchEntry) -> None:
        if entry.timer >= 0:
            self._timers.cancel(entry.timer)
        due_s = self._expires_s(entry)
        if (number := entry.next_to_ask()) is not None:
            due_s = min(due_s, self._due_s(entry, number))
        entry.timer = self._timers.set(due_s, entry)

    # --- begin and end -------------------------------------------------------------------------

    def _trigger(self, watch: Watch) -> Trigger | None:
        if watch.style != "event":
            return None
        trigger = self._read_trigger(watch.trigger)
        if len({*watch.channels, *trigger.channels}) > MAX_CHANNELS:
            raise ValueError(f"with it the watch is about more than {MAX_CHANNELS} channels")
        return trigger

    def _not_given(self, watch: Watch, trigger: Trigger | None) -> str:
        """What the watch is about and its service does not give, in words; empty: nothing."""
        capability = self._capability_of(watch.service)
        if capability is None:
            return f"no service {watch.service} here: see `fleet service list`"
        channels = (*watch.channels, *(() if trigger is None else trigger.channels))
        others = sorted({name for name in channels if name != capability})
        if not capability or not others:
            return ""
        return f"service {watch.service} gives {capability} and no more: no {' or '.join(others)}"

    def _attach(self, entry: WatchEntry, event: WatchArrived) -> None:
        if entry.state != "new":
            self._owned[entry.owner] -= 1
        entry.become("attached")
        entry.owner = event.sender.name
        entry.peer, entry.sender = event.peer, event.sender
        self._owned[entry.owner] += 1

    def _finish(self, entry: WatchEntry) -> list[StandingInstruction]:
        """Nothing more comes. It is kept until the client acknowledges that, too: rounds that did
        not fire say nothing to the client."""
        entry.become("finished")
        reply = SendStanding(entry.peer, Watching(entry.watch.id, "finished", entry.settled + 1))
        if entry.acknowledged == entry.total:
            return [*self._forget(entry), reply]
        self._set_timer(entry)
        return [reply]

    def _refuse_for_good(self, entry: WatchEntry, ending: RoundEntry) -> list[StandingInstruction]:
        """The client has all rounds up to here, or is about to; there are no more."""
        entry.become("refused")
        assert ending.answer is not None
        word = _trouble(ending.number, ending.answer)
        reply = Watching(entry.watch.id, "refused", entry.settled + 1, word)
        return [*self._forget(entry), SendStanding(entry.peer, reply)]

    def _forget(self, entry: WatchEntry) -> list[StandingInstruction]:
        entry.rounds.clear()
        if entry.timer >= 0:
            self._timers.cancel(entry.timer)
            entry.timer = -1
        del self._watches[entry.key]
        self._areas -= len(entry.watch.areas)
        self._owned[entry.owner] -= 1
        if not self._owned[entry.owner]:
            del self._owned[entry.owner]
        return [ForgetWatch(entry.key)]

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        assert len(self._timers) == len(self._watches)
        assert sum(self._owned.values()) == len(self._watches)
        assert self._areas == sum(len(entry.watch.areas) for entry in self._watches.values())
        asked = {id(round_entry) for _, round_entry in self._asked.values()}
        for entry in self._watches.values():
            assert entry.acknowledged <= entry.settled <= entry.sent
            assert len(entry.rounds) <= MOST_AHEAD
            for number, round_entry in entry.rounds.items():
                assert number > entry.settled
                assert (round_entry.state == "asked") == (id(round_entry) in asked)
                assert (round_entry.state == "answered") == (round_entry.answer is not None)
                assert number > entry.sent or round_entry.state in ("sent", "passed")


def _key(sender: Sender, watch_id: str) -> WatchKey:
    """A client without a key is another one after each reconnection; it is known by an id that
    nobody guesses. No other role has watches, whatever its name."""
    if sender.role == "client":
        return sender.name, watch_id
    return "" if sender.role == "anyone" else f"{sender.role} {sender.name}", watch_id


def _refuse(event: WatchArrived, message: str) -> list[StandingInstruction]:
    return [SendStanding(event.peer, Watching(event.watch.id, "refused", message=message[:500]))]


def _differing(known: Watch, again: Watch) -> str:
    """Names of the fields in which they differ, in words; empty: none."""
    again = replace(again, after=known.after)
    if known == again:
        return ""
    names = [f.name for f in fields(Watch) if getattr(known, f.name) != getattr(again, f.name)]
    return " and ".join(names)


def _trouble(number: int, answer: Answer) -> str:
    if answer.status == "refused":
        return f"round {number} was refused: {answer.message or answer.reason}"[:500]
    if answer.status == "partial":
        coverage = answer.coverage
        return f"round {number}: {coverage.answered} of {coverage.asked} areas answered"
    return ""
