"""Exhaustive search: every moment of a world that can follow from the start, each visited once.

``python -m tests.placement.exploration MESSAGES CRASHES PARTITIONS SLOW [ISOLATED] [LINGERS]``
explores a world of that size; SLOW and LINGERS are ``s``, ``t`` or ``st``. A million states take
some 0.8 GB and minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol, Self

from tests.placement.handover_world import Broken, Event, World, faultless


class Explored(Protocol):
    """A world at one moment."""

    def key(self) -> Any:
        """What tells this moment from others."""

    def events(self) -> Iterator[Event]:
        """Everything that may happen next."""

    def happen(self, event: Event) -> Self:
        """The moment after this event. Broken if an invariant does not hold there."""

    def finished(self) -> bool:
        """Whether nothing is left to be done."""

    def machines(self) -> Iterator[tuple[str, str]]:
        """(side, state) of the machines."""


class Exploration:
    """`run` visits everything. Moments are told apart by a 64-bit hash: among ten million the
    chance that any two are confused is 3 in a million."""

    def __init__(self, start: Explored) -> None:
        self.steps = 0
        self.machines: set[tuple[str, str]] = set()  # (side, state) that were seen
        self.finished: list[int] = []
        self._number = {hash(start.key()): 0}
        self._parents: list[tuple[int, Event]] = [(-1, ())]
        self._before: list[list[int]] = [[]]  # by events that are no faults
        self._frontier = [(0, start)]

    @property
    def states(self) -> int:
        """How many moments were visited."""
        return len(self._parents)

    def run(self) -> None:
        """Broken, with the way to it, if an invariant does not hold anywhere, or if from somewhere
        everything cannot be finished any more although faults end. O(states · events)."""
        while self._frontier:
            frontier, self._frontier = self._frontier, []
            for at, world in frontier:
                self._visit(at, world)
        live = set(self.finished)
        waiting = list(live)
        while waiting:
            for at in self._before[waiting.pop()]:
                if at not in live:
                    live.add(at)
                    waiting.append(at)
        stuck = next((n for n in range(self.states) if n not in live), None)
        if stuck is not None:
            raise Broken(f"it cannot be finished any more after {self._way(stuck)}")

    def _visit(self, at: int, world: Explored) -> None:
        if world.finished():
            self.finished.append(at)
        self.machines.update(world.machines())
        for event in world.events():
            self.steps += 1
            try:
                new = world.happen(event)
            except AssertionError as error:
                raise Broken(f"{error}; {self._way(at)}, then {event}") from error
            key = hash(new.key())
            known = self._number.get(key)
            if known is None:
                known = self._number[key] = self.states
                self._parents.append((at, event))
                self._before.append([])
                self._frontier.append((known, new))
            if faultless(event):
                self._before[known].append(at)

    def _way(self, at: int) -> str:
        """The events that led to a moment."""
        events = []
        while at > 0:
            at, event = self._parents[at]
            events.append(" ".join(map(str, event)))
        return ", ".join(reversed(events)) or "the start"


def main() -> None:
    """Run the command."""
    messages, crashes, partitions, slow, isolated, lingers = [*sys.argv[1:], "", ""][:6]
    world = World(
        int(messages),
        int(crashes),
        int(partitions),
        slow=slow,
        isolated=isolated,
        lingers=lingers,
    )
    exploration = Exploration(world.happen(("move", "s")))
    exploration.run()
    taken = round(time.process_time())
    sys.stdout.write(
        f"{exploration.states:,} states, {exploration.steps:,} events, {taken} s of CPU: all hold\n"
    )


if __name__ == "__main__":
    main()
