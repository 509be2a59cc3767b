"""Options that select the master to talk to: by address and key files, or by IAD name.

Without either, the master is that of $SANDERLING_MASTER (or $SANDERLING_OPERATOR), else, in a
fleet's folder, the first of its inventory, else that of the demo or of `fleet up` that runs on this
machine: of several, of the one that was started in this folder, else of the first. Outside of a
fleet's folder an IAD's name is one of theirs.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import click

from fleet.cli import completion
from fleet.cli.options import ADDRESS, ADDRESSES, FLEET_IF_NAMED, NAME, NAMES

if TYPE_CHECKING:
    from agent.net.keys import KeyFiles
    from fleet.inventory.folder import Folder
    from fleet.query.running import Running

Socket = Literal["master", "operator"]
HELP: dict[Socket, str] = {
    "master": "Public socket of any master; else $SANDERLING_MASTER, the fleet's first, or the one "
    "that runs here.",
    "operator": "Operator socket of a master; else $SANDERLING_OPERATOR, the fleet's, or that of "
    "the one that runs here.",
}

SEVERAL = (
    " Several, separated by commas: the first reachable one is used; moved subscriptions are "
    "followed."
)


def connecting(
    socket: Socket, *, several: bool = False
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Options of a command that talks to a master's `socket`: it gets that address by the socket's
    name, and `keys`, KeyFiles or None. With `several` masters may be named, with commas between;
    `keys` may be a list then, one for each."""
    more = SEVERAL if several else ""

    def add(command: Callable[..., int]) -> Callable[..., int]:
        @click.option(
            f"--{socket}",
            "address",
            type=ADDRESSES if several else ADDRESS,
            help=HELP[socket] + more,
        )
        @click.option(
            "--iad",
            "of_iad",
            type=NAMES if several else NAME,
            shell_complete=completion.IADS,
            help="The master of this IAD: of the fleet, with its keys, else of what runs here."
            + more,
        )
        @FLEET_IF_NAMED
        @click.option(
            "--key", type=click.Path(), help="File with your secret key, for a master with keys."
        )
        @click.option(
            "--server-keys",
            type=click.Path(),
            help="File with the master's public keys; with --key.",
        )
        @functools.wraps(command)
        def connected(
            *args: Any,
            address: str | None,
            of_iad: str | None,
            folder: Folder | None,
            key: str | None,
            server_keys: str | None,
            **options: Any,
        ) -> int:
            if address is None and folder is None:
                address = of_running(of_iad, socket) if of_iad else unnamed(socket)
                of_iad = None if address is not None else of_iad
            if address is None and of_iad is None:
                of_iad = _first_of_fleet(folder, socket)
            if address is not None and of_iad is not None:
                raise click.UsageError(f"give either --{socket} ADDRESS or --iad NAME")
            keys: KeyFiles | list[KeyFiles] | None
            if of_iad is not None:
                if key is not None or server_keys is not None:
                    raise click.UsageError(
                        "--iad takes the keys from the fleet's folder; leave --key and "
                        "--server-keys out"
                    )
                found = [of_fleet(folder, each, socket) for each in of_iad.split(",")]
                address = ",".join([each for each, _ in found])
                keys = [each for _, each in found] if len(found) > 1 else found[0][1]
            else:
                if folder is not None:
                    raise click.UsageError(f"--fleet goes with --iad, not with --{socket}")
                keys = _given(key, server_keys)
            return command(*args, keys=keys, **{socket: address}, **options)

        return connected

    return add


def of_fleet(folder: Folder | None, iad: str, socket: Socket) -> tuple[str, KeyFiles]:
    """Address and keys for the master of an IAD of the fleet in `folder` (None: the nearest).

    CommandError or ConfigError in one line.
    """
    from fleet.inventory.folder import find
    from fleet.inventory.loader import load
    from fleet.inventory.selection import select
    from fleet.keys.store import Store

    folder = folder or find()
    master = select(load(folder), iads=[iad])[0].iad.master
    port = master.public_port if socket == "master" else master.operator_port
    role: Literal["client", "operator"] = "client" if socket == "master" else "operator"
    return f"tcp://{master.address}:{port}", Store(folder).key_files(role, iad)


