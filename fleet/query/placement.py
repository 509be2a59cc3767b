"""`fleet placement`: where units live, by a master's operator socket."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from agent.client import NoReplyError, Operator
from agent.net.keys import KeyFiles
from agent.placement.lifecycle import ENDED
from agent.placement.membership.gossip import IDLE_S, LASTS
from agent.placement.view import View, named
from agent.placement.world import PlacementError, Unit
from agent.wire.handover import MoveUnit
from agent.wire.placement import (
    ApplyPlan,
    KnownFacts,
    Mode,
    PinUnit,
    PlacementReport,
    PlacementRequest,
    PlannedMove,
    SetPlacementMode,
    ShowPlacement,
    UnitName,
)
from fleet.common import exits, extras
from fleet.query import placement_screen, replies
from fleet.terminal import screen

if TYPE_CHECKING:
    from _core.colocation.model import Colocation

LOOK_S = 0.5
# A move has only begun when the command ends.
FOLLOW = "`fleet placement show` tells when it is there"
SUBSCRIPTION = "home:client/"
# Masters that have nothing to place tell each other nothing: a look wakes them.
AWAKE_S = 1.5


class Asker(Struct, frozen=True):
    """The connection that a command uses, and how it prints the result. Each method returns the
    exit status."""

    operator: str
    timeout_ms: float
    as_json: bool
    keys: KeyFiles | None

    # --- looking -------------------------------------------------------------------------------

    def show(self) -> int:
        """Print masters, units, pins and moves."""
        report = self._look()
        if isinstance(report, int):
            return report
        if self.as_json:
            replies.write_json(report)
            return exits.DONE
        try:
            view = view_of(report)
        except PlacementError as error:
            return exits.fail(f"what masters told contradicts itself: {error}", exits.FAILED)
        placement_screen.show(screen.console(), report, view)
        return exits.DONE

    def why(self, text: str) -> int:
        """Print the price of every master for a unit."""
        report = self._look()
        if isinstance(report, int):
            return report
        try:
            view = view_of(report)
            unit = _unit_of(view, report, text)
            rows = view.price.why(unit)
        except PlacementError as error:
            return exits.fail(str(error), exits.FAILED)
        if self.as_json:
            placement_screen.write_rows(rows)
        else:
            placement_screen.show_why(screen.console(), report, view, unit, rows)
        return exits.DONE

    def plan(self, planner: str, file: Path | None, model: Path | None) -> int:
        """Print what a planner would do, and write it to a file, if one is given."""
        from fleet.placement import plans

        if lacking := plans.missing(planner):
            how = extras.remedy()
            return exits.fail(f"planner {planner} needs {lacking[0]}; {how}", exits.USAGE)
        trained = None
        if model is not None:
            from fleet.placement.model_file import read_model

            trained = read_model(model)
        report = self._look()
        if isinstance(report, int):
            return report
        try:
            view = view_of(report, None if trained is None else trained[1])
            made = plans.plan(view, planner, report.move_cost)
        except PlacementError as error:
            return exits.fail(f"no plan: {error}", exits.FAILED)
        if file is not None and made.moves:
            try:
                plans.write(file, made)
            except OSError as error:
                return exits.fail(f"{file}: {error.strerror}", exits.USAGE)
        if self.as_json:
            placement_screen.write_plan(made)
        else:
            placement_screen.show_plan(screen.console(), made, file)
        goals = [each.objective for each in view.placement.world.topics.values()]
        quantiles = [goal.quantile for goal in goals if goal is not None]
        if trained is not None and (note := trained[0].note(quantiles)):
            screen.line(screen.console(stderr=True), note, "dim")
        return exits.DONE

    # --- changing ------------------------------------------------------------------------------

    def apply(self, file: Path) -> int:
        """Have the master check a plan, and begin those of its moves that begin there."""
        from fleet.placement import plans

        try:
            made = plans.read(file)
        except plans.PlanError as error:
            return exits.fail(str(error), exits.USAGE)
        except OSError as error:
            return exits.fail(f"{file}: {error.strerror}", exits.USAGE)
        return self._change(ApplyPlan("apply", made.moves))

    def move(self, text: str, target: str) -> int:
        """Move one unit."""
        report = self._look()
        if isinstance(report, int):
            return report
        subscription = text.removeprefix("home:") if text.startswith(SUBSCRIPTION) else ""
        if subscription and not _knows(report, Unit("home", subscription)):
            return self._move_subscription(subscription, target)
        found = _found(report, text)
        if isinstance(found, int):
            return found
        unit, where, asked = found
        if where != asked:  # A master begins only moves of its own units.
            line = f"{unit.kind} {unit.name} lives at {where}: ask that master (--iad {where})"
            return exits.fail(line, exits.REFUSED)
        plan = ApplyPlan("move", (PlannedMove(unit, where, target),))
        return self._change(plan, f"moving {unit.kind} {unit.name} to {target}; {FOLLOW}")

    def _move_subscription(self, name: str, target: str) -> int:
        """One whose client did not say which masters it reaches: no price or plan knows it."""
        request = MoveUnit("move", "home", name, target)
        try:
            with Operator(self.operator, self.keys) as link:
                report = link.ask_move(request, self.timeout_ms)
        except (NoReplyError, ValueError) as error:
            return replies.fail(error, f"{self.operator} is no report of moves", "operator")
        if self.as_json:
            replies.write_json(report)
        if not report.ok:
            return exits.fail(f"refused: {report.message}", exits.REFUSED)
        if not self.as_json:
            screen.line(screen.console(), f"moving home {name} to {target}; {FOLLOW}")
        return exits.DONE

    def pin(self, text: str, iad: str) -> int:
        """Pin a unit to a master."""
        found = self._unit(text)
        return found if isinstance(found, int) else self._change(PinUnit("pin", found[0], iad))

    def unpin(self, text: str) -> int:
        """Take a pin away, be it that of a unit that is no more."""
        kind, colon, name = text.partition(":")
        given = {"kind": kind, "name": name} if colon else {"kind": "processor", "name": text}
        try:
            unit = msgspec.convert(given, UnitName)
        except msgspec.ValidationError:
            return exits.fail(f"{text!r} is no unit; write comfort or home:NAME", exits.USAGE)
        return self._change(PinUnit("unpin", unit))

    def set_mode(self, iad: str, mode: Mode) -> int:
        """Open, freeze or drain a master."""
        return self._change(SetPlacementMode("mode", iad, mode))

    def drain(self, iad: str, wait_s: float | None) -> int:
        """Have all units moved away; with `wait_s` look until none is left, or for so long."""
        status = self.set_mode(iad, "draining")
        if status != exits.DONE or wait_s is None:
            return status
        give_up = time.monotonic() + wait_s
        while True:
            report = self._ask(ShowPlacement("drain"))
            if isinstance(report, int):
                return report
            try:
                left = _left(report, iad)
            except PlacementError as error:
                left = f"what masters told contradicts itself: {error}"
            if not left:
                screen.line(screen.console(), f"{iad} is empty: it may be stopped")
                return exits.DONE
            if time.monotonic() >= give_up:
                return exits.fail(left, exits.FAILED)
            time.sleep(LOOK_S)

    # --------------------------------------------------------------------------------------------

    def _unit(self, text: str) -> tuple[UnitName, str, str] | int:
        """A unit, its master, and the master that was asked; or the exit status of a failure."""
        report = self._look()
        return report if isinstance(report, int) else _found(report, text)

    def _look(self) -> PlacementReport | int:
        """The master's view, when all others have told it something, or soon."""
        until = time.monotonic() + AWAKE_S
        while True:
            report = self._ask(ShowPlacement("show"))
            if isinstance(report, int) or time.monotonic() >= until:
                return report
            if not any(each.silent or _is_old(each) for each in report.known):
                return report
            time.sleep(LOOK_S / 2)

    def _change(self, request: PlacementRequest, done: str = "") -> int:
        report = self._ask(request)
        if isinstance(report, int):
            return report
        if self.as_json:
            replies.write_json(report)
        if not report.ok:
            return exits.fail(f"refused: {report.message}", exits.REFUSED)
        if not self.as_json:
            screen.line(screen.console(), done or report.message)
        return exits.DONE

    def _ask(self, request: PlacementRequest) -> PlacementReport | int:
        """The report, or the exit status of a failure."""
        try:
            with Operator(self.operator, self.keys) as link:
                return link.ask_placement(request, self.timeout_ms)
        except (NoReplyError, ValueError) as error:
            return replies.fail(error, f"{self.operator} is no report of placement", "operator")


