"""Watch plane: standing queries from clients to the watch scheduler, its evaluations to the query
scheduler."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Container
from functools import partial

import msgspec

from agent.alerts.inbox import parsed_bytes
from agent.master.push.push_plane import PushPlane
from agent.master.queries.saving_watches import SavingWatches
from agent.master.queries.watch_inboxes import WatchInboxes, document_of
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import NOT_NOW, State
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import cost_of
from agent.scheduling.events import QueryArrived
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.watches.events import (
    AcknowledgeArrived,
    AskRound,
    CancelArrived,
    ClientGone,
    ClockSet,
    Cursor,
    ForgetWatch,
    Resumed,
    RoundAnswered,
    RoundsDue,
    SaveAlerts,
    SaveCursor,
    SavedAlerts,
    SavedWatch,
    SaveWatch,
    SendWatch,
    WatchArrived,
    WatchKey,
    WatchNotKept,
    WatchSchedulerEvent,
)
from agent.scheduling.watches.register import Rooms, key_of
from agent.scheduling.watches.scheduler import WatchScheduler
from agent.triggers.contradiction import doubt
from agent.triggers.language import read_trigger
from agent.wire.master_config import MasterConfig
from agent.wire.messages import Answer
from agent.wire.watches import Acknowledge, Cancel, Watch, Watching, WatchReply

# Document kinds on disk.
WATCH = "watch"
CURSOR = "watch_cursor"
ALERTS = "watch_alerts"
# Interval of checks for a changed wall clock; smaller differences do not count as a change.
LOOK_S = 1.0
CLOCK_SET_S = 1.0
# Without a look for so long this process was stopped, as by a snapshot of its machine: nodes and
# other masters are found again first.
STOPPED_S = 3.0


class WatchPlane:
    """Moves messages between the public socket, the watch scheduler, the query scheduler and the
    inboxes of alerts.

    Replies about a watch wait until everything saved of it before is on stable storage. A watch
    whose client has heard nothing of it is refused, and forgotten, as soon as the disk refuses.
    `channels_of` and `rooms` are as for `WatchScheduler`; `wall` reads the wall clock in seconds
    since 1970 UTC.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: MasterConfig,
        state: State,
        public: PublicPlane,
        scheduler: QueryScheduler,
        channels_of: Callable[[tuple[str, ...]], Container[str]],
        push: PushPlane,
        wall: Callable[[], float],
        rooms: Rooms = len,
    ) -> None:
        self._reactor = reactor
        self._state = state
        self._public = public
        self._queries = scheduler
        self._wall = wall
        self._scheduler = WatchScheduler(
            read_trigger,
            scheduler.capability,
            channels_of,
            lambda: secrets.token_hex(8),
            most_watches=config.clients.most_watches,
            most_readings_per_s=config.clients.watched_readings_per_s,
            rooms=rooms,
            services=lambda: scheduler.services,
            doubt_of=lambda trigger: doubt(read_trigger(trigger)),
        )
        # Answers wait for the next turn: handled at once, each of many simultaneous answers would
        # start the next evaluation from within the one before.
        self._answers: deque[RoundAnswered] = deque()
        self._look_s = 0.0
        self._handled_s = reactor.clock()
        self.unreadable = 0
        self._saving = SavingWatches(state)
        # New watches of which nothing was sent yet.
        self._unheard: set[WatchKey] = set()
        state.when_refused(self._refuse_unheard)
        # Offset of the wall clock from the reactor's.
        self._ahead_s = wall() - reactor.clock()
        self._restore()
        WatchInboxes(reactor, push, self._handle, self._when_saved).begin(state.all(WATCH).keys())
        public.takes(Watch, self._watch)
        public.takes(Acknowledge, self._acknowledge)
        public.takes(Cancel, self._cancel)
        reactor.performs(AskRound, self._ask)
        reactor.performs(SendWatch, self._send)
        reactor.performs(SaveWatch, self._save_watch)
        reactor.performs(SaveCursor, self._save_cursor)
        reactor.performs(SaveAlerts, self._save_alerts)
        reactor.performs(ForgetWatch, self._forget)
        reactor.add_timer(self)

    @property
    def open_watches(self) -> int:
        """Watches that are kept, including paused ones."""
        return self._scheduler.open_watches

    @property
    def counters(self) -> dict[str, int]:
        """Counters of watches and evaluations, and of stored watches that this version could not
        read."""
        return {
            "open_watches": self.open_watches,
            **self._scheduler.counters,
            "unreadable_watches": self.unreadable,
        }

    @property
    def next_due(self) -> float | None:
        """When an evaluation is due, or an answer waits, on the reactor's clock."""
        if self._answers:
            return 0.0  # regardless of the clock
        due_s = self._scheduler.next_tick
        if due_s is None:
            return None
        return min(self._look_s, self._reactor.clock() + due_s - self._wall())

    def tick(self, now: float) -> None:
        """Pass on the waiting answers, and start the evaluations that are due."""
        self._look_s = now + LOOK_S
        answers, self._answers = self._answers, deque()
        for answer in answers:
            self._handle(answer)
        self._handle(RoundsDue())

    def _handle(self, event: WatchSchedulerEvent) -> None:
        wall, now = self._wall(), self._reactor.clock()
        silent_s, self._handled_s = now - self._handled_s, now
        if silent_s > LOOK_S + STOPPED_S:
            self._reactor.perform(self._scheduler.handle(Resumed(), wall))
        set_by_s = wall - now - self._ahead_s
        if abs(set_by_s) > CLOCK_SET_S:
            self._ahead_s += set_by_s
            self._reactor.perform(self._scheduler.handle(ClockSet(set_by_s), wall))
        self._reactor.perform(self._scheduler.handle(event, wall))

    def _watch(self, origin: RequestOrigin, watch: Watch, now: float) -> None:
        # Who comes back with an open watch, on a new connection, loses it if it is refused.
        if not self._scheduler.is_elsewhere(origin, origin.sender, watch.id):
            cost = cost_of(len(watch.areas), parsed_bytes(watch.on))
            if refused := self._public.rates.refused(origin.sender, now, cost):
                self._public.reply(origin, Watching(watch.id, "refused", message=refused.message))
                return
        if not self._scheduler.is_open(origin.sender, watch.id):
            if not self._state.takes:
                self._public.reply(origin, Watching(watch.id, "refused", message=NOT_NOW))
                return
            self._unheard.add(key_of(origin.sender, watch.id))
        self._handle(WatchArrived(origin, origin.sender, watch))

    def _acknowledge(self, origin: RequestOrigin, message: Acknowledge, _now: float) -> None:
        self._handle(AcknowledgeArrived(origin.sender, message))

    def _cancel(self, origin: RequestOrigin, message: Cancel, now: float) -> None:
        # What is open was paid for when it was opened.
        if not self._scheduler.is_open(origin.sender, message.id) and (
            refused := self._public.rates.refused(origin.sender, now)
        ):
            self._public.reply(origin, Watching(message.id, "refused", message=refused.message))
            return
        self._handle(CancelArrived(origin, origin.sender, message))

    def _ask(self, ask: AskRound) -> None:
        event = QueryArrived(partial(self._answered, ask.token), ask.query, ask.sender)
        self._reactor.perform(self._queries.handle(event, self._reactor.clock()))

    def _answered(self, token: int, answer: Answer, _now: float) -> None:
        self._answers.append(RoundAnswered(token, answer))

    def _send(self, instruction: SendWatch) -> None:
        peer, message = instruction.peer, instruction.message
        key = key_of(peer.sender, message.id)
        self._saving.after(key, partial(self._reply, key, peer, message))

    def _reply(self, key: WatchKey, peer: RequestOrigin, message: WatchReply) -> None:
        self._unheard.discard(key)
        if self._public.reply(peer, message):
            self._handle(ClientGone(key, peer))

    def _refuse_unheard(self) -> None:
        unheard, self._unheard = self._unheard, set()
        for key in unheard:
            self._saving.drop(key)
            self._handle(WatchNotKept(key, NOT_NOW))

    # --- on disk -------------------------------------------------------------------------------

    def _restore(self) -> None:
        cursors, alerts = self._state.all(CURSOR), self._state.all(ALERTS)
        now = self._wall()
        for key, body in self._state.all(WATCH).items():
            try:
                saved = msgspec.msgpack.decode(body, type=SavedWatch)
                cursor = Cursor()
                if key in cursors:
                    cursor = msgspec.msgpack.decode(cursors[key], type=Cursor)
                made = None
                if key in alerts:
                    made = msgspec.msgpack.decode(alerts[key], type=SavedAlerts)
                self._scheduler.restore(saved, cursor, now, made)
            except (ValueError, msgspec.MsgspecError) as error:
                # Perhaps written by a later version: it stays as it is.
                self.unreadable += 1
                self._state.left_out(WATCH, key, error)

    def _save_watch(self, instruction: SaveWatch) -> None:
        body = msgspec.msgpack.encode(instruction.saved)
        self._state.put(WATCH, document_of(instruction.key), body)
        self._saving.begin(instruction.key)

    def _save_cursor(self, instruction: SaveCursor) -> None:
        body = msgspec.msgpack.encode(instruction.cursor)
        self._state.put(CURSOR, document_of(instruction.key), body)

    def _save_alerts(self, instruction: SaveAlerts) -> None:
        key, body = instruction.key, msgspec.msgpack.encode(instruction.saved)
        self._state.put(ALERTS, document_of(key), body)
        if instruction.at_once:
            self._saving.begin(key)

    def _when_saved(self, key: WatchKey, then: Callable[[], object]) -> bool:
        """For the inboxes: acknowledgements of a watch follow the saving of its state."""
        if not self._state.takes and self._saving.has(key):
            return False
        self._saving.after(key, then)
        return True

    def _forget(self, instruction: ForgetWatch) -> None:
        self._unheard.discard(instruction.key)
        self._state.remove(WATCH, document_of(instruction.key))
        self._state.remove(CURSOR, document_of(instruction.key))
        self._state.remove(ALERTS, document_of(instruction.key))
