"""Executes a key rotation: connects its state machine to the store, the hosts and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf, Party, hosts
from fleet.keys import curve, rotation, stages
from fleet.keys.errors import KeyStoreError
from fleet.keys.private_files import (
    read_private,
    remove_file,
    write_file,
)
from fleet.keys.rotation import Advance, Held, Rotation, Stage, State
from fleet.keys.store import Store, host_name
from fleet.rollout.keys.push import Push, give_to
from fleet.ssh.errors import HostError
from fleet.ssh.fanout import PARALLEL, Told, for_each

WORDS = {
    Stage.ANNOUNCED: "announced",
    Stage.SWITCHED: "switched to",
    Stage.FORGOTTEN: "alone in force",
}


class Result(NamedTuple):
    """Outcome of a rotation: parties that are done, parties that are held up and by which hosts,
    and why hosts could not be given their files."""

    through: tuple[Party, ...]
    held: tuple[Held, ...]
    errors: dict[str, HostError]


def _sleep_until(time_s: float) -> None:
    time.sleep(max(0.0, time_s - time.time()))


class Rotator:
    """Rotates keys in `store` and writes them to hosts with `push`. `say` takes lines for people.

    The state is written to keys/rotation.json before each step, and steps may be repeated, so that
    `run` continues after any interruption.
    """

    def __init__(
        self,
        store: Store,
        fleet: Inventory,
        push: Push,
        say: Callable[[str], object],
        *,
        parallel: int = PARALLEL,
        lifetime: timedelta = curve.LIFETIME,
        clock: Callable[[], float] = time.time,
        wait_until: Callable[[float], object] = _sleep_until,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._push = push
        self._say = say
        self._parallel = parallel
        self._lifetime = lifetime
        self._clock = clock
        self._wait_until = wait_until
        self._path = store.folder.keys / "rotation.json"
        self._hosts = {host.name: host for host in hosts(fleet)}
        self._errors: dict[str, HostError] = {}
        self._seen: bytes | None = None  # the file of the state, when it was read

    def under_way(self) -> State | None:
        """The rotation in progress; None if there is none."""
        self._seen = read_private(self._path)
        return stages.read_state(self._path)

    def begin(self, chosen: Iterable[Party], overlap_s: float = rotation.OVERLAP_S) -> State:
        """Start a rotation of these parties; changes nothing yet. KeyStoreError for one without
        keys."""
        found: dict[Party, Stage] = {}
        for party in chosen:
            if not (keys := self._store.keys(party)):
                raise KeyStoreError(
                    f"{party} has no key yet; fleet keys init makes what is missing"
                )
            found[party] = stages.stage_of(keys)
        return rotation.begin(found, overlap_s)

    def run(self, state: State, without: Collection[str] = ()) -> Result:
        """Rotate until all parties are done, or held up by unreachable hosts.

        KeyStoreError if another rotation is running or was since `state` was read, or the store
        cannot be written.
        """
        with self._store.rotating():
            if read_private(self._path) != self._seen:
                raise KeyStoreError(
                    "another command went on with the rotation of keys meanwhile; run this again"
                )
            return self._run(state, frozenset(without))

    def _run(self, state: State, without: frozenset[str]) -> Result:
        out = [each.party for each in self._store.revocations()]
        who = rotation.fleet_of(self._fleet, out)
        machine = Rotation(state, who, without)
        for name in who.keeping(without):
            machine.handle(rotation.Dropped(self._hosts[name].party), self._clock())
        chosen = [each.party for each in state.members]
        self._keep(state)
        self._bring([Advance(each.party, each.stage) for each in state.members])
        while True:
            for each in self._store.revocations():
                gone = rotation.Dropped(each.party, host_name(each.party))
                machine.handle(gone, self._clock())
            todo = machine.decide(self._clock())
            if not todo or isinstance(todo[0], Held):
                return self._end(machine, chosen, [each for each in todo if isinstance(each, Held)])
            self._do(machine, state, todo)

    def _do(self, machine: Rotation, state: State, todo: Sequence[rotation.Instruction]) -> None:
        """One turn; all instructions of a turn have the same type."""
        match todo[0]:
            case Advance():
                self._keep(state)
                self._bring([each for each in todo if isinstance(each, Advance)])
                machine.handle(rotation.Retry(), self._clock())
            case rotation.Push():
                names = [each.host for each in todo if isinstance(each, rotation.Push)]
                self._give(machine, names)
                self._keep(state)
            case rotation.Wait(until_s):
                if until_s - self._clock() > 1.0:
                    self._say(f"waiting for {until_s - self._clock():.0f} s")
                self._wait_until(until_s)

    def _bring(self, steps: Sequence[Advance]) -> None:
        """Apply the parties' stages to the key store."""
        now = datetime.fromtimestamp(self._clock(), UTC)
        for party, stage in steps:
            self._store.replace_keys(
                party, partial(stages.bring, stage=stage, now=now, lifetime=self._lifetime)
            )
        for stage in Stage:
            if count := sum(each.stage is stage for each in steps):
                keys = "1 new key is" if count == 1 else f"{count} new keys are"
                self._say(f"{keys} {WORDS[stage]}")

    def _give(self, machine: Rotation, names: Sequence[str]) -> None:
        def work(host: HostOf) -> None:
            give_to(self._store, self._fleet, host, self._push)

        chosen = [self._hosts[name] for name in names]
        for outcome in for_each(chosen, work, parallel=self._parallel, progress=Told(self._say)):
            name, error = outcome.host.name, outcome.error
            if error is None:
                self._errors.pop(name, None)
                machine.handle(rotation.Pushed(name), self._clock())
                continue
            if name not in self._errors:
                self._say(f"{name}: {error}")
            self._errors[name] = error
            machine.handle(rotation.Failed(name), self._clock())

    def _end(self, machine: Rotation, chosen: Sequence[Party], held: Sequence[Held]) -> Result:
        waiting = {each.party for each in held}
        members = {each.party for each in machine.state.members}
        if machine.through:
            remove_file(self._path)
        else:
            self._keep(machine.state)
        through = tuple(party for party in chosen if party in members - waiting)
        return Result(through, tuple(held), dict(self._errors))

    def _keep(self, state: State) -> None:
        write_file(self._path, msgspec.json.encode(state))
