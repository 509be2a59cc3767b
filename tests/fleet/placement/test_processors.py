"""Plans for processors in a world: pins, frozen and draining masters, moves."""

from __future__ import annotations

import random

import pytest
from msgspec import structs

from _core.colocation.model import Colocation
from agent.placement.moves import check_plan
from agent.placement.placement import Placement
from agent.placement.world import Client, Master, Objective, Pin, PlacementError, Topic, Unit, World
from fleet.placement.columns import exact
from fleet.placement.packing import Planner, ffd, hybrid, lfs
from fleet.placement.processors import Packing

MODEL = Colocation(shared=True, cores=4.0, interference=0.08)


def world(masters: int = 8, topics: int = 20, *, seed: int = 1, most: int = 6) -> World:
    draw = random.Random(seed)
    names = [f"m{n}" for n in range(masters)]
    return World(
        [Master(name, max_processors=most, cores=4) for name in names],
        clients=[Client("c", dict.fromkeys(names, 0.001))],
        topics=[
            Topic(
                f"t{n}",
                {"c": draw.uniform(2.0, 25.0)},
                service_s=draw.choice([0.0126, 0.0262, 0.0398]),
                processor=True,
                objective=Objective(0.9, 1.0),
            )
            for n in range(topics)
        ],
        unknown_delay_s=0.001,
    )


def processor(n: int) -> Unit:
    return Unit("processor", f"t{n}")


def after(placement: Placement, packing: Packing) -> Placement:
    """The placement when the plan, which fits, is done."""
    done = placement.copy()
    for move in check_plan(placement, packing.plan(placement)):
        if move.source is None:
            done.place(move.unit, move.target)
        else:
            done.move(move.unit, done.world.master(move.target))
    return done


def used(placement: Placement) -> int:
    return len({at for _, at in placement.items()})


@pytest.mark.parametrize("planner", [ffd, lfs, hybrid(3), exact])
def test_a_plan_places_every_processor_and_a_second_one_moves_nothing(planner: Planner) -> None:
    packing = Packing(MODEL, planner)
    placed = after(Placement(world()), packing)
    assert all(placed.where(processor(n)) is not None for n in range(20))
    assert max(len(account.processors) for account in placed.accounts) <= 6
    assert packing.plan(placed) == []


def test_pins_and_frozen_masters_are_kept_and_draining_ones_left() -> None:
    placement = Placement(world())
    for n, name in ((0, "m0"), (1, "m1"), (2, "m2")):
        placement.place(processor(n), name)
    placement.world.pin([Pin(processor(0), "m3")])
    placement.world.freeze("m1")
    placement.world.drain("m2")
    done = after(placement, Packing(MODEL))
    where = {n: done.where(processor(n)) for n in range(20)}
    assert where[0] == 3
    assert [n for n, at in where.items() if at == 1] == [1]
    assert 2 not in where.values()
    assert sum(at == 3 for at in where.values()) > 1  # a pin leaves room for others


def test_units_stay_where_most_of_their_bin_is() -> None:
    packing = Packing(MODEL)
    placed = after(Placement(world()), packing)
    moved = placed.copy()
    moved.move(processor(5), 7)
    assert [move.unit for move in packing.plan(moved)] == [processor(5)]


def test_too_few_masters_are_one_clear_line() -> None:
    with pytest.raises(PlacementError, match=r"the processors need \d masters .*, 2 can take them"):
        Packing(MODEL).plan(Placement(world(2)))
    nowhere = world(1)
    nowhere.drain("m0")
    with pytest.raises(PlacementError, match="all are frozen or draining"):
        Packing(MODEL).plan(Placement(nowhere))


def test_what_is_infeasible_alone_is_named_with_its_latency() -> None:
    slow = world()
    slow.put_topic(Topic("slow", {"c": 1.0}, service_s=3.0, processor=True))
    (alone,) = Packing(MODEL).infeasible_alone(Placement(slow))
    assert alone.topic == "slow"
    assert alone.latency_s >= 3.0
    assert alone.objective.seconds == 1.0


def test_a_drift_is_repaired_with_few_moves() -> None:
    packing = Packing(MODEL)
    placed = after(Placement(world(12, 24)), packing)
    assert packing.repair(placed) == []
    full = max(range(12), key=lambda at: len(placed.accounts[at].processors))
    name = next(iter(placed.accounts[full].processors))
    before = placed.world.topics[name]
    placed.put_topic(
        Topic(
            name,
            {"c": 3.5 / before.service_s},
            service_s=before.service_s,
            processor=True,
            objective=before.objective,
        )
    )
    moves = check_plan(placed, packing.repair(placed))
    assert 1 <= len(moves) <= 2
    assert {move.reason for move in moves} == {"drift"}
    for move in moves:
        placed.move(move.unit, placed.world.master(move.target))
    assert packing.repair(placed) == []
    assert used(placed) <= 12


def test_a_master_with_a_pinned_topic_is_repaired_and_the_pin_kept() -> None:
    packing = Packing(MODEL)
    placed = after(Placement(world(12, 24)), packing)
    full = max(range(12), key=lambda at: len(placed.accounts[at].processors))
    name, other = list(placed.accounts[full].processors)[:2]
    pinned = Unit("processor", name)
    placed.world.pin([Pin(pinned, placed.world.masters[full].name)])
    for grown in (name, other):
        topic = placed.world.topics[grown]
        rates = {"c": 1.9 / topic.service_s}
        placed.put_topic(structs.replace(topic, publishers=rates))
    moves = check_plan(placed, packing.repair(placed))
    assert moves
    assert pinned not in {move.unit for move in moves}
    for move in moves:
        placed.move(move.unit, placed.world.master(move.target))
    assert packing.repair(placed) == []


def test_a_frozen_master_with_room_keeps_no_topic_from_a_later_one() -> None:
    """Both have a topic already; what fits with the frozen one's goes to the other, not to a new
    master."""
    placement = Placement(world(3, 4))
    placement.place(processor(0), "m0")
    placement.world.freeze("m0")
    placement.world.pin([Pin(processor(1), "m1")])
    done = after(placement, Packing(MODEL))
    assert {n: done.where(processor(n)) for n in range(4)} == {0: 0, 1: 1, 2: 1, 3: 1}
