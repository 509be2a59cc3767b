"""`fleet status --operator`: the status of one IAD (nodes, open faults, raised triggers, topics in
trouble, counters), from its operator socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.client import NoReplyError, Operator
from agent.net.keys import KeyFiles
from agent.wire.operator import IadStatus, NodeAlert, NodeFault, NodeStatus
from fleet.common import exits
from fleet.query import replies, topic_screen
from fleet.terminal import screen
from fleet.terminal.screen import STYLES, line, local_time, plain_table, show_table
from fleet.terminal.summary import labelled
from fleet.terminal.units import counted

# Counters that are shown even at zero.
WORK: Final = ("queries", "tasks", "subtasks", "deadlines_missed")
# Parts of the names of those that are shown if they are above zero: something went wrong.
TROUBLE: Final = (
    *("aborted", "dropped", "expired", "given_up", "implausible", "late", "lost", "malformed"),
    *(
        "not_announced",
        "refused",
        "stuck",
        "undeliverable",
        "unreadable",
        "unusable",
        "without_way",
    ),
)
# A dozen counters for studies of the overlay: only with --json.
DETAIL: Final = "overlay_sent_"


def show_status(screen: Console, status: IadStatus, *, everything: bool = False) -> None:
    """The nodes of an IAD, their sensors' faults, their raised triggers, and counters: of its work
    and of what went wrong, or with `everything` all that are not zero."""
    nodes = sorted(status.nodes, key=lambda node: (len(node.node), node.node))
    live = sum(node.state == "live" for node in nodes)
    all_of = counted(len(nodes), "node")
    line(screen, f"{status.iad}: {live} of {all_of} live, policy {status.policy}")
    if status.unreachable_iads:
        line(screen, f"cannot reach {', '.join(status.unreachable_iads)}", style="yellow")
    _show_nodes(screen, nodes, status.rooms)
    _show_faults(screen, nodes)
    _show_alerts(screen, nodes, status.rooms)
    topic_screen.show_unhealthy(screen, status.topics)
    dated: list[NodeFault | NodeAlert] = [each for node in nodes for each in node.faults]
    dated += [each for node in nodes for each in node.alerts]
    if not all(each.synchronised for each in dated):
        line(screen, "? by a clock that was not synchronised", style="dim")
    _show_counters(screen, status, everything)
    if status.counters.get("deadlines_missed"):
        line(screen, "A subtask that misses its deadline may still leave its query within its SLO.")


def _show_counters(screen: Console, status: IadStatus, everything: bool) -> None:
    open_now = {"queries": status.open_queries, "tasks": status.open_tasks}
    counters = {name: status.counters.get(name, 0) for name in WORK} | status.counters
    told = {
        name: count
        for name, count in counters.items()
        if name in WORK or (count and not name.startswith(DETAIL))
    }
    shown = [
        name for name in told if everything or name in WORK or any(part in name for part in TROUBLE)
    ]
    table = plain_table("work of its master", "open", "so far")
    for name in shown:
        table.add_row(name.replace("_", " "), str(open_now.get(name, "")), str(told[name]))
    show_table(screen, table)
    if left := len(told) - len(shown):
        line(screen, f"and {counted(left, 'other counter')}: --all", style="dim")


def _labels(areas: Sequence[str], rooms: Mapping[str, str]) -> str:
    return ", ".join(labelled(area, rooms.get(area)) for area in areas)


def _show_nodes(screen: Console, nodes: Sequence[NodeStatus], rooms: Mapping[str, str]) -> None:
    table = plain_table(
        *("node", "state", "areas", "emulates", "pods", "idle", "queue", "samples"),
        left=4,
        folds=("areas",),
    )
    for node in nodes:
        table.add_row(
            node.node,
            Text(node.state, style=STYLES[node.state]),
            _labels(node.areas, rooms),
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
            since = _since(fault, today)
            table.add_row(node.node, fault.sensor, fault.channel, since, fault.text)
    _show_any(screen, "open faults", table)


def _show_alerts(screen: Console, nodes: Sequence[NodeStatus], rooms: Mapping[str, str]) -> None:
    folds = ("areas", "what") if rooms else ("what",)
    table = plain_table("node", "trigger", "areas", "since", "what", left=5, folds=folds)
    today = datetime.now().astimezone()
    for node in nodes:
        for alert in node.alerts:
            areas, since = _labels(alert.areas, rooms), _since(alert, today)
            table.add_row(node.node, alert.trigger, areas, since, alert.text)
    _show_any(screen, "raised triggers", table)


def _show_any(screen: Console, title: str, table: Table) -> None:
    if table.row_count:
        line(screen, f"{title}: {table.row_count}", style="yellow")
        show_table(screen, table)


def _since(what: NodeFault | NodeAlert, today: datetime) -> str:
    since = local_time(what.since_ms, today)
    return since if what.synchronised else f"{since}?"


def run(
    operator: str,
    *,
    timeout_ms: float,
    as_json: bool,
    everything: bool = False,
    keys: KeyFiles | None = None,
) -> int:
    """Request the state and print it on stdout; returns the exit status."""
    try:
        with Operator(operator, keys) as link:
            status = link.status(timeout_ms)
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{operator} is no IAD's state", "operator")
    if as_json:
        replies.write_json(status)
    else:
        show_status(screen.console(), status, everything=everything)
    return exits.DONE
