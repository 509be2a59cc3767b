"""Hosts to try the `fleet` command on: ``python -m tests.hosts up --folder DIR``; root only."""

from __future__ import annotations

from pathlib import Path

import click

from fleet.inventory.folder import Folder
from tests.hosts.testbed import BRIDGE, COUNT, NETWORK, Testbed

FOLDER = click.option(
    "--folder", type=click.Path(path_type=Path), required=True, help="The fleet's folder."
)


@click.group()
def main() -> None:
    """Boot Debian hosts in network namespaces: an IAD's master and its nodes."""


@main.command()
@click.option("--count", default=COUNT, show_default=True, help="Hosts, the master included.")
@click.option("--bridge", default=BRIDGE, show_default=True, help="A new one for each testbed.")
@click.option("--network", default=NETWORK, show_default=True, help="As is this.")
@FOLDER
def up(count: int, bridge: str, network: str, folder: Path) -> None:
    """Make the fleet's folder, its keys and its hosts; print their addresses."""
    from fleet.keys.store import Store

    bed = Testbed(folder, count, bridge, network)
    bed.write_folder()
    store = Store(Folder(folder))
    store.ensure(bed.inventory())
    click.echo(
        f"a Debian root file system is made, which takes minutes the first time; {count} hosts "
        "then boot from it",
        err=True,
    )
    bed.up(store)
    for host in bed.hosts.values():
        click.echo(f"{host.full_name}\t{host.address}")


@main.command()
@FOLDER
def down(folder: Path) -> None:
    """End the hosts; the fleet's folder stays."""
    Testbed.found(folder).down()


if __name__ == "__main__":
    main()
