"""Pictures of `fleet placement show`: who lives where, and what it cost over time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from agent.placement.view import View
from agent.placement.world import Unit
from agent.wire.placement import CostAt
from fleet.terminal.screen import line
from fleet.terminal.units import format_duration

CLONE: Final = re.compile(r"clone-([0-9a-f]{16})")
LEVELS: Final = "▁▂▃▄▅▆▇█"
TOO_MUCH: Final = "∞"
WIDEST: Final = 40
COLUMNS: Final = 80
# Costs below half a microsecond a second are written as 0, and drawn so.
LEAST_S: Final = 5e-7


def show_who_lives_where(screen: Console, view: View) -> None:
    """A line a master: its units, clones and homes marked as such."""
    masters = sorted(view.world.number)
    width = max(map(len, masters), default=0)
    clones = homes = False
    for iad in masters:
        units = view.units(iad)
        clones |= any(_is_clone(each) for each in units)
        homes |= any(each.kind == "home" for each in units)
        # Clones last: they are many, and their names say nothing.
        named = [_short(each) for each in sorted(units, key=lambda each: (_is_clone(each), each))]
        line(screen, f"{iad:<{width}} │ {_as_many(named, COLUMNS - width - 3)}".rstrip())
    marks = ["◆ a clone"] * clones + ["⌂ a home"] * homes
    if marks:
        line(screen, f"{'':<{width}}   {', '.join(marks)}", "dim")


def show_cost(screen: Console, costs: Sequence[CostAt]) -> None:
    """The cost over time, and its numbers, in delay a second."""
    if not costs:
        return
    line(screen, f"cost {sparkline([each.cost for each in costs])} {_number(costs[-1].cost)} now")
    known = [each.cost for each in costs if each.cost is not None]
    if len(costs) > 1 and known:
        first = costs[0]
        text = f"     {format_duration(round(first.age_s))} ago {_number(first.cost)}"
        line(screen, f"{text}; least {_number(min(known))}, most {_number(max(known))}", "dim")


def sparkline(costs: Sequence[float | None], width: int = WIDEST) -> str:
    """A column for each of the costs, or for the last of several that share one, from 0 up; ∞ is no
    number."""
    shown = [costs[len(costs) * (n + 1) // width - 1] for n in range(width)]
    taken = list(costs) if len(costs) <= width else shown
    most = max((each for each in taken if each is not None), default=0.0)
    return "".join(
        TOO_MUCH
        if each is None
        else LEVELS[min(len(LEVELS) - 1, int(len(LEVELS) * each / most)) if most >= LEAST_S else 0]
        for each in taken
    )


def _as_many(names: Sequence[str], room: int) -> str:
    """As many of the names as fit, and how many more there are."""
    text = ""
    for n, name in enumerate(names):
        left = len(names) - n - 1
        more = f" and {left} more" if left else ""
        if n and len(text) + 1 + len(name) + len(more) > room:
            return f"{text} and {left + 1} more"
        text = f"{text} {name}".lstrip()
    return text


def _is_clone(unit: Unit) -> bool:
    return unit.kind == "clone" or bool(unit.kind == "processor" and CLONE.fullmatch(unit.name))


def _short(unit: Unit) -> str:
    if _is_clone(unit):
        found = CLONE.fullmatch(unit.name)
        return f"◆{found[1][:8] if found else unit.name}"
    return f"⌂{unit.name.removeprefix('node/')}" if unit.kind == "home" else unit.name


def _number(cost: float | None) -> str:
    if cost is None:
        return TOO_MUCH
    return f"{cost:.3g} s/s" if cost >= 1 else f"{round(1e3 * cost, 3):.3g} ms/s"
