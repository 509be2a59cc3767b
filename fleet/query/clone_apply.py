"""Changes that give a master the clones of its inventory. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import fields

from agent.wire.clones import CloneOf, CloneStatus

# Filled in by the master.
ITS_OWN = frozenset({"areas"})
# Of clones that an operator ended, and that are not gone yet.
ENDING = "ending"


class Changes(Struct, frozen=True):
    """`create`: these are missing. `differ`: of these devices, the keys in which the clone there is
    another one, each with what is there and what is wanted. `others`: devices with a clone that is
    not wanted."""

    create: tuple[CloneOf, ...]
    differ: dict[str, dict[str, tuple[object, object]]]
    others: tuple[str, ...]


def changes(wanted: Iterable[CloneOf], there: Iterable[CloneStatus]) -> Changes:
    """The changes, in the order of `wanted`. O(both)."""
    known = {each.clone.device: each.clone for each in there if each.state != ENDING}
    create, differ = [], {}
    for clone in wanted:
        found = known.pop(clone.device, None)
        if found is None:
            create.append(clone)
        elif other := _difference(found, clone):
            differ[clone.device] = other
    return Changes(tuple(create), differ, tuple(sorted(known)))


def _difference(there: CloneOf, wanted: CloneOf) -> dict[str, tuple[object, object]]:
    pairs = {
        field.name: (getattr(there, field.name), getattr(wanted, field.name))
        for field in fields(CloneOf)
        if field.name not in ITS_OWN
    }
    # Their order means nothing.
    pairs["peers"] = (sorted(there.peers), sorted(wanted.peers))
    pairs["channels"] = (sorted(there.channels), sorted(wanted.channels))
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
