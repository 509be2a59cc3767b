"""Click command: `fleet image flash`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import FLEET, TEXT, YES
from fleet.common import exits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.image.devices import Device
    from fleet.image.flash import Flashed, Image
    from fleet.image.inject import NodeData
    from fleet.image.wifi import Wifi
    from fleet.image.writing import Step
    from fleet.inventory.folder import Folder
    from fleet.inventory.model import Inventory
    from fleet.inventory.parties import HostOf
    from fleet.keys.store import Store


@click.command()
@click.argument("image", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--node",
    "name",
    type=TEXT,
    required=True,
    metavar="IAD/NODE",
    help="The node that the card is for.",
)
@click.option(
    "--device",
    required=True,
    type=click.Path(path_type=Path),
    help="The card, such as /dev/sdX; or a file that stands for one.",
)
@click.option(
    "--wifi",
    "ssid",
    type=TEXT,
    default="",
    metavar="SSID",
    help="Wi-Fi network that it joins (WPA2).",
)
@click.option(
    "--wifi-country",
    type=TEXT,
    metavar="CC",
    help="Country whose radio rules apply, such as DE; with --wifi.",
)
@click.option(
    "--wifi-password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the network's password; without it you are asked.",
)
@FLEET
@YES
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def flash(
    image: Path,
    name: str,
    device: Path,
    ssid: str,
    wifi_country: str | None,
    wifi_password_file: Path | None,
    folder: Folder,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    """Write IMAGE to a card and make it a node's.

    IMAGE is one of `fleet image build`, or a Raspberry Pi OS with cloud-init or firstrun.sh.
    Only a card or USB disk that nothing uses is written to; every block is read back from it.

    Exit status: 0 done, 1 the card is bad or unusable, 2 wrong usage, 3 the device is refused,
    5 nothing was written, 130 interrupted.
    """
    from fleet.image import flash as flashing
    from fleet.inventory.loader import load
    from fleet.keys.store import Store
    from fleet.terminal.output import confirm, say, write_json

    fleet = load(folder)
    host = _node(fleet, name)
    store = Store(folder)
    found = flashing.examine(image)
    data = _data(fleet, host, store, found)
    if ssid or wifi_country or wifi_password_file:
        data = data._replace(wifi=_wifi(ssid, wifi_country, wifi_password_file))
    flashing.check_fits(found, data, host.node.model if host.node else "")
    disk = flashing.find_card(device, found, folder)
    for line in _announced(found, data, device, disk):
        say(line)
    if not confirm(f"Overwrite {device}?", yes=yes):
        return exits.fail(f"nothing was written to {device}", exits.NOTHING)
    try:
        with _bars(found.map.mapped) as told:
            done = flashing.flash(found, data, device, disk, told)
    except KeyboardInterrupt:
        return exits.fail(
            f"interrupted: {device} is unusable as it is; flash it again", exits.INTERRUPTED
        )
    if store.adopted(host.name):
        store.use_own_host_key(fleet, host.name)
    if as_json:
        write_json(done)
    else:
        say(_summary(done))
    return exits.DONE


def _node(fleet: Inventory, name: str) -> HostOf:
    """The node of this name; click.UsageError names the nearest."""
    from fleet.inventory.nearest import did_you_mean
    from fleet.inventory.parties import hosts

    nodes = {host.name: host for host in hosts(fleet) if host.node}
    if name not in nodes:
        raise click.UsageError(f"there is no node {name}; {did_you_mean(name, list(nodes))}")
    return nodes[name]


def _data(fleet: Inventory, host: HostOf, store: Store, image: Image) -> NodeData:
    """Files for the card: the agent's files only where the agent is on it, too."""
    from fleet.image.inject import node_data
    from fleet.inventory.files import files_of

    files = files_of(fleet, host, store) if image.kind == "sanderling" else ()
    return node_data(fleet, host, store, files)


def _wifi(ssid: str, country: str | None, password_file: Path | None) -> Wifi:
    """The network to join; its password is asked for unless a file has it."""
    from fleet.image.wifi import network, password_in

    if not (ssid and country):
        raise click.UsageError("a Wi-Fi network needs both --wifi SSID and --wifi-country CC")
    if password_file:
        return network(ssid, country, password_in(password_file))
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked for the password: --wifi-password-file FILE")
    asked: str = click.prompt(f"Password of {ssid}", hide_input=True, err=True)
    return network(ssid, country, asked)


def _announced(image: Image, data: NodeData, device: Path, disk: Device | None) -> Iterator[str]:
    """Lines that announce the change, one for each part."""
    from fleet.image.devices import contents, size_text

    if image.mark:
        what = f"Sanderling {image.mark.release} for {image.mark.model}"
    else:
        what = f"not ours; it is told by {image.kind}, and `fleet deploy` installs the agent"
    yield f"{image.path.name}: {size_text(image.map.size)}, {what}"
    joins = f", joins {data.wifi.ssid} ({data.wifi.country})" if data.wifi else ""
    yield f"becomes {data.node} ({data.hostname}){joins}"
    if disk is None:
        yield f"{device}: a file" + (", which is overwritten" if device.exists() else "")
        return
    yield f"{device}: {disk.title}, which is overwritten:"
    for line in contents(disk):
        yield f"  {line}"


def _summary(done: Flashed) -> str:
    from fleet.image.devices import size_text

    text = f"{done.device} is {done.node}: {size_text(done.written)} written and verified"
    if done.kind != "sanderling":
        text += f"; when it is up: fleet deploy --limit {done.node}"
    return text


@contextmanager
def _bars(mapped: int) -> Iterator[Callable[[Step], None]]:
    """Progress of writing and verifying, with rate and time left."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from fleet.terminal.screen import progress

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=progress()) as shown:
        tasks = {}

        def told(step: Step) -> None:
            if step.stage not in tasks:
                tasks[step.stage] = shown.add_task(step.stage, total=mapped)
            shown.advance(tasks[step.stage], step.bytes)

        yield told
