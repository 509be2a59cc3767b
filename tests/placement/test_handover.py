"""Handovers: small worlds explored exhaustively, larger ones by random schedules.

`make test` explores worlds of some ten thousand states and runs a thousand schedules;
`make test-long` explores larger ones and runs ten thousand, CI a part of these.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from agent.placement.handover.source import Source
from agent.placement.handover.target import Target
from tests.examples import campaign
from tests.placement.exploration import Exploration
from tests.placement.handover_world import World, faultless

SMALL = {
    "no fault": World(messages=1, crashes=0, partitions=0, slow="s"),
    "a crash, the source's disk slow": World(messages=1, crashes=1, partitions=0, slow="s"),
    "a partition": World(messages=1, crashes=0, partitions=1, slow="s"),
    "a partition that isolates the target": World(1, 0, 1, isolated="t", slow="t"),
    "a pause that takes long": World(1, 0, 0, slow="s", lingers="s"),
    "a pause that takes long, and a partition": World(1, 0, 1, slow="", lingers="s"),
    "a pause that takes long, and a crash": World(1, 1, 0, saves=0, slow="s", lingers="s"),
}
# Of the small worlds those that take ten seconds.
LONGER = {"a crash, the source's disk slow"}
LARGE = {
    "a partition that isolates the source": World(1, 0, 1, isolated="s", slow="s"),
    "a crash, the target's disk slow": World(messages=1, crashes=1, partitions=0, slow="t"),
    "two crashes, a partition, the source's disk slow": World(1, 2, 1, slow="s"),
    "two crashes, a partition, the target's disk slow": World(1, 2, 1, slow="t"),
    "two messages, a crash and a partition": World(2, 1, 1, slow="s"),
    "three messages and a partition": World(3, 0, 1, slow="s"),
    "three messages and a crash": World(3, 1, 0, slow="t"),
    "a pause that takes long, a crash and a partition": World(1, 1, 1, slow="s", lingers="s"),
    "a pause that takes long, two messages": World(2, 0, 1, slow="s", lingers="s"),
}
SCHEDULES = 10_000
PIECES = 20
QUICK = 2


@pytest.mark.parametrize(
    "start",
    [
        *(
            pytest.param(world, id=name, marks=[pytest.mark.long] if name in LONGER else [])
            for name, world in SMALL.items()
        ),
        *(
            pytest.param(world, id=name, marks=campaign(n, len(LARGE)))
            for n, (name, world) in enumerate(LARGE.items())
        ),
    ],
)
def test_every_interleaving_keeps_the_invariants_and_can_be_finished(
    start: World, record_property: Callable[[str, object], None]
) -> None:
    """No message lost, doubled or reordered, never two owners; from every state the unit comes to
    work for good at one master with everything delivered, when faults end."""
    found = Exploration(start.happen(("move", "s")))
    found.run()
    record_property("states", found.states)
    record_property("events", found.steps)
    assert found.finished
    # What has ended is forgotten at once, and so is a state that the next instruction leaves.
    assert {("Source", "draining"), ("Target", "handed"), ("Target", "lapsed")} <= found.machines


def schedule(seed: int) -> World:
    """A larger world that goes through random events; then without faults until it is finished."""
    rng = random.Random(seed)
    world = World(
        messages=rng.randrange(1, 10),
        crashes=rng.randrange(5),
        partitions=rng.randrange(4),
        moves=rng.randrange(1, 5),
        saves=rng.randrange(8),
        isolated=rng.choice(("", "s", "t")),
        slow=rng.choice(("", "s", "t", "st")),
        lingers=rng.choice(("", "st")),
    )
    likely = rng.choice((0.02, 0.2, 0.5))
    # Timers may fire at any time here: seldom enough that many moves come to their end.
    hasty = rng.choice((0.01, 0.1, 1.0))
    for _ in range(rng.randrange(400)):
        events = list(world.events())
        calm = [event for event in events if faultless(event) or event[0] in {"move", "pause"}]
        faults = [event for event in events if event not in calm]
        if faults and (not calm or rng.random() < likely):
            world = world.happen(rng.choice(faults))
        elif calm:
            weights = [hasty if event[0] in {"timer", "tick"} else 1.0 for event in calm]
            world = world.happen(rng.choices(calm, weights)[0])
    world.moves = 0
    for _ in range(5_000):
        if world.finished():
            return world
        world = world.happen(rng.choice([each for each in world.events() if faultless(each)]))
    raise AssertionError("it does not come to an end although faults have ended")


@pytest.mark.parametrize(
    "piece",
    [*range(QUICK), *(pytest.param(n, marks=campaign(n, 5)) for n in range(QUICK, PIECES))],
)
def test_random_schedules_of_larger_worlds(piece: int) -> None:
    count = SCHEDULES // PIECES
    moved = 0
    for seed in range(piece * count, piece * count + count):
        try:
            world = schedule(seed)
        except AssertionError as error:
            error.add_note(f"schedule({seed})")
            raise
        moved += world.nodes["t"].holder.owns
    assert moved > count // 20  # Many moves succeed.


def test_every_state_of_both_tables_can_be_entered_and_left() -> None:
    for machine in (Source, Target):
        sources = {one for one, _ in machine.TRANSITIONS}
        targets = {other for _, other in machine.TRANSITIONS}
        assert sources - targets == {"new"}
        assert targets - sources == {"settled", "aborted"}
