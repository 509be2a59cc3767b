"""Facts and plans that contradict themselves: one line each, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from agent.placement.moves import Move, check_plan
from agent.placement.placement import Placement
from agent.placement.world import (
    Client,
    Flow,
    Link,
    Master,
    Objective,
    Pin,
    PlacementError,
    Topic,
    Unit,
    World,
)

HOME = Unit("home", "c1")
COMFORT = Unit("processor", "comfort")


def small(**changes: Any) -> World:
    """Two masters, two clients, one topic with a processor and one without."""
    facts: dict[str, Any] = {
        "masters": [Master("m1", storage_bytes=10, max_processors=1), Master("m2")],
        "links": [Link("m1", "m2", 0.01)],
        "clients": [Client("c1", {"m1": 0.001, "m2": 0.002}), Client("c2", {"m1": 0.001})],
        "topics": [
            Topic("comfort", {"c1": 2.0}, frozenset({"c2"}), 8, 0.01, processor=True),
            Topic("doors", {"c1": 1.0, "c2": 1.0}, frozenset({"c2"}), 8, 0.01),
        ],
        "flows": [Flow(Unit("clone", "d1"), Unit("clone", "d2"), 1.0)],
    }
    return World(**(facts | changes))


def test_units_are_homes_processors_and_clones() -> None:
    assert [str(unit) for unit in small().units()] == [
        "home c1",
        "home c2",
        "processor comfort",
        "clone d1",
        "clone d2",
    ]


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "NaN between masters": (
        lambda: small(links=[Link("m1", "m2", nan)]),
        "the delay between masters m1 and m2 is nan: give a number of 0 or more",
    ),
    "an infinite delay": (
        lambda: small(links=[Link("m1", "m2", inf)]),
        "the delay between masters m1 and m2 is inf: give a number of 0 or more",
    ),
    "NaN from a client": (
        lambda: small(clients=[Client("c1", {"m2": nan})]),
        "the delay from client c1 to master m2 is nan: give a number of 0 or more",
    ),
    "a delay that is missing": (
        lambda: small(links=[]),
        "the delay between masters m1 and m2 is not known",
    ),
    "a delay of a master to itself": (
        lambda: small(links=[Link("m1", "m1", 0.1)]),
        "the delay between masters m1 and m1 is 0.1: that of a master to itself is 0",
    ),
    "a link of a master that is not there": (
        lambda: small(links=[Link("m1", "m7", 0.1)]),
        "there is no master 'm7': known are m1, m2",
    ),
    "two masters of a name": (
        lambda: small(masters=[Master("m1"), Master("m1")]),
        "there are two masters 'm1'",
    ),
    "NaN storage": (
        lambda: small(masters=[Master("m1", storage_bytes=nan)]),
        "storage_bytes of master m1 is nan: give a number of 0 or more",
    ),
    "no cores": (
        lambda: small(masters=[Master("m1", cores=0)]),
        "master m1 has 0 cores: give 1 or more",
    ),
    "a member that is not there": (
        lambda: small(topics=[Topic("doors", {"c7": 1.0})]),
        "topic doors: there is no client 'c7'",
    ),
    "a negative rate": (
        lambda: small(topics=[Topic("doors", {"c1": -1.0})]),
        "topic doors: the rate of publisher c1 is -1.0: give a number of 0 or more",
    ),
    "an objective beyond 1": (
        lambda: small(topics=[Topic("doors", objective=Objective(90, 1.0))]),
        "topic doors: an objective needs 0 < quantile < 1 and seconds > 0",
    ),
    "a flow to itself": (
        lambda: small(flows=[Flow(HOME, HOME, 1.0)]),
        "a flow of home c1 to itself",
    ),
    "a flow of a processor that is not there": (
        lambda: small(flows=[Flow(HOME, Unit("processor", "doors"), 1.0)]),
        "there is no processor doors",
    ),
    "a unit of two owners": (
        lambda: Placement(small(), [(COMFORT, "m1"), (COMFORT, "m2")]),
        "processor comfort has two owners: m1 and m2",
    ),
    "a home out of reach": (
        lambda: Placement(small(), [(Unit("home", "c2"), "m2")]),
        "client c2 cannot reach m2",
    ),
    "a pin of a unit to two masters": (
        lambda: small().pin([Pin(HOME, "m1"), Pin(HOME, "m2")]),
        "home c1 is pinned to m1 and to m2",
    ),
    "a pin to a master out of reach": (
        lambda: small().pin([Pin(Unit("home", "c2"), "m2")]),
        "home c2 is pinned to m2, which it cannot reach",
    ),
    "a pin that contradicts storage": (
        lambda: small().pin([Pin(HOME, "m1")]),
        "what is pinned to m1 needs 16 bytes of storage, it has 10",
    ),
    "a client that is there already": (
        lambda: Placement(small()).join(Client("c1"), {}),
        "client c1 is there already",
    ),
    "a client that joins a topic that is not there": (
        lambda: Placement(small()).join(Client("c9"), {"windows": 1.0}),
        "client c9: there is no topic 'windows'",
    ),
    "a client that is still a member": (
        lambda: small().drop_client("c1"),
        "client c1 is a member of topic comfort",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_contradicts_itself_is_refused_in_one_line(case: str) -> None:
    act, line = BAD[case]
    with pytest.raises(PlacementError) as refused:
        act()
    assert str(refused.value) == line


def test_a_pin_to_a_draining_master_is_refused_and_the_pins_stay() -> None:
    world = small()
    world.pin([Pin(HOME, "m2")])
    world.drain("m1")
    with pytest.raises(PlacementError, match="home c2 is pinned to m1, which is draining"):
        world.pin([Pin(Unit("home", "c2"), "m1")])
    assert world.pins == {HOME: 1}


PLANS: dict[str, tuple[Move, str]] = {
    "a master that is gone": (
        Move(COMFORT, "m1", "m7"),
        "there is no master 'm7': known are m1, m2",
    ),
    "a unit that is gone": (
        Move(Unit("processor", "doors"), "m1", "m2"),
        "there is no processor doors",
    ),
    "a unit that has moved since": (
        Move(COMFORT, "m2", "m1"),
        "processor comfort is to move to m1 from m2, but it is at m1: plan anew",
    ),
    "a unit that is there": (
        Move(COMFORT, "m1", "m1"),
        "processor comfort is to move to m1, where it is",
    ),
    "a pinned unit": (
        Move(HOME, "m2", "m1"),
        "home c1 is to move to m1, but it is pinned to m2",
    ),
    "a client out of reach": (
        Move(Unit("home", "c2"), "m1", "m2"),
        "home c2 is to move to m2, which the client cannot reach",
    ),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_that_does_not_fit_is_refused_in_one_line(case: str) -> None:
    move, line = PLANS[case]
    world = small()
    world.pin([Pin(HOME, "m2")])
    placement = Placement(world, [(COMFORT, "m1"), (HOME, "m2"), (Unit("home", "c2"), "m1")])
    with pytest.raises(PlacementError) as refused:
        check_plan(placement, [move])
    assert str(refused.value) == line


def test_a_plan_is_refused_as_a_whole() -> None:
    world = small()
    placement = Placement(world, [(COMFORT, "m1")])
    move = Move(COMFORT, "m1", "m2")
    assert check_plan(placement, [move]) == [move]
    with pytest.raises(PlacementError, match="moves processor comfort twice"):
        check_plan(placement, [move, move])
    world.freeze("m2")
    with pytest.raises(PlacementError, match="to m2, but m2 is frozen"):
        check_plan(placement, [move])
    world.freeze("m2", frozen=False)
    world.drain("m2")
    with pytest.raises(PlacementError, match="to m2, which is draining"):
        check_plan(placement, [move])
