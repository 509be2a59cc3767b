"""Terminal output of `fleet inventory show`. A host with a model is a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.table import Table

from fleet.inspect.show import Shown, ShownHost, ShownIad
from fleet.terminal.screen import BOUNDLESS, console, line, plain_table, show_table

# What an IAD offers may be every room of a building; its nodes name them all.
MAX_AREAS: Final = 4
OWN: Final = "–"  # the release built from these sources


def show(shown: Shown) -> None:
    """A row for each IAD with its master, then one for each node."""
    screen = console()
    masters = any(iad.master.release for iad in shown.iads)
    pinned = masters or any(host.release for iad in shown.iads for host in iad.hosts)
    show_table(screen, _iad_table(shown, pinned))
    nodes = [host for iad in shown.iads for host in iad.hosts if host.model]
    if nodes:
        line(screen, "")
        table = _node_table(nodes, pinned, ", ")
        unbounded = screen.options.update(width=BOUNDLESS)
        if screen.measure(table, options=unbounded).maximum > screen.width:
            table = _node_table(nodes, pinned, "\n")
        show_table(screen, table)
    if pinned:
        line(screen, f"release {OWN}: the one built from these sources", style="dim")


def _iad_table(shown: Shown, pinned: bool) -> Table:
    columns = ["iad", "master", "ports", *(["release"] if pinned else []), "nodes", "offers"]
    table = plain_table(*columns, left=len(columns), folds=("offers",))
    table.columns[-2].justify = "right"
    for iad in shown.iads:
        count = sum(1 for host in iad.hosts if host.model)
        cells = [iad.name, _master(iad), _ports(iad)]
        cells += [iad.master.release or OWN] if pinned else []
        table.add_row(*cells, str(count), _few(iad.areas))
    return table


def _node_table(nodes: Sequence[ShownHost], pinned: bool, between: str) -> Table:
    columns = ["node", "address", "model", "areas", "sensors", "groups"]
    columns += ["release"] if pinned else []
    table = plain_table(*columns, left=len(columns), folds=("areas", "sensors", "groups"))
    for host in nodes:
        cells = [host.name, host.address, host.model]
        cells += [between.join(names) for names in (host.areas, host.sensors, host.groups)]
        table.add_row(*cells, *([host.release or OWN] if pinned else []))
    return table


def _master(iad: ShownIad) -> str:
    return f"{iad.master.address}{' (here)' if iad.master.local else ''}"


def _ports(iad: ShownIad) -> str:
    master = iad.master
    return f"{master.public_port} {master.nodes_port} {master.operator_port}"


def _few(areas: tuple[str, ...]) -> str:
    more = f", … ({len(areas)})" if len(areas) > MAX_AREAS else ""
    return ", ".join(areas[:MAX_AREAS]) + more