def _found(report: PlacementReport, text: str) -> tuple[UnitName, str, str] | int:
    """As of `Asker._unit`, of what a master has told."""
    try:
        view = view_of(report)
        unit = _unit_of(view, report, text)
    except PlacementError as error:
        return exits.fail(str(error), exits.FAILED)
    return named(unit), view.where(unit) or "", report.iad


def _unit_of(view: View, report: PlacementReport, text: str) -> Unit:
    """The unit of that name. PlacementError, also of one that no master has told while it moves."""
    try:
        return view.unit(text)
    except PlacementError:
        for move in report.moves:
            names = (move.unit.name, f"{move.unit.kind}:{move.unit.name}")
            if move.state not in ENDED and text in names:
                way = f"{move.unit.kind} {move.unit.name} moves from {move.source} to {move.target}"
                raise PlacementError(f"{way} now; try again when it is there") from None
        raise


def _knows(report: PlacementReport, unit: Unit) -> bool:
    """Whether a master has told of a home."""
    return any(home.name == unit.name for each in report.known for home in each.facts.homes)


def _left(report: PlacementReport, iad: str) -> str:
    """Units that still live at a master, and the reason; "" if none does. PlacementError."""
    view = view_of(report)
    if not (left := view.units(iad)):
        return ""
    why = placement_screen.why_not_away(view, left[0])
    last = [m.trouble for m in report.moves if m.unit == named(left[0]) and m.trouble]
    why += f"; {last[-1]}" if last else ""
    return f"{iad} still has {len(left)} unit{'s' * (len(left) != 1)}: {why}"


def _is_old(known: KnownFacts) -> bool:
    """Whether that master was idle, and may tell something newer now that it is looked at."""
    return known.age_s > LASTS * min(known.facts.next_s, IDLE_S)


def view_of(report: PlacementReport, model: Colocation | None = None) -> View:
    """The placement that a master reports, with a latency model: what is silent does not count."""
    return View([each.facts for each in report.known if not each.silent], model)
