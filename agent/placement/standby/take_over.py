"""Messages of a take-over: between a unit's owner and its standby, to their disks and workers.

The owner has a unit in a *term* of its own (`agent.placement.membership.member_lease`), and puts
out only while it holds the lease of that term. It gives each checkpoint to its standby once it has
it on disk itself. From the first on the standby may take the unit over, and it alone: when a
majority has given its word that the owner's term is over. What it writes to its disk first decides:
that it owns the unit, or that it stands by in a later term of the owner, or no more. So the owner
may work in a later term, or without a standby, only when the standby has said that it wrote so.

The standby's inbox collects the messages itself, and keeps what its last checkpoint does not cover.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from agent.placement.handover.events import Checkpoint, Work
from agent.placement.world import Unit

# Epochs of an owner and of the one that takes over from it have no number in common: an owner
# begins one at each start, of which its standby need not know.
REIGN: Final = 1 << 20
# By how many the standby may be ahead of an owner, whose disk may be an old one.
MOST_REIGNS: Final = 1 << 12

Part = Literal["primary", "standby", "copying", "owner", "void"]


def next_reign(epoch: int) -> int:
    """The first epoch after all that the owner of this one begins."""
    return (epoch // REIGN + 1) * REIGN


class Role(Struct, frozen=True, array_like=True):
    """A master's part in a unit with a standby, on disk. A primary has it in its own `term` with
    `other` as standby; a standby has a checkpoint of it from `other` in that one's `term`, which
    may take over ("copying": may not yet); an owner took it over from `other`; void: has no part
    any more, since `other` has taken it over (at a primary) or wants it no more (at a standby)."""

    unit: Unit
    part: Part
    other: str
    term: int
    epoch: int


# -- messages ------------------------------------------------------------------------------------


class Update(Struct, frozen=True, tag=True):
    """Primary → standby: the checkpoint that is on disk here; stand by with it in this term. No
    other message of a primary, of this process or an earlier one, has this `number`. `complete`:
    what it does not cover has come to the standby's inbox."""

    unit: Unit
    term: int
    epoch: int
    number: int
    complete: bool
    checkpoint: Checkpoint


class Kept(Struct, frozen=True, tag=True):
    """Standby → primary: it is on disk, and this is the term."""

    unit: Unit
    term: int
    number: int


class Dismiss(Struct, frozen=True, tag=True):
    """Primary → standby: stand by no more, in this term or an earlier one."""

    unit: Unit
    term: int
    number: int


class Dismissed(Struct, frozen=True, tag=True):
    """Standby → primary: it does not, and that is on disk."""

    unit: Unit
    term: int
    number: int


class TakenOver(Struct, frozen=True, tag=True):
    """Standby → primary: it has the unit since this epoch."""

    unit: Unit
    term: int
    epoch: int


Message = Update | Kept | Dismiss | Dismissed | TakenOver


# -- what the shell reports ----------------------------------------------------------------------


class Saved(Struct, frozen=True):
    """At the primary: this checkpoint is on disk here. `complete` as in `Update`."""

    checkpoint: Checkpoint
    complete: bool = True


class Leased(Struct, frozen=True):
    """At the primary: the lease of this term is held. Repeated, so that what got no answer is said
    again."""

    term: int


class Dead(Struct, frozen=True):
    """At the standby: a majority has given its word that the primary's term is over."""

    term: int


class Written(Struct, frozen=True):
    """The role is on stable storage."""

    role: Role


Event = Message | Saved | Leased | Dead | Written


# -- instructions --------------------------------------------------------------------------------


class Send(Struct, frozen=True):
    """Send a message to the other master, or the one that asked. It may be lost."""

    message: Message


class Write(Struct, frozen=True):
    """Write the role, and the checkpoint unless None, in one transaction; then say `Written`.
    Writes of a unit keep their order."""

    role: Role
    checkpoint: Checkpoint | None = None


class Stop(Struct, frozen=True):
    """The unit works here no longer: drop its state and outputs in memory, pass on what only this
    inbox has."""


# `Work`: as of a handover.
Instruction = Send | Write | Work | Stop
