"""Options that select the master to talk to: by address and key files, or by IAD name.

Without either, the address is that in $SANDERLING_MASTER (or $SANDERLING_OPERATOR), or, outside of
a fleet's folder, that of the demo that runs on this machine: of several, the one that was started
in this folder, else the first. Outside of a fleet's folder an IAD's name is one of that demo's.
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
    "master": "Public socket of any master; by default $SANDERLING_MASTER, else the demo's.",
    "operator": "Operator socket of a master; by default $SANDERLING_OPERATOR, else the demo's.",
}

SEVERAL = " Several with commas between: the first that is there is asked, what moved is followed."


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
            help="The master of this IAD: of the fleet, with its keys, else of the demo." + more,
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
            if address is None and of_iad is None and folder is None:
                address = unnamed(socket)
            elif address is None and of_iad is not None and folder is None:
                address = of_demo(of_iad, socket)
                of_iad = None if address is not None else of_iad
            if address is None and of_iad is None:
                raise click.UsageError(_nothing_named(socket, folder))
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
    return of_demo(None, socket)


def of_demo(names: str | None, socket: Socket) -> str | None:
    """The addresses of these IADs' masters, with commas between, in the demo that runs here; by
    default of the one that is asked. None if no demo is meant."""
    from fleet.common.exits import CommandError
    from fleet.inventory.folder import VARIABLE, NoFleetError, find
    from fleet.query import running
    from fleet.terminal.output import say

    with suppress(NoFleetError):
        if not os.environ.get(VARIABLE):
            find()
        return None
    demos = running.found()
    if not demos:
        return None
    found = [_addresses(demo, names, socket) for demo in demos]
    if found[0] is None:
        has = ", ".join(each.iad for each in demos[0].masters)
        text = f"there is no IAD {names} in the demo that runs here; it has {has}"
        raise CommandError(text)
    told = f"--{socket} {found[0]}"
    if len(demos) > 1:
        say(f"{len(demos)} demos run here; asking that of {demos[0].folder}: {told}")
    else:
        say(f"asking the demo that runs here: {told}")
    for demo, address in zip(demos[1:], found[1:], strict=True):
        if address is not None:
            say(f"another, of {demo.folder}: --{socket} {address}")
    return found[0]


def _addresses(demo: Running, names: str | None, socket: Socket) -> str | None:
    iads = [None] if names is None else names.split(",")
    found = [demo.address(socket, iad) for iad in iads]
    return None if None in found else ",".join([each for each in found if each is not None])


def _nothing_named(socket: Socket, folder: Folder | None) -> str:
    """Says what to do where neither an address nor an IAD is given, and no demo is meant."""
    from fleet.inventory.folder import VARIABLE, NoFleetError, find

    try:
        fleet = folder or find()
    except NoFleetError:
        if os.environ.get(VARIABLE):
            raise
        return (
            f"no --{socket} ADDRESS is given, and no demo runs here, or not yet: start one with "
            "'make demo ARGS=--keep'"
        )
    return (
        f"give either --{socket} ADDRESS or --iad NAME: commands here are for the fleet of "
        f"{fleet.inventory}, and no demo is asked"
    )


def _given(key: str | None, server_keys: str | None) -> KeyFiles | None:
    if (key is None) != (server_keys is None):
        raise click.UsageError("--key and --server-keys come together")
    if key is None or server_keys is None:
        return None
    from agent.net.keys import KeyFiles

    return KeyFiles(key, server_keys)
