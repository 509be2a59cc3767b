"""Click command: `fleet discover`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from fleet.cli.options import AS_JSON, FLEET_IF_NAMED, TEXT, patience
from fleet.common import exits

if TYPE_CHECKING:
    from fleet.inspect.discover import Row
    from fleet.inventory.folder import Folder


@click.command()
@FLEET_IF_NAMED
@patience("3s", "How long to listen.")
@click.option(
    "--interface",
    "interfaces",
    type=TEXT,
    multiple=True,
    metavar="ADDRESS",
    help="Own address on the network to ask; again for more. Default: all.",
)
@AS_JSON
def discover(
    folder: Folder | None, timeout_ms: float, interfaces: tuple[str, ...], *, as_json: bool
) -> int:
    """List hosts that announce themselves on this network.

    Beside each stands its name in fleet.toml; for one that is not in it, lines that can be put
    there. Our images announce themselves by mDNS unless built with --set announce=false.

    Exit status: 0 done, 2 wrong usage, 5 none was heard, 130 interrupted.
    """
    if find_spec("zeroconf") is None:
        return exits.fail("zeroconf is missing: pip install 'sanderling[discovery]'", exits.USAGE)
    from fleet.inspect.discover import Discovered, browse, rows
    from fleet.inventory.loader import load
    from fleet.terminal.output import write_json

    fleet = load(folder) if folder else None
    found = rows(browse(timeout_ms / 1e3, interfaces), fleet)
    if as_json:
        write_json(Discovered(tuple(found)))
    elif found:
        _show(found)
    if not found:
        return exits.fail("nothing announced itself; is this the hosts' network?", exits.NOTHING)
    return exits.DONE


def _show(found: list[Row]) -> None:
    from fleet.inspect.discover import entry
    from fleet.terminal import screen

    console = screen.console()
    table = screen.plain_table("host", "address", "in fleet.toml", left=3)
    for row in found:
        place = row.name or "not yet"
        if row.moved:
            place += f", but at {row.moved}"
        table.add_row(row.heard.host, ", ".join(row.heard.addresses), place)
    screen.show_table(console, table)
    for row in found:
        if not row.name:
            where = "" if row.heard.role == "master" else f", below the IAD of {row.heard.host}"
            screen.line(console, f"\nFor fleet.toml{where}:\n")
            screen.line(console, entry(row))
