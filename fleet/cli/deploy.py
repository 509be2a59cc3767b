"""Click commands: `fleet deploy`, `fleet rollback` and `fleet replace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleet.cli import completion
from fleet.cli.options import (
    AS_JSON,
    FLEET,
    INTERVAL,
    PARALLEL,
    SHARE,
    TEXT,
    YES,
    at_least_one,
    hosts_options,
)

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder
    from fleet.rollout.rollout import Share


SERIAL = click.option(
    "--serial",
    type=SHARE,
    default="25%",
    show_default=True,
    callback=at_least_one,
    help="Nodes out of service at a time: a number, or a part of all.",
)


def _max_fail(_context: click.Context, _parameter: click.Parameter, value: Share) -> Share:
    """Up to 0.1 a number alone was a part of all; the warning goes with the next release."""
    if not value.percent and value.value:
        from fleet.terminal import output

        number = f"{value.value:g}"
        output.say(
            f"--max-fail {number} is {number} host{'s' * (number != '1')}; up to release 0.1 it "
            f"was {number} %: write {number}% for that"
        )
    return value


MAX_FAIL = click.option(
    "--max-fail",
    type=SHARE,
    default="10%",
    show_default=True,
    callback=_max_fail,
    help="Stop when more hosts than this failed after their switch: a number, or a part of all.",
)
GATE = click.option(
    "--gate",
    "gate_s",
    type=INTERVAL,
    default="60s",
    show_default=True,
    help="How long a host may take until it answers again.",
)


@click.command(short_help="Bring hosts to the release, settings and keys that are wanted.")
@FLEET
@hosts_options
@click.option("--release", type=TEXT, default="", help="This release, whatever the inventory says.")
@click.option("--dry", is_flag=True, help="Only print what would be changed.")
@click.option(
    "--allow-dirty",
    is_flag=True,
    help="With --yes: also deploy a release with uncommitted changes.",
)
@SERIAL
@MAX_FAIL
@click.option("--retry-failed", is_flag=True, help="Only hosts whose last deployment failed.")
@PARALLEL
@GATE
@YES
@AS_JSON
def deploy(
    folder: Folder,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    release: str,
    dry: bool,
    allow_dirty: bool,
    serial: Any,
    max_fail: Any,
    retry_failed: bool,
    parallel: int,
    gate_s: float,
    yes: bool,
    as_json: bool,
) -> int:
    """Bring hosts to the release, configuration and keys that the inventory wants.

    A canary first, then batches. A host that does not answer queries afterwards goes back to what
    it was. Running it again does what is left, or nothing.

    Exit status: 0 all up to date, 1 some hosts failed, 2 wrong usage, 5 nothing was done,
    130 interrupted.
    """
    from fleet.rollout import deploy as command

    options = command.Options(
        serial, max_fail, parallel, release, gate_s=gate_s, dry=dry, as_json=as_json, yes=yes
    )
    return command.run(
        folder,
        iads=iads,
        groups=groups,
        limit=limit,
        retry_failed=retry_failed,
        allow_dirty=allow_dirty,
        options=options,
    )


@click.command(short_help="Roll hosts back to what they were before a deployment.")
@FLEET
@hosts_options
@click.option(
    "--to", "release", type=TEXT, default="", help="To this release; else to what was before."
)
@SERIAL
@MAX_FAIL
@PARALLEL
@GATE
@YES
@AS_JSON
def rollback(
    folder: Folder,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    release: str,
    serial: Any,
    max_fail: Any,
    parallel: int,
    gate_s: float,
    yes: bool,
    as_json: bool,
) -> int:
    """Roll hosts back to what they were before their last deployment: release, files, unit.

    With --to they get that release, and the files of the inventory as it is now. In the order of
    `fleet deploy`: a canary first, then a few at a time, each after the one before is well.

    Exit status: 0 all are back and well, 1 some are not, 2 wrong usage, 5 nothing was done,
    130 interrupted.
    """
    from fleet.rollout import rollback as command
    from fleet.rollout.deploy import Options

    options = Options(serial, max_fail, parallel, release, gate_s=gate_s, as_json=as_json, yes=yes)
    return command.run(folder, iads=iads, groups=groups, limit=limit, options=options)


@click.command(short_help="Replace a node by another machine, with its name and areas.")
@FLEET
@click.argument("node", type=TEXT, metavar="NODE", shell_complete=completion.NODES)
@click.option(
    "--fingerprint",
    type=TEXT,
    help="SHA256:… of the successor's own host key, if it was not flashed by us.",
)
@GATE
@YES
@AS_JSON
def replace(
    folder: Folder, node: str, fingerprint: str | None, gate_s: float, yes: bool, as_json: bool
) -> int:
    """Replace NODE by another machine: it takes over the name, the areas and the keys.

    The inventory says at which address it is. Keys that were revoked are replaced. A card that
    `fleet image flash` wrote shows the pinned host key; any other machine's key has to be
    vouched for.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 another host key, 5 nothing was done.
    """
    from fleet.rollout import replace as command
    from fleet.rollout.deploy import Options
    from fleet.rollout.rollout import MAX_FAIL, SERIAL

    options = Options(SERIAL, MAX_FAIL, 2, gate_s=gate_s, as_json=as_json, yes=yes)
    return command.run(folder, node, fingerprint, options)
