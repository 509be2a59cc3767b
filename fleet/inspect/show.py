"""`fleet inventory show`: the inventory's IADs and hosts, and the files of one host."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from rich.table import Table

from fleet.common import exits
from fleet.inventory.effective import release_of, sensors_of, visitors
from fleet.inventory.files import HostFile, areas_of, files_of
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf, Party
from fleet.inventory.selection import one_host, select
from fleet.keys.errors import KeyStoreError
from fleet.keys.store import Store
from fleet.terminal import output
from fleet.terminal.screen import console, line, plain_table, show_table

NO_KEY: Final = b"# not made yet: fleet keys init\n"
# An IAD may offer every room of a building; the table of its nodes lists all of them.
MAX_AREAS: Final = 4
OWN: Final = "–"  # the release built from these sources


class ShownHost(Struct, frozen=True):
    """A host. For a master's, `model`, `areas`, `sensors` and `groups` are empty; `release` is
    empty if it is the one built from these sources."""

    name: str
    address: str
    release: str
    model: str = ""
    areas: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class ShownMaster(Struct, frozen=True):
    """An IAD's master; `local`: it runs on the operator's own machine. `release` as for a host."""

    address: str
    release: str
    local: bool
    public_port: int
    nodes_port: int
    operator_port: int


class ShownIad(Struct, frozen=True):
    """An IAD: its master, what it offers, and its hosts that were requested."""

    name: str
    master: ShownMaster
    areas: tuple[str, ...]
    hosts: tuple[ShownHost, ...]


class Shown(Struct, frozen=True):
    """The document of `fleet inventory show --json`."""

    fleet: str
    iads: tuple[ShownIad, ...]


class ShownFile(Struct, frozen=True):
    """A file of a host; `content` is null if it is secret."""

    path: str
    mode: str
    owner: str
    restart: bool
    content: str | None


class ShownFiles(Struct, frozen=True):
    """The document of `fleet inventory show --host HOST --files --json`."""

    host: str
    files: tuple[ShownFile, ...]


class NoSecrets:
    """The key store without its secrets; for a missing key it returns a text that says so."""

    def __init__(self, folder: Folder) -> None:
        self._store = Store(folder)

    def publics(self, party: Party) -> tuple[str, ...]:
        """A party's valid public keys."""
        return self._store.publics(party)

    def secret_file(self, _: Party) -> bytes:
        """Empty: secrets are not even read."""
        return b""

    def public_file(self, party: Party) -> bytes:
        """A party's public key file."""
        try:
            return self._store.public_file(party)
        except KeyStoreError:
            return NO_KEY

    def webhook_file(self, _iad: str, _webhook: str) -> bytes:
        """Nothing, either."""
        return b""

    def latency_model(self, path: str) -> bytes:
        """The latency model in this file."""
        return self._store.latency_model(path)


def run(
    folder: Folder, iads: Sequence[str], groups: Sequence[str], limit: str, *, as_json: bool
) -> int:
    """Print the selected hosts; returns the exit status."""
    fleet = load(folder)
    shown = describe(fleet, select(fleet, iads=iads, groups=groups, limit=limit))
    if as_json:
        output.write_json(shown)
    else:
        show(shown)
    return exits.DONE


def run_files(folder: Folder, name: str, *, as_json: bool) -> int:
    """Print the files of the host `name`; returns the exit status."""
    fleet = load(folder)
    host = one_host(fleet, name)
    files = files_of(fleet, host, NoSecrets(folder))
    if as_json:
        output.write_json(ShownFiles(host.name, tuple(_shown_file(file) for file in files)))
        return exits.DONE
    for file in files:
        sys.stdout.write(f"==> {file.path} ({_mode(file)}, {file.owner})\n")
        sys.stdout.write("(secret)\n" if file.secret else file.content.decode())
        sys.stdout.write("\n")
    return exits.DONE


def describe(fleet: Inventory, chosen: Sequence[HostOf]) -> Shown:
    """Describe these hosts, grouped by IAD."""
    by_iad: dict[str, list[HostOf]] = {}
    for host in chosen:
        by_iad.setdefault(host.iad.name, []).append(host)
    visiting = visitors(fleet)
    return Shown(
        fleet.name,
        tuple(
            ShownIad(
                iad.name,
                ShownMaster(
                    iad.master.address,
                    release_of(fleet, HostOf(iad, None)),
                    iad.master.local,
                    iad.master.public_port,
                    iad.master.nodes_port,
                    iad.master.operator_port,
                ),
                areas_of(iad, visiting.get(iad.name, ())),
                tuple(_shown_host(fleet, host) for host in by_iad[iad.name]),
            )
            for iad in fleet.iad
            if iad.name in by_iad
        ),
    )


def _shown_host(fleet: Inventory, host: HostOf) -> ShownHost:
    release = release_of(fleet, host)
    if host.node is None:
        return ShownHost(host.name, host.address, release)
    return ShownHost(
        host.name,
        host.address,
        release,
        host.node.model,
        host.node.areas,
        tuple(sensor.called for sensor in sensors_of(fleet, host.node)),
        host.node.groups,
    )


def _shown_file(file: HostFile) -> ShownFile:
    content = None if file.secret else file.content.decode()
    return ShownFile(file.path, _mode(file), file.owner, file.restart, content)


def _mode(file: HostFile) -> str:
    return f"{file.mode:04o}"


def show(shown: Shown) -> None:
    """Print a row for each IAD with its master, then one for each node."""
    screen = console()
    masters = any(iad.master.release for iad in shown.iads)
    pinned = masters or any(host.release for iad in shown.iads for host in iad.hosts)
    show_table(screen, _iad_table(shown, pinned))
    nodes = [host for iad in shown.iads for host in iad.hosts if host.model]
    if nodes:
        line(screen, "")
        show_table(screen, _node_table(nodes, pinned))
    if pinned:
        line(screen, f"release {OWN}: the one built from these sources", style="dim")


def _iad_table(shown: Shown, pinned: bool) -> Table:
    columns = ["iad", "master", "ports", *(["release"] if pinned else []), "nodes", "offers"]
    table = plain_table(*columns, left=len(columns), folds=("offers",))
    table.columns[-2].justify = "right"
    for iad in shown.iads:
        count = sum(1 for host in iad.hosts if host.model)
        cells = [iad.name, _master(iad), _ports(iad)]
        cells += [iad.master.release or OWN] if pinned else []
        table.add_row(*cells, str(count), _few(iad.areas))
    return table


def _node_table(nodes: Sequence[ShownHost], pinned: bool) -> Table:
    columns = ["node", "address", "model", "areas", "sensors", "groups"]
    columns += ["release"] if pinned else []
    table = plain_table(*columns, left=len(columns), folds=("areas", "sensors", "groups"))
    for host in nodes:
        cells = [host.name, host.address, host.model]
        cells += [", ".join(names) for names in (host.areas, host.sensors, host.groups)]
        table.add_row(*cells, *([host.release or OWN] if pinned else []))
    return table


def _master(iad: ShownIad) -> str:
    return f"{iad.master.address}{' (here)' if iad.master.local else ''}"


def _ports(iad: ShownIad) -> str:
    master = iad.master
    return f"{master.public_port} {master.nodes_port} {master.operator_port}"


def _few(areas: tuple[str, ...]) -> str:
    more = f", … ({len(areas)})" if len(areas) > MAX_AREAS else ""
    return ", ".join(areas[:MAX_AREAS]) + more
