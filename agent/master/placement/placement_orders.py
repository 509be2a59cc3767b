"""Orders of operators about placement: pins and the mode, which are kept on disk, and plans."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, get_args

from agent.master.storage.state import NOT_NOW, State
from agent.placement.moves import Move
from agent.placement.placer import Placer
from agent.placement.view import View, moves_of
from agent.placement.world import Kind, PlacementError, Unit
from agent.wire.placement import MAX_PINS, ApplyPlan, Mode, PinUnit, SetPlacementMode

# Kinds of the documents in the state.
PIN: Final = "placement_pin"
MODE: Final = "placement_mode"
MAX_SOUGHT: Final = 8
KINDS: Final = get_args(Kind)


class PlacementOrders:
    """Carries out what operators order at `placer`, and keeps it in `state`. `partners` are the
    masters of the same operator."""

    def __init__(self, iad: str, placer: Placer, state: State, partners: Collection[str]) -> None:
        self._iad = iad
        self._placer = placer
        self._state = state
        self._partners = partners
        # Masters that an operator named lately, and that were no partners.
        self.sought: list[str] = []

    def restore(self, *, frozen: bool) -> None:
        """At the start: what is on disk, which counts more than whether it is to be `frozen`."""
        if frozen:
            self._placer.mode = "frozen"
        if (mode := self._state.read(MODE, bytes.decode).get("mode", "")) in get_args(Mode):
            self._placer.mode = mode  # type: ignore[assignment]  # as just looked up
        for key, iad in self._state.read(PIN, bytes.decode).items():
            kind, _, name = key.partition("/")
            if kind in KINDS:
                self._placer.pins[Unit(kind, name)] = iad  # type: ignore[arg-type]  # ditto

    def carry_out(
        self,
        request: PinUnit | SetPlacementMode | ApplyPlan,
        view: View,
        silent: Sequence[str],
    ) -> str:
        """The result, for the operator. `silent` are masters of which nothing was heard lately.
        Raises PlacementError."""
        if not self._state.takes:
            raise PlacementError(NOT_NOW)
        match request:
            case PinUnit(_, wanted, iad):
                return self._pin(view, Unit(wanted.kind, wanted.name), iad, silent)
            case SetPlacementMode(_, iad, mode):
                return self._set_mode(view, iad, mode, silent)
            case ApplyPlan(_, moves):
                return self._apply(view, moves_of(moves), silent)

    def save_pin(self, unit: Unit) -> None:
        """Keep the pin that a unit has at the placer, or that it has none."""
        key = f"{unit.kind}/{unit.name}"
        if (iad := self._placer.pins.get(unit)) is None:
            self._state.remove(PIN, key)
        else:
            self._state.put(PIN, key, iad.encode())

    def _pin(self, view: View, unit: Unit, iad: str, silent: Sequence[str]) -> str:
        if not iad:
            self._placer.unpin(unit)
            self.save_pin(unit)
            return f"{unit} is pinned no more"
        view.unit(f"{unit.kind}:{unit.name}")
        if iad not in self._partners and iad != self._iad:
            # It may be one that membership finds: the operator asks again.
            self.sought = [*self.sought, iad][-MAX_SOUGHT:]
        pinned = sum(map(bool, self._placer.pins.values()))
        if pinned >= MAX_PINS and not self._placer.pins.get(unit):
            raise PlacementError(f"{MAX_PINS} units are pinned here: no more can be")
        self._placer.check_pin(view, unit, iad, silent)
        self._placer.pin(unit, iad)
        self.save_pin(unit)
        return f"{unit} is pinned to {iad}" + ("" if iad == self._iad else ", and moves there")

    def _set_mode(self, view: View, iad: str, mode: Mode, silent: Sequence[str]) -> str:
        if iad != self._iad:
            if iad not in silent:
                view.master(iad, silent)
            raise PlacementError(
                f"this is the master of {self._iad}; ask that of {iad}: --iad {iad}"
            )
        self._placer.mode = mode
        self._state.put(MODE, "mode", mode.encode())
        count = len(view.units(iad))
        units = _counted(count, "unit")
        if mode == "draining":
            return f"{iad} drains: {units} to move away" if count else f"{iad} is empty"
        if mode == "frozen":
            return f"{iad} is frozen: it keeps what it has ({units}), and takes no other"
        return f"{iad} is open again"

    def _apply(self, view: View, moves: Sequence[Move], silent: Sequence[str]) -> str:
        mine = self._placer.apply(view, moves, silent)
        elsewhere = sorted({str(m.source) for m in moves if m.source != self._iad})
        if not elsewhere:
            return f"{_counted(len(mine), 'move')} begin{'s' * (len(mine) == 1)} here"
        others = ", ".join(elsewhere)
        return f"{len(mine)} of {len(moves)} moves begin here; the others are for: {others}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
