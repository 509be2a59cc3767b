"""Plans for live masters: planners by name, gains, files."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest
from msgspec import structs

from agent.placement.view import View
from agent.placement.world import Flow, PlacementError, Unit
from agent.wire.messages import Slo
from agent.wire.placement import (
    Delay,
    HomeFacts,
    Listeners,
    PlacementFacts,
    PlannedMove,
    Source,
    TopicFacts,
    UnitName,
)
from fleet.cli.placement import PLANNERS as OFFERED
from fleet.common.exits import CommandError
from fleet.placement import plans
from fleet.placement.model_file import read_model
from fleet.placement.processors import assigned


def topic(name, cpu_ms=2.0, goal_ms=1_000.0):
    slo = Slo(90.0, goal_ms)
    return TopicFacts(name, (Source("iad1", 2.0),), "p", cpu_ms=cpu_ms, slo=slo)


def view_of(*, topics=2, cpu_ms=2.0, goal_ms=1_000.0, homes=(), mode="open"):
    """A topic at each master, all published and heard at iad1."""
    names = [f"t{n}" for n in range(1, topics + 1)]
    told = []
    for n, name in enumerate(names, 1):
        told.append(
            PlacementFacts(
                f"iad{n}", 1, 1, 5.0, cores=2, opening_cost=0.5,
                mode=mode if n == 2 else "open",
                topics=(topic(name, cpu_ms, goal_ms),),
                listeners=tuple([Listeners(each, 1) for each in names]) if n == 1 else (),
                homes=homes if n == 2 else (),
                delays=(Delay("iad1", 20.0, 30.0),) if n > 1 else (),
            )
        )  # fmt: skip
    return View(told)


@pytest.mark.parametrize("planner", ["balanced", "ffd", "lfs", "lfs-ffd", "exact"])
def test_topics_that_fit_share_a_master(planner):
    made = plans.plan(view_of(topics=3), planner)
    assert made.masters == (3, 1)
    assert len(made.moves) == 2
    assert made.planner == planner
    assert made.infeasible == ()
    before, after = made.cost
    assert before - after == pytest.approx(sum(each.gain for each in made.moves))


def test_what_would_miss_its_objective_together_stays_apart():
    made = plans.plan(view_of(topics=4, cpu_ms=250.0, goal_ms=800.0), "ffd")
    assert (made.masters, made.infeasible) == ((4, 2), ())


def test_a_topic_that_no_plan_helps_is_told_with_what_it_gets():
    made = plans.plan(view_of(cpu_ms=400.0, goal_ms=100.0), "ffd")
    assert made.infeasible[0].startswith("topic t1 is infeasible alone: it would get p90 = 3.")
    assert made.infeasible[0].endswith("s, its objective is 0.1 s")


def test_processors_that_talk_to_each_other_come_together():
    view = view_of(topics=3)
    one, other = Unit("processor", "t1"), Unit("processor", "t2")
    assert plans.plan(view, "flows").moves == ()
    view.placement.put_flow(Flow(one, other, 50.0))
    made = plans.plan(view, "flows", move_cost=0.001)
    lives = {"t1": "iad1", "t2": "iad2"} | {each.unit.name: each.target for each in made.moves}
    assert lives["t1"] == lives["t2"]
    gain = sum(each.gain for each in made.moves)
    assert made.cost[0] - made.cost[1] == pytest.approx(gain)
    assert gain > 50.0 * 0.01
    assert plans.plan(view, "flows", move_cost=100.0).moves == ()


def test_homes_are_placed_by_their_planner():
    home = HomeFacts("node/n1", {"iad2": 30.0, "iad1": 1.0}, publishes={"t1": 1.0})
    made = plans.plan(view_of(homes=(home,)), "homes", move_cost=0.001)
    assert made.moves == (
        PlannedMove(UnitName("home", "node/n1"), "iad2", "iad1", made.moves[0].gain),
    )
    assert made.moves[0].gain > 0.04


def test_no_plan_is_one_line():
    with pytest.raises(PlacementError, match="all are frozen or draining"):
        plans.plan(View([PlacementFacts("iad1", 1, 1, 5.0, mode="frozen")]), "ffd")


def test_ffd_needs_none_of_the_extras_libraries(monkeypatch):
    for library in ("numpy", "scipy", "networkx", "sklearn"):
        monkeypatch.setitem(sys.modules, library, None)
    assert len(plans.plan(view_of(), "ffd").moves) == 1


def test_what_is_missing_is_named_before_a_master_is_asked(monkeypatch):
    assert OFFERED == plans.PLANNERS == tuple(plans.LIBRARIES)
    assert plans.missing("ffd") == []
    monkeypatch.setattr(plans, "find_spec", lambda name: None if name == "networkx" else "there")
    assert plans.missing("lfs") == ["networkx"]


def test_a_plans_file_is_read_back(tmp_path):
    made = plans.plan(view_of(), "ffd")
    path = tmp_path / "plan.json"
    plans.write(path, made)
    assert plans.read(path) == made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no plan: "),
        ("[]", "is no plan: "),
        ('{"version": 2}', "is no plan: "),
        ('{"planner":"ffd","moves":[],"cost":[1.0,1.0],"masters":[1,1]}', "has no moves"),
        ("[" * 100_000, "is no plan: "),
    ],
)
def test_a_file_that_is_no_plan_is_one_line(tmp_path, text, says):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(plans.PlanError, match=says) as told:
        plans.read(path)
    assert "\n" not in str(told.value)


def test_what_is_no_file_is_not_read_without_end(tmp_path):
    (tmp_path / "long.json").write_text(" " * (plans.MAX_BYTES + 1))
    os.mkfifo(tmp_path / "pipe.json")
    for path, says in (
        (tmp_path / "long.json", "it has more than 1 MiB"),
        (tmp_path / "pipe.json", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
    ):
        with pytest.raises(OSError, match=says):
            plans.read(path)
        with pytest.raises(CommandError, match=f"{path.name}: "):
            read_model(path)


def test_the_assignment_costs_as_little_as_scipys():
    from scipy.optimize import linear_sum_assignment

    for seed in range(200):
        rng = random.Random(seed)
        rows = rng.randrange(6)
        columns = rows + rng.randrange(4)
        cost = [
            [rng.choice([rng.uniform(-2, 2), float(rng.randrange(-3, 3))]) for _ in range(columns)]
            for _ in range(rows)
        ]
        found = assigned(cost)
        assert len(set(found)) == rows
        total = sum(each[column] for each, column in zip(cost, found, strict=True))
        if rows:
            best = zip(*linear_sum_assignment(cost), strict=True)
            assert total == pytest.approx(sum(cost[row][column] for row, column in best))


def crowded(*, at_delegate=0, room=1):
    """Three topics; two masters with room for `room` each, and iad3, which takes the rest."""
    names = [f"t{n}" for n in range(1, 4)]
    here, there = names[: 3 - at_delegate], names[3 - at_delegate :]
    return View(
        [
            PlacementFacts(
                "iad1", 1, 1, 5.0, most_processors=room, delegate="iad3",
                topics=tuple([topic(name) for name in here]),
            ),
            PlacementFacts("iad2", 1, 1, 5.0, most_processors=room),
            PlacementFacts("iad3", 1, 1, 5.0, topics=tuple([topic(name) for name in there])),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("planner", ["ffd", "balanced", "lfs", "exact", "price"])
def test_a_plan_delegates_what_does_not_fit_and_no_more(planner):
    made = plans.plan(crowded(), planner)
    assert sorted(each.target for each in made.moves) == ["iad2", "iad3"]
    assert made.delegated == (0, 1)
    assert made.cost[1] is not None
    assert made.cost[1] < 1e3
    back = plans.plan(crowded(at_delegate=3, room=2), planner)
    assert back.delegated == (3, 0)
    assert not any(each.target == "iad3" for each in back.moves)
    assert all(abs(each.gain) < 1e3 for each in back.moves)


def test_without_room_at_the_delegate_there_is_no_plan():
    with pytest.raises(PlacementError, match="the processors need 3 masters"):
        plans.plan(
            View(
                [
                    PlacementFacts(
                        "iad1",
                        1,
                        1,
                        5.0,
                        most_processors=1,
                        delegate="iad2",
                        topics=tuple([topic(name) for name in ("a", "b", "c")]),
                    ),
                    PlacementFacts("iad2", 1, 1, 5.0, most_processors=1),
                ]
            ),
            "ffd",
        )


def test_homes_are_planned_beside_a_delegate():
    home = HomeFacts("n", {"iad1": 1.0, "iad2": 9.0}, publishes={"t1": 1.0})
    view = view_of(homes=(home,))
    facts = [structs.replace(each, delegate="iad2") for each in view.facts.values()]
    made = plans.plan(View(facts), "homes", move_cost=0.001)
    assert [(each.unit.name, each.target) for each in made.moves] == [("n", "iad1")]
