"""Clones that an inventory has."""

from __future__ import annotations

from agent.wire.clones import CloneOf
from fleet.inventory.clones import clones_of
from fleet.inventory.problems import problems
from tests.fleet.inventory.inventories import PLAIN, read

GROUP = """name = "sensing"
[group.clone]
processor = "comfort_index"
set = { warm_above = 26, of = ["a", "b"] }
every_s = 5
channels = ["temperature"]
peers = ["iad1/n1", "iad1/n2"]
"""


def test_a_node_has_its_own_clone_or_that_of_a_group():
    text = PLAIN.replace('name = "sensing"\n', f"{GROUP}leaves = true\n", 1)
    text = text.replace('name = "n2"\n', 'name = "n2"\nclone = { processor = "mine" }\n', 1)
    fleet = read(text)
    first, second = fleet.iad
    assert clones_of(fleet, first) == [
        CloneOf(
            "iad1/n1",
            "comfort_index",
            parameters={"warm_above": 26.0, "of": ("a", "b")},
            every_s=5.0,
            channels=("temperature",),
            peers=("iad1/n2",),
            leaves=True,
        ),
        CloneOf("iad1/n2", "mine"),
    ]
    (other,) = clones_of(fleet, second)
    assert other.peers == ("iad1/n1", "iad1/n2")
    fleet = read(PLAIN)
    assert [clones_of(fleet, iad) for iad in fleet.iad] == [[], []]


def test_clones_that_leave_are_made_first():
    """Of a peer without a clone, a master expects the asker's kind."""
    text = PLAIN.replace('name = "n1"\n', 'name = "n1"\nclone = { processor = "p" }\n', 1)
    text = text.replace(
        'name = "n2"\n', 'name = "n2"\nclone = { processor = "p", leaves = true }\n', 1
    )
    fleet = read(text)
    assert [each.device for each in clones_of(fleet, fleet.iad[0])] == ["iad1/n2", "iad1/n1"]


def test_a_standby_is_elsewhere():
    text = PLAIN.replace('name = "n1"\n', 'name = "n1"\nclone = { processor = "p", {} }\n', 1)
    assert problems(read(text.replace("{}", "standby = true"))) == [
        "iad1/n1: clone.standby needs `leaves = true`: the standby is at another IAD"
    ]
    fleet = read(text.replace("{}", "standby = true, leaves = true"))
    assert problems(fleet) == []
    assert [each.standby for each in clones_of(fleet, fleet.iad[0])] == [True]


def test_peers_that_could_not_be_heard_are_named():
    """Those of another IAD, or of one that leaves itself, must leave."""
    found = problems(read(PLAIN.replace('name = "sensing"\n', GROUP, 1)))
    assert found == [
        f"iad2/n1: the clone of its peer iad1/{peer} does not leave iad1, and could not be heard: "
        "say `leaves = true` there"
        for peer in ("n1", "n2")
    ]
    fleet = read(PLAIN.replace('name = "sensing"\n', f"{GROUP}leaves = true\n", 1))
    assert problems(fleet) == []
