"""Messages of a handover: between its two masters, to their disks and to their workers.

The source owns the unit until the target's `taken` is on disk. From there the target works under a
lease, which began when it said that it was ready, and ends before the source takes the unit back:
so each side knows by its own clock when it may work. Each time that a master begins to work on a
unit it has a new epoch, which is on disk first; outputs carry it, and an older one is dropped.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from agent.alerts.dedup_window import Taken
from agent.placement.world import Unit

# By how much longer the source waits: clocks of two masters run apart by far less.
LEASE_MARGIN = 1.1

# Epochs that any unit may have had, beside one for each millisecond since 1970. What a master tells
# grows no faster, so that wherever a unit comes, the next epochs are believed, too.
MOST_EPOCHS = 1 << 40

Standing = Literal["owner", "offered", "released", "taken"]


def require_epoch(epoch: int, wall_s: float) -> None:
    """ValueError if another master tells an epoch that no unit can have reached by this time."""
    if epoch > MOST_EPOCHS + max(0.0, wall_s) * 1e3:
        raise ValueError(f"its epoch would be {epoch}, which none has reached")


class Output(Struct, frozen=True, array_like=True):
    """An output of a unit, caused by one message: (`history`, `sequence`) is that one's origin."""

    epoch: int
    position: int  # from 1 in each epoch, without gaps
    history: str
    sequence: int
    body: bytes = b""


class Checkpoint(Struct, frozen=True, array_like=True):
    """All that a unit is: its state, which messages that has in it (by history), and the outputs
    that some subscriber's master does not have yet."""

    state: bytes = b""
    taken: dict[str, Taken] = {}
    outputs: tuple[Output, ...] = ()


class Record(Struct, frozen=True, array_like=True):
    """A master's word on a unit, on disk: it owns it (and has taken it back from `other`), has
    offered it to `other` as that epoch under a lease of `lease_s`, has released it to it, or has
    taken it from it."""

    unit: Unit
    epoch: int
    standing: Standing
    other: str = ""
    lease_s: float = 0.0


# -- messages ------------------------------------------------------------------------------------


class Ask(Struct, frozen=True, tag=True):
    """Source → target: will you have it? `attempt` is a number that the source never used."""

    unit: Unit
    attempt: int
    lease_s: float


class Grant(Struct, frozen=True, tag=True):
    """Target → source: yes."""

    unit: Unit
    attempt: int


class Refuse(Struct, frozen=True, tag=True):
    """Target → source: no, or no longer; it has not taken the unit and will not."""

    unit: Unit
    attempt: int
    reason: str


class Copy(Struct, frozen=True, tag=True):
    """Source → target: a copy of the state, to load and get ready with."""

    unit: Unit
    attempt: int
    checkpoint: Checkpoint


class Ready(Struct, frozen=True, tag=True):
    """Target → source: the copy is loaded. The lease begins here."""

    unit: Unit
    attempt: int


class Final(Struct, frozen=True, tag=True):
    """Source → target: the paused unit's state; take it as this epoch."""

    unit: Unit
    attempt: int
    epoch: int
    checkpoint: Checkpoint


class Took(Struct, frozen=True, tag=True):
    """Target → source: it is on disk here. Repeated until there is an answer."""

    unit: Unit
    epoch: int


class Settled(Struct, frozen=True, tag=True):
    """Source → target: it is released, on disk."""

    unit: Unit
    epoch: int


class Reclaimed(Struct, frozen=True, tag=True):
    """Source → target: this epoch is void, a later one is on disk at the source."""

    unit: Unit
    epoch: int


class Abort(Struct, frozen=True, tag=True):
    """Source → target: forget this attempt, which has come to no `Final`."""

    unit: Unit
    attempt: int


Message = Ask | Grant | Refuse | Copy | Ready | Final | Took | Settled | Reclaimed | Abort


# -- what the shell reports ----------------------------------------------------------------------


class Copied(Struct, frozen=True):
    """The copy that `MakeCopy` asked for."""

    checkpoint: Checkpoint


class Loaded(Struct, frozen=True):
    """The processor is loaded with the state that `Load` gave; an `error` says why it is not."""

    error: str = ""


class Paused(Struct, frozen=True):
    """The unit works on no message any more; this is its state, outputs included."""

    checkpoint: Checkpoint


class Written(Struct, frozen=True):
    """The record is on stable storage."""

    record: Record | None


class Tick(Struct, frozen=True):
    """Time has passed."""


Event = Message | Copied | Loaded | Paused | Written | Tick


# -- instructions --------------------------------------------------------------------------------


class Send(Struct, frozen=True):
    """Send a message to the other master. It may be lost; what must not be is sent again."""

    message: Message


class Write(Struct, frozen=True):
    """Write the record (None: remove it), and the checkpoint unless None; then say `Written`.
    Writes of a unit keep their order."""

    record: Record | None
    checkpoint: Checkpoint | None = None


class MakeCopy(Struct, frozen=True):
    """Copy the unit's state while it works."""


class Load(Struct, frozen=True):
    """Load the processor with this state; it gets no messages yet."""

    checkpoint: Checkpoint


class Pause(Struct, frozen=True):
    """Give the unit no further message as soon as it can do without; say `Paused` then. That may
    take long; a `Work` ends it."""


class Work(Struct, frozen=True):
    """Give the unit messages, as this epoch: tell publishers and subscribers, and send its outputs
    again. The state is the checkpoint, or what the paused unit has if it is None."""

    epoch: int
    checkpoint: Checkpoint | None = None


class Stop(Struct, frozen=True):
    """The unit works here no longer, from now on: drop its state and outputs in memory."""


Instruction = Send | Write | MakeCopy | Load | Pause | Work | Stop


class Timing(Struct, frozen=True):
    """Durations in seconds."""

    lease_s: float = 5.0  # from the target's `Ready`, by when it must have settled
    patience_s: float = 30.0  # for an answer before the unit is paused
    again_s: float = 0.5  # between two `Took`
