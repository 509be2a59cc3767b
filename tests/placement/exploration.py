"""Exhaustive search: every moment of a world that can follow from the start, each visited once.

``python -m tests.placement.exploration MESSAGES CRASHES PARTITIONS SLOW [ISOLATED] [LINGERS]``
explores a world of that size; SLOW and LINGERS are ``s``, ``t`` or ``st``. A million states take
some 0.4 GB and 4 minutes of CPU.
"""

from __future__ import annotations

import gc
import sys
import time
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol, Self

import numpy as np

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
    """`run` visits everything, by the number of events from the start. Moments are told apart by a
    64-bit hash: among ten million the chance that any two are confused is 3 in a million."""

    def __init__(self, start: Explored) -> None:
        self.steps = 0
        self.machines: set[tuple[str, str]] = set()  # (side, state) that were seen
        self.finished: list[int] = []
        self._number = {hash(start.key()): 0}
        self._events: dict[Event, int] = {}  # all kinds of events, numbered
        # By moment: from which, and by which event, it was first reached.
        self._parents = array("i", [-1])
        self._causes = array("H", [0])
        # Steps that are no faults, as pairs of moments.
        self._sources, self._targets = array("i"), array("i")
        self._frontier = deque([(0, start)])

    @property
    def states(self) -> int:
        """How many moments were visited, or are about to be."""
        return len(self._parents)

    @property
    def waiting(self) -> int:
        """How many of them are about to be visited."""
        return len(self._frontier)

    def run(self) -> None:
        """Broken, with the way to it, if an invariant does not hold anywhere, or if from somewhere
        everything cannot be finished any more although faults end. O(states · events)."""
        while self._frontier:
            self._visit(*self._frontier.popleft())
        live = np.zeros(self.states, dtype=bool)
        live[self.finished] = True
        sources, targets = np.asarray(self._sources), np.asarray(self._targets)
        before = -1
        while before < (found := np.count_nonzero(live)):
            before = found
            live[sources[live[targets]]] = True
        if found < self.states:
            way = self._way(int(live.argmin()))
            raise Broken(f"it cannot be finished any more after {way}")

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
                self._parents.append(at)
                self._causes.append(self._events.setdefault(event, len(self._events)))
                self._frontier.append((known, new))
            if faultless(event):
                self._sources.append(at)
                self._targets.append(known)

    def _way(self, at: int) -> str:
        """The events that led to a moment."""
        kinds, events = list(self._events), []
        while at > 0:
            events.append(" ".join(map(str, kinds[self._causes[at]])))
            at = self._parents[at]
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
    gc.disable()  # Moments have no cycles: it would look through all of them for nothing.
    try:
        exploration.run()
        end = "all hold"
    except KeyboardInterrupt:
        end = f"all hold so far; {exploration.waiting:,} of the states were not visited"
    taken = round(time.process_time())
    sys.stdout.write(
        f"{exploration.states:,} states, {exploration.steps:,} events, {taken} s of CPU: {end}\n"
    )


if __name__ == "__main__":
    main()
