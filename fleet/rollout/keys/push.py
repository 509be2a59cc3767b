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
from fleet.ssh.fanout import for_each

# (host, its files in the order in which they are to be written). HostError.
Push = Callable[[HostOf, Sequence[HostFile]], None]


def key_files_of(fleet: Inventory, host: HostOf, keys: Keys) -> list[HostFile]:
    """The files that agents look at by themselves. Secret ones last: whoever connects anew because
    its own key changed shall find the others' keys already."""
    found = [file for file in files_of(fleet, host, keys) if not file.restart]
    return sorted(found, key=lambda file: file.secret)


def pusher(folder: Folder, fleet: Inventory) -> Push:
    """What gives files to the hosts of this fleet."""

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
    # paramiko takes 0.2 s, which a fleet of local masters need not wait for.
    from fleet.ssh.connect import open_host
    from fleet.ssh.remote import run_program

    with open_host(folder, fleet, host) as connection:
        run_program(connection, request_of(host, files))


def request_of(host: HostOf, files: Sequence[HostFile]) -> dict[str, Any]:
    """What the program on the host is asked."""
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
    """Give hosts their key files and allow-lists as they are now; the error of each that failed."""

    def work(host: HostOf) -> None:
        give_to(store, fleet, host, push)

    return [(each.host, each.error) for each in for_each(concerned, work)]


def give_to(store: Store, fleet: Inventory, host: HostOf, push: Push) -> None:
    """Give one host its files; again if somebody was revoked meanwhile, since what was read before
    may have come after that revocation's own files."""
    while True:
        known = store.revocations()
        push(host, key_files_of(fleet, host, store))
        if store.revocations() == known:
            return
