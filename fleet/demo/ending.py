"""The demo's end: what to type next, and the fleet that stays up until Ctrl-C."""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from typing import Final

from rich.console import Console

from fleet.demo import alerts
from fleet.demo.options import Options
from fleet.query import running
from fleet.terminal import screen
from fleet.terminal.typed import fleet_command, place, typed
from fleet.testbed import page
from fleet.testbed.testbed import DRS, Testbed, TestbedError

LOOK_EVERY_S: Final = 1.0
HUMID: Final = "humidity > 50 or rate(humidity) > 1/min"
WHAT_FAILS: Final = {DRS: "no service changes", page.GATEWAY: "its page is gone"}


def end(bed: Testbed, options: Options, terminal: Console) -> None:
    """Say where things are; with `keep`, stay until Ctrl-C."""
    kept = place(bed.directory.absolute())
    terminal.print()
    if options.keep:
        screen.line(terminal, "The building stays up until Ctrl-C.", "bold cyan")
        _show_commands(bed, options, terminal)
    if options.verbose:
        screen.line(terminal, f"Records, trace, logs and results.json: {kept}/")
    else:
        screen.line(terminal, f"Every step in detail: {kept}/details.txt, or --verbose.")
    if options.keep:
        if link := page.link(bed.directory):
            screen.line(terminal, "Its live page, for one browser, within 10 minutes:")
            screen.as_it_is(terminal, f"  {link}")
            screen.as_it_is(terminal, f"Another link: {fleet_command()} {_link(bed)}")
        _keep(bed, terminal)


def _show_commands(bed: Testbed, options: Options, terminal: Console) -> None:
    fleet, wanted = fleet_command(), alerts.WANTED
    screen.line(terminal, "Try in another terminal, in this folder:")
    first = bed.plan.iads[0].name
    address = bed.public(first)
    asked = running.is_asked(address)
    for rest in (
        "query --service humidity --area b1/f4 --last 10m --slo p99=2s",
        "watch --service humidity --area b1/f4 --every 5s --slo p99=2s",
        f"subscribe '{wanted}'",
        "status",
    ):
        to = f" --operator {bed.operator(first)}" if rest == "status" else f" --master {address}"
        screen.as_it_is(terminal, f"  {fleet} {rest}{'' if asked else to}")
    if options.verbose:
        _show_more(bed, address, terminal)
    else:
        screen.as_it_is(terminal, f"For programs, and in other folders: --master {address}")


def _link(bed: Testbed) -> str:
    """The command for another link, to the page of this demo."""
    if running.is_asked(bed.public(bed.plan.iads[0].name)):
        return "gateway link"
    return f"gateway link --config {shlex.quote(place(bed.directory / page.GATEWAY / page.CONFIG))}"


def _show_more(bed: Testbed, address: str, terminal: Console) -> None:
    """Commands of every kind, with the first master's address for those of another folder."""
    first, second, *_ = bed.plan.iads
    fleet = fleet_command()
    otherwise = ""
    if running.is_asked(address):
        otherwise = (
            "While the demo runs, commands without --master use it, those with "
            f"--iad {second.name} that master. "
        )
    screen.line(
        terminal,
        f"{first.name}'s socket for queries: {address}. {otherwise}With the address commands work "
        "in any folder:",
    )
    for rest in (
        "query --service temperature --area b1/f4/r413 --last 10m --slo p99=2s",
        "query --service temperature --area b1 --last 3h --slo p99=2s --aggregate",
        "watch --service humidity --area b1/f4 --every 2s --slo p99=2s --stream",
        f"watch --service humidity --area b1/f4 --every 2s --slo p99=2s --when '{HUMID}'",
        f"watch --service humidity --area b1/f6 --every 5s --slo p99=2s --on '{alerts.WANTED}'",
    ):
        command, _, more = rest.partition(" ")
        screen.as_it_is(terminal, f"  {fleet} {command} --master {address} {more}")
    for command in ("status", "service list", "service show temperature"):
        screen.as_it_is(terminal, f"  {fleet} {command} --operator {bed.operator(first.name)}")


def _keep(bed: Testbed, terminal: Console) -> None:
    with suppress(KeyboardInterrupt):  # as said: it is how the demo is to end
        while True:
            look_after(bed, terminal, measuring=False)
            time.sleep(LOOK_EVERY_S)


def look_after(bed: Testbed, terminal: Console, *, measuring: bool) -> None:
    """Report processes that have ended, and the commands that start them again. TestbedError if it
    is a master while load is measured, because every query scheduler has a part of the load."""
    areas = {node.name: node.area for node in bed.plan.nodes}
    for child in bed.let_go():
        if area := areas.get(child.name):
            lost = f"queries miss {area}"
        elif child.name in WHAT_FAILS:
            lost = WHAT_FAILS[child.name]
        elif measuring:
            raise TestbedError(child.how_it_ended())
        else:
            lost = "its areas are unreachable"
        screen.line(terminal, f"{child.end}: {lost}. Start it again:", "yellow")
        screen.as_it_is(terminal, f"  {typed(bed.command(child.name))}")
