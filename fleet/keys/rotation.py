"""State machine of key rotation without restarts or lost queries: announce, switch, forget.

Each party has a stage, and each host what it was given last of every party whose keys stand in its
files. A party goes on when all hosts that it concerns have its stage, and `overlap_s` has passed
since the last of them got it. So at any time any two parties share a pair of keys, whichever
hosts have which files:

    stage      its key file    what others have
    announced  [old, new]      [old, new]       whoever is to let the new key in knows it
    switched   [new, old]      [new, old]       connections made now use the new key
    forgotten  [new]           [new]

A node is given its files after its master, `settle_s` later: it connects anew when its own key
changes, and shall find the master with the key that stands first in its file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from fleet.inventory.effective import homes_of
from fleet.inventory.model import Inventory
from fleet.inventory.parties import MASTER, HostOf, Party, hosts

OVERLAP_S: Final = 30.0
# Agents check their files once a second.
SETTLE_S: Final = 3.0


class Stage(IntEnum):
    """The stage of a party's rotation; a party without one has only its old key."""

    ANNOUNCED = 1
    SWITCHED = 2
    FORGOTTEN = 3


class Member(msgspec.Struct):
    """A party that gets a new key. `complete_s`: since when all hosts concerned have its stage."""

    role: str
    name: str
    stage: Stage
    complete_s: float | None = None

    @property
    def party(self) -> Party:
        """Identity of the party."""
        return Party(self.role, self.name)  # type: ignore[arg-type]  # as it was written


class Given(msgspec.Struct):
    """State that a host was given last, and when: the parties' stages, by name of the party."""

    stages: dict[str, Stage] = {}
    time_s: float = 0.0


class State(msgspec.Struct):
    """A rotation in progress; kept in a file, times in seconds since the epoch."""

    members: list[Member]
    overlap_s: float = OVERLAP_S
    given: dict[str, Given] = {}


class Fleet(NamedTuple):
    """The hosts concerned: for each party the hosts whose files contain its keys; for each node's
    host those of the masters that it may connect to."""

    concerned: Mapping[Party, frozenset[str]]
    masters_of: Mapping[str, frozenset[str]]

    def keeping(self, without: Collection[str]) -> frozenset[str]:
        """The hosts that keep their keys if these get no files: they themselves, and the nodes of
        masters among them. Such a master may be running; it would refuse a node's new key."""
        nodes = [n for n, masters in self.masters_of.items() if not masters.isdisjoint(without)]
        return frozenset(without) | frozenset(nodes)


# --- instructions --------------------------------------------------------------------------------


class Advance(NamedTuple):
    """Apply this stage of the party to the key store and save the state, before anything else."""

    party: Party
    stage: Stage


class Push(NamedTuple):
    """Write the host's current files to it; then report Pushed or Failed."""

    host: str


class Wait(NamedTuple):
    """There is nothing to do before this time."""

    until_s: float


class Held(NamedTuple):
    """There is nothing more to do: these hosts hold up the party."""

    party: Party
    stage: Stage
    hosts: tuple[str, ...]


Instruction = Advance | Push | Wait | Held


# --- events --------------------------------------------------------------------------------------


class Pushed(NamedTuple):
    """The host has the requested files."""

    host: str


class Failed(NamedTuple):
    """The host could not be given its files; it is not tried again before `Retry`."""

    host: str


class Retry(NamedTuple):
    """Hosts that failed may be reachable again."""


class Dropped(NamedTuple):
    """The party was revoked and leaves the rotation; its host, if it has one, is not waited for."""

    party: Party
    host: str = ""


Event = Pushed | Failed | Retry | Dropped


def begin(chosen: Mapping[Party, Stage], overlap_s: float = OVERLAP_S) -> State:
    """A rotation of these parties, each starting at its given stage: ANNOUNCED, or the stage where
    an abandoned rotation left it."""
    return State([Member(*party, stage) for party, stage in chosen.items()], overlap_s)


