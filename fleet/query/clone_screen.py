"""Terminal output of `fleet clone`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from agent.wire.clones import CloneStatus
from fleet.query.topic_screen import value_text
from fleet.terminal.output import printable
from fleet.terminal.screen import line, plain_table, show_table
from fleet.terminal.units import counted, format_duration

WELL = "open"


def show_list(screen: Console, clones: Sequence[CloneStatus]) -> None:
    """A row for each clone."""
    if not clones:
        line(screen, "no clones")
        return
    table = plain_table(
        "device", "processor", "at", "topic", "in", "out", "state",
        left=4, folds=("device", "processor", "state"),
    )  # fmt: skip
    for each in clones:
        table.add_row(
            each.clone.device,
            each.clone.processor,
            each.iad or "–",
            each.topic,
            str(each.rounds - each.rounds_failed),
            str(each.outputs),
            _state(each),
        )
    show_table(screen, table)


def _state(status: CloneStatus) -> str:
    if status.state != WELL or status.trouble:
        return "trouble"
    return f"{status.waiting} wait" if status.waiting else "well"


def show_clone(screen: Console, status: CloneStatus) -> None:
    """A clone, a line for each of its parts."""
    clone = status.clone
    leaves = "it may leave its IAD" if clone.leaves else "it does not leave its IAD"
    line(screen, f"{clone.device}: topic {status.topic}, lives at {status.iad or '–'}; {leaves}")
    channels = ", ".join(clone.channels) or "all channels"
    line(screen, f"  hears {channels} every {format_duration(clone.every_s)}: {_rounds(status)}")
    if clone.peers:
        line(screen, f"  hears the clones of {', '.join(clone.peers)}")
    if clone.peers_where:
        line(screen, f"  hears clones where {printable(clone.peers_where)}")
    settings = [f"{name}={value_text(each)}" for name, each in sorted(clone.parameters.items())]
    line(
        screen, f"  processor {clone.processor}" + (f" with {', '.join(settings)}" * bool(settings))
    )
    last = [f"{name}={value_text(each)}" for name, each in sorted(status.output.items())]
    shown = f"; the last: {', '.join(last)}" if last else ""
    waiting = f", {status.waiting} of them wait for it" if status.waiting else ""
    line(screen, f"  {counted(status.outputs, 'output')} given to the device{waiting}{shown}")
    if status.state != WELL:
        line(screen, f"  {status.state}", style="yellow")
    if status.trouble:
        line(screen, f"  {printable(status.trouble)}", style="yellow")


def _rounds(status: CloneStatus) -> str:
    return f"{counted(status.rounds, 'round')}, {status.rounds_failed} without a reading"
