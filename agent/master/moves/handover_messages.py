"""Messages of handovers, as `agent.placement.handover.events` has them and as they are sent."""

from __future__ import annotations

from collections.abc import Iterator

from agent.placement.handover import events as h
from agent.placement.standby.take_over import Update as StandbyUpdate
from agent.placement.world import Unit
from agent.wire import handover as w
from agent.wire.base import MAX_TEXT

MAX_BYTES = w.MAX_PARTS * w.MAX_PART_BYTES


def written(message: h.Message) -> Iterator[w.HandoverMessage]:
    """The messages to send, in this order; ValueError if a state is larger than they may be."""
    match message:
        case h.Ask(_, attempt, lease_s):
            yield w.MoveAsk(attempt, lease_s)
        case h.Grant(_, attempt):
            yield w.MoveGrant(attempt)
        case h.Refuse(_, attempt, reason):
            yield w.MoveRefuse(attempt, reason[:MAX_TEXT])
        case h.Copy(_, attempt, checkpoint):
            yield from _parts(attempt, 0, checkpoint.state)
        case h.Ready(_, attempt):
            yield w.MoveReady(attempt)
        case h.Final(_, attempt, epoch, checkpoint):
            yield from _parts(attempt, epoch, checkpoint.state)
        case h.Took(_, epoch):
            yield w.MoveTook(epoch)
        case h.Settled(_, epoch):
            yield w.MoveSettled(epoch)
        case h.Reclaimed(_, epoch):
            yield w.MoveReclaimed(epoch)
        case h.Abort(_, attempt):
            yield w.MoveAbort(attempt)


def update_parts(
    update: StandbyUpdate, at: int, seed: int, body: bytes
) -> Iterator[w.StandbyUpdate]:
    """A checkpoint for a standby; ValueError as above."""
    bodies = _pieces(body)
    for part, each in enumerate(bodies):
        yield w.StandbyUpdate(
            update.number, update.epoch, update.term, seed, at, each, part, len(bodies)
        )


def _pieces(state: bytes) -> list[bytes]:
    if len(state) > MAX_BYTES:
        raise ValueError(f"its state has {len(state)} bytes; {MAX_BYTES} can be moved")
    size = w.MAX_PART_BYTES
    return [state[at : at + size] for at in range(0, max(1, len(state)), size)]


def _parts(attempt: int, epoch: int, state: bytes) -> Iterator[w.MoveState]:
    bodies = _pieces(state)
    for part, each in enumerate(bodies):
        yield w.MoveState(attempt, each, epoch, part, len(bodies))


class Gathered:
    """The parts of one state that have come."""

    __slots__ = ("_bodies", "_of")

    def __init__(self) -> None:
        self._of: tuple[int, int, int] | None = None  # attempt, epoch, parts
        self._bodies: list[bytes] = []

    def add(self, message: w.MoveState | w.StandbyUpdate) -> bytes | None:
        """The state, when this is its last part. A part that does not follow makes all of it
        void."""
        of = (message.attempt, message.epoch, message.parts)
        if message.part == 0:
            self._of, self._bodies = of, []
        if self._of != of or message.part != len(self._bodies):
            self.forget()
            return None
        self._bodies.append(message.body)
        if len(self._bodies) < message.parts:
            return None
        bodies = self._bodies
        self.forget()
        return bodies[0] if len(bodies) == 1 else b"".join(bodies)

    @property
    def size(self) -> int:
        """Bytes that have come of a state that is not complete yet."""
        return sum(map(len, self._bodies))

    def forget(self) -> None:
        """Begin anew."""
        self._of, self._bodies = None, []


def read(unit: Unit, message: w.HandoverMessage, gathered: Gathered) -> h.Message | None:
    """The message; None for a part that is not the last, and for a message of no handover."""
    match message:
        case w.MoveAsk(attempt, lease_s):
            return h.Ask(unit, attempt, lease_s)
        case w.MoveGrant(attempt):
            return h.Grant(unit, attempt)
        case w.MoveRefuse(attempt, reason):
            return h.Refuse(unit, attempt, reason)
        case w.MoveState():
            state = gathered.add(message)
            if state is None:
                return None
            if message.epoch:
                return h.Final(unit, message.attempt, message.epoch, h.Checkpoint(state))
            return h.Copy(unit, message.attempt, h.Checkpoint(state))
        case w.MoveReady(attempt):
            return h.Ready(unit, attempt)
        case w.MoveTook(epoch):
            return h.Took(unit, epoch)
        case w.MoveSettled(epoch):
            return h.Settled(unit, epoch)
        case w.MoveReclaimed(epoch):
            return h.Reclaimed(unit, epoch)
        case w.MoveAbort(attempt):
            return h.Abort(unit, attempt)
        case _:
            return None
