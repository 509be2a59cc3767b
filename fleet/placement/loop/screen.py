"""Terminal output of `fleet plan --placement`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fleet.placement.loop.planning import Outlook
from fleet.terminal.screen import line, plain_table, show_table
from fleet.terminal.units import counted, format_ms


def show(to: Console, found: Outlook, file: Path | None) -> None:
    """One period: what it needs, where everything should live, what that gains."""
    count = f"{found.topics} topic{'s' * (found.topics != 1)}"
    masters = counted(len(found.masters), "master")
    line(to, f"{found.period}: {count}, {found.per_s:.3g} messages/s, {masters}")
    if found.trouble:
        line(to, found.trouble, style="yellow")
    if found.plan is None:
        return
    for trouble in found.plan.infeasible:
        line(to, trouble, style="yellow")
    if found.expected:
        table = plain_table(
            "topic", "objective", "today", "expected", "planned", "expected", left=1
        )
        for each in found.expected:
            goal = "–"
            if each.slo_ms is not None:
                goal = f"p{each.percentile:g} ≤ {format_ms(each.slo_ms)}"
            now, then = (
                "–" if ms is None else format_ms(ms) for ms in (each.today_ms, each.planned_ms)
            )
            table.add_row(each.topic, goal, each.today, now, each.planned, then)
        show_table(to, table)
    before, after = ["∞" if each is None else f"{each * 1e3:.3g} ms/s" for each in found.plan.cost]
    late = [
        sum(each.misses(ms) for each, ms in pairs)
        for pairs in (
            [(each, each.today_ms) for each in found.expected],
            [(each, each.planned_ms) for each in found.expected],
        )
    ]
    needs = "" if found.needed is None else f"the objectives need {found.needed}; "
    line(
        to,
        f"masters in use {found.plan.masters[0]} → {found.plan.masters[1]}, {needs}"
        f"delay {before} → {after}; topics over their objectives {late[0]} → {late[1]}",
    )
    if not found.plan.moves:
        line(to, "nothing is to be moved")
    elif file is not None:
        line(to, f"the plan is in {file}: fleet placement apply {file}")
