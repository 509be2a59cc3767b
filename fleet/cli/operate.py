"""Click commands for daily operation: status, exec, logs, reboot, doctor."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.connecting import of_running, unnamed
from fleet.cli.grouped import Grouped
from fleet.cli.options import (
    ADDRESS,
    AS_JSON,
    FLEET,
    FLEET_IF_NAMED,
    INTERVAL,
    PARALLEL,
    SHARE,
    TIMEOUT,
    YES,
    Parsed,
    at_least_one,
    hosts_options,
    patience,
)

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder

PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")


def _since(text: str) -> str:
    from fleet.inspect.journal import since

    return since(text) if text else ""


def _unit(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9:_.@*?\\\[\]-]{1,255}", text):
        raise ValueError(f"{text!r} is no name of a unit; write chrony or 'systemd-*'")
    return text


def _time(text: str) -> Any:
    from fleet.terminal.times import parse_time

    return parse_time(text)


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d{1,6})([kMGT])", text)
    if match is None or not int(match[1]):
        raise ValueError(f"{text!r} is no size; write 500M or 2G")
    sizes = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    return int(match[1]) * sizes[match[2]]


SINCE = Parsed("time", _since)
TIME = Parsed("time", _time)
BYTES = Parsed("size", _bytes)
UNIT = Parsed("unit", _unit)


@click.command(short_help="Print the state of a fleet, hosts in trouble first.")
@click.option("--operator", type=ADDRESS, help="Only this master, by its operator socket.")
@click.option("--key", type=click.Path(path_type=Path), help="With --operator: your secret key.")
@click.option(
    "--server-keys",
    type=click.Path(path_type=Path),
    help="With --operator: the master's public keys.",
)
@FLEET_IF_NAMED
@hosts_options
@patience("3s", "How long to wait for a master.")
@click.option("--ssh/--no-ssh", default=True, help="Log in to the hosts, or ask masters alone.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="List every host, also of a large fleet; with --operator every counter above zero.",
)
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option(
    "--every",
    "every_s",
    type=INTERVAL,
    default="5s",
    show_default=True,
    help="With --watch: how often.",
)
@PARALLEL
@click.option("--json", "as_json", is_flag=True, help="One JSON document; with --watch one a line.")
def status(
    operator: str | None,
    key: Path | None,
    server_keys: Path | None,
    folder: Folder | None,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    timeout_ms: float,
    ssh: bool,
    everything: bool,
    watch: bool,
    every_s: float,
    parallel: int,
    as_json: bool,
) -> int:
    """Print the state of a fleet: its masters, nodes and hosts, those in trouble first.

    With --operator: the nodes of one IAD, their queues, its counters.

    Exit status: 0 all could be asked, 1 some could not, 2 wrong usage, 4 no reply (--operator),
    5 nobody could be asked.
    """
    if operator is None and not (folder or groups or limit) and len(iads) <= 1:
        operator = of_running(iads[0], "operator") if iads else unnamed("operator")
        iads = () if operator is not None else iads
    if operator is not None:
        if watch:
            raise click.UsageError(
                "--watch is for a fleet; of one master: "
                f"watch -n {every_s:g} fleet status --operator {operator}"
            )
        if folder is not None or iads or groups or limit:
            raise click.UsageError("--operator is one master, without a fleet; leave the rest out")
        if (key is None) != (server_keys is None):
            raise click.UsageError("--key and --server-keys come together")
        keys = None
        if key is not None and server_keys is not None:
            from agent.net.keys import KeyFiles

            keys = KeyFiles(str(key), str(server_keys))
        from fleet.query import status as of_master

        return of_master.run(
            operator, timeout_ms=timeout_ms, as_json=as_json, everything=everything, keys=keys
        )
    if key is not None or server_keys is not None:
        raise click.UsageError("--key and --server-keys go with --operator")
    from fleet.inspect import overview
    from fleet.inspect.look import Reach
    from fleet.inventory.targets import chosen

    folder = folder or _found("no demo or `fleet up` runs here either: `fleet up` starts one")
    fleet, hosts = chosen(folder, iads, groups, limit)
    options = overview.Options(
        Reach(timeout_ms, parallel, ssh), everything, as_json, every_s if watch else None
    )
    return overview.run(folder, fleet, hosts, options)


@click.command(
    name="exec",
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command on many hosts at a time.",
)
@FLEET
@hosts_options
@click.option("--sudo", is_flag=True, help="As root.")
@click.option(
    "--timeout",
    "timeout_ms",
    type=TIMEOUT,
    default="1m",
    show_default=True,
    help="After this time the command is ended on a host.",
)
@PARALLEL
@click.option("--group-output", is_flag=True, help="Print equal outputs once, when all have ended.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One line of JSON for each line of output, and for each end.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(
    folder: Folder,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    sudo: bool,
    timeout_ms: float,
    parallel: int,
    group_output: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND on many hosts at once.

    \b
    fleet exec --iad iad4 -- systemctl is-active chrony

    The host's shell runs it. One word is a command line of that shell: 'dmesg | tail -3'.
    Several words reach the command unchanged.

    Exit status: 0 the command's was 0 everywhere, 1 not everywhere, 2 wrong usage, 5 it ran
    nowhere, 130 interrupted.
    """
    from fleet.inspect import execute
    from fleet.inventory.targets import chosen

    if group_output and as_json:
        raise click.UsageError("--json and --group-output exclude each other")
    fleet, hosts = chosen(folder, iads, groups, limit)
    options = execute.Options(sudo, timeout_ms / 1e3, parallel, group_output, as_json)
    return execute.run(folder, fleet, hosts, command, options)


