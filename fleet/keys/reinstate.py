"""`fleet keys reinstate`: issues new keys to a revoked party."""

from __future__ import annotations

import sys

from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.keys.named import named
from fleet.keys.store import Store, host_name


def run(folder: Folder, name: str) -> int:
    """Reinstate; the exit status."""
    fleet = load(folder)
    store = Store(folder)
    chosen = named(fleet, name)
    found = [store.reinstate(fleet, party) for party in chosen]
    if not any(found):
        sys.stdout.write(f"{name} was not revoked\n")
        return exits.DONE
    following = "fleet keys export gives a person theirs, after fleet deploy for the masters"
    if any(host_name(party) for party in chosen):
        following = "flash its card, or deploy to it and its master"
    sys.stdout.write(f"{name} has new keys; {following}\n")
    return exits.DONE
