"""A run: clones at their devices' masters, then drift until nothing moves any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent.placement.admission import QUIET_S
from agent.placement.congestion import Congestion
from agent.placement.drift import Drift
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.view import View
from agent.placement.world import Unit
from agent.wire.records import MoveRecord
from fleet.placement.flows import Flows
from lab.placement.flock.listening import Listener
from lab.placement.flock.masters import Masters
from lab.placement.flock.world import Setting, World
from lab.placement.masters import MastersError
from lab.placement.sequences import Check

OPENED_S: Final = 120.0
LOOK_EVERY_S: Final = 1.0


class Costs(Struct, frozen=True):
    """What all deliveries cost at the rates and delays that were measured at the end, in seconds of
    delay a second: with all clones at their homes, as drift left them, and by two plans of somebody
    who knows everything, from their homes and from there."""

    homes: float
    drift: float
    planned: float
    after_plan: float


class Found(Struct, frozen=True):
    """`began_ms`: from when on masters could let clones drift, all of which were there. `settled`:
    no move ended for so long. `unsettled` counts clones that would still gain more than a move
    costs, by what all masters measure."""

    world: World
    setting: Setting
    began_ms: float
    moves: list[MoveRecord]
    settled: bool
    unsettled: int
    costs: Costs
    check: Check
    heard: int
    rounds: int
    rounds_failed: int


def run(setting: Setting, world: World, folder: Path, say: Callable[[str], None]) -> Found:
    """Start everything, wait, stop it. MastersError in one line."""
    say(f"{len(world.iads)} masters start …")
    with Masters(world, setting, folder) as masters, ExitStack() as stack:
        started_s = time.monotonic()
        listeners = [_listener(masters, iad, stack) for iad in _spread(world, setting.subscribers)]
        for number in range(setting.clones):
            masters.create(number)
        say(f"{setting.clones} clones are there; masters are quiet for a minute …")
        quiet_s = max(0.0, started_s + QUIET_S - time.monotonic())
        began_ms = (time.time() + quiet_s) * 1e3
        settled = _wait(masters, setting, quiet_s, say)
        view = masters.view()
        check, heard = _checked(listeners)
        statuses = [each for report in masters.clones() for each in report.clones]
        moves = masters.moves()
    say("plans …")
    return Found(
        world=world,
        setting=setting,
        began_ms=began_ms,
        moves=moves,
        settled=settled,
        unsettled=_wishes(view, setting.move_cost),
        costs=_costs(view, {each.topic: each.clone.device for each in statuses}),
        check=check,
        heard=heard,
        rounds=sum(each.rounds for each in statuses),
        rounds_failed=sum(each.rounds_failed for each in statuses),
    )


def _listener(masters: Masters, iad: str, stack: ExitStack) -> Listener:
    found = Listener(masters.public(iad), f"listener-{iad}")
    stack.callback(found.close)
    if not found.opened.wait(OPENED_S):
        raise MastersError(f"{iad}: no subscription after {OPENED_S:g} s")
    return found


def _checked(listeners: Sequence[Listener]) -> tuple[Check, int]:
    """What came to all of them, and how many topics came to each. What is missing between two that
    came may be on its way: it is lost if it does not come for long."""
    give_up_s = time.monotonic() + OPENED_S
    while True:
        check = Check()
        heard = min(each.add_to(check) for each in listeners)
        if not check.lost or time.monotonic() > give_up_s:
            return check, heard
        time.sleep(LOOK_EVERY_S)


def _spread(world: World, count: int) -> list[str]:
    step = max(1, len(world.iads) // count)
    return list(world.iads[::step][:count])


def _wait(masters: Masters, setting: Setting, quiet_s: float, say: Callable[[str], None]) -> bool:
    """Until no clone has moved for a while since drift could begin; whether that was so in time."""
    began_s = changed_s = time.monotonic()
    seen = 0
    while (now := time.monotonic()) < began_s + quiet_s + setting.longest_s:
        masters.check()
        found = len(masters.moves())
        if found != seen or masters.under_way():
            changed_s = now
            if found != seen:
                say(f"{found} moves after {now - began_s - quiet_s:.0f} s")
            seen = found
        if now - max(changed_s, began_s + quiet_s) >= setting.still_s:
            return True
        time.sleep(LOOK_EVERY_S)
    return False


def _wishes(view: View, move_cost: float) -> int:
    """Clones that a move would bring more than it costs."""
    drift = Drift(view.price, lambda _: move_cost)
    return sum(drift.wanted(unit) is not None for unit in _clones(view))


def _clones(view: View) -> list[Unit]:
    return [unit for unit in view.units() if unit.kind == "processor"]


def _costs(view: View, devices: dict[str, str]) -> Costs:
    congestion = view.price.congestion
    homes = view.placement.copy()
    for unit in _clones(view):
        home = devices[unit.name].partition("/")[0]
        homes.move(unit, homes.world.number[home])
    return Costs(
        homes=Price(homes, congestion).total(),
        drift=view.price.total(),
        planned=_planned(homes, congestion),
        after_plan=_planned(view.placement, congestion),
    )


def _planned(start: Placement, congestion: Congestion) -> float:
    after = start.copy()
    for move in Flows(congestion).plan(start):
        after.move(move.unit, after.world.number[move.target])
    return Price(after, congestion).total()