@click.command(short_help="Find the usual faults, and name the remedy of each.")
@FLEET
@hosts_options
@patience("3s", "How long to wait for a master.")
@PARALLEL
@AS_JSON
def doctor(
    folder: Folder,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    timeout_ms: float,
    parallel: int,
    as_json: bool,
) -> int:
    """Find the usual faults and name the remedy: inventory, keys, this machine, masters, hosts.

    Exit status: 0 nothing is wrong, 1 something is, 2 wrong usage or an inventory that cannot be
    read, 5 nobody could be asked.
    """
    from fleet.inspect import doctor as command
    from fleet.inspect.look import Reach

    reach = Reach(timeout_ms, parallel, closely=True)
    return command.run(folder, iads, groups, limit, reach, as_json=as_json)


@click.group(cls=Grouped)
def logs() -> None:
    """The journals of the fleet's hosts; their records and histories."""


@logs.command()
@FLEET
@hosts_options
@click.option("-f", "--follow", is_flag=True, help="Follow new lines until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 100_000),
    help="Lines of each host that are there already; by default 10 with -f, else 100.",
)
@click.option(
    "--since",
    type=SINCE,
    default="",
    help="Skip earlier lines: 10m (by the host's clock), or 2026-11-21 13:00 (by this one's).",
)
@click.option(
    "-p",
    "--priority",
    type=click.Choice(PRIORITIES),
    default="debug",
    help="This priority and worse.",
)
@click.option(
    "--unit",
    "units",
    type=UNIT,
    multiple=True,
    help="Of this unit, which may be a pattern; repeat it for more. By default the agent's.",
)
@PARALLEL
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each.")
def tail(
    folder: Folder,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    follow: bool,
    lines: int | None,
    since: str,
    priority: str,
    units: tuple[str, ...],
    parallel: int,
    as_json: bool,
) -> int:
    """Print the latest lines of hosts' journals in the order of their times.

    The times are each host's own. With -f all hosts are followed at once.

    Exit status: 0 done, 1 some hosts could not be read, 2 wrong usage, 5 none could,
    130 interrupted.
    """
    from fleet.inspect import tail as command
    from fleet.inventory.targets import chosen

    fleet, hosts = chosen(folder, iads, groups, limit)
    if lines is None:
        lines = 10 if follow else 100
    options = command.Options(follow, lines, since, priority, units, parallel, as_json)
    return command.run(folder, fleet, hosts, options)


