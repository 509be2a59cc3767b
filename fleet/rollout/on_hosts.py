"""`fleet releases --hosts`: the releases that hosts have."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from fleet.common import exits
from fleet.inspect.facts import gather
from fleet.inspect.facts.facts import Releases
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.parties import HostOf
from fleet.inventory.selection import select
from fleet.ssh.connect import open_host
from fleet.ssh.fanout import PARALLEL, for_each
from fleet.terminal import output


class HostReleases(msgspec.Struct, frozen=True):
    """The releases of one host; unknown if there is an `error`."""

    host: str
    current: str = ""
    previous: str = ""
    stored: tuple[str, ...] = ()
    error: str = ""


class ReleasesOnHosts(msgspec.Struct, frozen=True):
    """The document of `fleet releases --hosts --json`."""

    hosts: tuple[HostReleases, ...]


def run(
    folder: Folder, *, iads: Sequence[str], groups: Sequence[str], limit: str, as_json: bool
) -> int:
    """Print the releases of each host; returns the exit status."""
    fleet = load(folder)
    chosen = [
        host for host in select(fleet, iads=iads, groups=groups, limit=limit) if not host.is_local
    ]

    def look(host: HostOf) -> Releases:
        with open_host(folder, fleet, host) as connection:
            return gather(connection).releases

    found = {}
    for each in for_each(chosen, look, parallel=PARALLEL, only_looks=True):
        name = each.host.name
        if each.error is not None:
            found[name] = HostReleases(name, error=str(each.error))
        elif (there := each.value) is not None:
            found[name] = HostReleases(name, there.current, there.previous, there.stored)
    rows = tuple(found[host.name] for host in chosen)
    if as_json:
        output.write_json(ReleasesOnHosts(rows))
    else:
        for row in rows:
            sys.stdout.write(f"{output.printable(_line(row))}\n")
    failed = [row for row in rows if row.error]
    if not failed:
        return exits.DONE
    return exits.NOTHING if len(failed) == len(rows) else exits.FAILED


def _line(row: HostReleases) -> str:
    if row.error:
        return f"{row.host}: {row.error}"
    if not row.stored:
        return f"{row.host}: none"
    names = [
        f"{name} (in use)"
        if name == row.current
        else f"{name} (before)"
        if name == row.previous
        else name
        for name in reversed(row.stored)
    ]
    return f"{row.host}: {', '.join(names)}"
