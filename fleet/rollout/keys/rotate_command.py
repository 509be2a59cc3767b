"""`fleet keys rotate`: selects the parties and reports the outcome."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from msgspec import Struct

from agent.wire.listing import few
from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean
from fleet.inventory.parties import CLIENT, OPERATOR, HostOf, Party
from fleet.inventory.selection import select
from fleet.keys.errors import KeyStoreError
from fleet.keys.rotation import OVERLAP_S, State
from fleet.keys.store import Store
from fleet.rollout.keys.push import pusher
from fleet.rollout.keys.rotate import Result, Rotator
from fleet.terminal import output

MAX_NAMED: Final = 6  # parties in a line


class Asked(NamedTuple):
    """Options of the command line."""

    iads: tuple[str, ...]
    groups: tuple[str, ...]
    limit: str
    persons: tuple[str, ...]
    without: str
    overlap_s: float | None

    @property
    def selects(self) -> bool:
        """Whether any party was selected."""
        return bool(self.iads or self.groups or self.limit or self.persons)


class HeldUp(Struct, frozen=True):
    """A party that is not done: its stage (announced, switched, forgotten), and the hosts that it
    waits for."""

    party: str
    stage: str
    hosts: tuple[str, ...]


class Rotated(Struct, frozen=True):
    """The document of `fleet keys rotate --json`. `errors` are by host."""

    rotated: tuple[str, ...]
    held: tuple[HeldUp, ...]
    errors: dict[str, str]


def run(
    folder: Folder, asked: Asked, lifetime_s: float, parallel: int, *, yes: bool, as_json: bool
) -> int:
    """Rotate; the exit status."""
    fleet = load(folder)
    store = Store(folder)
    rotator = Rotator(
        store,
        fleet,
        pusher(folder, fleet),
        output.say,
        parallel=parallel,
        lifetime=timedelta(seconds=lifetime_s),
    )
    left = select(fleet, limit=asked.without) if asked.without else []
    state = _state(rotator, store, fleet, asked)
    _warn(fleet, state)
    _warn_of(left)
    names = few([str(each.party) for each in state.members], MAX_NAMED)
    if not output.confirm(f"Rotate the keys of {names}?", yes=yes):
        return exits.NOTHING
    try:
        result = rotator.run(state, [host.name for host in left])
    except KeyboardInterrupt:
        if rotator.under_way() is None:
            raise
        return exits.fail(
            "interrupted; old and new keys work on side by side: fleet keys rotate continues",
            exits.INTERRUPTED,
        )
    _print(result, as_json=as_json)
    if left:
        names = ",".join(host.name for host in left)
        output.say(f"left behind with old keys; when back: fleet deploy --limit '{names}'")
    if not result.held:
        return exits.DONE
    return exits.FAILED if state.given else exits.NOTHING


def _state(rotator: Rotator, store: Store, fleet: Inventory, asked: Asked) -> State:
    """The rotation in progress, or a new one."""
    state = rotator.under_way()
    if state is None:
        gone = {each.party for each in store.revocations()}
        chosen = [party for party in _chosen(fleet, asked) if party not in gone]
        if not chosen:
            raise KeyStoreError("all of these were revoked; fleet keys reinstate comes first")
        overlap_s = OVERLAP_S if asked.overlap_s is None else asked.overlap_s
        return rotator.begin(chosen, overlap_s)
    if asked.selects:
        raise KeyStoreError(
            "a rotation is on its way: run fleet keys rotate alone to go on with it, and then this"
        )
    output.say("going on with the rotation that was begun")
    if asked.overlap_s is not None:
        state.overlap_s = asked.overlap_s
    return state


def _chosen(fleet: Inventory, asked: Asked) -> Iterator[Party]:
    if not asked.selects:
        yield from (OPERATOR, CLIENT)
    if not asked.persons or asked.iads or asked.groups or asked.limit:
        chosen = select(fleet, iads=asked.iads, groups=asked.groups, limit=asked.limit)
        yield from (host.party for host in chosen)
    known = {person.name: person for person in fleet.person}
    for name in asked.persons:
        if name not in known:
            near = did_you_mean(name, list(known))
            raise KeyStoreError(f"there is no person {name}; {near}")
        yield from (Party(role, name) for role in known[name].roles)


def _warn(fleet: Inventory, state: State) -> None:
    """Name the people who must be given their new files, because this command only writes to
    hosts."""
    people = [person.name for person in fleet.person]
    if people and any(each.role == "master" for each in state.members):
        output.say(
            f"masters get new keys: give {', '.join(people)} their files (fleet keys export) once "
            "they are announced, or they cannot connect after the switch; --overlap 7d gives time"
        )
    own = {each.name for each in state.members if each.name in people}
    for name in sorted(own):
        output.say(f"{name} gets a new key: give it to them within the overlap (fleet keys export)")


def _warn_of(left: Sequence[HostOf]) -> None:
    """Say what leaving masters behind means, which may be running."""
    for master in [host for host in left if host.node is None]:
        output.say(
            f"{master.name} is left behind: other masters, persons and this command do not reach "
            f"it with new keys before fleet deploy --limit {master.name}; its nodes keep their "
            "keys, and serve it"
        )


def _print(result: Result, *, as_json: bool) -> None:
    for held in result.held:
        output.say(
            f"{held.party} has {held.stage.name.lower()} its new key, and waits for "
            f"{', '.join(held.hosts)}"
        )
    if result.held:
        output.say(
            "run fleet keys rotate again when they are back, or with --without to leave them behind"
        )
    if as_json:
        output.write_json(
            Rotated(
                tuple(str(party) for party in result.through),
                tuple(
                    HeldUp(str(each.party), each.stage.name.lower(), each.hosts)
                    for each in result.held
                ),
                {name: str(error) for name, error in result.errors.items()},
            )
        )
        return
    sys.stdout.write(f"{len(result.through)} of {len(result.through) + len(result.held)} parties ")
    sys.stdout.write("have a new key alone\n")
