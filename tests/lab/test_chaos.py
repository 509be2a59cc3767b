"""Chaos campaign: the checker finds each kind of broken promise, and a real fleet breaks none."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from lab.chaos.checker import broken
from lab.chaos.fault_plan import Fault, plan
from lab.chaos.history import Alert, Asked, History, Output, RoundSeen
from lab.chaos.run import run
from tests.examples import campaign

AWAY = Fault("kill", ("iad2",), 2.0, 3.0)


def sound():
    return History(
        1,
        [AWAY],
        asked=[
            Asked(0.1, 0.2, "iad1", ("r1", "r2"), "complete", ("r1", "r2")),
            Asked(2.1, 4.0, "iad2", ("r1",), "no reply"),
            Asked(2.2, 2.3, "iad1", ("r1", "r2"), "partial", ("r1",), (("r2", "node_down"),)),
        ],
        rounds=[RoundSeen(1, 0, 500), RoundSeen(2, 500, 1_000)],
        alerts=[Alert(1, "r1", 3), Alert(2, "r2", 1), Alert(3, "r1", 5), Alert(4, "r1", 6)],
        published=[1, 2],
        outputs=[Output(1, 1, 1), Output(2, 2, 2), Output(3, 3, 3)],
        events={"r1": 6, "r2": 1},
        others={"r1": [4]},
        owners=["iad1"],
    )


def test_a_sound_history_breaks_nothing():
    assert broken(sound()) == []


QUERY = Asked(5.0, 5.1, "iad1", ("r1", "r2"), "complete", ("r1", "r2"))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"asked": [replace(QUERY, status="no reply")]}, "no reply, and it was not away"),
        ({"asked": [replace(QUERY, until_s=60.0)]}, "answered after 55.0 s"),
        ({"asked": [replace(QUERY, answered=("r1",))]}, "nothing is said of r2"),
        ({"asked": [replace(QUERY, status="partial")]}, "without a reason"),
        ({"asked": [replace(QUERY, gaps=(("r1", "timeout"),))]}, "complete, with gaps"),
        ({"asked": [replace(QUERY, status="refused")]}, "refused"),
        ({"rounds": [RoundSeen(1, 0, 5), RoundSeen(3, 5, 9)]}, "round 3 came after 1"),
        ({"rounds": [RoundSeen(1, 0, 5), RoundSeen(2, 6, 9)]}, "begins 1 ms apart"),
        ({"alerts": [Alert(1, "r2", 1), Alert(2, "r1", 3), Alert(3, "r1", 5)]}, "were lost: [6]"),
        ({"alerts": [Alert(1, "r2", 1)]}, "no alert of r1 came"),
        ({"alerts": [*sound().alerts, Alert(5, "r1", 5)]}, "alert of r1 5 came twice"),
        ({"alerts": [*sound().alerts, Alert(6, "r1", 7)]}, "position 6 came after 4"),
        ({"alerts": [*sound().alerts, Alert(5)]}, "has a gap"),
        ({"outputs": [Output(1, 2, 1)]}, "not put out: [1]"),
        ({"outputs": [*sound().outputs, Output(4, 3, 4)]}, "output 3 came twice"),
        ({"outputs": [Output(1, 1, 1), Output(2, 2, 3)]}, "state is not what it has done"),
        ({"owners": ["iad1", "iad3"]}, "2 owners"),
        ({"owners": []}, "0 owners"),
        ({"ended": ["iad1 ended"]}, "ended by itself"),
    ],
)
def test_a_broken_promise_is_found(change, line):
    found = broken(replace(sound(), **change))
    assert any(line in each for each in found), found


def test_faults_are_drawn_from_the_seed_and_do_not_overlap():
    masters, nodes = ("iad1", "iad2"), ("n1", "n2")
    for seed in range(50):
        faults = plan(seed, masters, nodes, 20.0)
        assert faults == plan(seed, masters, nodes, 20.0)
        for before, after in itertools.pairwise(faults):
            assert before.until_s < after.from_s
        assert all({*each.targets} <= {*masters, *nodes} for each in faults)


@pytest.mark.parametrize("seed", [pytest.param(n, marks=campaign(n, 2)) for n in range(40)])
def test_a_fleet_that_is_hurt_keeps_its_promises(tmp_path, seed):
    assert run(seed, tmp_path, 8.0, print) == []
