"""Placer: the next move of a master's units, by pins, plans, arrivals and drift, one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agent.placement.drift import Drift
from agent.placement.grants import Grants
from agent.placement.moves import PRECEDENCE, Move, Reason, check_plan
from agent.placement.price import Price
from agent.placement.view import View
from agent.placement.world import PlacementError, Unit, World
from agent.runtime.back_off import BackOff
from agent.wire.placement import Mode, PlacementFacts

# Longer than a handover takes, its lease included.
GRANT_S: Final = 60.0
FIRST_PAUSE_S: Final = 5.0
MAX_PAUSE_S: Final = 300.0
# Failures after which the move of a plan or of an arrival is given up.
ENOUGH: Final = 5
# One that cannot even begin is given up later: a plan's other moves may have to make room first.
STUCK_S: Final = 300.0
# Units that drift looks at in one go.
LOOKED_AT: Final = 16


class _Wish(Struct, frozen=True):
    target: str
    reason: Reason


class Placer:
    """The decisions of one master about its own units. Pins come before plans, plans before drift;
    a frozen master neither takes nor gives."""

    def __init__(self, iad: str, *, drift: bool, move_cost: float) -> None:
        """`move_cost`: what a move of drift or of an arrival has to gain more than, in seconds of
        delay a second."""
        self._iad = iad
        self._drift = drift
        self.move_cost = move_cost
        self.mode: Mode = "open"
        # An operator's, of units that live here or went from here; "" if it was taken away, so that
        # the word of a master where the unit lived before is known to be old.
        self.pins: dict[Unit, str] = {}
        self.grants = Grants(GRANT_S)
        self.troubles: dict[Unit, str] = {}  # why the last move of a unit came to nothing
        self._wishes: dict[Unit, _Wish] = {}
        self._pauses: dict[Unit, tuple[float, BackOff]] = {}
        self._stuck: dict[Unit, float] = {}  # since when a wish cannot be had
        self._looked = 0

    # -- what operators want ---------------------------------------------------------------------

    def check_pin(self, view: View, unit: Unit, target: str, silent: Iterable[str]) -> None:
        """PlacementError in one line if a unit cannot be pinned there."""
        self._require_here(view, unit)
        view.master(target, list(silent))
        view.check_pin(unit, target)
        if target != self._iad:
            row = next(each for each in view.price.why(unit) if each.master == target)
            if row.reason and not row.reason.startswith("is not "):  # but pinned elsewhere yet
                raise PlacementError(f"{unit} cannot live at {target}: it {row.reason}")

    def pin(self, unit: Unit, target: str) -> None:
        """The unit is to live there."""
        self.pins[unit] = target
        self._forget(unit)

    def unpin(self, unit: Unit) -> None:
        """It may live anywhere; PlacementError if it is not pinned."""
        if not self.pins.get(unit):
            pinned = sorted(each for each, iad in self.pins.items() if iad)
            known = ", ".join(map(str, pinned)) or "nothing"
            raise PlacementError(f"{unit} is not pinned here; pinned is {known}")
        self.pins[unit] = ""
        self._forget(unit)

    def apply(self, view: View, moves: Iterable[Move], silent: Iterable[str]) -> list[Move]:
        """Check a plan, and take over those of its moves that begin here, which are returned.
        PlacementError in one line, and nothing changes, if it does not fit."""
        wanted = list(moves)
        gone = list(silent)
        for move in wanted:
            for iad in (move.target, move.source):
                if iad is not None:
                    view.master(iad, gone)
        mine = [move for move in check_plan(view.placement, wanted) if move.source == self._iad]
        for move in mine:
            # Also to a master that is silent, which no view has.
            pinned = self.pins.get(move.unit)
            if pinned and pinned != move.target:
                raise PlacementError(
                    f"{move.unit} is to move to {move.target}, but it is pinned to {pinned}"
                )
        _check_end(view, wanted)
        for move in mine:
            self._wish(move.unit, move.target, "plan")
        return mine

    def arrived(self, view: View, unit: Unit) -> Move | None:
        """The move of a new unit of this master to a cheaper one, if that is worth it."""
        drift = Drift(view.price, lambda _: self.move_cost)
        move = None if self._held(view.world, unit) else drift.wanted(unit)
        if move is None or move.reason != "drift":
            return move  # Pins and draining are seen to anyhow.
        reason: Reason = "delegate" if move.target == view.delegate else "arrival"
        self._wish(unit, move.target, reason)
        return replace(move, reason=reason)

    # -- moves -----------------------------------------------------------------------------------

    def next_move(self, view: View, moving: Collection[Unit], now: float) -> Move | None:
        """The move that is to begin now, granted by this master as its source. None while another
        is under way, or if there is none. One of drift is granted until another comes before it,
        and begins when others have granted it, too (`Admission`). O(units that an operator's word
        concerns, and a few others)."""
        here = view.units(self._iad)
        self._clean(here, set(moving))
        self._release_what_came(view)
        if moving or self.mode == "frozen":
            return None
        drift = Drift(
            view.price,
            lambda _: self.move_cost,
            {unit: wish.target for unit, wish in self._wishes.items()},
        )
        found = [
            move
            for unit in self._candidates(view, here)
            if (move := self._wanted(drift, unit, now)) is not None
        ]
        found.sort(key=lambda move: (-PRECEDENCE[move.reason], -move.gain, move.unit))
        for move in found:
            if move.reason == "drift" and self.grants.busy(now):
                break  # Perhaps its own, for which grants are asked.
            if self.grants.admit(move, now) and (
                move.reason == "drift" or self.grants.begin(move, now)
            ):
                return move
        return None

    def ended(self, unit: Unit, why: str, now: float) -> None:
        """A move is over; `why` it came to nothing, or an empty string."""
        self.grants.release(unit)
        if not why:
            self._forget(unit)
            return
        self.troubles[unit] = why
        _, pauses = self._pauses.get(unit, (now, BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)))
        self._pauses[unit] = now + pauses.next(), pauses
        if pauses.failures >= ENOUGH:
            self._wishes.pop(unit, None)

    def put_off(self, move: Move, why: str, pause_s: float, now: float) -> None:
        """A move of drift did not get its grants: look at its unit again after a pause."""
        unit = move.unit
        if self.grants.granted(move, now):  # What came before it has its own.
            self.grants.release(unit)
        self.troubles[unit] = why
        _, pauses = self._pauses.get(unit, (now, BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)))
        self._pauses[unit] = now + pause_s, pauses

    def admits(
        self, view: View, unit: Unit, source: str, now: float, reason: Reason = "plan"
    ) -> str:
        """Why another master's unit may not come here now; empty if it may: then this master grants
        no other move for a while."""
        if self.mode != "open":
            return f"{self._iad} is {self.mode}"
        if view.world.has(unit):
            at = view.master(self._iad)
            row = next(each for each in view.price.why(unit) if each.master == self._iad)
            if view.placement.where(unit) != at and row.reason:
                return f"{self._iad} {row.reason}"
        self._release_what_came(view)
        if not self.grants.admit(Move(unit, source, self._iad, reason=reason), now):
            return f"{self._iad} is part of another move"
        return ""

    def heard(self, told: PlacementFacts, here: Iterable[Unit]) -> list[Unit]:
        """Pins come along with their units: one that another master's facts pin to this one, and
        that lives here, is this master's from now on. What is known of the pins of units that went
        is forgotten once their new master has its own. Returns the units whose pin changed."""
        mine = set(here)
        words = {Unit(each.unit.kind, each.unit.name): each.iad for each in told.pins}
        changed = []
        for unit, iad in words.items():
            if unit in mine and iad == self._iad and unit not in self.pins:
                self.pins[unit] = iad
                changed.append(unit)
        for unit, iad in list(self.pins.items()):
            if unit not in mine and (not iad or (iad == told.iad and unit in words)):
                del self.pins[unit]
                changed.append(unit)
        return changed

    # --------------------------------------------------------------------------------------------

    def _candidates(self, view: View, here: list[Unit]) -> list[Unit]:
        if self.mode == "draining":
            return here
        meant = [unit for unit in here if unit in view.world.pins or unit in self._wishes]
        if not self._drift or not here:
            return meant
        start = self._looked % len(here)
        self._looked = start + LOOKED_AT
        others = (here[start:] + here[:start])[:LOOKED_AT]
        return list(dict.fromkeys([*meant, *others]))

    def _wanted(self, drift: Drift, unit: Unit, now: float) -> Move | None:
        if unit in self._pauses and now < self._pauses[unit][0]:
            return None
        held = self._held(drift.price.placement.world, unit)
        move = None if held else drift.wanted(unit)
        if unit in self._wishes and (move is None or move.reason == "drift"):
            self._wait(drift.price, unit, now)
        if move is None or (move.reason == "drift" and not self._drift):
            return None
        if move.reason == "plan":
            if self._stuck.pop(unit, None) is not None:
                self.troubles.pop(unit, None)
            return replace(move, reason=self._wishes[unit].reason)
        return move

    def _held(self, world: World, unit: Unit) -> bool:
        """Whether a unit stays because its pin cannot be kept now, such as to a silent master."""
        return bool(self.pins.get(unit)) and unit not in world.pins and self.mode != "draining"

    def _wait(self, price: Price, unit: Unit, now: float) -> None:
        """The target of a wish cannot have the unit now: say why, for so long."""
        target = self._wishes[unit].target
        at = price.placement.world.number.get(target)
        reason = "is silent" if at is None else price.reason(unit, at)
        self.troubles[unit] = f"{target} {reason or 'cannot have it now'}"
        if now >= self._stuck.setdefault(unit, now) + STUCK_S:
            del self._wishes[unit], self._stuck[unit]

    def _release_what_came(self, view: View) -> None:
        granted = self.grants.move
        if granted is not None and granted.target == view.where(granted.unit) == self._iad:
            self.grants.release(granted.unit)

    def _clean(self, here: list[Unit], moving: set[Unit]) -> None:
        """Forget matters of units that went away or are no more."""
        there = {*here, *moving}
        for unit in [each for each in self._wishes if each not in there]:
            del self._wishes[unit]
        for unit in [each for each in self._pauses if each not in there]:
            self._forget(unit)
        for unit in [each for each in self._stuck if each not in there]:
            self._forget(unit)

    def _wish(self, unit: Unit, target: str, reason: Reason) -> None:
        self._forget(unit)
        self._wishes[unit] = _Wish(target, reason)

    def _forget(self, unit: Unit) -> None:
        self._wishes.pop(unit, None)
        self._pauses.pop(unit, None)
        self._stuck.pop(unit, None)
        self.troubles.pop(unit, None)

    @property
    def waiting(self) -> list[tuple[Unit, str, Reason]]:
        """The moves that operators and arrivals still want, by unit, target and reason."""
        return [(unit, wish.target, wish.reason) for unit, wish in sorted(self._wishes.items())]

    def _require_here(self, view: View, unit: Unit) -> None:
        where = view.where(unit)
        if where != self._iad:
            raise PlacementError(f"{unit} lives at {where}: ask that master (--iad {where})")


def _check_end(view: View, moves: Iterable[Move]) -> None:
    """PlacementError in one line if a master could not have its new units even when all moves are
    over. What is too much only on the way waits until others have gone. O(units · degree)."""
    after = view.placement.copy()
    targets = [(move.unit, view.world.number[move.target]) for move in moves]
    for unit, target in targets:
        after.move(unit, target)
    price = Price(after, view.price.congestion)
    for unit, target in targets:
        if reason := price.reason(unit, target):
            raise PlacementError(
                f"{view.world.masters[target].name} cannot have {unit}: it {reason}"
            )
