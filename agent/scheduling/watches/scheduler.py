"""Standing queries: periodic, streaming and event-triggered; each round is one query.

Round k covers a window of wall-clock time that follows from the watch alone, or from alerts, which
are kept until the client has the round. So a round that was not asked in time, or whose answer did
not reach the client, is asked later from the nodes' histories: the master keeps no answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable

from agent.scheduling.admission import may_query, may_subscribe
from agent.scheduling.events import Peer
from agent.scheduling.watches.events import (
    AcknowledgeArrived,
    AskInbox,
    AskRound,
    CancelArrived,
    ClientGone,
    ClockSet,
    Cursor,
    ForgetWatch,
    InboxSaid,
    ReadTrigger,
    Resumed,
    RoundAnswered,
    RoundsDue,
    SaveCursor,
    SavedAlerts,
    SavedWatch,
    SaveWatch,
    SendWatch,
    Trigger,
    WatchArrived,
    WatchInstruction,
    WatchKey,
    WatchNotKept,
    WatchSchedulerEvent,
)
from agent.scheduling.watches.register import (
    Rooms,
    WatchReader,
    WatchRegister,
    WatchTimers,
    differing,
    key_of,
    payer_of,
    refuse,
    trouble_of,
)
from agent.scheduling.watches.rounds import (
    RoundEntry,
    WatchEntry,
    fired_areas,
    rounds_of,
    send_in_turn,
    unknown_channels,
)
from agent.wire.messages import Answer
from agent.wire.principals import Sender
from agent.wire.watches import Watching

# After the end of its window a round waits for slow sensors and for nodes whose clock is behind the
# master's: by this much in all, or a stream misses readings.
LAG_S = 1.5
# Time that edge nodes need to be connected again after a restart, or a stop, in seconds.
SETTLE_S = 5.0
# A watch whose client is gone for good expires after this long and two intervals.
EXPIRE_S = 3_600.0
NOT_NOW = ("over_rate", "overloaded")  # asked again, it may be answered
# Asked again, it would be refused again.
FOR_GOOD = ("unknown_service", "not_authorised", "malformed")
# Time in which a message to a client that was gone is found to be dropped again.
FOUND_S = 1.0
# A master that starts before its clock was set back may see clients that are ahead of it.
CLOCK_STEP_S = 60.0


class WatchScheduler:
    """Turns watches into rounds and rounds into queries.

    `now` is wall-clock time here, in seconds since 1970 UTC, because nodes date their readings with
    it. A watch survives a change of the clock: `ClockSet` says by how much.

    `most_watches` bounds those of one client; `read_trigger` parses the trigger language.
    `capability_of` a service is the one channel that it gives, empty for all; None: it is unknown
    here. `channels_of` areas are those that this IAD's nodes there have, with or without readings
    at the moment; `rooms` is the number of rooms in these areas, and all watches of one client read
    at most `most_readings_per_s`. `services` are the names of those here. `doubt_of` a
    trigger is why it may hold nowhere, in words for its client; empty: it may hold. `new_id`
    returns the ids under which alerts are subscribed to, each once. Every event is O(log watches)
    and the answers that it sends.
    """

    def __init__(
        self,
        read_trigger: ReadTrigger,
        capability_of: Callable[[str], str | None],
        channels_of: Callable[[tuple[str, ...]], Container[str]],
        new_id: Callable[[], str],
        *,
        most_watches: int,
        most_readings_per_s: float = math.inf,
        rooms: Rooms = len,
        services: Callable[[], Iterable[str]] = tuple,
        doubt_of: Callable[[str], str] = lambda _trigger: "",
        lag_s: float = LAG_S,
        expire_s: float = EXPIRE_S,
    ) -> None:
        self._reader = WatchReader(read_trigger, capability_of, new_id, lag_s, services)
        self._capability_of = capability_of
        self._channels_of = channels_of
        self._doubt_of = doubt_of
        self._expire_s = expire_s
        self._watches = WatchRegister(most_watches, most_readings_per_s, rooms)
        self._asked: dict[int, tuple[WatchEntry, RoundEntry]] = {}
        self._tokens = 0
        self._timers = WatchTimers(lag_s, expire_s)
        self.counters = {"rounds_asked": 0, "rounds_sent": 0, "rounds_put_off": 0}

    @property
    def open_watches(self) -> int:
        """Watches that are kept, including paused ones."""
        return len(self._watches)

    def is_open(self, sender: Sender, watch_id: str) -> bool:
        """Whether this client has a watch of that id."""
        return self._watches.find(key_of(sender, watch_id)) is not None

    def is_elsewhere(self, peer: Peer, sender: Sender, watch_id: str) -> bool:
        """Whether this client has a watch of that id, on another connection or on none."""
        entry = self._watches.find(key_of(sender, watch_id))
        return entry is not None and entry.peer != peer

    @property
    def next_tick(self) -> float | None:
        """When `RoundsDue` is due next, in wall-clock time."""
        return self._timers.next_due

    def restore(
        self, saved: SavedWatch, cursor: Cursor, now: float, alerts: SavedAlerts | None = None
    ) -> None:
        """Restore a watch from disk; it goes on when its client is connected again. Requests of a
        watch on alerts to its inbox follow at the first `RoundsDue`.

        ValueError if this version cannot read its trigger.
        """
        key = (saved.client, saved.watch.id)
        entry = self._reader.entry(key, saved, alerts, now)
        entry.restore(cursor)
        entry.put_right(now, 0.0, CLOCK_STEP_S)
        # Rounds that fell due while the process was down would miss the nodes that are not back
        # yet.
        entry.held_until_s = now + SETTLE_S
        self._watches.add(entry, saved.load)
        if entry.alerts is None:
            self._timers.set(entry)
        else:
            self._timers.set_at(now, entry)

    def handle(self, event: WatchSchedulerEvent, now: float) -> list[WatchInstruction]:
        """Handle one event at wall-clock time `now`; returns the instructions, in order."""
        self._timers.look_at_clock(now, self._watches)
        match event:
            case WatchArrived():
                return self._watch(event, now)
            case AcknowledgeArrived():
                return self._acknowledged(event, now)
            case CancelArrived():
                return self._cancelled(event)
            case ClientGone():
                return self._gone(event)
            case WatchNotKept():
                return self._not_kept(event)
            case RoundAnswered():
                return self._answered(event, now)
            case RoundsDue():
                return [i for entry in self._timers.due(now) for i in self._due(entry, now)]
            case InboxSaid():
                return self._inbox_said(event, now)
            case Resumed():
                for entry in self._watches:
                    entry.held_until_s = max(entry.held_until_s, now + SETTLE_S)
                return []
            case ClockSet(by_s):
                self._timers.clock_set(by_s, now, self._watches)
                moved = [
                    entry
                    for entry in self._watches
                    if entry.go_on(now, by_s, CLOCK_STEP_S)
                    or entry.put_right(now, by_s, CLOCK_STEP_S)
                    or entry.pass_over(now, by_s, CLOCK_STEP_S)
                ]
                return [SaveWatch(entry.key, self._saved(entry)) for entry in moved]

    def _saved(self, entry: WatchEntry) -> SavedWatch:
        load = self._watches.load(entry.watch)
        return SavedWatch(entry.owner, entry.start_ms, entry.watch, load, entry.payer)

    # --- from clients --------------------------------------------------------------------------

    def _watch(self, event: WatchArrived, now: float) -> list[WatchInstruction]:
        watch = event.watch
        if (refused := may_query(event.sender, watch.service)) is not None:
            return refuse(event, refused.message)
        if watch.on and (refused := may_subscribe(event.sender)) is not None:
            return refuse(event, refused.message)
        key = key_of(event.sender, watch.id)
        entry = self._watches.find(key)
        if entry is not None:
            return self._watch_again(entry, event, now)
        total = rounds_of(watch)
        if watch.after is not None and total is not None and watch.after >= total:
            # The client has all its rounds, so it was forgotten here.
            return [SendWatch(event.peer, Watching(watch.id, "finished", total + 1))]
        if watch.after is not None:
            return refuse(
                event,
                f"no watch {watch.id!r} is open here: it was cancelled or refused, or nothing was "
                f"heard of its client for {self._expire_s / 60:g} min; watch anew without 'after'",
            )
        return self._new_watch(key, event, now)

    def _new_watch(self, key: WatchKey, event: WatchArrived, now: float) -> list[WatchInstruction]:
        if problem := self._watches.why_no_more(event.sender, event.watch):
            return refuse(event, problem)
        load, payer = self._watches.load(event.watch), payer_of(event.sender)
        saved = SavedWatch(key[0], max(0, round(now * 1e3)), event.watch, load, payer)
        try:
            entry = self._reader.entry(key, saved, None, now)
        except ValueError as error:
            return refuse(event, f"{'on' if event.watch.on else 'trigger'}: {error}")
        if problem := self._reader.not_given(event.watch, entry.trigger, event.sender):
            return refuse(event, problem)
        if event.watch.trigger and (word := self._doubt_of(event.watch.trigger)):
            entry.trouble = f"the trigger: {word}"[:500]
        self._watches.add(entry)
        self._attach(entry, event)
        return [SaveWatch(key, saved), *self._reply_and_go_on(entry, now)]

    def _watch_again(
        self, entry: WatchEntry, event: WatchArrived, now: float
    ) -> list[WatchInstruction]:
        after, known = event.watch.after, entry.watch
        if others := differing(known, event.watch):
            return refuse(
                event,
                f"watch {known.id!r} is open with another {others}; cancel it or take another id",
            )
        if after is not None and entry.is_to_come(after, now + CLOCK_STEP_S):
            return refuse(event, f"round {after} of watch {known.id!r} is yet to come")
        restored = entry.peer is None
        if restored and (problem := self._watches.why_not_again(entry)):
            return refuse(event, problem)
        entry.seen_s = now
        before = entry.cursor
        entry.resume(after)
        self._attach(entry, event)
        saving = [SaveCursor(entry.key, entry.cursor)] if entry.cursor != before else []
        return [*saving, *self._reply_and_go_on(entry, now)]

    def _reply_and_go_on(self, entry: WatchEntry, now: float) -> list[WatchInstruction]:
        if entry.settled == entry.total:
            return self._finish(entry)
        if entry.alerts is not None and entry.alerts.is_new:
            return self._go_on(entry, now)  # it opens when its inbox does
        return [self._say_open(entry, entry.word), *self._go_on(entry, now)]

    def _say_open(self, entry: WatchEntry, word: str) -> SendWatch:
        return SendWatch(entry.peer, Watching(entry.watch.id, "open", entry.settled + 1, word))

    def _acknowledged(self, event: AcknowledgeArrived, now: float) -> list[WatchInstruction]:
        entry = self._watches.find(key_of(event.sender, event.message.id))
        if entry is None or entry.state == "detached":
            return []
        was_away = entry.away
        entry.seen_s, entry.away = now, False
        entry.sender = event.sender
        if entry.alerts is not None and entry.state == "finished":
            # A client that acknowledges the last round may not know that it is the last.
            return self._forget(entry) if event.message.round == entry.settled + 1 else []
        number = min(event.message.round, entry.sent)
        if number <= entry.acknowledged:
            return self._go_on(entry, now) if was_away and entry.state == "attached" else []
        entry.acknowledged = number
        entry.settle(number)
        return [SaveCursor(entry.key, entry.cursor), *self._go_on(entry, now)]

    def _cancelled(self, event: CancelArrived) -> list[WatchInstruction]:
        watch_id = event.message.id
        entry = self._watches.find(key_of(event.sender, watch_id))
        if entry is None:
            # The reply to an earlier cancel may have been lost.
            return [SendWatch(event.peer, Watching(watch_id, "cancelled"))]
        entry.become("cancelled")
        reply = Watching(watch_id, "cancelled", entry.settled + 1)
        return [*self._forget(entry), SendWatch(event.peer, reply)]

    def _not_kept(self, event: WatchNotKept) -> list[WatchInstruction]:
        entry = self._watches.find(event.key)
        if entry is None or entry.state != "attached":
            return []
        entry.become("refused")
        reply = Watching(entry.watch.id, "refused", message=event.why)
        return [*self._forget(entry), SendWatch(entry.peer, reply)]

    def _gone(self, event: ClientGone) -> list[WatchInstruction]:
        entry = self._watches.find(event.key)
        if entry is not None and entry.state == "attached" and entry.peer == event.peer:
            entry.away = True
            self._timers.set(entry)
        return []

    # --- rounds --------------------------------------------------------------------------------

    def _answered(self, event: RoundAnswered, now: float) -> list[WatchInstruction]:
        entry, round_entry = self._asked.pop(event.token)
        if entry.rounds.get(round_entry.number) is not round_entry:
            return []  # no client waits for it any more
        answer = event.answer
        if answer.status == "refused" and answer.reason in NOT_NOW:
            self.counters["rounds_put_off"] += 1
            entry.put_off(round_entry, answer, now)
            return self._go_on(entry, now)
        entry.refusals.reset()
        entry.trouble = trouble_of(round_entry.number, answer)
        round_entry.become("answered")
        round_entry.answer = answer
        round_entry.ends = self._ends(entry, round_entry.number, answer)
        if entry.trigger is None:
            return self._go_on(entry, now)
        round_entry.fired = fired_areas(answer, entry.trigger)
        return [*self._warn(entry, answer, entry.trigger), *self._go_on(entry, now)]

    def _ends(self, entry: WatchEntry, number: int, answer: Answer) -> bool:
        """Whether the watch cannot go on. After its first round only this master's own refusals are
        final: another IAD may refuse while a service changes."""
        if answer.status != "refused" or answer.reason not in FOR_GOOD:
            return False
        service = entry.watch.service
        refused = may_query(entry.sender, service)
        return number == 1 or refused is not None or self._capability_of(service) is None

    def _warn(self, entry: WatchEntry, answer: Answer, trigger: Trigger) -> list[WatchInstruction]:
        """Warn the client, once, that its trigger uses unknown channels."""
        word = unknown_channels(answer, trigger, lambda: self._channels_of(entry.watch.areas))[:500]
        if not word:
            return []
        entry.trouble = f"{entry.trouble}; {word}"[:500] if entry.trouble else word
        if entry.warned:
            return []
        entry.warned = True
        return [self._say_open(entry, word)]

    def _go_on(self, entry: WatchEntry, now: float) -> list[WatchInstruction]:
        """Send the next rounds in order, end a finished watch, ask what is due."""
        if entry.alerts is None:
            return self._continue(entry, now)
        entry.alerts.work(now, entry.held_until_s, attached=True)
        instructions = self._continue(entry, now)
        if not self._watches.has(entry):
            return instructions  # it ended
        # Queries first: the disk takes its time.
        return instructions + entry.alerts.instructions(entry.key)

    def _continue(self, entry: WatchEntry, now: float) -> list[WatchInstruction]:
        settled = entry.settled
        instructions: list[WatchInstruction] = [*send_in_turn(entry)]
        self.counters["rounds_sent"] += len(instructions)
        if entry.settled != settled:
            instructions.append(SaveCursor(entry.key, entry.cursor))
        if entry.settled == entry.total:
            return instructions + self._finish(entry)
        if (next_one := entry.rounds.get(entry.sent + 1)) is not None and next_one.ends:
            return instructions + self._refuse_for_good(entry, next_one)
        instructions += self._ask(entry, now)
        self._timers.set(entry)
        return instructions

    def _ask(self, entry: WatchEntry, now: float) -> list[WatchInstruction]:
        instructions: list[WatchInstruction] = []
        while (number := entry.next_to_ask()) is not None:
            if now < self._timers.asks_s(entry, number):
                break
            round_entry = entry.rounds.setdefault(number, RoundEntry(number))
            round_entry.become("asked")
            self._tokens += 1
            self._asked[self._tokens] = (entry, round_entry)
            self.counters["rounds_asked"] += 1
            instructions.append(AskRound(self._tokens, entry.query(number), entry.sender))
        return instructions

    # --- alerts --------------------------------------------------------------------------------

    def _inbox_said(self, event: InboxSaid, now: float) -> list[WatchInstruction]:
        entry = self._watches.find(event.key)
        if entry is None or entry.alerts is None:
            return []
        alerts = entry.alerts
        was_new, before = alerts.is_new, entry.word
        if event.message is None:
            alerts.put_off(now)
        else:
            alerts.take(event.message, now)
        if entry.state != "attached":
            return self._alerts_due(entry, now)
        if alerts.is_new and alerts.state == "waiting":
            return self._refuse_alerts(entry)
        told: list[WatchInstruction] = []
        if was_new != alerts.is_new or entry.word != before:
            told.append(self._say_open(entry, entry.word))
        return told + self._go_on(entry, now)

    def _alerts_due(self, entry: WatchEntry, now: float) -> list[WatchInstruction]:
        """No client is connected to which a round could go."""
        assert entry.alerts is not None
        entry.alerts.work(now, entry.held_until_s, attached=False)
        self._timers.set(entry)
        return entry.alerts.instructions(entry.key)

    def _refuse_alerts(self, entry: WatchEntry) -> list[WatchInstruction]:
        entry.become("refused")
        reply = Watching(entry.watch.id, "refused", message=entry.word)
        return [*self._forget(entry), SendWatch(entry.peer, reply)]

    # --- time ----------------------------------------------------------------------------------

    def _due(self, entry: WatchEntry, now: float) -> list[WatchInstruction]:
        if now >= self._timers.expires_s(entry):
            entry.become("expired")
            return self._forget(entry)
        told = self._look(entry, now)
        if entry.alerts is not None:
            attached = entry.state == "attached"
            return told + (self._go_on(entry, now) if attached else self._alerts_due(entry, now))
        instructions = self._ask(entry, now)
        self._timers.set(entry)
        return told + instructions

    def _look(self, entry: WatchEntry, now: float) -> list[WatchInstruction]:
        """Find out whether a silent client is there, also one that was found to be gone: its socket
        may have connected again under the same identity."""
        if now < self._timers.looks_s(entry):
            return []
        entry.looked_s = now
        if entry.away:
            entry.away = False
            entry.held_until_s = max(entry.held_until_s, now + FOUND_S)
        return [self._say_open(entry, entry.word)]

    # --- begin and end -------------------------------------------------------------------------

    def _attach(self, entry: WatchEntry, event: WatchArrived) -> None:
        entry.become("attached")
        entry.peer, entry.sender, entry.away = event.peer, event.sender, False
        self._watches.give(entry, event.sender)

    def _finish(self, entry: WatchEntry) -> list[WatchInstruction]:
        """End the watch. The final message is kept until the client acknowledges it, too."""
        entry.become("finished")
        # For alerts the end counts as a round, because only the watch itself can repeat it.
        done = entry.settled + (entry.alerts is not None)
        reply = SendWatch(entry.peer, Watching(entry.watch.id, "finished", done + 1))
        if entry.acknowledged == done:
            return [*self._forget(entry), reply]
        self._timers.set(entry)
        return [reply]

    def _refuse_for_good(self, entry: WatchEntry, ending: RoundEntry) -> list[WatchInstruction]:
        """The client has all rounds up to here, or is about to; there are no more."""
        entry.become("refused")
        assert ending.answer is not None
        word = trouble_of(ending.number, ending.answer)
        reply = Watching(entry.watch.id, "refused", entry.settled + 1, word)
        return [*self._forget(entry), SendWatch(entry.peer, reply)]

    def _forget(self, entry: WatchEntry) -> list[WatchInstruction]:
        entry.rounds.clear()
        ending: list[WatchInstruction] = []
        if entry.alerts is not None:
            ending += [AskInbox(entry.key, message) for message in entry.alerts.end()]
        self._timers.cancel(entry)
        self._watches.remove(entry)
        return [*ending, ForgetWatch(entry.key)]

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        assert len(self._timers) == len(self._watches)
        self._watches.check_invariants()
        asked = {id(round_entry) for _, round_entry in self._asked.values()}
        for entry in self._watches:
            entry.check_invariants()
            for round_entry in entry.rounds.values():
                assert (round_entry.state == "asked") == (id(round_entry) in asked)
