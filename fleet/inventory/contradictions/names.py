"""Validation of names: unique, and not reserved."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from fleet.inventory.model import Inventory
from fleet.inventory.parties import CLIENT, MASTER, hostname_of, hosts

# Names are used for files and folders.
NO_FILES: Final = (".", "..")


def check(fleet: Inventory) -> Iterator[str]:
    """Names used twice among IADs, nodes, groups, persons and jump hosts, and reserved names."""
    yield from _alike("IADs", [iad.name for iad in fleet.iad])
    yield from _alike("groups", [group.name for group in fleet.group])
    yield from _alike("persons", [person.name for person in fleet.person])
    yield from _alike("jump hosts", [jump.name for jump in fleet.jump])
    for kind, names in (
        ("an IAD", [iad.name for iad in fleet.iad]),
        ("a group", [group.name for group in fleet.group]),
        ("a person", [person.name for person in fleet.person]),
        ("a jump host", [jump.name for jump in fleet.jump]),
    ):
        yield from (f"{kind} cannot be called {name}" for name in names if name in NO_FILES)
    for person in fleet.person:
        if person.name == CLIENT.name:
            yield (
                f"person {person.name}: that is who the command `fleet` itself is to masters; "
                "choose another name"
            )
    for iad in fleet.iad:
        yield from _alike(f"nodes of {iad.name}", [node.name for node in iad.node])
        for node in iad.node:
            if node.name == MASTER:
                yield (
                    f"{iad.name}: a node cannot be called {MASTER}, for {iad.name}/{MASTER} is the "
                    "master's host"
                )
            elif node.name in NO_FILES:
                yield f"{iad.name}: a node cannot be called {node.name}"


def one_host_name(fleet: Inventory) -> Iterator[str]:
    """Hosts that a card would give the same host name."""
    called: dict[str, list[str]] = {}
    for host in hosts(fleet):
        if not host.is_local:
            called.setdefault(hostname_of(host.name), []).append(host.name)
    for hostname, names in called.items():
        for a, b in itertools.pairwise(names):
            yield (
                f"{a} and {b} both get the host name {hostname} on their cards, where only letters "
                "of one case, digits and - count: rename one"
            )


def _alike(what: str, names: Iterable[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    for name, count in seen.items():
        if count > 1:
            yield f"{'two' if count == 2 else count} {what} are called {name}"
