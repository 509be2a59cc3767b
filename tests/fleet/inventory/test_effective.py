"""What a host says itself goes before its groups, and these before the fleet."""

from __future__ import annotations

import pytest

from fleet.inventory.effective import is_canary, port_of, release_of, user_of
from fleet.inventory.files import edge_config
from fleet.inventory.model import Inventory
from fleet.inventory.selection import one_host
from tests.fleet.inventory.inventories import PLAIN, read


def release(fleet: Inventory, name: str) -> str:
    return release_of(fleet, one_host(fleet, name))


def test_the_nearest_word_on_a_release_counts():
    text = PLAIN
    fleet = read(text)
    assert release(fleet, "iad1/n1") == release(fleet, "iad1/master") == ""
    text += '\n[releases]\npin = "fleets"\n'
    fleet = read(text)
    assert release(fleet, "iad1/n1") == release(fleet, "iad1/master") == "fleets"
    text = text.replace("canary = true", 'canary = true\nrelease = "groups"')
    fleet = read(text)
    assert [release(fleet, f"iad1/{name}") for name in ("n1", "n2")] == ["groups", "fleets"]
    text = text.replace('"10.1.1.1"', '"10.1.1.1"\nrelease = "own"')
    text = text.replace('"10.1.0.10"', '"10.1.0.10"\nrelease = "masters"')
    fleet = read(text)
    assert release(fleet, "iad1/n1") == "own"
    assert release(fleet, "iad1/master") == "masters"


@pytest.mark.parametrize("host", ["iad1/n1", "iad1/master"])
def test_who_logs_in_and_where(host: str):
    fleet = read(PLAIN)
    assert (user_of(fleet, one_host(fleet, host)), port_of(fleet, one_host(fleet, host))) == (
        "fleet",
        22,
    )
    fleet = read(PLAIN + '\n[ssh]\nuser = "pi"\nport = 23\n')
    assert user_of(fleet, one_host(fleet, host)) == "pi"
    assert port_of(fleet, one_host(fleet, host)) == 23
    own = PLAIN
    for address in ("10.1.1.1", "10.1.0.10"):
        own = own.replace(f'"{address}"', f'"{address}"\nuser = "me"\nport = 24')
    fleet = read(own + '\n[ssh]\nuser = "pi"\nport = 23\n')
    assert user_of(fleet, one_host(fleet, host)) == "me"
    assert port_of(fleet, one_host(fleet, host)) == 24


def test_canaries_are_nodes_of_such_a_group():
    fleet = read(PLAIN)
    names = ("iad1/master", "iad1/n1", "iad1/n2")
    assert [is_canary(fleet, one_host(fleet, name)) for name in names] == [False, True, False]


def test_nodes_go_where_their_master_says():
    fleet = read(PLAIN)
    iad = fleet.iad[0]
    assert edge_config(fleet, iad, iad.node[0]).master.address == "tcp://10.1.0.10:5701"
    text = '"10.1.0.10"\nnodes_address = "10.0.2.2"\nnodes_port = 7'
    fleet = read(PLAIN.replace('"10.1.0.10"', text))
    iad = fleet.iad[0]
    assert edge_config(fleet, iad, iad.node[0]).master.address == "tcp://10.0.2.2:7"
