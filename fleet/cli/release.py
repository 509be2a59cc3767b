"""Click commands: `fleet release` and `fleet releases`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fleet.cli.grouped import Grouped
from fleet.cli.options import AS_JSON, FLEET, hosts_options
from fleet.release.target import PYTHON_OF

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder


@click.group(cls=Grouped, context_settings={"max_content_width": 100})
def release() -> None:
    """Build releases: what hosts run, for their machine and Python."""


@release.command(short_help="Make the release of these sources for every kind of host.")
@FLEET
@click.option(
    "--machine",
    "machines",
    type=click.Choice(["aarch64", "x86_64"]),
    multiple=True,
    help="For this machine, as uname -m says it; repeat it for more. Default: those of the "
    "inventory.",
)
@click.option(
    "--suite",
    "suites",
    type=click.Choice(list(PYTHON_OF)),
    multiple=True,
    help="For the Python of this Debian; repeat it for more. Default: bookworm.",
)
@click.option(
    "--python",
    "pythons",
    type=click.Choice(["3.11", "3.13"]),
    multiple=True,
    help="For this Python, instead of a suite's.",
)
@AS_JSON
def build(
    folder: Folder,
    machines: tuple[str, ...],
    suites: tuple[str, ...],
    pythons: tuple[str, ...],
    as_json: bool,
) -> int:
    """Make the release of these sources, as they are now, for every kind of host in the fleet.

    What is stored already is not made again.
    """
    from fleet.release import make as command

    if suites and pythons:
        raise click.UsageError("--suite names a Python: give --python or --suite")
    return command.run(folder, machines, suites, pythons, as_json=as_json)


@click.command(short_help="Print the releases that are stored, the latest first.")
@FLEET
@click.option("--hosts", "on_hosts", is_flag=True, help="Instead, the releases that hosts have.")
@hosts_options
@AS_JSON
def releases(
    folder: Folder,
    on_hosts: bool,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    as_json: bool,
) -> int:
    """Print the releases that are stored in the fleet's folder, the latest first.

    Exit status: 0 done; with --hosts also 1 some hosts could not be asked, 5 none could.
    """
    if on_hosts:
        from fleet.rollout import on_hosts as of_hosts

        return of_hosts.run(folder, iads=iads, groups=groups, limit=limit, as_json=as_json)
    if iads or groups or limit:
        raise click.UsageError("--iad, --group and --limit go with --hosts")
    from fleet.release import listing as command

    return command.run(folder, as_json=as_json)