class Rotation:
    """`decide(now)` returns the next steps, `handle(event, now)` takes their outcome. `without` are
    hosts that are not waited for: they get their keys with their next deployment."""

    def __init__(self, state: State, fleet: Fleet, without: Collection[str] = ()) -> None:
        self.state = state
        self._fleet = fleet
        self._without = frozenset(without)
        self._failed: set[str] = set()
        known = fleet.concerned
        state.members = [each for each in state.members if each.party in known]

    @property
    def through(self) -> bool:
        """Whether every party has only its new key, everywhere."""
        return all(self._complete(each) and _last(each) for each in self.state.members)

    def decide(self, now: float) -> list[Instruction]:
        """The next steps at `now`: hosts to push files to; if there are none, the time to wait;
        otherwise parties that advance; otherwise the parties that are held up. Empty: `through`.
        O(parties · hosts of each).

        All parties that can advance do so together, so that a host gets the files of a stage only
        once.
        """
        self._note(now)
        behind = {host for each in self.state.members for host in self._behind(each)}
        turns = {host: self._turn_s(host, behind) for host in behind - self._failed}
        if pushes := [Push(host) for host, turn_s in turns.items() if turn_s <= now]:
            return sorted(pushes)
        going = [each for each in self.state.members if self._due_s(each) < _NEVER]
        if coming_s := [turn_s for turn_s in turns.values() if turn_s < _NEVER]:
            return [Wait(min(coming_s))]
        if (last_s := max(map(self._due_s, going), default=now)) > now:
            return [Wait(last_s)]
        for each in going:
            each.stage, each.complete_s = Stage(each.stage + 1), None
        return [Advance(each.party, each.stage) for each in going] or [
            Held(each.party, each.stage, tuple(sorted(self._behind(each))))
            for each in self.state.members
            if not self._complete(each)
        ]

    def handle(self, event: Event, now: float) -> None:
        """Take note."""
        match event:
            case Pushed(host):
                self._failed.discard(host)
                self.state.given[host] = Given(
                    {
                        str(each.party): each.stage
                        for each in self.state.members
                        if host in self._fleet.concerned[each.party]
                    },
                    now,
                )
            case Failed(host):
                self._failed.add(host)
            case Retry():
                self._failed.clear()
            case Dropped(party, host):
                self.state.members = [e for e in self.state.members if e.party != party]
                self._without |= {host}
        self._note(now)

    def _note(self, now: float) -> None:
        """Record since when parties are complete. If the clock was set back, the overlap starts
        over."""
        for given in self.state.given.values():
            given.time_s = min(given.time_s, now)
        for each in self.state.members:
            if not self._complete(each):
                each.complete_s = None
            else:
                each.complete_s = now if each.complete_s is None else min(each.complete_s, now)

    def _behind(self, member: Member) -> frozenset[str]:
        """The hosts that do not have the party's stage yet."""
        name = str(member.party)
        given = self.state.given
        return frozenset(
            host
            for host in self._fleet.concerned[member.party] - self._without
            if host not in given or given[host].stages.get(name, 0) < member.stage
        )

    def _complete(self, member: Member) -> bool:
        return not self._behind(member)

    def _due_s(self, member: Member) -> float:
        """When it goes on."""
        if member.complete_s is None or _last(member):
            return _NEVER
        return member.complete_s + self.state.overlap_s

    def _turn_s(self, host: str, behind: Collection[str]) -> float:
        """When the host may be given its files: after its masters' hosts."""
        masters = self._fleet.masters_of.get(host, frozenset()) - self._without
        if not masters.isdisjoint(behind):
            return _NEVER
        given = [self.state.given[each] for each in masters if each in self.state.given]
        return max([each.time_s + SETTLE_S for each in given], default=0.0)


_NEVER: Final = float("inf")


def _last(member: Member) -> bool:
    return member.stage is Stage.FORGOTTEN


def fleet_of(fleet: Inventory, revoked: Collection[Party] = ()) -> Fleet:
    """The hosts concerned by each party's keys. A revoked party has no valid key, and no host."""
    everywhere = [host for host in hosts(fleet) if host.party not in revoked]
    homes = {host.name: _homes(fleet, host) for host in everywhere if host.node}
    masters = frozenset(host.name for host in everywhere if host.node is None)
    concerned: dict[Party, frozenset[str]] = {}
    for host in everywhere:
        if host.node is None:
            at_home = [name for name, of_node in homes.items() if host.name in of_node]
            concerned[host.party] = masters | frozenset(at_home)
        else:
            concerned[host.party] = (homes[host.name] & masters) | {host.name}
    people = [Party(role, person.name) for person in fleet.person for role in person.roles]
    for party in (Party("operator", "fleet"), Party("client", "fleet"), *people):
        if party not in revoked:
            concerned[party] = masters
    return Fleet(concerned, homes)


def _homes(fleet: Inventory, host: HostOf) -> frozenset[str]:
    """The hosts of the masters that may be a node's home."""
    assert host.node is not None
    homes = homes_of(fleet, host.node)
    iads = (host.iad.name, *(homes.other if homes else ()))
    return frozenset([f"{iad}/{MASTER}" for iad in iads])
