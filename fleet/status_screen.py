"""The state of an IAD on a terminal: its nodes, their sensors' open faults, its counters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from agent.wire.operator import IadStatus, NodeFault, NodeStatus
from fleet.screen import STYLES, line, local_time, plain_table, show_table

# Counters of a state that are shown even at zero.
ALWAYS_SHOWN: Final = frozenset({"queries", "subtasks", "deadlines_missed"})


def show_status(screen: Console, status: IadStatus) -> None:
    """The nodes of an IAD, the faults of their sensors, and its counters."""
    nodes = sorted(status.nodes, key=lambda node: (len(node.node), node.node))
    live = sum(node.state == "live" for node in nodes)
    line(screen, f"{status.iad}: {live} of {len(nodes)} nodes live, policy {status.policy}")
    _show_nodes(screen, nodes)
    if any(node.faults for node in nodes):
        _show_faults(screen, nodes)
    counters = [f"open queries {status.open_queries}", f"open tasks {status.open_tasks}"]
    counters += [
        f"{name.replace('_', ' ')} {count}"
        for name, count in status.counters.items()
        if count or name in ALWAYS_SHOWN
    ]
    screen.print(", ".join(counters), style="dim")
    if status.counters.get("deadlines_missed"):
        line(screen, "A subtask that misses its deadline may still leave its query within its SLO.")
    if status.unreachable_iads:
        line(screen, f"cannot reach {', '.join(status.unreachable_iads)}", style="yellow")


def _show_nodes(screen: Console, nodes: Sequence[NodeStatus]) -> None:
    table = plain_table(
        *("node", "state", "areas", "emulates", "pods", "idle", "queue", "samples"),
        left=4,
        folds=("areas",),
    )
    for node in nodes:
        table.add_row(
            node.node,
            Text(node.state, style=STYLES[node.state]),
            ", ".join(node.areas),
            node.emulates or "–",
            str(node.pods),
            str(node.idle_pods),
            str(node.queued),
            str(node.unloaded_samples),
        )
    show_table(screen, table)


def _show_faults(screen: Console, nodes: Sequence[NodeStatus]) -> None:
    table = plain_table("node", "sensor", "channel", "since", "what", left=5, folds=("what",))
    today = datetime.now().astimezone()
    for node in nodes:
        for fault in node.faults:
            said = [_printable(text) for text in (fault.sensor, fault.channel, fault.text)]
            table.add_row(node.node, said[0], said[1], _since(fault, today), said[2])
    line(screen, f"open faults: {table.row_count}", style="yellow")
    show_table(screen, table)
    if any(not fault.synchronised for node in nodes for fault in node.faults):
        line(screen, "? by a clock that was not synchronised", style="dim")


def _since(fault: NodeFault, today: datetime) -> str:
    try:
        since = local_time(fault.since_ms, today)
    except (OSError, OverflowError, ValueError):
        since = "–"  # a node's clock may say anything
    return since if fault.synchronised else f"{since}?"


def _printable(text: str) -> str:
    """What a node wrote, without what would move a terminal's cursor."""
    return "".join([letter if letter.isprintable() else "?" for letter in text])
