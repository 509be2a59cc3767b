"""Units of work of `fleet lab simulate`: the work of one process on one drawn trace, and the order
of units."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from lab.simulation.contenders import CONTENDERS
from lab.simulation.points import KeptResults, Key, Result
from lab.simulation.run import FIRST_GUESS_PER_S, Setting, World
from lab.simulation.training import is_training, train, training_of
from lab.simulation.workers import Say


class Unit(Struct, frozen=True):
    """The remaining work on one trace. `starts_per_s`: initial guesses of searches, by contender;
    `advances_s`: those of each class, by training run."""

    setting: Setting
    keys: tuple[Key, ...]
    starts_per_s: dict[str, float]
    advances_s: dict[str, tuple[float, ...]]


class Begun(Struct, frozen=True):
    """Message of a process that begins a result."""

    key: Key


def work(unit: Unit, say: Say) -> None:
    """Draw the unit's trace, then do its searches and curves; emits each `Result`."""
    say(Begun(unit.keys[0]))
    world = World(unit.setting)
    for key in unit.keys:
        say(Begun(key))
        say(train(world, key) if is_training(unit.setting) else _measure(world, key, unit))


def _measure(world: World, key: Key, unit: Unit) -> Result:
    name = key.contender
    advance_s = unit.advances_s.get(CONTENDERS[name].trained_as or "", ())
    if key.loads_per_s is not None:
        curve = tuple(world.point(name, load, advance_s) for load in key.loads_per_s)
        return Result(key, None, curve)
    start_per_s = unit.starts_per_s.get(name, FIRST_GUESS_PER_S)
    load_per_s, points = world.search(name, start_per_s, advance_s)
    return Result(key, load_per_s, tuple(points))


class Campaign:
    """All requested results, and those that are still to be computed.

    The training run of a fleet precedes its seeds, and `first_seed` the others: their searches
    start from its answers.
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
        """Requested results that are missing."""
        return [key for key in self.keys if self._kept.get(key) is None]

    def results(self) -> list[Result]:
        """Requested results that are available."""
        return [result for key in self.keys if (result := self._kept.get(key)) is not None]

    def next_unit(self) -> Unit | None:
        """A unit whose prerequisites are complete; None if there is none."""
        for setting, keys in self._waiting.items():
            first = replace(setting, seed=self._first_seed)
            training = training_of(setting)
            before = set() if is_training(setting) else {training, first} - {setting}
            if any(other in self._waiting or other in self._under_way for other in before):
                continue
            del self._waiting[setting]
            self._under_way.add(setting)
            advances = self._advances(training)
            return Unit(setting, tuple(keys), self._answers(first), advances)
        return None

    def done(self, unit: Unit) -> None:
        """A unit is complete: others may depend on it."""
        self._under_way.discard(unit.setting)

    def take(self, result: Result) -> None:
        """Store a result."""
        self._kept.add(result)

    def _answers(self, setting: Setting) -> dict[str, float]:
        return {
            result.key.contender: result.load_per_s
            for result in self._results_of(setting)
            if result.load_per_s
        }

    def _advances(self, training: Setting) -> dict[str, tuple[float, ...]]:
        return {result.key.contender: result.advance_s for result in self._results_of(training)}

    def _results_of(self, setting: Setting) -> list[Result]:
        return [
            result
            for key in self.keys
            if key.setting == setting and (result := self._kept.get(key)) is not None
        ]
