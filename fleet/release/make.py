"""`fleet release build`: builds a release of this checkout for a fleet's targets."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.parties import hosts
from fleet.release import bundle, listing
from fleet.release.target import PYTHON_OF, Target
from fleet.terminal.output import once, say, write_json


def run(
    folder: Folder,
    machines: Iterable[str],
    suites: Iterable[str],
    pythons: Iterable[str],
    *,
    as_json: bool,
) -> int:
    """Build the releases that are not stored yet; returns the exit status. ReleaseError."""
    chosen = tuple(dict.fromkeys(machines)) or machines_of(load(folder))
    versions = tuple(pythons) or tuple(PYTHON_OF[suite] for suite in suites) or ("3.11",)
    targets = [Target(machine, python) for machine in chosen for python in dict.fromkeys(versions)]
    say_new = once(say)
    made = [bundle.build(folder, target, say=say_new) for target in targets]
    document = listing.document(made, listing.current())
    if as_json:
        write_json(document)
    else:
        listing.show(document)
    return exits.DONE


def machines_of(fleet: Inventory) -> tuple[str, ...]:
    """Architectures of the fleet's hosts: a Pi's, and for other hosts this machine's own."""
    found = set()
    for host in hosts(fleet):
        if host.node is not None and host.node.model != "host":
            found.add("aarch64")
        elif not host.is_local:
            found.add(platform.machine())
    return tuple(sorted(found))
