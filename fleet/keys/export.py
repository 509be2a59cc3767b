"""`fleet keys export`: writes the key files that a person needs."""

from __future__ import annotations

import sys
from pathlib import Path

from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.parties import Party
from fleet.keys.errors import KeyStoreError
from fleet.keys.named import named
from fleet.keys.private_files import make_private, write_file
from fleet.keys.store import Store, host_name


def run(folder: Folder, name: str, into: Path) -> int:
    """Write the files; the exit status."""
    files = export(Store(folder), load(folder), name, into)
    sys.stdout.write(f"{into}: {', '.join(files)}\n")
    return exits.DONE


def export(store: Store, fleet: Inventory, name: str, into: Path) -> list[str]:
    """Write a person's secret keys, and the public keys of all masters; the files' names."""
    chosen = named(fleet, name)
    if any(host_name(party) for party in chosen):
        raise KeyStoreError(f"{name} is a host; fleet deploy gives it its keys")
    files = {f"{party.role}.secret": store.secret_file(party) for party in chosen}
    for iad in fleet.iad:
        files[f"{iad.name}.public"] = store.public_file(Party("master", iad.name))
    if into.is_dir() and into.stat().st_mode & 0o077:
        # To close it, as a folder of the store, may be wrong: it may be /tmp.
        raise KeyStoreError(f"others may read {into}; name a folder that is not there yet")
    make_private(into)
    for file, content in files.items():
        write_file(into / file, content, 0o600 if file.endswith(".secret") else 0o644)
    return list(files)
