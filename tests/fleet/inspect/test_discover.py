"""Hosts that announce themselves by mDNS, on the loopback interface."""

import importlib
import json
import socket
import tomllib

import pytest
from zeroconf import ServiceInfo, Zeroconf

from fleet.cli.commands import run
from fleet.common import exits
from fleet.inspect import discover
from fleet.inspect.discover import SERVICE, Heard, Row, browse, entry, rows
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load

FLEET = """
name = "campus"
[[iad]]
name = "iad4"
[iad.master]
address = "192.0.2.1"
[[iad.node]]
name = "n3"
address = "192.0.2.3"
areas = ["b1/f4"]
[[iad.node.sensor]]
driver = "synthetic"
[[iad.node]]
name = "n4"
address = "iad4-n4.local"
areas = ["b1/f5"]
[[iad.node.sensor]]
driver = "synthetic"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "fleet.toml").write_text(FLEET)
    return Folder(tmp_path)


def heard(host, *addresses, role="node"):
    return Heard(host, addresses, 22, role)


def test_whoever_announces_itself_is_heard():
    info = ServiceInfo(
        SERVICE,
        f"iad4-n3.{SERVICE}",
        port=22,
        properties={"role": "node"},
        server="iad4-n3.local.",
        addresses=[socket.inet_aton("127.0.0.1")],
    )
    with Zeroconf(interfaces=["127.0.0.1"]) as network:
        network.register_service(info)
        assert browse(120.0, ["127.0.0.1"], enough=1) == [heard("iad4-n3", "127.0.0.1")]


def test_hosts_stand_beside_their_names_in_the_inventory(folder):
    found = [
        heard("iad4-n3", "192.0.2.3"),
        heard("iad4-n4", "192.0.2.99"),
        heard("renamed", "192.0.2.1", role="master"),
        heard("iad4-n9", "192.0.2.9"),
    ]
    told = [(row.name, row.moved) for row in rows(found, load(folder))]
    assert told == [("iad4/n3", ""), ("iad4/n4", ""), ("iad4/master", ""), ("", "")]
    assert [row.name for row in rows(found, None)] == [""] * 4


def test_an_address_that_changed_is_told(folder):
    (row,) = rows([heard("iad4-n3", "192.0.2.77")], load(folder))
    assert row == Row(heard("iad4-n3", "192.0.2.77"), "iad4/n3", moved="192.0.2.3")


@pytest.mark.parametrize("addresses", [("192.0.2.9", "fe80::9%2"), ()])
def test_what_is_new_is_offered_as_it_stands_in_an_inventory(addresses):
    read = tomllib.loads("[[iad]]\n" + entry(Row(heard("iad4-n9", *addresses))))
    (node,) = read["iad"][0]["node"]
    assert (node["name"], node["address"]) == ("n9", [*addresses, "iad4-n9.local"][0])


def test_a_master_that_is_new_is_offered_with_its_iad(folder, capsys, monkeypatch):
    new = Row(heard("iad7-master", "192.0.2.7", role="master"))
    (iad,) = tomllib.loads(entry(new))["iad"]
    assert (iad["name"], iad["master"]) == ("iad7", {"address": "192.0.2.7"})
    # Its lines and those of its node make an inventory, as they stand.
    node = Row(heard("iad7-n1", "192.0.2.71"))
    text = f'name = "new"\n{entry(new)}{entry(node)}[[iad.node.sensor]]\ndriver = "synthetic"\n'
    folder.inventory.write_text(text)
    assert [iad.name for iad in load(folder).iad] == ["iad7"]
    folder.inventory.write_text(FLEET)
    monkeypatch.setattr(discover, "browse", lambda seconds, interfaces: [new.heard])
    assert run(["discover", "--fleet", str(folder.root)]) == exits.DONE
    assert "For fleet.toml:\n\n[[iad]]" in capsys.readouterr().out


def test_whatever_a_stranger_says_is_printed_in_plain_signs():
    info = ServiceInfo(
        SERVICE, f"x.{SERVICE}", port=0, properties={"role": "\x1b[2J"}, server="\x1b[31mü.local."
    )
    assert discover._heard(info) == Heard("?[31m?", (), 0, "")


def test_the_command_prints_both(folder, capsys, monkeypatch):
    found = [heard("iad4-n3", "192.0.2.77"), heard("iad4-n9", "192.0.2.9")]
    monkeypatch.setattr(discover, "browse", lambda seconds, interfaces: found)
    assert run(["discover", "--fleet", str(folder.root)]) == exits.DONE
    out = capsys.readouterr().out
    assert "iad4/n3, but at 192.0.2.3" in out
    assert 'address = "192.0.2.9"' in out
    assert max(map(len, out.splitlines())) <= 80
    assert run(["discover", "--fleet", str(folder.root), "--json"]) == exits.DONE
    assert json.loads(capsys.readouterr().out)["hosts"][1]["heard"]["host"] == "iad4-n9"


def test_silence_is_a_status_of_its_own(folder, capsys, monkeypatch):
    monkeypatch.setattr(discover, "browse", lambda seconds, interfaces: [])
    assert run(["discover", "--fleet", str(folder.root)]) == exits.NOTHING
    assert "nothing announced itself" in capsys.readouterr().err


def test_an_address_that_is_none_of_this_machine_is_told(capsys):
    assert run(["discover", "--interface", "192.0.2.250"]) == exits.USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_zeroconf_one_line_says_how_to_get_it(capsys, monkeypatch):
    command = importlib.import_module("fleet.cli.discover")
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert command.discover.main([], standalone_mode=False) == exits.USAGE
    assert "zeroconf is missing" in capsys.readouterr().err