@logs.command()
@FLEET_IF_NAMED
@hosts_options
@click.option(
    "--since",
    "since_time",
    type=TIME,
    help="Skip what is older: 24h, 2026-11-21 or 2026-11-21T13:00 (UTC).",
)
@click.option(
    "--max-bytes",
    type=BYTES,
    default="2G",
    show_default=True,
    help="Limit of one run, of all hosts together: 500M, 2G.",
)
@click.option(
    "--lake",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the lake; else $SANDERLING_LAKE, or `lake` in the fleet's folder or the run's.",
)
@click.option(
    "--local",
    type=click.Path(file_okay=False, path_type=Path),
    is_flag=False,
    flag_value="var/demo",
    metavar="[FOLDER]",
    help="Not from hosts, but from the folder of a run on this machine; by default the demo's.",
)
@PARALLEL
@AS_JSON
def pull(
    folder: Folder | None,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    since_time: Any,
    max_bytes: int,
    lake: Path | None,
    local: Path | None,
    parallel: int,
    as_json: bool,
) -> int:
    """Copy what masters and nodes have logged to the lake's landing.

    These are masters' records and the readings of nodes' histories. What was pulled before is
    skipped; an interrupted pull continues the next time. Then: fleet lake ingest, fleet report.

    Exit status: 0 done, 1 some hosts failed, 2 wrong usage, 5 none could be pulled, or another
    pull is under way, 130 interrupted.
    """
    from fleet.lake.pull import pull as command

    if local is not None and folder is not None:
        raise click.UsageError("--local and --fleet exclude each other")
    options = command.Options(since_time, max_bytes, parallel, as_json)
    if local is not None:
        return command.run_local(local, lake, iads, groups, limit, options)
    return command.run(
        folder or _found("--local pulls from the last demo"), lake, iads, groups, limit, options
    )


@click.command(short_help="Reboot hosts, a few at a time, masters last.")
@FLEET
@hosts_options
@click.option(
    "--serial",
    type=SHARE,
    default="1",
    show_default=True,
    callback=at_least_one,
    help="Nodes out of service at a time: a number, or a part of all such as 25%.",
)
@click.option(
    "--max-fail",
    type=SHARE,
    default="0",
    show_default=True,
    help="Stop when more hosts than this have not come back.",
)
@click.option(
    "--wait",
    "patience_s",
    type=INTERVAL,
    default="5m",
    show_default=True,
    help="How long a host may take to come back.",
)
@PARALLEL
@YES
@AS_JSON
def reboot(
    folder: Folder,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    serial: Any,
    max_fail: Any,
    patience_s: float,
    parallel: int,
    yes: bool,
    as_json: bool,
) -> int:
    """Reboot hosts, a few at a time: never all that cover one area, masters last.

    A host is back when it has another boot id and, if it was before, is live at its master. The
    first node comes back before others follow.

    Exit status: 0 all are back, 1 some are not, 2 wrong usage, 5 none was restarted,
    130 interrupted.
    """
    from fleet.inventory.targets import chosen
    from fleet.rollout import reboot as command

    fleet, hosts = chosen(folder, iads, groups, limit)
    options = command.Options(serial, max_fail, patience_s, parallel, yes, as_json)
    return command.run(folder, fleet, hosts, options)


def _found(otherwise: str) -> Folder:
    """The fleet's folder. Where there is none, the error also names what needs no fleet."""
    from fleet.inventory.folder import VARIABLE, NoFleetError, find

    try:
        return find()
    except NoFleetError as error:
        if os.environ.get(VARIABLE):
            raise
        raise NoFleetError(f"{error}; {otherwise}") from None
