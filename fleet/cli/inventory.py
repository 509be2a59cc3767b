"""Click commands: `fleet init` and `fleet inventory`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli import completion
from fleet.cli.grouped import Grouped
from fleet.cli.options import AS_JSON, FLEET, NAME, TEXT, hosts_options
from fleet.common import exits

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder


@click.command(short_help="Write a commented fleet.toml to start from.")
@click.argument("root", metavar="[FOLDER]", type=click.Path(path_type=Path), default=Path())
@click.option("--name", type=NAME, help="Name of the fleet; by default the folder's.")
@click.option("--iad", type=NAME, default="iad1", show_default=True, help="Name of its first IAD.")
@click.option(
    "--nodes",
    type=click.IntRange(1, 10_000),
    default=2,
    show_default=True,
    help="How many edge nodes to write down.",
)
@click.option("--local-master", is_flag=True, help="The master runs on this machine.")
@AS_JSON
def init(
    root: Path, name: str | None, iad: str, nodes: int, local_master: bool, as_json: bool
) -> int:
    """Write a commented fleet.toml to start from, into FOLDER or here.

    Existing files are never replaced.
    """
    from fleet.inventory import init as command

    return command.run(root, name, iad, nodes, local_master=local_master, as_json=as_json)


@click.group(cls=Grouped, context_settings={"max_content_width": 100})
def inventory() -> None:
    """Check and show a fleet's inventory, its fleet.toml."""


@inventory.command()
@FLEET
@AS_JSON
def check(folder: Folder, as_json: bool) -> int:
    """Report everything that is wrong with the fleet.toml.

    Exit status: 0 nothing, 2 something.
    """
    from fleet.inventory import check as command

    return command.run(folder, as_json=as_json)


@inventory.command()
@FLEET
@hosts_options
@click.option(
    "--host", type=TEXT, shell_complete=completion.HOSTS, help="With --files: of this host."
)
@click.option(
    "--files",
    is_flag=True,
    help="The configuration files that the host gets; secrets are not shown.",
)
@AS_JSON
def show(
    folder: Folder,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    host: str | None,
    files: bool,
    as_json: bool,
) -> int:
    """Print the IADs, masters and nodes, or the files of one host."""
    from fleet.inspect import show as command

    if (host is not None) != files:
        raise click.UsageError("--host and --files come together")
    if host is None:
        return command.run(folder, iads, groups, limit, as_json=as_json)
    if iads or groups or limit:
        raise click.UsageError("--host is one host: leave --iad, --group and --limit out")
    return command.run_files(folder, host, as_json=as_json)


@inventory.command(short_help="Print a picture of IADs, masters, nodes and areas.")
@FLEET
@hosts_options
@click.option("--dot", "as_dot", is_flag=True, help="For Graphviz rather than Mermaid.")
def graph(
    folder: Folder, iads: tuple[str, ...], groups: tuple[str, ...], limit: str, as_dot: bool
) -> int:
    """Print a picture of IADs, masters, nodes and areas, in Mermaid's language."""
    from fleet.inventory.graph import dot, mermaid
    from fleet.inventory.loader import load
    from fleet.inventory.selection import select

    chosen = select(load(folder), iads=iads, groups=groups, limit=limit)
    click.echo((dot if as_dot else mermaid)(chosen), nl=False)
    return exits.DONE
