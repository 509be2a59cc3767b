"""Standing queries: from clients to the standing scheduler, its rounds to the query scheduler."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from functools import partial

import msgspec

from agent.board import Board
from agent.master.public_plane import PublicPlane
from agent.master.request_plane import Origin
from agent.master.state import State
from agent.scheduling.events import QueryArrived
from agent.scheduling.query import QueryScheduler
from agent.scheduling.standing import StandingScheduler
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
    WatchArrived,
    WatchKey,
)
from agent.triggers.language import read_trigger
from agent.wire.master_config import MasterConfig
from agent.wire.messages import Answer
from agent.wire.standing import Acknowledge, Cancel, Watch

# Kinds of documents on disk.
WATCH = "watch"
CURSOR = "watch_cursor"


class StandingPlane:
    """Moves messages between the public socket, the standing scheduler and the query scheduler.

    `channels_of` is as for `StandingScheduler`; `wall` reads the wall clock in seconds since 1970
    UTC.
    """

    def __init__(
        self,
        board: Board,
        config: MasterConfig,
        state: State,
        public: PublicPlane,
        scheduler: QueryScheduler,
        channels_of: Callable[[tuple[str, ...]], Container[str]],
        wall: Callable[[], float],
    ) -> None:
        self._board = board
        self._state = state
        self._public = public
        self._queries = scheduler
        self._wall = wall
        self._standing = StandingScheduler(
            read_trigger,
            scheduler.capability,
            channels_of,
            most_watches=config.clients.most_watches,
        )
        # Answers wait for the next turn: taken at once, those of many rounds that are answered at
        # once would each ask the next from within the one before.
        self._answers: deque[RoundAnswered] = deque()
        self.unreadable = 0
        self._restore()
        public.takes(Watch, self._watch)
        public.takes(Acknowledge, self._acknowledge)
        public.takes(Cancel, self._cancel)
        board.performs(AskRound, self._ask)
        board.performs(SendStanding, self._send)
        board.performs(SaveWatch, self._save_watch)
        board.performs(SaveCursor, self._save_cursor)
        board.performs(ForgetWatch, self._forget)
        board.keeps_time(self)

    @property
    def open_watches(self) -> int:
        """Watches that are kept, paused ones included."""
        return self._standing.open_watches

    @property
    def counters(self) -> dict[str, int]:
        """Watches and rounds, and watches on disk that this version could not read."""
        return {
            "open_watches": self.open_watches,
            **self._standing.counters,
            "unreadable_watches": self.unreadable,
        }

    @property
    def next_due(self) -> float | None:
        """When a round is due, or an answer waits, on the board's clock."""
        if self._answers:
            return 0.0  # whatever the clock says
        due_s = self._standing.next_tick
        return None if due_s is None else self._board.clock() + due_s - self._wall()

    def tick(self, _now: float) -> None:
        """Pass on the answers that wait, and ask what is due."""
        answers, self._answers = self._answers, deque()
        for answer in answers:
            self._handle(answer)
        self._handle(RoundsDue())

    def _handle(self, event: StandingEvent) -> None:
        self._board.perform(self._standing.handle(event, self._wall()))

    def _watch(self, origin: Origin, watch: Watch, _now: float) -> None:
        self._handle(WatchArrived(origin, origin.sender, watch))

    def _acknowledge(self, origin: Origin, message: Acknowledge, _now: float) -> None:
        self._handle(AcknowledgeArrived(origin.sender, message))

    def _cancel(self, origin: Origin, message: Cancel, _now: float) -> None:
        self._handle(CancelArrived(origin, origin.sender, message))

    def _ask(self, ask: AskRound) -> None:
        event = QueryArrived(partial(self._answered, ask.token), ask.query, ask.sender)
        self._board.perform(self._queries.handle(event, self._board.clock()))

    def _answered(self, token: int, answer: Answer, _now: float) -> None:
        self._answers.append(RoundAnswered(token, answer))

    def _send(self, instruction: SendStanding) -> None:
        self._public.reply(instruction.peer, instruction.message)

    # --- on disk -------------------------------------------------------------------------------

    def _restore(self) -> None:
        cursors = self._state.all(CURSOR)
        now = self._wall()
        for key, body in self._state.all(WATCH).items():
            try:
                saved = msgspec.msgpack.decode(body, type=SavedWatch)
                cursor = Cursor()
                if key in cursors:
                    cursor = msgspec.msgpack.decode(cursors[key], type=Cursor)
                self._standing.restore(saved, cursor, now)
            except (ValueError, msgspec.MsgspecError):
                # Of another version, perhaps of a later one: it stays as it is.
                self.unreadable += 1

    def _save_watch(self, instruction: SaveWatch) -> None:
        body = msgspec.msgpack.encode(instruction.saved)
        self._state.put(WATCH, _document(instruction.key), body)
        self._state.flush()

    def _save_cursor(self, instruction: SaveCursor) -> None:
        body = msgspec.msgpack.encode(instruction.cursor)
        self._state.put(CURSOR, _document(instruction.key), body)

    def _forget(self, instruction: ForgetWatch) -> None:
        self._state.remove(WATCH, _document(instruction.key))
        self._state.remove(CURSOR, _document(instruction.key))


def _document(key: WatchKey) -> str:
    """A client's name holds no slash, so that nothing else gives the same text."""
    client, watch_id = key
    return f"{client}/{watch_id}"
