"""Messages of a live handover between two masters; a move of a unit for the operator.

Either master sends to the other's public socket. What they mean is in
`agent.placement.handover.events`; states go in parts, since a request is at most 1 MiB.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from _core.wire.elements import elements
from agent.wire.base import Count, Finite, Identifier, Message, Name, Text, WireStruct

# In JSON bytes take a third more.
MAX_PART_BYTES: Final = 3 << 18
# A processor's state is at most 4 MiB, an inbox 1 MiB, and what it remembers another.
MAX_PARTS: Final = 12

# Of what is in a body: the largest inbox has 100,000, and what a topic remembers 20,000.
MAX_BODY_VALUES: Final = 1 << 18

T = TypeVar("T")

UnitName = Annotated[str, Meta(min_length=1, max_length=256)]
UnitKind = Literal["home", "processor", "clone"]
Body = Annotated[bytes, Meta(max_length=MAX_PART_BYTES)]
Lease = Annotated[float, Meta(gt=0.0, le=3_600.0)]
Reason = Literal["pin", "drain", "arrival", "plan", "drift"]

# --- between masters -----------------------------------------------------------------------------


class MoveAsk(Message, frozen=True, tag="move_ask"):
    """Will you have it? Never asked before under this `attempt`."""

    attempt: Count
    lease_s: Lease


class MoveGrant(Message, frozen=True, tag="move_grant"):
    """Yes."""

    attempt: Count


class MoveRefuse(Message, frozen=True, tag="move_refuse"):
    """No, or no longer: it is not taken and will not be."""

    attempt: Count
    reason: Text


class MoveState(Message, frozen=True, tag="move_state", omit_defaults=True):
    """Part number `part`, from 0, of a state in `parts` of them, in order. Without an `epoch` it is
    a copy, to get ready with; with one it is the final state, to be taken as that epoch."""

    attempt: Count
    body: Body
    epoch: Count = 0
    part: Annotated[int, Meta(ge=0, lt=MAX_PARTS)] = 0
    parts: Annotated[int, Meta(ge=1, le=MAX_PARTS)] = 1

    def __post_init__(self) -> None:
        if self.part >= self.parts:
            raise ValueError("a part beyond the last")


class MoveReady(Message, frozen=True, tag="move_ready"):
    """The copy is loaded. The lease begins here."""

    attempt: Count


class MoveTook(Message, frozen=True, tag="move_took"):
    """It is taken, on disk. Repeated until there is an answer."""

    epoch: Count


class MoveSettled(Message, frozen=True, tag="move_settled"):
    """It is released, on disk."""

    epoch: Count


class MoveReclaimed(Message, frozen=True, tag="move_reclaimed"):
    """That epoch is void: the sender works on the unit again."""

    epoch: Count


class MoveAbort(Message, frozen=True, tag="move_abort"):
    """Forget this attempt, which has come to no final state."""

    attempt: Count


class MoveLate(Message, frozen=True, tag="move_late"):
    """What still came for the unit where it lived before. Repeated until it is kept."""

    number: Count
    body: Body


class MoveKept(Message, frozen=True, tag="move_kept"):
    """That is on disk; so much of it was `new`."""

    number: Count
    new: Count


class StandbyAsk(Message, frozen=True, tag="standby_ask"):
    """Will you stand by for it? It lives at the sender since this epoch. The body says what it
    is."""

    epoch: Count
    body: Body


class StandbyReady(Message, frozen=True, tag="standby_ready"):
    """Yes, in this term of the one that stands by; it needs all of it (again)."""

    term: Count


class StandbyRefuse(Message, frozen=True, tag="standby_refuse"):
    """No."""

    reason: Text


class StandbyUpdate(Message, frozen=True, tag="standby_update", omit_defaults=True):
    """Part number `part`, from 0, of a checkpoint in `parts` of them, in order. It is about the
    owner's `term`, and follows the checkpoint with the number `seed`, which was whole, or is that
    one. It is only for whoever stands by in the term `at` of its own."""

    attempt: Count
    epoch: Count
    term: Count
    seed: Count
    at: Count
    body: Body
    part: Annotated[int, Meta(ge=0, lt=MAX_PARTS)] = 0
    parts: Annotated[int, Meta(ge=1, le=MAX_PARTS)] = 1

    def __post_init__(self) -> None:
        if self.part >= self.parts:
            raise ValueError("a part beyond the last")


class StandbyKept(Message, frozen=True, tag="standby_kept"):
    """The checkpoint with this number is there, for this term of the owner."""

    term: Count
    attempt: Count


class StandbyDismiss(Message, frozen=True, tag="standby_dismiss"):
    """Stand by no more, in this term of the owner or an earlier one, for the topic whose inbox has
    the name `incarnation`. It lives at the sender since this epoch."""

    term: Count
    attempt: Count
    epoch: Count
    incarnation: Identifier


class StandbyDismissed(Message, frozen=True, tag="standby_dismissed"):
    """It does not."""

    term: Count
    attempt: Count


class StandbyTook(Message, frozen=True, tag="standby_took", omit_defaults=True):
    """The sender has taken the unit over, and has it since this epoch. To a master that has not
    asked, but claims the same topic in its facts: with a `proof` that both mean the same inbox."""

    epoch: Count
    proof: Annotated[str, Meta(max_length=64)] = ""


StandbyMessage = (
    StandbyAsk
    | StandbyReady
    | StandbyRefuse
    | StandbyUpdate
    | StandbyKept
    | StandbyDismiss
    | StandbyDismissed
    | StandbyTook
)
HandoverMessage = (
    MoveAsk
    | MoveGrant
    | MoveRefuse
    | MoveState
    | MoveReady
    | MoveTook
    | MoveSettled
    | MoveReclaimed
    | MoveAbort
    | MoveLate
    | MoveKept
    | StandbyMessage
)


class Handover(Message, frozen=True, tag="handover"):
    """A message of the master of `iad` about a unit, to the other master of its handover, or of its
    standby. There is
    no reply; a master that does not know this message refuses it with the `id`. A master without a
    link to the other one answers `move_took` on the connection that it came on."""

    id: Identifier
    iad: Name
    kind: UnitKind
    name: UnitName
    message: HandoverMessage


def read_body(body: bytes, kind: type[T]) -> T:
    """What stands in the bodies of these messages. ValueError in one line for what is none, or has
    more than MAX_BODY_VALUES: of nine megabytes each may be a value."""
    if len(body) > MAX_BODY_VALUES and elements(body, 0, MAX_BODY_VALUES) > MAX_BODY_VALUES:
        raise ValueError(f"it has more than {MAX_BODY_VALUES} values")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except UnicodeDecodeError:
        raise ValueError("its text is not valid UTF-8") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None


# --- operator ↔ master ---------------------------------------------------------------------------


class MoveUnit(Message, frozen=True, tag="move_unit", omit_defaults=True):
    """Move a unit that lives at this master to the master of `target`."""

    id: Identifier
    kind: UnitKind
    name: UnitName
    target: Name
    reason: Reason = "plan"


class ListMoves(Message, frozen=True, tag="list_moves"):
    """Request the moves from this master."""

    id: Identifier


class UnitMove(WireStruct, frozen=True, omit_defaults=True):
    """A move under way, or one that ended. `state` is that of the source's side. `pause_ms`: from
    the pause there until outputs may leave again, wherever it lives then; `idle_ms`: until messages
    are worked on again, as far as this master knows. `trouble`: why it was aborted."""

    kind: UnitKind
    name: UnitName
    source: Name
    target: Name
    reason: Reason
    state: Text
    since_ms: Count
    pause_ms: Finite | None = None
    idle_ms: Finite | None = None
    trouble: Text = ""


class MoveReport(Message, frozen=True, tag="move_report", omit_defaults=True):
    """The result of a request about moves: the one that begins, or all that are known, the newest
    last. If not `ok`, `message` says why."""

    id: Annotated[str, Meta(max_length=64)]
    ok: bool
    moves: tuple[UnitMove, ...] = ()
    message: Text = ""


MoveRequest = MoveUnit | ListMoves
