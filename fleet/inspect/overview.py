"""`fleet status`: the state of all masters and hosts in the inventory, once or repeatedly."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from rich.console import Console
from rich.live import Live

from fleet.common import exits
from fleet.inspect.look import Connections, Reach, look
from fleet.inspect.rows import FleetStatus, fleet_status, host_row, iad_row
from fleet.inspect.status_table import group, show
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.terminal import screen
from fleet.terminal.output import write_json, write_json_line


class Options(NamedTuple):
    """Selection of hosts, and the form of the table."""

    reach: Reach
    everything: bool
    as_json: bool
    watch_s: float | None = None


def run(folder: Folder, fleet: Inventory, hosts: Sequence[HostOf], options: Options) -> int:
    """Print the state of these hosts and their IADs, once or repeatedly; returns the exit
    status."""
    with Connections(folder, fleet, keep=options.watch_s is not None) as connections:

        def state(came: Callable[[int], None] = lambda _: None) -> FleetStatus:
            iads, seen = look(folder, fleet, hosts, options.reach, connections, came)
            nodes = {iad.name: [node.name for node in iad.node] for iad in fleet.iad}
            return fleet_status(
                fleet.name,
                f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                [iad_row(iad, nodes[iad.iad]) for iad in iads],
                [host_row(each, fleet.rooms) for each in seen],
            )

        if options.watch_s is not None:
            return _watch(state, options, options.watch_s)
        found = _with_progress(state, len(hosts))
    if options.as_json:
        write_json(found)
    else:
        show(screen.console(), found, everything=options.everything)
    return status_of(found)


def status_of(found: FleetStatus) -> int:
    """0 if all could be reached, 5 if none could, otherwise 1."""
    silent = [not iad.answers for iad in found.iads] + [bool(row.error) for row in found.hosts]
    heard = any(iad.answers for iad in found.iads) or any(row.uptime_s for row in found.hosts)
    if not any(silent):
        return exits.DONE
    return exits.FAILED if heard else exits.NOTHING


def _with_progress(
    state: Callable[[Callable[[int], None]], FleetStatus], hosts: int
) -> FleetStatus:
    to = screen.progress()
    if not to.is_terminal:
        return state(lambda _: None)
    with to.status(f"asking {hosts} hosts …") as shown:
        return state(lambda count: shown.update(f"{count} of {hosts} hosts have been asked …"))


def _watch(state: Callable[[], FleetStatus], options: Options, every_s: float) -> int:
    """Again and again, until Ctrl-C."""
    pause = threading.Event()
    to = screen.console()
    if options.as_json or not to.is_terminal:
        while True:
            _print_again(to, state(), options)
            pause.wait(every_s)
    with Live(console=to, screen=True, auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            live.update(group(to, state(), everything=options.everything), refresh=True)
            pause.wait(max(0.1, every_s - (time.monotonic() - began)))


def _print_again(to: Console, found: FleetStatus, options: Options) -> None:
    if options.as_json:
        write_json_line(found)
    else:
        show(to, found, everything=options.everything)
        sys.stdout.flush()
