"""Interface of units that are handed over live between masters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from agent.placement.handover.events import Standing
from agent.placement.moves import Reason
from agent.placement.world import Kind, Unit

# Late items that this version cannot read: it never will.
UNREADABLE: Final = -2
# For `GroupCommit.take`, in one transaction with the record of the handover.
Changes = Sequence[Any]
# Late items are of a unit that was removed, or has moved on and whose inbox forwards no more.
NOT_HERE: Final = -3


class Movable(Protocol):
    """A kind of unit. Its copies, final states and late items are bytes that only it reads.

    At the source: copy, pause, then release (and late … kept, end) or, if the target did not take
    the unit, resume. At the target: load, accept, adopt, work, own; or stop, and discard if it was
    adopted. After a restart `restore` comes first, for each unit that has a record.
    """

    kind: Kind
    # Gets a unit that was released, when there is a first or a further late item of it.
    on_late: Callable[[Unit], object]

    def units(self) -> Iterable[Unit]:
        """Units that live here, also those on their way elsewhere; not those on their way here."""

    def lives(self, unit: Unit) -> bool:
        """Whether it is one of these."""

    def restore(self, unit: Unit, standing: Standing, other: str) -> bool:
        """After a restart, before everything else: what the record on disk says. An `owner` works
        as if nothing had been, an `offered` is paused, a `taken` waits for `work`. Late items of a
        `released` go to `other`, and of a `taken` that had left for it before. Returns whether
        that can be: False for what is not here any more."""

    # --- at the source -------------------------------------------------------------------------

    def copy(self, unit: Unit) -> bytes:
        """Data that the target needs to get ready, while the unit works on."""

    def forget_copy(self, unit: Unit) -> None:
        """The handover for which it was copied has ended, perhaps before the pause."""

    def hold(self, unit: Unit, then: Callable[[], object]) -> None:
        """It is to be paused: begin nothing more for the disk, but work on. `then` is called when
        nothing of it is on its way there; `pause` follows."""

    def pause(self, unit: Unit, then: Callable[[bytes], object]) -> None:
        """Give the unit no further message; `then` gets its final state when the one under way is
        done, and what came of it is on disk. Not called any more after `resume`."""

    def resume(self, unit: Unit) -> None:
        """Work and put out again: the target does not take it."""

    def release(self, unit: Unit, to: str) -> Changes:
        """The target has it. What comes for it here from now on is late."""

    def settles(self, unit: Unit, then: Callable[[], object]) -> None:
        """Call `then` as soon as nothing that the unit put out here can be overtaken by what it
        puts out there."""

    def late(self, unit: Unit) -> tuple[int, bytes] | None:
        """The late items that are to be sent next, and a number that is greater than those of all
        earlier ones; None if there are none now. The same until `kept`."""

    def kept(self, unit: Unit, number: int) -> None:
        """The target has the late items up to this number on disk."""

    def end(self, unit: Unit) -> None:
        """Nothing new came for long: take in no late items any more."""

    # --- at the target -------------------------------------------------------------------------

    def load(self, unit: Unit, copy: bytes, then: Callable[[str], object]) -> None:
        """Get ready with a copy; `then` gets "" if it is, and everybody who sends to the unit
        knows of this master by now, or else why not. Not called any more after `stop`."""

    def accept(self, unit: Unit, final: bytes) -> str:
        """The final state has come: "", or why it cannot be taken."""

    def adopt(self, unit: Unit) -> Changes:
        """The part of the accepted state that must be on disk before the unit works here."""

    def work(self, unit: Unit) -> None:
        """Work on what was adopted, perhaps before a restart; nothing is put out before `own`."""

    def own(self, unit: Unit) -> None:
        """It lives here from now on: what it makes may leave."""

    def stop(self, unit: Unit) -> None:
        """Work no longer, and forget what `load` made. What was adopted stays on disk: `work` or
        `discard` follows."""

    def discard(self, unit: Unit) -> Changes:
        """The source has taken it back: forget what was adopted."""

    def forwarded(self, unit: Unit, items: bytes, then: Callable[[int], object]) -> None:
        """Late items of the source; `then` gets how many of them were new when all are on disk. -1:
        none was taken; they are to be sent again later. `UNREADABLE`: they are lost. `NOT_HERE`:
        nothing here takes them."""


class MoveStatus(Struct, frozen=True):
    """A move from this master. `since_s` is the wall clock's; `pause_ms` goes from the pause at the
    source to the moment from which the target may put out, or the source again; `idle_ms` ends when
    it works on messages again, as far as the source knows."""

    unit: Unit
    source: str
    target: str
    reason: Reason
    state: str
    since_s: float
    pause_ms: float | None = None
    idle_ms: float | None = None
    trouble: str = ""


class Mover(Protocol):
    """Moves units between this master and others."""

    def begin(self, unit: Unit, target: str, reason: Reason) -> None:
        """Begin to move it there. PlacementError in one line if that cannot be."""

    @property
    def moves(self) -> Sequence[MoveStatus]:
        """Those under way, and the last ones that ended; the newest last."""

    def where(self, unit: Unit) -> str | None:
        """To which master a unit went that lived here; None if it lives here, or never did."""


class Departures(Protocol):
    """Present masters of units that lived here."""

    def departed(self, kind: Kind) -> dict[str, str]:
        """The IADs of those of a kind, by name."""

    def forget(self, unit: Unit) -> None:
        """Forget the present master of this one."""

    def bound_for(self, unit: Unit) -> str:
        """The IAD to which it is on its way from here; empty if it is not."""