def unnamed(socket: Socket) -> str | None:
    """The address that is meant where none is given."""
    variable = f"SANDERLING_{socket.upper()}"
    if named := os.environ.get(variable):
        try:
            return ADDRESS.parse(named)
        except ValueError as error:
            raise click.UsageError(f"${variable}: {error}") from None
    return of_running(None, socket)


def of_running(names: str | None, socket: Socket) -> str | None:
    """The addresses of these IADs' masters, with commas between, in the demo or the fleet of `fleet
    up` that runs here; by default of the one that is asked. None if neither is meant."""
    from fleet.common.exits import CommandError
    from fleet.inventory.folder import VARIABLE, NoFleetError, find
    from fleet.query import running
    from fleet.terminal.output import say

    with suppress(NoFleetError):
        if not os.environ.get(VARIABLE):
            find()
        return None
    fleets = running.found()
    if not fleets:
        if begun := running.starting():
            text = (
                f"the {begun[0].called} of {begun[0].folder} is starting; try again when it is up"
            )
            raise CommandError(text)
        return None
    found = [_addresses(fleet, names, socket) for fleet in fleets]
    if found[0] is None:
        has = ", ".join(each.iad for each in fleets[0].masters)
        text = f"there is no IAD {names} in the {fleets[0].called} that runs here; it has {has}"
        raise CommandError(text)
    told = f"--{socket} {found[0]}"
    where = [each.folder for each in fleets]
    if len(set(where)) < len(where):  # some were started in one folder, but have files of their own
        where = [each.directory or each.folder for each in fleets]
    if len(fleets) > 1:
        alike = len({each.kind for each in fleets}) == 1
        which = "that" if alike else f"the {fleets[0].called}"
        what = "demos" if alike and fleets[0].kind == "demo" else "fleets"
        say(f"{len(fleets)} {what} run here; asking {which} of {where[0]}: {told}")
    else:
        say(f"asking the {fleets[0].called} that runs here: {told}")
    first, *others = [each.iad for each in fleets[0].masters]
    if others and names is None and socket == "operator":
        say(f"that is {first}'s master alone; --iad asks another's: {', '.join(others)}")
    for fleet, place, address in zip(fleets[1:], where[1:], found[1:], strict=True):
        if address is not None:
            other = "another," if fleet.kind == fleets[0].kind else f"the {fleet.called}"
            say(f"{other} of {place}: --{socket} {address}")
    return found[0]


def _addresses(fleet: Running, names: str | None, socket: Socket) -> str | None:
    iads = [None] if names is None else names.split(",")
    found = [fleet.address(socket, iad) for iad in iads]
    return None if None in found else ",".join([each for each in found if each is not None])


def _first_of_fleet(folder: Folder | None, socket: Socket) -> str:
    """The IAD that is asked where neither an address nor an IAD is given, and nothing that runs
    here is meant: the fleet's first. Its operator has to be named where there are several."""
    from fleet.inventory.folder import VARIABLE, NoFleetError, find
    from fleet.inventory.loader import load
    from fleet.terminal.output import say

    try:
        fleet = folder or find()
    except NoFleetError:
        if os.environ.get(VARIABLE):
            raise
        raise click.UsageError(
            f"no master to ask: --{socket} and --iad are not given, $SANDERLING_{socket.upper()} "
            "is not set, there is no fleet.toml here or above, and no demo or `fleet up` runs "
            "here; start one with `fleet up`"
        ) from None
    first, *others = [iad.name for iad in load(fleet).iad]
    if others and socket == "operator":
        raise click.UsageError(f"give --iad NAME: {', '.join([first, *others])}")
    more = "; --iad NAME asks another" if others else ""
    say(f"asking the master of {first}, in {fleet.inventory}{more}")
    return first


def _given(key: str | None, server_keys: str | None) -> KeyFiles | None:
    if (key is None) != (server_keys is None):
        raise click.UsageError("--key and --server-keys come together")
    if key is None or server_keys is None:
        return None
    from agent.net.keys import KeyFiles

    return KeyFiles(key, server_keys)
