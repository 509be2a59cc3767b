"""Plans for processors in a world: pins, frozen and draining masters, moves."""

from __future__ import annotations

import random

import pytest
from msgspec import structs

from _core.colocation.model import Colocation
from agent.placement.congestion import Addition, congestion_of
from agent.placement.latency_model import untrained
from agent.placement.moves import check_plan
from agent.placement.placement import Placement
from agent.placement.world import Client, Master, Objective, Pin, PlacementError, Topic, Unit, World
from fleet.placement.columns import exact
from fleet.placement.packing import Planner, balanced, ffd, hybrid, lfs
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


@pytest.mark.parametrize("planner", [ffd, balanced, lfs, hybrid(3), exact])
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
    slow.put_topic(Topic("slow", {"c": 1.0}, service_s=3.0, processor=True, objective=Objective()))
    (alone,) = Packing(MODEL).infeasible_alone(Placement(slow))
    assert alone.topic == "slow"
    assert alone.latency_s >= 3.0
    assert alone.objective.seconds == 1.0


def test_topics_without_an_objective_are_not_held_to_one() -> None:
    """Three seconds each, and nobody said that it has to be sooner: one master takes them, unless
    what comes is more than it can do. The live master's model says the same."""
    given = world(3, 0)
    for name in ("log", "other"):
        given.put_topic(Topic(name, {"c": 0.05}, service_s=3.0, processor=True))
    packing = Packing(untrained(4), ffd)
    done = after(Placement(given), packing)
    assert used(done) == 1
    assert not packing.infeasible_alone(done)
    unit = Unit("processor", "other")
    tail = congestion_of(given)
    moved = done.copy()
    moved.remove(unit)
    (at,) = {at for _, at in moved.items()}
    assert tail.cost(moved, at, Addition(processor="other")) == 0.0


def test_a_topic_without_an_objective_still_needs_its_share_of_a_master() -> None:
    given = sized([(20, 4.0)] * 3, 0)
    for name in ("log", "other", "third"):
        given.put_topic(Topic(name, {"c": 0.6}, service_s=3.0, processor=True))
    done = after(Placement(given), Packing(untrained(4), ffd))
    check_limits(done)
    assert used(done) == 2


def test_a_frozen_master_with_room_keeps_no_topic_from_a_later_one() -> None:
    """Both have a topic already; what fits with the frozen one's goes to the other, not to a new
    master."""
    placement = Placement(world(3, 4))
    placement.place(processor(0), "m0")
    placement.world.freeze("m0")
    placement.world.pin([Pin(processor(1), "m1")])
    done = after(placement, Packing(MODEL))
    assert {n: done.where(processor(n)) for n in range(4)} == {0: 0, 1: 1, 2: 1, 3: 1}


def sized(limits: list[tuple[int, float]], topics: int, seed: int = 1) -> World:
    """Masters that take so many processors, and so much load."""
    given = world(len(limits), topics, seed=seed)
    for at, (most, compute) in enumerate(limits):
        given.masters[at] = structs.replace(given.masters[at], max_processors=most, compute=compute)
    return given


def check_limits(placement: Placement) -> None:
    for account, master in zip(placement.accounts, placement.world.masters, strict=True):
        assert len(account.processors) <= master.max_processors
        assert account.load <= master.compute * (1 + 1e-9)


def test_masters_of_different_size_are_packed_as_they_are() -> None:
    given = sized([(2, 1.0), (2, 1.0), (20, 4.0), (2, 1.0)], 12)
    done = after(Placement(given), Packing(MODEL))
    check_limits(done)
    assert len(done.accounts[2].processors) > 2
    assert used(done) < 4


def test_a_topic_that_only_the_large_master_takes_gets_it() -> None:
    given = sized([(1, 0.2), (1, 0.2), (1, 4.0), (1, 0.2)], 0)
    for name, rate in (("small", 10.0), ("other", 11.0), ("large", 40.0)):
        given.put_topic(Topic(name, {"c": rate}, service_s=0.0126, processor=True))
    done = after(Placement(given), Packing(MODEL))
    check_limits(done)
    assert done.where(Unit("processor", "large")) == 2


def test_a_topic_that_no_placement_helps_takes_no_large_master_from_another() -> None:
    given = sized([(1, 4.0), (1, 0.2)], 0)
    given.put_topic(
        Topic("never", {"c": 0.05}, service_s=3.0, processor=True, objective=Objective())
    )
    given.put_topic(Topic("large", {"c": 40.0}, service_s=0.0126, processor=True))
    done = after(Placement(given), Packing(MODEL))
    check_limits(done)
    assert [done.where(Unit("processor", name)) for name in ("large", "never")] == [0, 1]


def test_homes_that_live_at_a_master_leave_less_of_it_to_processors() -> None:
    given = sized([(20, 4.0), (20, 2.0)], 4)
    given.put_topic(Topic("homes", {"c": 100.0}, service_s=0.039))
    placement = Placement(given, [(Unit("home", "c"), "m0")])
    done = after(placement, Packing(MODEL))
    check_limits(done)
    assert not done.accounts[0].processors


@pytest.mark.parametrize("seed", range(12))
def test_plans_keep_the_limits_of_every_master(seed: int) -> None:
    draw = random.Random(seed)
    limits = [(draw.randint(1, 8), draw.choice([0.4, 1.0, 2.0, 4.0])) for _ in range(16)]
    placement = Placement(sized(limits, 16, seed))
    for n, at in enumerate(draw.sample(range(16), 3)):
        if placement.world.load_of(processor(n)) <= limits[at][1]:
            placement.world.pin([*pins(placement), Pin(processor(n), f"m{at}")])
    packing = Packing(MODEL)
    try:
        done = after(placement, packing)
    except PlacementError as error:
        assert "masters" in str(error)  # noqa: PT017
        return
    check_limits(done)


def pins(placement: Placement) -> list[Pin]:
    world = placement.world
    return [Pin(unit, world.masters[at].name) for unit, at in world.pins.items()]
