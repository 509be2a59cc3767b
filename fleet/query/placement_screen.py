"""Terminal output of `fleet placement`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Console

from agent.placement.congestion import DELEGATED_S
from agent.placement.price import Row
from agent.placement.view import View
from agent.placement.world import Unit
from agent.wire.placement import KnownFacts, PlacementReport, UnitName
from fleet.query.placement_picture import show_cost, show_who_lives_where
from fleet.terminal import output
from fleet.terminal.screen import line, local_time, plain_table, show_table
from fleet.terminal.units import format_cpu, format_duration, format_ms

if TYPE_CHECKING:
    from fleet.placement.plans import Plan

# Why a unit moves, where the wire's word is not the operator's: both are asked for by hand.
REASONS: Final = {"plan": "asked"}


def show(screen: Console, report: PlacementReport, view: View) -> None:
    """Masters, units, and moves under way."""
    masters = plain_table(
        "master", "state", "units", "load", "of", "bytes", "delay", "told", left=2
    )
    delays = {each.iad: each for each in report.known[0].facts.delays} if report.known else {}
    for each in sorted(report.known, key=lambda known: known.facts.iad):
        iad = each.facts.iad
        delay = delays.get(iad)
        here = iad == report.iad
        at = view.world.number.get(iad)
        account = None if at is None else view.placement.accounts[at]
        masters.add_row(
            iad,
            _state(each, view),
            "–" if at is None else str(len(view.units(iad))),
            "–" if account is None else _load(account.load),
            "–" if each.facts.compute is None else f"{each.facts.compute:.3g}",
            "–" if account is None else _bytes(account.storage, each.facts.storage_bytes),
            "–" if delay is None else format_ms(delay.p50_ms),
            "now" if here else _when(each),
        )
    show_table(screen, masters)
    units = view.units()
    if not units:
        line(screen, "no units: topics are made with fleet topic create")
    else:
        _show_units(screen, view, units)
        show_who_lives_where(screen, view)
    show_cost(screen, report.costs)
    if report.moves:
        moves = plain_table(
            "moves", "from", "to", "for", "saves", "state", "pause", "", left=4, folds=("",)
        )
        for move in report.moves:
            pause = "" if move.pause_ms is None else format_ms(move.pause_ms)
            saves = "" if move.gain is None else f"{1e3 * move.gain:.3g} ms/s"
            moves.add_row(
                _text(move.unit),
                move.source,
                move.target,
                REASONS.get(move.reason, move.reason),
                saves,
                move.state,
                pause,
                move.trouble,
            )
        show_table(screen, moves)
    for trouble in view.troubles:
        line(screen, trouble, style="yellow")
    _show_standbys(screen, view)
    for unit in view.delegated():
        why = "no other master has room within the limits"
        line(screen, f"{unit} is delegated to {view.delegate}: {why}", style="yellow")
    for unit in units:
        if unit.kind == "processor" and (trouble := view.infeasible(unit)):
            line(screen, trouble, style="yellow")
        where = view.where(unit)
        if where is not None and view.world.number[where] in view.world.draining:
            line(screen, f"{unit}: {why_not_away(view, unit)}", style="yellow")


def _show_units(screen: Console, view: View, units: Sequence[Unit]) -> None:
    table = plain_table(
        "unit", "at", "pinned to", "messages", "CPU", "latency", "objective", left=3
    )
    told = {each.name: each for facts in view.facts.values() for each in facts.topics}
    masters = view.world.masters
    for unit in units:
        pinned = view.world.pins.get(unit)
        topic = told.get(unit.name) if unit.kind == "processor" else None
        cpu = None if topic is None else topic.cpu_ms
        latency = None if topic is None else topic.latency_ms
        goal = None if topic is None else topic.slo
        table.add_row(
            str(unit),
            view.where(unit) or "–",
            "" if pinned is None else masters[pinned].name,
            "–" if topic is None else f"{view.world.processed(unit.name):.3g}/s",
            "–" if cpu is None else format_cpu(cpu),
            "–" if latency is None else format_ms(latency),
            "–" if not goal else f"p{goal.percentile:g} ≤ {format_ms(goal.latency_ms)}",
        )
    show_table(screen, table)


def _show_standbys(screen: Console, view: View) -> None:
    topics = [topic for facts in view.facts.values() for topic in facts.topics]
    for topic in sorted(topics, key=lambda each: each.name):
        if topic.standby:
            line(screen, f"processor {topic.name} has its standby at {topic.standby}")
        if topic.taken_ms is not None:
            when = local_time(topic.taken_ms, datetime.now().astimezone())
            line(screen, f"processor {topic.name} was taken over from {topic.taken_from}, {when}")


def show_why(
    screen: Console, report: PlacementReport, view: View, unit: Unit, rows: Sequence[Row]
) -> None:
    """The price of every master, cheapest first; in ms of delay a second."""
    where = view.where(unit)
    line(screen, f"{unit} lives at {where}; prices in ms of delay a second")
    table = plain_table(
        "master", "price", "client", "others", "congestion", "opening", "why", folds=("why",)
    )
    for row in rows:
        if row.price == inf:
            table.add_row(row.master, "∞", "", "", "", "", row.reason)
        else:
            last = row.master == view.delegate and row.price >= DELEGATED_S
            off = DELEGATED_S if last else 0.0
            parts = (
                row.price - off,
                row.client_s,
                row.peers_s,
                row.congestion_s - off,
                row.opening_s,
            )
            # To the microsecond: a master that is nearly idle costs next to nothing.
            told = [f"{round(1e3 * each, 3):.3g}" if isfinite(each) else "∞" for each in parts]
            why = ["it lives here"] * row.here + ["only where no other has room"] * last
            table.add_row(row.master, *told, ", ".join(why))
    show_table(screen, table)
    for each in report.known:
        if each.silent:
            line(screen, f"{each.facts.iad} is silent and takes no units", style="yellow")
    if trouble := view.infeasible(unit):
        line(screen, trouble, style="yellow")


def write_rows(rows: Sequence[Row]) -> None:
    """The prices as one line of JSON; an infinite price is null."""
    told = [msgspec.structs.asdict(row) for row in rows]
    for row in told:
        row["price"] = row["price"] if isfinite(row["price"]) else None
    sys.stdout.write(output.json_text(msgspec.json.encode(told)) + "\n")


def show_plan(screen: Console, plan: Plan, file: Path | None) -> None:
    """Moves of a plan, and their gains."""
    for trouble in plan.infeasible:
        line(screen, trouble, style="yellow")
    if not plan.moves:
        line(screen, f"{plan.planner}: nothing is to be moved")
        return
    table = plain_table("unit", "from", "to", "saves", left=3)
    for move in plan.moves:
        saves = f"{move.gain * 1e3:.3g} ms/s" if move.gain else "–"
        table.add_row(_text(move.unit), move.source, move.target, saves)
    show_table(screen, table)
    before, after = ["∞" if each is None else f"{each * 1e3:.3g} ms/s" for each in plan.cost]
    count = len(plan.moves)
    line(
        screen,
        f"{plan.planner}: {count} move{'s' * (count != 1)}; masters in use {plan.masters[0]} → "
        f"{plan.masters[1]}; delay {before} → {after}",
    )
    if any(plan.delegated):
        line(screen, f"delegated topics {plan.delegated[0]} → {plan.delegated[1]}")
    if file is not None:
        line(screen, f"the plan is in {file}: fleet placement apply {file}")


def write_plan(plan: Plan) -> None:
    """The plan as one line of JSON."""
    sys.stdout.write(output.json_text(msgspec.json.encode(plan)) + "\n")


def why_not_away(view: View, unit: Unit) -> str:
    """The reason that keeps a unit at a draining master, or that it is to move."""
    rows = [row for row in view.price.why(unit) if not row.here]
    if not rows:
        return "there is no other master"
    cheapest = rows[0]
    if cheapest.price < inf:
        return f"it is to move to {cheapest.master}"
    return f"no other master may have it: {cheapest.master} {cheapest.reason}"


def _state(known: KnownFacts, view: View) -> str:
    if known.silent:
        return "silent"
    mode = known.facts.mode
    if mode == "draining" and not view.units(known.facts.iad):
        return "drained: empty"
    return mode


def _when(known: KnownFacts) -> str:
    return f"{format_duration(round(known.age_s))} ago" if known.facts.epoch else "never"


def _load(load: float) -> str:
    """CPU-seconds a second, never as a power of ten: of a master that is nearly idle enough."""
    return f"{load:.3g}" if not 0 < load < 0.001 else "< 0.001"


def _bytes(used: float, limit: float | None) -> str:
    return _size(used) + ("" if limit is None else f" of {_size(limit)}")


def _size(count: float) -> str:
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= least:
            return f"{count / least:.3g} {unit}"
    return f"{count:g} B"


def _text(unit: UnitName) -> str:
    return f"{unit.kind} {unit.name}"
