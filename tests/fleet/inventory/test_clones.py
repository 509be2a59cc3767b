"""Clones that an inventory has."""

from __future__ import annotations

from agent.wire.clones import CloneOf
from agent.wire.messages import Slo
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


def with_more(where="temperature > 30", limits="cpu_s = 0.5, waiting = 50"):
    more = f"peers_where = '{where}', service = 'climate', limits = {{ {limits} }}"
    slo = "{ percentile = 90, latency_ms = 200 }"
    clone = f"clone = {{ processor = 'p', leaves = true, slo = {slo}, {more} }}"
    return read(PLAIN.replace('name = "n1"\n', f'name = "n1"\n{clone}\n', 1))


def test_a_clone_has_what_the_command_line_can_give_it():
    fleet = with_more()
    assert problems(fleet) == []
    (clone,) = clones_of(fleet, fleet.iad[0])
    assert clone == CloneOf(
        "iad1/n1",
        "p",
        service="climate",
        peers_where="temperature > 30",
        slo=Slo(90.0, 200.0),
        limits={"cpu_s": 0.5, "waiting": 50.0},
        leaves=True,
    )


def test_filters_and_limits_of_clones_are_looked_at():
    (line,) = problems(with_more(where="temperature >"))
    assert line.startswith("iad1/n1: clone.peers_where 'temperature >': ")
    (line,) = problems(with_more(limits="cpu = 1"))
    assert line.startswith("iad1/n1: clone.limits has cpu; ")
    assert problems(with_more(limits="cpu_s = -1")) == [
        "iad1/n1: clone.limits: Expected `float` > 0.0 - at `$.cpu_s`"
    ]
