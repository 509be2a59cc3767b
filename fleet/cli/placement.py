"""Click commands: `fleet placement`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.asking import asks
from fleet.cli.grouped import Grouped
from fleet.cli.options import NAME, TEXT, WINDOW

if TYPE_CHECKING:
    from fleet.query.placement import Asker

ROOM = "fleet.query.placement"
# Those of fleet.placement.plans; help imports nothing heavy.
PLANNERS = ("balanced", "ffd", "lfs", "lfs-ffd", "exact", "homes", "price", "flows", "repair")
UNIT = click.argument("unit", type=TEXT, metavar="UNIT")
FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(
    cls=Grouped,
    context_settings={"max_content_width": 100},
    short_help="Where topics and homes live: prices, plans, pins.",
)
def placement() -> None:
    """Where topics and homes live: prices, plans, pins; freeze or drain a master.

    UNIT is a topic's name, or processor:NAME, or home:NAME. A unit is moved by the master where it
    lives: ask that one.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 no reply.
    """


@placement.command()
@asks("2s", ROOM)
def show(ask: Asker) -> int:
    """Print masters, units, pins and moves, as this master knows them."""
    return ask.show()


@placement.command(short_help="Print the price of every master for a unit.")
@UNIT
@asks("2s", ROOM)
def why(unit: str, ask: Asker) -> int:
    """Print the price of every master for a unit, and why a master is excluded."""
    return ask.why(unit)


@placement.command(short_help="Plan the placement anew; nothing is moved.")
@click.option(
    "--planner",
    type=click.Choice(PLANNERS),
    default="balanced",
    show_default=True,
    help="homes places homes, price all where they are cheapest, repair moves the fewest topics so "
    "that all keep their objectives, the others place topics, on the fewest masters.",
)
@click.option("--dry", is_flag=True, help="Print the plan only; write no file.")
@click.option(
    "--file",
    type=FILE,
    default=Path("placement-plan.json"),
    show_default=True,
    help="Where the plan is written.",
)
@click.option("--model", type=FILE, help="A latency model that fleet placement train has written.")
@asks("5s", ROOM)
def plan(planner: str, dry: bool, file: Path, model: Path | None, ask: Asker) -> int:
    """Plan the placement anew, on this machine, from what a master knows; nothing is moved.

    Planners other than balanced, ffd, price, flows and repair need the extra `placement`.
    """
    return ask.plan(planner, None if dry else file, model)


@placement.command(short_help="Apply a plan: a master checks it, and makes its moves.")
@click.argument("file", type=FILE, default=Path("placement-plan.json"))
@asks("5s", ROOM)
def apply(file: Path, ask: Asker) -> int:
    """Apply a plan: a master checks it, and makes those of its moves that begin there."""
    return ask.apply(file)


@placement.command()
@UNIT
@click.argument("master", type=NAME)
@asks("5s", ROOM)
def move(unit: str, master: str, ask: Asker) -> int:
    """Move one unit to a master; without a pin it may move on later.

    home:client/CLIENT/ID is a durable subscription, CLIENT the name of its key (or nothing).
    """
    return ask.move(unit, master)


@placement.command(short_help="Move a unit to a master and keep it there.")
@UNIT
@click.argument("master", type=NAME)
@asks("5s", ROOM)
def pin(unit: str, master: str, ask: Asker) -> int:
    """Move a unit to a master and keep it there, whatever plans and prices say."""
    return ask.pin(unit, master)


@placement.command()
@UNIT
@asks("5s", ROOM)
def unpin(unit: str, ask: Asker) -> int:
    """Remove a pin; the unit stays until a plan or price moves it."""
    return ask.unpin(unit)


@placement.command()
@click.argument("master", type=NAME)
@asks("5s", ROOM)
def freeze(master: str, ask: Asker) -> int:
    """Freeze a master: it neither takes nor gives units."""
    return ask.set_mode(master, "frozen")


@placement.command()
@click.argument("master", type=NAME)
@click.option(
    "--wait", "wait_s", type=WINDOW, help="Wait until it is empty, at most this long: 2m."
)
@asks("5s", ROOM)
def drain(master: str, wait_s: float | None, ask: Asker) -> int:
    """Move all units away from a master, by price; it takes none."""
    return ask.drain(master, wait_s)


@placement.command()
@click.argument("master", type=NAME)
@asks("5s", ROOM)
def thaw(master: str, ask: Asker) -> int:
    """Reopen a frozen or draining master: it takes and gives units again."""
    return ask.set_mode(master, "open")
