"""Distributes key files and allow-lists from the key store to hosts: over SSH, or into the folder
of a local master."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fleet.inventory.files import CONFIGURATION, HostFile, files_of
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf, Keys
from fleet.keys.errors import KeyStoreError
from fleet.keys.private_files import write_file
from fleet.keys.store import Store
from fleet.ssh.errors import HostError
from fleet.ssh.fanout import Told, for_each
from fleet.terminal import output

# (host, its files in the order in which to write them). HostError.
Push = Callable[[HostOf, Sequence[HostFile]], None]


def key_files_of(fleet: Inventory, host: HostOf, keys: Keys) -> list[HostFile]:
    """The files that agents reload by themselves. Secret ones come last: an agent that reconnects
    because its own key changed must find the others' keys already."""
    found = [file for file in files_of(fleet, host, keys) if not file.restart]
    return sorted(found, key=lambda file: file.secret)


def pusher(folder: Folder, fleet: Inventory) -> Push:
    """The function that writes files to the hosts of this fleet."""

    def push(host: HostOf, files: Sequence[HostFile]) -> None:
        if host.is_local:
            write_local(folder.master(host.iad.name), files)
        else:
            write_remote(folder, fleet, host, files)

    return push


def write_local(folder: Path, files: Sequence[HostFile]) -> None:
    """Write files of a master on this machine. HostError."""
    for file in files:
        path = folder / file.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_file() or path.read_bytes() != file.content:
                write_file(path, file.content, file.mode)
        except KeyStoreError as error:
            raise HostError("failed", str(error)) from None
        except OSError as error:
            raise HostError("failed", f"{path}: {error.strerror}") from None


def write_remote(folder: Folder, fleet: Inventory, host: HostOf, files: Sequence[HostFile]) -> None:
    """Write files on a host over SSH. HostError."""
    # importing paramiko takes 0.2 s, which a fleet of local masters can save
    from fleet.ssh.connect import open_host
    from fleet.ssh.remote import run_program

    with open_host(folder, fleet, host) as connection:
        run_program(connection, request_of(host, files))


def request_of(host: HostOf, files: Sequence[HostFile]) -> dict[str, Any]:
    """The request to the program on the host."""
    return {
        "do": "write",
        "unit": host.unit,
        "files": [
            {
                "path": f"{CONFIGURATION}/{file.path}",
                "content": base64.b64encode(file.content).decode("ascii"),
                "mode": file.mode,
                "owner": file.owner,
            }
            for file in files
        ],
    }


def give(
    store: Store, fleet: Inventory, concerned: Sequence[HostOf], push: Push
) -> list[tuple[HostOf, HostError | None]]:
    """Write the current key files and allow-lists to hosts; returns the error of each that
    failed."""

    def work(host: HostOf) -> None:
        give_to(store, fleet, host, push)

    return [
        (each.host, each.error) for each in for_each(concerned, work, progress=Told(output.say))
    ]


def give_to(store: Store, fleet: Inventory, host: HostOf, push: Push) -> None:
    """Write one host's files; repeat if a party was revoked meanwhile, because the files read
    before may have been written after those of the revocation."""
    while True:
        known = store.revocations()
        push(host, key_files_of(fleet, host, store))
        if store.revocations() == known:
            return
