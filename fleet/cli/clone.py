"""Click commands: `fleet clone`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleet.cli import completion, connecting
from fleet.cli.asking import asks
from fleet.cli.grouped import Grouped
from fleet.cli.options import FLEET, INTERVAL, NAME, TEXT, Parsed, matching, patience
from fleet.cli.topic import OF_CHANNELS, PARAMETERS, bounded

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder
    from fleet.query.clone import Asker

_ROOM = "fleet.query.clone"
DEVICE = Parsed(
    "device",
    matching(
        r"[A-Za-z0-9_.-]{1,64}/[A-Za-z0-9_.-]{1,64}",
        "a device; write its IAD and its name: iad4/n3",
    ),
)


@click.group(
    cls=Grouped,
    context_settings={"max_content_width": 100},
    short_help="Clones of devices: each stands for a node, and may move.",
)
def clone() -> None:
    """Clones of devices: processors that stand for a node, and may move between masters.

    A clone gets its device's readings and the outputs of its peers' clones; its own outputs are
    delivered to its device, wherever the clone lives. Send these commands to the device's master.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 no reply.
    """


@clone.command()
@click.argument("device", type=DEVICE)
@click.option("--processor", type=TEXT, required=True, help="The processor of each message.")
@PARAMETERS
@click.option(
    "--every",
    "every_s",
    type=INTERVAL,
    default="1s",
    show_default=True,
    help="How often the device is read.",
)
@OF_CHANNELS
@click.option(
    "--service", type=TEXT, default="default", show_default=True, help="The service that reads it."
)
@click.option(
    "--peer",
    "peers",
    type=DEVICE,
    multiple=True,
    help="A device whose clone's outputs it receives, of this or another IAD. Repeat for more.",
)
@click.option(
    "--peers-where",
    type=TEXT,
    default="",
    help="A filter: it receives the outputs of any clone that match, such as 'temperature > 30'.",
)
@click.option(
    "--leaves", is_flag=True, help="It may live at other IADs' masters, under a pseudonym."
)
@click.option(
    "--standby", is_flag=True, help="With --leaves: another master takes it over if its own dies."
)
@bounded
@asks("10s", _ROOM)
def create(
    device: str,
    settings: tuple[tuple[str, Any], ...],
    limits: tuple[tuple[str, float], ...],
    ask: Asker,
    **options: Any,
) -> int:
    """Create a device's clone.

    \b
    fleet clone create iad4/n3 --processor comfort_index --every 5s --leaves
    fleet clone create iad4/n3 --processor mine --peer iad1/n2 --peer iad4/n4

    The same again changes nothing. Exit status: 0 created, 2 wrong usage, 3 refused, 4 no reply.
    """
    return ask.create(device, parameters=dict(settings), limits=dict(limits), **options)


@clone.command()
@click.option(
    "--iad", required=True, type=NAME, shell_complete=completion.IADS, help="The IAD to look at."
)
@click.option("--prune", is_flag=True, help="Remove clones that the inventory does not have.")
@patience("10s", "How long each request may take.")
@FLEET
def apply(folder: Folder, iad: str, prune: bool, timeout_ms: float) -> int:
    """Create the clones that the inventory has for the nodes of an IAD.

    \b
    fleet clone apply --iad iad4

    Missing clones are created. Clones that differ are named and left as they are; so are those that
    the inventory does not have, unless --prune is given. It may be run again at any time.

    Exit status: 0 all exist, 1 one differs, 3 one was refused, 4 no reply.
    """
    from fleet.inventory.clones import clones_of
    from fleet.inventory.loader import load
    from fleet.inventory.selection import select
    from fleet.query.clone import Asker

    fleet = load(folder)
    wanted = clones_of(fleet, select(fleet, iads=[iad])[0].iad)
    address, keys = connecting.of_fleet(folder, iad, "operator")
    return Asker(address, timeout_ms, False, keys).apply(wanted, prune=prune)


@clone.command(name="list")
@asks("2s", _ROOM)
def list_(ask: Asker) -> int:
    """Print the clones of a master's devices, and where they live."""
    return ask.list()


@clone.command()
@click.argument("device", type=TEXT)
@asks("2s", _ROOM)
def show(device: str, ask: Asker) -> int:
    """Print the clone of a device, or the one of that topic."""
    return ask.show(device)


@clone.command()
@click.argument("device", type=DEVICE)
@asks("10s", _ROOM)
def remove(device: str, ask: Asker) -> int:
    """Remove a device's clone, wherever it lives, with its state."""
    return ask.remove(device)
