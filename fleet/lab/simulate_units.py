"""The pieces of work of `fleet lab simulate`: what one process does with one drawn trace, and in
which order the pieces are handed out."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.base import Policy
from fleet.lab.simulate_points import KeptResults, Key, Result
from fleet.lab.simulate_run import FIRST_GUESS_PER_S, Setting, World
from fleet.lab.simulate_workers import Say


class Unit(Struct, frozen=True):
    """What is left to do with one trace. `starts_per_s`: first guesses of searches, by policy."""

    setting: Setting
    keys: tuple[Key, ...]
    starts_per_s: dict[Policy, float]


class Begun(Struct, frozen=True):
    """Said by a process when it begins with a result."""

    key: Key


def work(unit: Unit, say: Say) -> None:
    """Draw the unit's trace, then do its searches and curves; says each `Result`."""
    say(Begun(unit.keys[0]))
    world = World(unit.setting)
    for key in unit.keys:
        say(Begun(key))
        if key.loads_per_s is None:
            start_per_s = unit.starts_per_s.get(key.policy, FIRST_GUESS_PER_S)
            load_per_s, points = world.search(key.policy, start_per_s)
            say(Result(key, load_per_s, tuple(points)))
        else:
            curve = tuple(world.point(key.policy, load) for load in key.loads_per_s)
            say(Result(key, None, curve))


class Campaign:
    """All results that are asked for, and those among them that are still to be made.

    `first_seed` of a fleet goes before its other seeds: their searches start from its answers.
    """

    def __init__(self, keys: Sequence[Key], kept: KeptResults, first_seed: int) -> None:
        self.keys = keys
        self._kept = kept
        self._first_seed = first_seed
        self._waiting: dict[Setting, list[Key]] = {}
        for key in self.missing():
            self._waiting.setdefault(key.setting, []).append(key)
        self._under_way: set[Setting] = set()

    def missing(self) -> list[Key]:
        """What is asked for and not there yet."""
        return [key for key in self.keys if self._kept.get(key) is None]

    def results(self) -> list[Result]:
        """What is asked for and there."""
        return [result for key in self.keys if (result := self._kept.get(key)) is not None]

    def next_unit(self) -> Unit | None:
        """A unit that can be begun now; None if there is none."""
        for setting, keys in self._waiting.items():
            first = replace(setting, seed=self._first_seed)
            if first != setting and (first in self._waiting or first in self._under_way):
                continue
            del self._waiting[setting]
            self._under_way.add(setting)
            return Unit(setting, tuple(keys), self._answers(first))
        return None

    def done(self, unit: Unit) -> None:
        """A unit is finished: others may wait for it."""
        self._under_way.discard(unit.setting)

    def take(self, result: Result) -> None:
        """Keep a result."""
        self._kept.add(result)

    def _answers(self, setting: Setting) -> dict[Policy, float]:
        answers: dict[Policy, float] = {}
        for key in self.keys:
            result = self._kept.get(key) if key.setting == setting else None
            if result is not None and result.load_per_s:
                answers[key.policy] = result.load_per_s
        return answers
